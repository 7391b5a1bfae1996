"""Camera: exposure, light, noise, the conditions of a picture, and what lies over it.

From the background and the layer of things to the final pixels: shading, exposure, noise and the
condition the picture was taken under; then strips, labels, watermarks, a sketchbook, a camera's
back. Whole numbers only, and Pillow's operations on bytes that are defined as such (paste, point,
add, reduce, box blur with a whole radius). Letters are drawn from a table of 3 × 5 points: fonts
differ between machines.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageFilter

from fieldmark.world.background import panel
from fieldmark.world.colour import Colour
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


Pixels = NDArray[np.uint8]
_LETTERS = {
    "A": 0x2BED, "B": 0x6BAE, "C": 0x3923, "D": 0x6B6E, "E": 0x79A7, "F": 0x79A4, "I": 0x7497,
    "K": 0x5BAD, "L": 0x4927, "M": 0x5FED, "N": 0x6B6D, "O": 0x2B6A, "R": 0x6BAD, "T": 0x7492,
    "0": 0x7B6F, "1": 0x2C97, "2": 0x73E7, "3": 0x73CF, "4": 0x5BC9, "5": 0x79CF, "6": 0x79EF,
    "7": 0x7249, "8": 0x7BEF, "9": 0x7BCF, "-": 0x01C0, ":": 0x0410, " ": 0x0000,
}  # fmt: skip


_DRAWN_OVER = frozenset(("sketch", "watermark", "back_of_camera"))


def finish(picture: Image.Image, scene: Scene) -> Image.Image:
    """The picture as it is handed out."""
    if scene.condition not in ("night", "herbarium") and not _DRAWN_OVER & {*scene.extras}:
        return picture
    pixels = np.array(_faded(picture) if scene.condition == "herbarium" else picture)
    if scene.condition == "night":
        write(pixels, _stamp(scene), (6, SIZE_PX - 13), 2, (224, 224, 224))
    if scene.condition == "herbarium":
        _mount(pixels, scene)
    if "sketch" in scene.extras:
        pixels = _sketch(pixels, scene)
    if "watermark" in scene.extras:
        _watermark(pixels)
    if "back_of_camera" in scene.extras:
        pixels = _camera_back(pixels)
    return Image.fromarray(pixels)


def write(pixels: Pixels, text: str, corner: tuple[int, int], size: int, paint: Colour) -> None:
    """Text at (x, y); a letter is 3 × 5 points of `size` pixels, and a point lies between two."""
    mask = letters(text, size)
    x, y = corner
    height, width = (min(mask.shape[0], SIZE_PX - y), min(mask.shape[1], SIZE_PX - x))
    pixels[y : y + height, x : x + width][mask[:height, :width]] = paint


def letters(text: str, size: int) -> NDArray[np.bool_]:
    rows = np.zeros((5, 4 * len(text)), dtype=bool)
    for index, letter in enumerate(text):
        bits = _LETTERS.get(letter, 0)
        for point in range(15):
            rows[point // 3, 4 * index + point % 3] = bool(bits >> (14 - point) & 1)
    return rows.repeat(size, axis=0).repeat(size, axis=1)


def _stamp(scene: Scene) -> str:
    rng = Rng("stamp", scene.species, scene.burst)
    day, month, hour = 1 + rng.below(28), 1 + rng.below(12), (rng.below(7) + 22) % 24
    return f"2031-{month:02d}-{day:02d} {hour:02d}:{rng.below(60):02d}:{scene.shot % 60:02d}"


def _faded(picture: Image.Image) -> Image.Image:
    """Old colours turn brown, the paper stays."""
    brown = [level * 9 + tone * 7 >> 4 for tone in (168, 146, 104) for level in range(256)]
    is_paper = picture.getchannel("B").point([0] * 176 + [255] * 80)
    old = picture.point(brown)
    old.paste(picture, (0, 0), is_paper)
    return old


def _mount(pixels: Pixels, scene: Scene) -> None:
    """A frame, a label and a scale."""
    pixels[:3], pixels[-3:], pixels[:, :3], pixels[:, -3:] = 120, 120, 120, 120
    pixels[196:246, 150:246] = (246, 243, 230)
    pixels[196:198, 150:246] = pixels[244:246, 150:246] = (90, 84, 74)
    rng = Rng("label", scene.species, scene.burst)
    for row in range(5):
        width = 50 + rng.below(32)
        pixels[204 + 8 * row : 206 + 8 * row, 158 : 158 + width] = (96, 88, 84)
    pixels[12:20, 12:92] = (250, 250, 248)
    for mark in range(10):
        pixels[12 : 16 + 4 * (mark % 2), 12 + 8 * mark : 13 + 8 * mark] = (30, 30, 30)


def _sketch(pixels: Pixels, scene: Scene) -> Pixels:
    """Pencil: dark where brightness changes, on ruled paper with notes."""
    image = Image.fromarray(pixels).convert("L")
    soft = np.asarray(image.filter(ImageFilter.BoxBlur(3))).astype(np.int16)
    edge = np.abs(np.asarray(image.filter(ImageFilter.BoxBlur(1))).astype(np.int16) - soft)
    line = np.clip(edge * 7 - 24, 0, 190)
    paper = np.empty((SIZE_PX, SIZE_PX, 3), dtype=np.int16)
    paper[:] = (244, 240, 226)
    paper[20::22] = (188, 204, 222)
    paper[:, 24:26] = (226, 170, 170)
    rng = Rng("notes", scene.species, scene.burst)
    for row in range(3):
        y, width = 206 + 14 * row, 40 + rng.below(60)
        for x in range(34, 34 + width, 5):
            paper[y - rng.below(5) : y + 1, x : x + 3] = (90, 90, 110)
    drawn: Pixels = np.clip(paper - line[:, :, None], 0, 255).astype(np.uint8)
    return drawn


def _watermark(pixels: Pixels) -> None:
    mask = letters("FIELDMARK", 5)
    height, width = mask.shape
    y, x = 150, (SIZE_PX - width) // 2
    part = pixels[y : y + height, x : x + width]
    part[mask] = (part[mask].astype(np.uint16) + 2 * 245) // 3
    write(pixels, "BIRD ID 2031", (6, 6), 2, (250, 250, 250))


def _camera_back(pixels: Pixels) -> Pixels:
    """The photo on the small screen of a camera."""
    result = np.empty((SIZE_PX, SIZE_PX, 3), dtype=np.uint8)
    result[:] = (34, 34, 36)
    result[:18] = (58, 58, 60)
    small = np.asarray(Image.fromarray(pixels).reduce(2))
    dim = (small.astype(np.uint16) * 220 >> 8) + 18
    result[62:194, 22:154] = (12, 12, 12)
    result[64:192, 24:152] = dim.astype(np.uint8)
    write(result, "12-30", (28, 180), 2, (250, 220, 90))
    axis = np.arange(SIZE_PX, dtype=np.int32)
    for cx, cy, radius in (
        (206, 88, 26),
        (188, 150, 11),
        (224, 150, 11),
        (206, 190, 11),
        (60, 34, 9),
    ):
        disc = (axis[:, None] - cy) ** 2 + (axis[None, :] - cx) ** 2
        result[disc < radius * radius] = (84, 84, 88)
        result[disc < (radius - 4) ** 2] = (52, 52, 55)
    return result
