"""What do camera, light and medium make of a scene?

From the background and the layer of things to the final pixels: shading, exposure, noise and the
condition the picture was taken under. Whole numbers only, and Pillow's operations on bytes that are
defined as such (paste, point, add, reduce, box blur with a whole radius).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageFilter

from fieldmark.world.background import panel
from fieldmark.world.compose import SIZE_PX, Burst
from fieldmark.world.draw.raster import Sprite
from fieldmark.world.rng import Rng, noise_bytes
from fieldmark.world.scene import Scene
from fieldmark.world.taxonomy import WATERS

_POOL_PX = 400
_BLUR_PX = 4
_LIFT_PX = 6
_WITHOUT_LAND = ("drop", "paper")  # fewer panels to keep


def background(seed: int, burst: Burst, condition: str) -> Image.Image:
    """The 256 × 256 part of the burst's panel."""
    x, y = burst.crop
    view = "drop" if condition == "microscope" else burst.view
    habitat = burst.habitat
    if view in _WITHOUT_LAND and habitat not in WATERS:
        habitat = WATERS[0]
    part = panel(seed, habitat, view, burst.panel).crop((x, y, x + SIZE_PX, y + SIZE_PX))
    if burst.is_mirrored:
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if condition == "night":
        return ImageChops.multiply(part, _plain(110))
    if condition == "microscope":
        return ImageChops.add(part, _plain(220), 2.0)
    return part


@lru_cache(maxsize=4)
def _plain(level: int) -> Image.Image:
    return Image.new("RGB", (SIZE_PX, SIZE_PX), (level, level, level))


def blend(picture: Image.Image, sprite: Sprite, rng: Rng) -> None:
    """Puts the sprite into the picture, lit from above and with a little texture."""
    mask = sprite.image.getchannel("A")
    relief = _relief(mask, rng)
    paint = sprite.image.convert("RGB")
    lit = ImageChops.add(paint, Image.merge("RGB", (relief, relief, relief)), 1.0, -128)
    picture.paste(lit, (sprite.x, sprite.y), mask)


def _relief(mask: Image.Image, rng: Rng) -> Image.Image:
    """Above 128 where the shape begins as seen from above, below it where it ends; plus grain."""
    width, height = mask.size
    soft = np.zeros((height + 2 * _LIFT_PX, width + 4), dtype=np.int16)
    soft[_LIFT_PX : _LIFT_PX + height, 2 : 2 + width] = np.asarray(
        mask.filter(ImageFilter.BoxBlur(_BLUR_PX))
    )
    level = soft[2 * _LIFT_PX :, 4:] - soft[:height, :width]
    level *= 3
    level >>= 4
    x, y = rng.below(_POOL_PX - SIZE_PX), rng.below(_POOL_PX - SIZE_PX)
    level += _fur()[y : y + height, x : x + width]
    return Image.fromarray(level.astype(np.uint8))


@lru_cache(maxsize=1)
def _fur() -> NDArray[np.int16]:
    """Fine grain about 128."""
    data = np.frombuffer(noise_bytes("fur", _POOL_PX * _POOL_PX), dtype=np.uint8)
    return (data.reshape(_POOL_PX, _POOL_PX).astype(np.int16) - 128) // 12 + 128


@lru_cache(maxsize=8)
def _sensor(grain: int) -> NDArray[np.uint16]:
    """Noise between 0 and twice the grain; three columns a pixel."""
    data = np.frombuffer(noise_bytes("sensor", _POOL_PX * _POOL_PX * 3), dtype=np.uint8)
    level = data.astype(np.uint16) * np.uint16(2 * grain + 1) >> np.uint16(8)
    return level.reshape(_POOL_PX, _POOL_PX * 3)


def expose(picture: Image.Image, gains: tuple[int, int, int], grain: int, rng: Rng) -> Image.Image:
    """Light times colour (128 = as it is), plus sensor noise of 0 to twice the grain."""
    x, y = rng.below(_POOL_PX - SIZE_PX), rng.below(_POOL_PX - SIZE_PX)
    flat = np.asarray(picture).reshape(SIZE_PX, SIZE_PX * 3)
    level = np.multiply(flat, np.array(gains * SIZE_PX, dtype=np.uint16))
    level >>= 7
    level += _sensor(grain)[y : y + SIZE_PX, 3 * x : 3 * (x + SIZE_PX)]
    np.minimum(level, 255, out=level)
    return Image.fromarray(level.astype(np.uint8).reshape(SIZE_PX, SIZE_PX, 3))


def develop(picture: Image.Image, scene: Scene, burst: Burst, rng: Rng) -> Image.Image:
    """Exposure and what the condition does to it."""
    if scene.condition == "night":
        return _infrared(picture, burst, rng)
    if scene.condition == "microscope":
        return _micrograph(picture, rng)
    if scene.condition == "herbarium":
        return expose(picture, (128, 126, 120), 2, rng)
    lit = expose(picture, burst.gains, 12 if scene.rating <= 2 else 4, rng)
    if scene.condition == "blurred":
        return _motion(lit, rng) if rng.chance(0.5) else _defocus(lit, 4)
    return _defocus(lit, 2) if scene.rating <= 2 else lit


@lru_cache(maxsize=1)
def _distance() -> NDArray[np.int32]:
    """Squared distance from the middle, about 65536 at the corners."""
    axis = np.arange(SIZE_PX, dtype=np.int32) * 2 - SIZE_PX + 1
    return (axis[:, None] * axis[:, None] + axis[None, :] * axis[None, :]) >> 1


@lru_cache(maxsize=1)
def _flash() -> NDArray[np.int32]:
    """Light of an infrared flash, 128 = as it is."""
    return 168 - (_distance() * 110 >> 16)


@lru_cache(maxsize=1)
def _outside() -> Image.Image:
    """A mask of what a microscope's round field of view does not show."""
    return Image.fromarray(np.where(_distance() > 33000, 255, 0).astype(np.uint8))


def _infrared(picture: Image.Image, burst: Burst, rng: Rng) -> Image.Image:
    """The flash lights the middle; grey, grainy, with room for a data strip."""
    x, y = rng.below(_POOL_PX - SIZE_PX), rng.below(_POOL_PX - SIZE_PX)
    level = np.asarray(picture.convert("L")) * _flash()
    level *= burst.gains[1]
    level >>= 14
    level += _sensor(10)[y : y + SIZE_PX, x : x + SIZE_PX]
    np.minimum(level, 255, out=level)
    level[-16:] = 12
    one = Image.fromarray(level.astype(np.uint8))
    return Image.merge("RGB", (one, one, one))


def _micrograph(picture: Image.Image, rng: Rng) -> Image.Image:
    """Bright field in grey inside a round field of view."""
    level = picture.convert("L")
    lit = expose(Image.merge("RGB", (level, level, level)), (126, 128, 120), 5, rng)
    lit.paste((10, 10, 10), (0, 0), _outside())
    return lit


def _defocus(picture: Image.Image, radius: int) -> Image.Image:
    return picture.filter(ImageFilter.BoxBlur(radius)).filter(ImageFilter.BoxBlur(radius))


def _motion(picture: Image.Image, rng: Rng) -> Image.Image:
    """Drawn out sideways, now and then up and down a little too."""
    return picture.filter(ImageFilter.BoxBlur((9, rng.below(3))))
