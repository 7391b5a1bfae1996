"""classical: what pictures say without a trained network. numpy and Pillow only: fast, and a floor
for the others.

Any model worth its weights must beat these. `classical/words` embeds texts too: a linear model
fitted once on synthetic worlds, so that zero-shot classification and retrieval can be tried without
a download; of the real world it knows nothing. `classical/chance` is the control: its features are
noise made from a hash of the pixels, so a score above chance with it means that labels leak
somewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fieldmark import draws
from fieldmark.errors import UnknownName
from fieldmark.models._backbone import Backbone, Features, Recipe, checkpoint_table
from fieldmark.models._name import ModelName, ModelRequest
from fieldmark.registry import CONTROL, EMBEDS_IMAGES, EMBEDS_TEXTS

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

VERSION = 1

OPTIONS = {"size": "pixels the picture is reduced to before it is measured"}

CHECKPOINTS = checkpoint_table(
    """
    colour | 0 | 64 | | | Colour histograms and moments, whole picture and centre
    texture | 0 | 128 | | | Gradient orientations (HOG) and local binary patterns
    pixels | 0 | 16 | | | The picture as 16 × 16 pixels
    shape | 0 | 64 | | | Outline and moments of what differs from the border
    all | 0 | 128 | | | Colour, texture, pixels and shape side by side
    words | 132608 | 128 | | | Linear image–text model of the synthetic world
    chance | 0 | 64 | | | Control: noise from a hash of the pixels
    """,
    "",
    licence="mit",
)

SIZES = {row.name: row.input_px or 0 for row in CHECKPOINTS}


def check_checkpoint(checkpoint: str) -> None:
    """The table is all there is; other families load more than theirs list."""
    if checkpoint not in SIZES:
        names = [f"classical/{name}" for name in SIZES]
        raise UnknownName("model", f"classical/{checkpoint}", names, "fieldmark models classical")


def abilities(name: ModelName) -> tuple[str, ...]:
    return (EMBEDS_IMAGES, EMBEDS_TEXTS) if name.checkpoint == "words" else (EMBEDS_IMAGES,)


def stand_in(name: ModelName) -> str:
    return CONTROL if name.checkpoint == "chance" else ""


def load(request: ModelRequest) -> Backbone:
    from fieldmark.models.classical import features

    check_checkpoint(request.checkpoint)
    if request.checkpoint == "words":
        if request.pixels() not in (None, features.SIZE_PX):
            raise request.wrong("size", f"{features.SIZE_PX}, which it was fitted with")
        return features.WordsModel()
    function_of = {name: getattr(features, name) for name in SIZES if name not in ("all", "words")}
    function_of["all"] = features.together
    size = request.pixels() or SIZES[request.checkpoint]
    return Classical(request.checkpoint, function_of[request.checkpoint], size)


class Classical:
    """A function of one picture's pixels behind the contract; no picture knows of any other."""

    batch_size = 64

    def __init__(self, kind: str, measure: Callable[[np.ndarray], np.ndarray], size: int) -> None:
        import numpy as np

        self.name = f"classical/{kind}"
        # Area averaging: every pixel counts, so small markings do not depend on where the sampling
        # grid falls.
        self._recipe = Recipe((size, size), fit="squash", interpolation="box")
        self._measure = measure
        self.dim = len(measure(np.zeros((size, size, 3), np.uint8)))
        parts = ("classical", VERSION, kind, self._recipe.describe())
        self.fingerprint = draws.digest(*parts).hex()

    def transform(self, image: Image.Image) -> np.ndarray:
        return self._recipe(image)

    def embed_images(self, batch: np.ndarray) -> Features:
        import numpy as np

        pooled = np.zeros((len(batch), self.dim), np.float32)
        for row, pixels in zip(pooled, batch, strict=True):
            row[:] = self._measure(pixels)
        return Features(pooled)
