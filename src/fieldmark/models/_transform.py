"""How does a photo become the pixels a network was trained on?

Resize, crop and colour scaling as a value that can be compared, hashed and shown. Resizing is
Pillow's, antialiased, on 8-bit pixels, which is what the checkpoints' own evaluation code does;
only the part that survives the crop is computed, so a panorama costs no more than a square. Arrays
stay 8-bit: scaling happens on the model's device, with a quarter of the traffic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class Recipe:
    """An evaluation transform: `recipe(image)` gives height × width × 3, uint8."""

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
        scaled_h, scaled_w = self._scaled(image.height, image.width)
        out_h, out_w = min(height, scaled_h), min(width, scaled_w)
        top, left = round((scaled_h - out_h) / 2), round((scaled_w - out_w) / 2)
        x_ratio, y_ratio = image.width / scaled_w, image.height / scaled_h
        box = (
            left * x_ratio,
            top * y_ratio,
            min((left + out_w) * x_ratio, image.width),
            min((top + out_h) * y_ratio, image.height),
        )
        kind = PIL.Image.Resampling[self.interpolation.upper()]
        upright = image if image.mode == "RGB" else image.convert("RGB")
        part = upright.resize((out_w, out_h), kind, box=box)
        if (out_h, out_w) != (height, width):
            canvas = PIL.Image.new("RGB", (width, height), self.fill)
            canvas.paste(part, ((width - out_w) // 2, (height - out_h) // 2))
            part = canvas
        return np.asarray(part)

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
        return "recipe 1 " + " ".join(repr(each) for each in fields)


def shortest_edge(
    size: int, resize: int | None = None, *, crop_share: float | None = None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """`size` and `resize` of a Recipe for square input; `crop_share` is the side that survives the
    crop.
    """
    if resize is None:
        resize = math.floor(size / crop_share) if crop_share else size
    return (size, size), (resize, resize)
