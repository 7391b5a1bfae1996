"""What is behind the animal?

Each habitat has a few painted panels, larger than a photo; a photo shows a part of one. They are cached,
since painting one costs as much as three photos. Smooth noise is random bytes enlarged by powers of two,
where Pillow's weights are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from fieldmark.data.world._colour import dark, light, mix
from fieldmark.data.world._dice import Dice, noise_bytes
from fieldmark.data.world._raster import Colour
from fieldmark.data.world._shape import Layer, Pen, Place

PANEL_PX = 320
N_PANELS = 5
"""painted panels of each habitat"""
HORIZON = 0.52


@dataclass(frozen=True, slots=True)
class _Land:
    sky: tuple[Colour, Colour]
    far: Colour
    ground: tuple[Colour, Colour]
    growth: Colour
    rough: int
    """strength of the ground's texture"""
    things: str


_LANDS: dict[str, _Land] = {
    "forest": _Land(((120, 150, 110), (74, 104, 62)), (52, 78, 48), ((96, 92, 52), (70, 58, 36)), (58, 96, 44), 34, "trunks"),
    "meadow": _Land(((150, 196, 236), (214, 230, 236)), (110, 150, 96), ((128, 172, 74), (84, 132, 48)), (72, 128, 44), 26, "grass"),
    "savanna": _Land(((176, 204, 226), (238, 222, 184)), (168, 156, 108), ((212, 184, 104), (178, 140, 70)), (190, 152, 70), 30, "acacia"),
    "desert": _Land(((132, 182, 224), (242, 220, 180)), (206, 158, 108), ((232, 190, 128), (204, 150, 92)), (140, 132, 84), 22, "dunes"),
    "wetland": _Land(((176, 198, 208), (216, 224, 218)), (104, 128, 100), ((98, 138, 142), (64, 100, 104)), (104, 126, 58), 20, "reeds"),
    "tundra": _Land(((178, 200, 224), (228, 234, 240)), (190, 204, 218), ((244, 246, 248), (214, 224, 234)), (150, 150, 140), 14, "rocks"),
    "mountain": _Land(((126, 168, 212), (204, 218, 228)), (124, 128, 140), ((148, 146, 140), (112, 108, 104)), (104, 112, 84), 40, "rocks"),
    "shore": _Land(((152, 196, 226), (206, 226, 232)), (66, 130, 160), ((226, 208, 164), (204, 180, 130)), (150, 140, 96), 18, "sea"),
    "reef": _Land(((60, 160, 190), (24, 96, 140)), (20, 84, 124), ((206, 190, 150), (150, 136, 108)), (210, 96, 90), 26, "coral"),
    "river": _Land(((120, 160, 130), (66, 110, 92)), (54, 92, 76), ((126, 112, 84), (92, 80, 60)), (64, 112, 60), 34, "weeds"),
    "open_sea": _Land(((44, 126, 182), (10, 52, 104)), (14, 62, 112), ((10, 48, 98), (6, 32, 76)), (120, 170, 200), 10, "rays"),
}  # fmt: skip
WATERS = ("reef", "river", "open_sea")


@lru_cache(maxsize=80)
def panel(seed: int, habitat: str, view: str, number: int) -> Image.Image:
    """320 × 320 RGB; `view` is side, top, drop (a cell in water) or paper."""
    dice = Dice(seed, "panel", habitat, view, number)
    land = _LANDS[habitat]
    if view == "paper":
        return _paper(dice)
    if view == "drop":
        return _drop(dice, land)
    if view == "top":
        base = _ground(dice, land, 0)
        return _with(base, dice, land, _litter)
    painted = _with(_backdrop(dice, land), dice, land, _THINGS[land.things])
    return painted.filter(ImageFilter.BoxBlur(1))


def smooth_noise(dice: Dice, cells: int) -> NDArray[np.int16]:
    """(320, 320) in -128..127, hills about 320 / cells pixels wide; cells is 5 × a power of two."""
    start = dice.below(60000)
    data = noise_bytes("panel", 1 << 17)[start : start + cells * cells]
    tile = Image.frombytes("L", (cells, cells), data)
    large = tile.resize((PANEL_PX, PANEL_PX), Image.Resampling.BILINEAR)
    return np.asarray(large).astype(np.int16) - 128


def _gradient(top: Colour, bottom: Colour, rows: int) -> NDArray[np.int16]:
    step = np.arange(rows, dtype=np.int32)[:, None]
    one, other = np.array(top, dtype=np.int32), np.array(bottom, dtype=np.int32)
    return (one + (other - one) * step // max(1, rows - 1)).astype(np.int16)


def _textured(base: NDArray[np.int16], dice: Dice, rough: int) -> NDArray[np.uint8]:
    rows = base.shape[0]
    wave = smooth_noise(dice, 10) + smooth_noise(dice, 40) + smooth_noise(dice, 160)
    shift = (wave[PANEL_PX - rows :].astype(np.int32) * rough) >> 8
    full = np.broadcast_to(base[:, None, :], (rows, PANEL_PX, 3)) + shift[:, :, None]
    return np.clip(full, 0, 255).astype(np.uint8)


def _ground(dice: Dice, land: _Land, first_row: int) -> NDArray[np.uint8]:
    shade = int(dice.around(18))
    near: Colour = (land.ground[1][0] + shade, land.ground[1][1] + shade, land.ground[1][2] + shade)
    return _textured(_gradient(land.ground[0], near, PANEL_PX - first_row), dice, land.rough)


def _backdrop(dice: Dice, land: _Land) -> NDArray[np.uint8]:
    middle = 0.76 if land.things in ("coral", "weeds", "rays") else HORIZON
    line = int(PANEL_PX * (middle + dice.around(0.05)))
    sky = _textured(_gradient(*land.sky, line), dice, 9)
    return np.concatenate([sky, _ground(dice, land, line)])


def _with(
    base: NDArray[np.uint8], dice: Dice, land: _Land, draw: Callable[[Pen, Dice, _Land], None]
) -> Image.Image:
    pen, layer = Pen(), Layer()
    draw(pen, dice, land)
    layer.add(pen, Place(0.0, 0.0, float(PANEL_PX)))
    sprite, result = layer.paint(PANEL_PX), Image.fromarray(base)
    if sprite is not None:
        result.paste(sprite.image, (sprite.x, sprite.y), sprite.image)
    return result


def _hills(pen: Pen, dice: Dice, land: _Land) -> None:
    for row in range(2):
        paint = mix(land.far, land.sky[1], 0.35 - 0.35 * row)
        tops = [(step / 6, HORIZON - dice.between(0.02, 0.14 - 0.04 * row)) for step in range(7)]
        pen.blob([(-0.2, 0.6), (-0.1, HORIZON), *tops, (1.1, HORIZON), (1.2, 0.6)], paint)


def _tuft(pen: Pen, dice: Dice, place: tuple[float, float], size: float, paint: Colour) -> None:
    x, y = place
    for blade in range(5):
        tip = (x + (blade - 2) * size * 0.35 + dice.around(size * 0.3), y - size * dice.between(0.7, 1.3))
        shade = mix(paint, dark(paint, 0.4), dice.between(0, 0.8))
        pen.facet([(x - size * 0.06 + blade * size * 0.03, y), tip, (x + size * 0.06 + blade * size * 0.03, y)], shade)


def _rock(pen: Pen, dice: Dice, place: tuple[float, float], size: float, paint: Colour) -> None:
    x, y = place
    top = [(x - size, y), (x - size * 0.7, y - size * dice.between(0.4, 0.8)), (x + dice.around(size * 0.2), y - size * dice.between(0.7, 1.0)),
           (x + size * 0.75, y - size * dice.between(0.3, 0.7)), (x + size, y), (x, y + size * 0.18)]  # fmt: skip
    pen.facet(top, paint)
    pen.facet([top[0], top[1], top[2], (x - size * 0.1, y - size * 0.2)], light(paint, 0.25))


def _scatter(dice: Dice, count: int) -> list[tuple[float, float, float]]:
    """Places on the ground with a size that grows towards the viewer, the far ones first."""
    places = [(dice.between(0, 1), dice.between(HORIZON + 0.03, 1.02)) for _ in range(count)]
    return [(x, y, 0.015 + 0.07 * (y - HORIZON)) for x, y in sorted(places, key=lambda each: each[1])]


def _grass(pen: Pen, dice: Dice, land: _Land) -> None:
    _hills(pen, dice, land)
    for x, y, size in _scatter(dice, 46):
        _tuft(pen, dice, (x, y), size * 1.4, land.growth)
    for x, y, size in _scatter(dice, 12):
        pen.oval((x, y), (size * 0.22, size * 0.2), dice.choice(((240, 220, 90), (236, 236, 240), (210, 110, 160))))


def _trunks(pen: Pen, dice: Dice, land: _Land) -> None:
    for row in range(3):
        for _ in range(5 - row):
            x, half = dice.between(0, 1), (0.008 + 0.012 * row) * dice.between(0.7, 1.4)
            foot = HORIZON + 0.02 + 0.05 * row
            paint = mix((84, 66, 48), land.sky[1], 0.55 - 0.25 * row)
            pen.facet([(x - half, -0.02), (x + half, -0.02), (x + half * 1.5, foot), (x - half * 1.5, foot)], paint)
    for _ in range(14):
        place = (dice.between(0, 1), dice.between(0.0, 0.3))
        pen.oval(place, (dice.between(0.04, 0.12), dice.between(0.03, 0.07)), mix(land.growth, land.far, dice.between(0, 1)), dice.between(0, 1))
    for x, y, size in _scatter(dice, 22):
        _tuft(pen, dice, (x, y), size * 1.2, land.growth)


def _acacia(pen: Pen, dice: Dice, land: _Land) -> None:
    _hills(pen, dice, land)
    for _ in range(2):
        x, y, size = dice.between(0.05, 0.95), HORIZON + 0.02, dice.between(0.1, 0.2)
        pen.facet([(x - 0.006, y), (x - 0.004, y - size), (x + 0.006, y - size), (x + 0.008, y)], (92, 76, 56))
        pen.oval((x, y - size), (size * 0.7, size * 0.17), (98, 108, 58))
        pen.oval((x + size * 0.2, y - size * 1.1), (size * 0.4, size * 0.12), (112, 120, 66))
    for x, y, size in _scatter(dice, 44):
        _tuft(pen, dice, (x, y), size * 1.5, land.growth)


def _dunes(pen: Pen, dice: Dice, land: _Land) -> None:
    _hills(pen, dice, land)
    for row in range(3):
        y = HORIZON + 0.06 + 0.14 * row
        crest = [(step / 5, y + dice.around(0.04)) for step in range(6)]
        pen.blob([(-0.2, y + 0.1), *crest, (1.2, y + 0.1), (0.5, y + 0.14)], mix(land.ground[0], land.ground[1], 0.3 + 0.3 * row), 150)
    for x, y, size in _scatter(dice, 7):
        _rock(pen, dice, (x, y), size * 0.7, (164, 128, 92))


def _reeds(pen: Pen, dice: Dice, land: _Land) -> None:
    _hills(pen, dice, land)
    for _ in range(9):
        y = dice.between(HORIZON + 0.04, 1.0)
        pen.oval((dice.between(0, 1), y), (dice.between(0.05, 0.2), 0.006), light(land.ground[0], 0.35), 0.0, 150)
    for _ in range(26):
        x, y = dice.between(0, 1), dice.between(HORIZON, HORIZON + 0.1)
        tall = dice.between(0.12, 0.3)
        pen.facet([(x - 0.004, y), (x + dice.around(0.03), y - tall), (x + 0.004, y)], mix(land.growth, land.far, dice.between(0, 0.7)))
    pen.blob([(-0.1, 0.8), (0.2, 0.76), (0.7, 0.77), (1.1, 0.8), (1.1, 1.2), (-0.1, 1.2)], (120, 112, 74))
    for x, y, size in _scatter(dice, 26):
        if y > 0.78:
            _tuft(pen, dice, (x, y), size * 1.2, land.growth)


def _rocks(pen: Pen, dice: Dice, land: _Land) -> None:
    for _ in range(3):
        x, size = dice.between(0, 1), dice.between(0.14, 0.3)
        pen.facet([(x - size, HORIZON + 0.03), (x, HORIZON - size), (x + size, HORIZON + 0.03)], land.far)
        pen.facet([(x - size * 0.3, HORIZON - size * 0.7), (x, HORIZON - size), (x + size * 0.3, HORIZON - size * 0.7), (x, HORIZON - size * 0.6)], (240, 242, 246))
    for x, y, size in _scatter(dice, 16):
        _rock(pen, dice, (x, y), size * 0.9, mix(land.growth, land.ground[1], dice.between(0.2, 0.9)))


def _sea(pen: Pen, dice: Dice, land: _Land) -> None:
    pen.facet([(-0.1, HORIZON - 0.1), (1.1, HORIZON - 0.1), (1.1, HORIZON + 0.06), (-0.1, HORIZON + 0.05)], land.far)
    for row in range(4):
        y = HORIZON - 0.07 + 0.035 * row
        pen.oval((dice.between(0, 1), y), (dice.between(0.1, 0.3), 0.004), (222, 236, 240))
    pen.blob([(-0.1, 0.58), (0.3, 0.55 + dice.around(0.02)), (0.7, 0.58), (1.1, 0.56), (1.1, 0.6), (-0.1, 0.61)], (240, 244, 244))
    for x, y, size in _scatter(dice, 16):
        pen.oval((x, y + 0.05), (size * 0.4, size * 0.26), dice.choice(((240, 230, 214), (180, 150, 120), (120, 110, 104))))


def _coral(pen: Pen, dice: Dice, land: _Land) -> None:
    _beams(pen, dice, land)
    for _ in range(11):
        x, y = dice.between(0, 1), dice.between(0.8, 1.0)
        paint = dice.choice(((214, 96, 92), (232, 156, 76), (170, 92, 168), (90, 160, 120), (220, 190, 110)))
        for arm in range(5):
            tip = (x + (arm - 2) * 0.035 + dice.around(0.02), y - dice.between(0.06, 0.17))
            pen.stroke([(x, y, 0.014), (*tip, 0.009)], mix(paint, dark(paint, 0.4), dice.between(0, 0.7)))


def _weeds(pen: Pen, dice: Dice, land: _Land) -> None:
    _beams(pen, dice, land)
    for x, y, size in _scatter(dice, 22):
        if y > 0.8:
            pen.oval((x, y), (size, size * 0.6), mix((120, 112, 100), (80, 76, 66), dice.between(0, 1)))
    for _ in range(9):
        x, y, bend = dice.between(0, 1), dice.between(0.82, 1.0), dice.around(0.08)
        pen.stroke([(x, y, 0.008), (x + bend, y - 0.14, 0.007), (x - bend, y - 0.3, 0.003)], mix(land.growth, dark(land.growth), dice.between(0, 1)))


def _beams(pen: Pen, dice: Dice, land: _Land) -> None:
    for _ in range(5):
        x, wide = dice.between(-0.2, 1), dice.between(0.02, 0.08)
        pen.facet([(x, -0.05), (x + wide, -0.05), (x + wide * 2.4 + 0.25, 0.75), (x + 0.25, 0.75)], light(land.sky[0], 0.5), 42)
    for _ in range(24):
        size = dice.between(0.002, 0.005)
        pen.oval((dice.between(0, 1), dice.between(0, 1)), (size, size), light(land.sky[0], 0.6), 0.0, 120)


def _litter(pen: Pen, dice: Dice, land: _Land) -> None:
    """The ground from above: leaves, blades or pebbles."""
    if land.things in ("trunks", "grass", "reeds", "acacia"):
        for _ in range(30):
            place = (dice.between(0, 1), dice.between(0, 1))
            size = dice.between(0.05, 0.13)
            autumn = mix((150, 96, 44), (104, 76, 44), dice.between(0, 1))
            paint = autumn if land.things == "trunks" else mix(land.growth, light(land.growth), dice.between(0, 1))
            turn = dice.between(0, 1)
            pen.oval(place, (size, size * 0.36), dark(paint, 0.35), turn)
            pen.oval((place[0] - 0.004, place[1] - 0.006), (size * 0.97, size * 0.33), paint, turn)
    else:
        for _ in range(34):
            size = dice.between(0.008, 0.04)
            paint = mix(land.ground[0], land.ground[1], dice.between(-0.4, 1.5))
            pen.oval((dice.between(0, 1), dice.between(0, 1)), (size, size * 0.8), paint, dice.between(0, 1))


def _drop(dice: Dice, land: _Land) -> Image.Image:
    water = mix((232, 236, 230), land.sky[0], 0.28)
    base = _textured(_gradient(light(water, 0.2), water, PANEL_PX), dice, 7)

    def specks(pen: Pen, dice: Dice, land: _Land) -> None:
        for _ in range(22):
            size = dice.between(0.002, 0.008)
            pen.oval((dice.between(0, 1), dice.between(0, 1)), (size, size * 0.7), dark(land.sky[1], 0.3), 0.0, 110)

    return _with(base, dice, land, specks)


def _paper(dice: Dice) -> Image.Image:
    tone = int(dice.around(10))
    top, bottom = (234 + tone, 226 + tone, 204 + tone), (228 + tone, 218 + tone, 194 + tone)
    return Image.fromarray(_textured(_gradient(top, bottom, PANEL_PX), dice, 6))


_THINGS: dict[str, Callable[[Pen, Dice, _Land], None]] = {
    "trunks": _trunks, "grass": _grass, "acacia": _acacia, "dunes": _dunes, "reeds": _reeds,
    "rocks": _rocks, "sea": _sea, "coral": _coral, "weeds": _weeds, "rays": _beams,
}  # fmt: skip
