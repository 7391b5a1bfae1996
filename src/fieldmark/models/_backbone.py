"""Contract of a model: what must anything that sees offer, and what does a table know of it?

The contract of DESIGN section 3, kept by every family and by users' own classes: always eval mode,
no gradients, RGB in, and features that never depend on what else is in the batch. Abilities say
how a model can be asked. `Recipe` is the evaluation transform that families and users share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fieldmark.registry import ANSWERS, EMBEDS_IMAGES, EMBEDS_TEXTS, SCORES_CONTINUATIONS

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
ABILITY_OF_METHOD = {
    "embed_images": EMBEDS_IMAGES,
    "embed_texts": EMBEDS_TEXTS,
    "answer": ANSWERS,
    "score": SCORES_CONTINUATIONS,
}
"""how a model can be asked, by the method that does it"""


@dataclass(frozen=True, slots=True)
class Features:
    """What a backbone says of a batch of n images."""

    pooled: np.ndarray
    """float32, n × dim: one vector per image"""
    patches: np.ndarray | None = None
    """float32, n × patches × width, where the architecture has them and they were asked for"""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is known of a model before it is loaded; the tables at the top of the family files."""

    name: str
    """without the family: "ViT-B-16/openai" """
    params: int | None = None
    """parameters of the image tower"""
    input_px: int | None = None
    licence: str = "unknown"
    title: str = ""
    """the name papers use: "CLIP ViT-B/16" """
    released: str = ""
    """year-month"""
    source: str = ""
    """where weights and licence are published"""
    price: str = ""
    """US dollars per million tokens in / out, of a model that is paid for"""
    context: int | None = None
    """tokens of prompt and answer together, of a chat model"""
    max_output: int | None = None
    """most tokens of its answer"""
    max_images: int | None = None
    """most images it takes in a request"""


def checkpoint_table(
    text: str, source: str, *, licence: str = "unknown", released: str = ""
) -> tuple[Checkpoint, ...]:
    """Rows from `name | params | input px | licence | released | title`, one a line.

    Empty cells take what the table says for all. `{name}` in `source` becomes the row's name,
    `{repo}` the same without a leading `hf-hub:`.
    """
    rows = []
    for line in text.strip().splitlines():
        name, params, input_px, own_licence, own_date, title = (
            part.strip() for part in line.split("|")
        )
        page = source.format(name=name, repo=name.removeprefix("hf-hub:"))
        rows.append(
            Checkpoint(
                name=name,
                params=int(params) if params else None,
                input_px=int(input_px) if input_px else None,
                licence=own_licence or licence,
                title=title,
                released=own_date or released,
                source=page,
            )
        )
    return tuple(rows)


@runtime_checkable
class Backbone(Protocol):
    """A frozen image encoder."""

    name: str
    """`family/checkpoint?option=value`, as the user wrote it"""

    @property
    def dim(self) -> int:
        """Length of a pooled feature."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes when a weight, the transform or the arithmetic changes, and only then."""
        ...

    def transform(self, image: Image.Image) -> np.ndarray:
        """An upright RGB image to the array the network takes (no batch axis); runs in threads."""
        ...

    def embed_images(self, batch: np.ndarray) -> Features:
        """Features of stacked `transform` results, in their order.

        Raises `fieldmark.errors.OutOfMemory` when a smaller batch could succeed.
        """
        ...


@runtime_checkable
class DualEncoder(Backbone, Protocol):
    """A backbone whose images and texts live in one space; features come as they are, not
    normalised.
    """

    @property
    def logit_scale(self) -> float:
        """What a cosine is multiplied by before the softmax or sigmoid (already exponentiated)."""
        ...

    @property
    def logit_bias(self) -> float | None:
        """Added to the scaled cosine before the sigmoid; None unless trained with one."""
        ...

    @property
    def text_limit(self) -> int | None:
        """Tokens of a text that are read, special ones included; None when no limit is known."""
        ...

    @property
    def text_fingerprint(self) -> str:
        """Changes when the text tower, the tokeniser, the limit or the arithmetic changes."""
        ...

    @property
    def projectors(self) -> tuple[str, ...]:
        """Names of the visual projectors where there are several, the model's own first."""
        ...

    def projected(self, projector: str) -> DualEncoder:
        """The same network with that projector; its features and logit scale differ, its texts'
        do not.
        """
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """Tokens that each text needs uncut, special ones included: more than `text_limit` and it
        is cut. None when that is not known.
        """
        ...

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """float32, n × dim, in the order of the texts; one text never depends on the others."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """An evaluation transform: `recipe(image)` gives height × width × 3, uint8.

    Resize, crop and colour scaling as a value that can be compared, hashed and shown. Resizing is
    Pillow's, antialiased, on 8-bit pixels, which is what the checkpoints' own evaluation code does;
    only the part that survives the crop is computed, so a panorama costs no more than a square.
    Arrays stay 8-bit: scaling happens on the model's device, with a quarter of the traffic.
    """

    size: tuple[int, int]
    """height and width of what the network sees"""
    resize: tuple[int, int] | None = None
    """height and width of the resized image before the crop; `size` when None"""
    fit: str = "shortest"
    """shortest: the short edge gets its length, the rest is cropped; squash: proportions change,
    nothing is lost; longest: the long edge gets its length, the rest is filled
    """
    interpolation: str = "bicubic"
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    fill: tuple[int, ...] = (0, 0, 0)

    def __call__(self, image: Image.Image) -> np.ndarray:
        import numpy as np
        import PIL.Image

        height, width = self.size
        box, (out_h, out_w) = self.placed(image.height, image.width)
        kind = PIL.Image.Resampling[self.interpolation.upper()]
        upright = image if image.mode == "RGB" else image.convert("RGB")
        part = upright.resize((out_w, out_h), kind, box=box)
        if (out_h, out_w) != (height, width):
            canvas = PIL.Image.new("RGB", (width, height), self.fill)
            canvas.paste(part, ((width - out_w) // 2, (height - out_h) // 2))
            part = canvas
        return np.asarray(part)

    def placed(
        self, height: int, width: int
    ) -> tuple[tuple[float, float, float, float], tuple[int, int]]:
        """What of an image of that size is seen (left, top, right, bottom, in its pixels), and the
        height and width it is resampled to; what is smaller than `size` lies in the middle of it.
        """
        scaled_h, scaled_w = self._scaled(height, width)
        out_h, out_w = min(self.size[0], scaled_h), min(self.size[1], scaled_w)
        top, left = round((scaled_h - out_h) / 2), round((scaled_w - out_w) / 2)
        x_ratio, y_ratio = width / scaled_w, height / scaled_h
        box = (
            left * x_ratio,
            top * y_ratio,
            min((left + out_w) * x_ratio, width),
            min((top + out_h) * y_ratio, height),
        )
        return box, (out_h, out_w)

    def _scaled(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the whole image after resizing."""
        target_h, target_w = self.resize or self.size
        if self.fit == "squash":
            return target_h, target_w
        if self.fit == "longest":
            ratio = max(height / target_h, width / target_w)
            return max(1, round(height / ratio)), max(1, round(width / ratio))
        if target_h == target_w and height <= width:
            return target_h, int(target_h * width / height)
        if target_h == target_w:
            return int(target_w * height / width), target_w
        ratio = min(height / target_h, width / target_w)
        return round(height / ratio), round(width / ratio)

    def describe(self) -> str:
        """Everything that changes the pixels, for the fingerprint."""
        fields = (
            self.size,
            self.resize,
            self.fit,
            self.interpolation,
            self.mean,
            self.std,
            self.fill,
        )
        return "recipe 1 " + " ".join(repr(value) for value in fields)
