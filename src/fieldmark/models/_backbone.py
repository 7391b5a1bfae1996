"""What must anything that sees offer?

The contract of DESIGN section 3, kept by every family and by users' own classes: always eval mode,
no gradients, RGB in, and features that never depend on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image


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

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """float32, n × dim, in the order of the texts."""
        ...
