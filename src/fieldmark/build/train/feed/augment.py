"""Random resized crop: which part of a photo does the network see in a step?

All that open_clip does to training images by default (its `transform.py`): a box with a drawn share
of the photo's area and a drawn shape, cut out and resized to a square, bicubic, antialiased. The
box is that of torchvision's `RandomResizedCrop`, drawn from a hash, so that it does not depend on
who reads the photo and when. Pixels beyond the box play no part in the resizing, as when the box is
cut out first.
"""

from __future__ import annotations

import math

from fieldmark import draws
from fieldmark.models import Recipe

RATIO = (3 / 4, 4 / 3)
"""width over height of a box, from narrowest to widest"""
TRIES = 10
"""boxes that do not fit into the photo are drawn again so often"""
Crop = tuple[float, float, float, float]
"""x, y, width, height in pixels of the upright photo: whole numbers"""


def draw_crop(height: int, width: int, scale: tuple[float, float], *parts: object) -> Crop:
    """A box of an upright photo of that size; `parts` are what it is drawn from."""
    uniform = draws.generator("crop", *parts).random((TRIES, 4))
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    for share, shape, x, y in uniform.tolist():
        area = height * width * (scale[0] + share * (scale[1] - scale[0]))
        aspect = math.exp(low + shape * (high - low))
        box_w, box_h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < box_w <= width and 0 < box_h <= height:
            left, top = int(x * (width - box_w + 1)), int(y * (height - box_h + 1))
            return (float(left), float(top), float(box_w), float(box_h))
    return _middle(height, width)


def _middle(height: int, width: int) -> Crop:
    """As much of the middle as has an allowed shape."""
    box_h, box_w = height, width
    if width / height < RATIO[0]:
        box_h = round(width / RATIO[0])
    elif width / height > RATIO[1]:
        box_w = round(height * RATIO[1])
    return (float((width - box_w) // 2), float((height - box_h) // 2), float(box_w), float(box_h))


def square(size: int) -> Recipe:
    """What is made of a box that was cut out, in the words of the embedding engine."""
    return Recipe((size, size), fit="squash", interpolation="bicubic")
