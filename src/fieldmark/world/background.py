"""Backgrounds: what is behind the animal in each habitat, its colours and what grows there.

Each habitat has a few painted panels, larger than a photo; a photo shows a part of one. They are
cached, since painting one costs as much as three photos. Smooth noise is random bytes enlarged by
powers of two, where Pillow's weights are exact. Things are drawn in units of the panel's side,
(0, 0) its upper left corner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from fieldmark.world.colour import Colour, dark, light, mix
from fieldmark.world.draw.shapes import Layer, Pen, Placement
from fieldmark.world.rng import Rng, noise_bytes

HORIZON = 0.52
"""height of the sky on land, as a share of the panel"""


@dataclass(frozen=True, slots=True)
class Landscape:
    """The colours of a habitat and what stands in it."""

    sky: tuple[Colour, Colour]
    far: Colour
    ground: tuple[Colour, Colour]
    growth: Colour
    rough: int
    """strength of the ground's texture"""
    things: str


LANDSCAPES: dict[str, Landscape] = {
    "forest": Landscape(((120, 150, 110), (74, 104, 62)), (52, 78, 48),
        ((96, 92, 52), (70, 58, 36)), (58, 96, 44), 34, "trunks"),
    "meadow": Landscape(((150, 196, 236), (214, 230, 236)), (110, 150, 96),
        ((128, 172, 74), (84, 132, 48)), (72, 128, 44), 26, "grass"),
    "savanna": Landscape(((176, 204, 226), (238, 222, 184)), (168, 156, 108),
        ((212, 184, 104), (178, 140, 70)), (190, 152, 70), 30, "acacia"),
    "desert": Landscape(((132, 182, 224), (242, 220, 180)), (206, 158, 108),
        ((232, 190, 128), (204, 150, 92)), (140, 132, 84), 22, "dunes"),
    "wetland": Landscape(((176, 198, 208), (216, 224, 218)), (104, 128, 100),
        ((98, 138, 142), (64, 100, 104)), (104, 126, 58), 20, "reeds"),
    "tundra": Landscape(((178, 200, 224), (228, 234, 240)), (190, 204, 218),
        ((244, 246, 248), (214, 224, 234)), (150, 150, 140), 14, "rocks"),
    "mountain": Landscape(((126, 168, 212), (204, 218, 228)), (124, 128, 140),
        ((148, 146, 140), (112, 108, 104)), (104, 112, 84), 40, "rocks"),
    "shore": Landscape(((152, 196, 226), (206, 226, 232)), (66, 130, 160),
        ((226, 208, 164), (204, 180, 130)), (150, 140, 96), 18, "sea"),
    "reef": Landscape(((60, 160, 190), (24, 96, 140)), (20, 84, 124),
        ((206, 190, 150), (150, 136, 108)), (210, 96, 90), 26, "coral"),
    "river": Landscape(((120, 160, 130), (66, 110, 92)), (54, 92, 76),
        ((126, 112, 84), (92, 80, 60)), (64, 112, 60), 34, "weeds"),
    "open_sea": Landscape(((44, 126, 182), (10, 52, 104)), (14, 62, 112),
        ((10, 48, 98), (6, 32, 76)), (120, 170, 200), 10, "rays"),
}  # fmt: skip


def _hills(pen: Pen, rng: Rng, land: Landscape) -> None:
    for row in range(2):
        paint = mix(land.far, land.sky[1], 0.35 - 0.35 * row)
        tops = [(step / 6, HORIZON - rng.between(0.02, 0.14 - 0.04 * row)) for step in range(7)]
        pen.blob([(-0.2, 0.6), (-0.1, HORIZON), *tops, (1.1, HORIZON), (1.2, 0.6)], paint)


def _tuft(pen: Pen, rng: Rng, spot: tuple[float, float], size: float, paint: Colour) -> None:
    x, y = spot
    for blade in range(5):
        tip = (
            x + (blade - 2) * size * 0.35 + rng.around(size * 0.3),
            y - size * rng.between(0.7, 1.3),
        )
        shade = mix(paint, dark(paint, 0.4), rng.between(0, 0.8))
        pen.facet(
            [
                (x - size * 0.06 + blade * size * 0.03, y),
                tip,
                (x + size * 0.06 + blade * size * 0.03, y),
            ],
            shade,
        )


def _rock(pen: Pen, rng: Rng, spot: tuple[float, float], size: float, paint: Colour) -> None:
    x, y = spot
    top = [
        (x - size, y),
        (x - size * 0.7, y - size * rng.between(0.4, 0.8)),
        (x + rng.around(size * 0.2), y - size * rng.between(0.7, 1.0)),
        (x + size * 0.75, y - size * rng.between(0.3, 0.7)),
        (x + size, y),
        (x, y + size * 0.18),
    ]
    pen.facet(top, paint)
    pen.facet([top[0], top[1], top[2], (x - size * 0.1, y - size * 0.2)], light(paint, 0.25))


def _scatter(rng: Rng, count: int) -> list[tuple[float, float, float]]:
    """Places on the ground with a size that grows towards the viewer, the far ones first."""
    spots = [(rng.between(0, 1), rng.between(HORIZON + 0.03, 1.02)) for _ in range(count)]
    return [
        (x, y, 0.015 + 0.07 * (y - HORIZON)) for x, y in sorted(spots, key=lambda spot: spot[1])
    ]


def _grass(pen: Pen, rng: Rng, land: Landscape) -> None:
    _hills(pen, rng, land)
    for x, y, size in _scatter(rng, 46):
        _tuft(pen, rng, (x, y), size * 1.4, land.growth)
    for x, y, size in _scatter(rng, 12):
        pen.oval(
            (x, y),
            (size * 0.22, size * 0.2),
            rng.choice(((240, 220, 90), (236, 236, 240), (210, 110, 160))),
        )


def _trunks(pen: Pen, rng: Rng, land: Landscape) -> None:
    for row in range(3):
        for _ in range(5 - row):
            x, half = rng.between(0, 1), (0.008 + 0.012 * row) * rng.between(0.7, 1.4)
            foot = HORIZON + 0.02 + 0.05 * row
            paint = mix((84, 66, 48), land.sky[1], 0.55 - 0.25 * row)
            pen.facet(
                [
                    (x - half, -0.02),
                    (x + half, -0.02),
                    (x + half * 1.5, foot),
                    (x - half * 1.5, foot),
                ],
                paint,
            )
    for _ in range(14):
        spot = (rng.between(0, 1), rng.between(0.0, 0.3))
        pen.oval(
            spot,
            (rng.between(0.04, 0.12), rng.between(0.03, 0.07)),
            mix(land.growth, land.far, rng.between(0, 1)),
            rng.between(0, 1),
        )
    for x, y, size in _scatter(rng, 22):
        _tuft(pen, rng, (x, y), size * 1.2, land.growth)


def _acacia(pen: Pen, rng: Rng, land: Landscape) -> None:
    _hills(pen, rng, land)
    for _ in range(2):
        x, y, size = rng.between(0.05, 0.95), HORIZON + 0.02, rng.between(0.1, 0.2)
        outline = [(x - 0.006, y), (x - 0.004, y - size), (x + 0.006, y - size), (x + 0.008, y)]
        pen.facet(outline, (92, 76, 56))
        pen.oval((x, y - size), (size * 0.7, size * 0.17), (98, 108, 58))
        pen.oval((x + size * 0.2, y - size * 1.1), (size * 0.4, size * 0.12), (112, 120, 66))
    for x, y, size in _scatter(rng, 44):
        _tuft(pen, rng, (x, y), size * 1.5, land.growth)


def _dunes(pen: Pen, rng: Rng, land: Landscape) -> None:
    _hills(pen, rng, land)
    for row in range(3):
        y = HORIZON + 0.06 + 0.14 * row
        crest = [(step / 5, y + rng.around(0.04)) for step in range(6)]
        outline = [(-0.2, y + 0.1), *crest, (1.2, y + 0.1), (0.5, y + 0.14)]
        pen.blob(outline, mix(land.ground[0], land.ground[1], 0.3 + 0.3 * row), 150)
    for x, y, size in _scatter(rng, 7):
        _rock(pen, rng, (x, y), size * 0.7, (164, 128, 92))


def _reeds(pen: Pen, rng: Rng, land: Landscape) -> None:
    _hills(pen, rng, land)
    for _ in range(9):
        y = rng.between(HORIZON + 0.04, 1.0)
        pen.oval(
            (rng.between(0, 1), y),
            (rng.between(0.05, 0.2), 0.006),
            light(land.ground[0], 0.35),
            0.0,
            150,
        )
    for _ in range(26):
        x, y = rng.between(0, 1), rng.between(HORIZON, HORIZON + 0.1)
        tall = rng.between(0.12, 0.3)
        outline = [(x - 0.004, y), (x + rng.around(0.03), y - tall), (x + 0.004, y)]
        pen.facet(outline, mix(land.growth, land.far, rng.between(0, 0.7)))
    pen.blob(
        [(-0.1, 0.8), (0.2, 0.76), (0.7, 0.77), (1.1, 0.8), (1.1, 1.2), (-0.1, 1.2)], (120, 112, 74)
    )
    for x, y, size in _scatter(rng, 26):
        if y > 0.78:
            _tuft(pen, rng, (x, y), size * 1.2, land.growth)


def _rocks(pen: Pen, rng: Rng, land: Landscape) -> None:
    for _ in range(3):
        x, size = rng.between(0, 1), rng.between(0.14, 0.3)
        pen.facet(
            [(x - size, HORIZON + 0.03), (x, HORIZON - size), (x + size, HORIZON + 0.03)], land.far
        )
        pen.facet(
            [
                (x - size * 0.3, HORIZON - size * 0.7),
                (x, HORIZON - size),
                (x + size * 0.3, HORIZON - size * 0.7),
                (x, HORIZON - size * 0.6),
            ],
            (240, 242, 246),
        )
    for x, y, size in _scatter(rng, 16):
        _rock(pen, rng, (x, y), size * 0.9, mix(land.growth, land.ground[1], rng.between(0.2, 0.9)))


def _sea(pen: Pen, rng: Rng, land: Landscape) -> None:
    pen.facet(
        [
            (-0.1, HORIZON - 0.1),
            (1.1, HORIZON - 0.1),
            (1.1, HORIZON + 0.06),
            (-0.1, HORIZON + 0.05),
        ],
        land.far,
    )
    for row in range(4):
        y = HORIZON - 0.07 + 0.035 * row
        pen.oval((rng.between(0, 1), y), (rng.between(0.1, 0.3), 0.004), (222, 236, 240))
    pen.blob(
        [
            (-0.1, 0.58),
            (0.3, 0.55 + rng.around(0.02)),
            (0.7, 0.58),
            (1.1, 0.56),
            (1.1, 0.6),
            (-0.1, 0.61),
        ],
        (240, 244, 244),
    )
    for x, y, size in _scatter(rng, 16):
        pen.oval(
            (x, y + 0.05),
            (size * 0.4, size * 0.26),
            rng.choice(((240, 230, 214), (180, 150, 120), (120, 110, 104))),
        )


def _coral(pen: Pen, rng: Rng, land: Landscape) -> None:
    _beams(pen, rng, land)
    for _ in range(11):
        x, y = rng.between(0, 1), rng.between(0.8, 1.0)
        paint = rng.choice(
            ((214, 96, 92), (232, 156, 76), (170, 92, 168), (90, 160, 120), (220, 190, 110))
        )
        for arm in range(5):
            tip = (x + (arm - 2) * 0.035 + rng.around(0.02), y - rng.between(0.06, 0.17))
            pen.stroke(
                [(x, y, 0.014), (*tip, 0.009)], mix(paint, dark(paint, 0.4), rng.between(0, 0.7))
            )


def _weeds(pen: Pen, rng: Rng, land: Landscape) -> None:
    _beams(pen, rng, land)
    for x, y, size in _scatter(rng, 22):
        if y > 0.8:
            pen.oval(
                (x, y), (size, size * 0.6), mix((120, 112, 100), (80, 76, 66), rng.between(0, 1))
            )
    for _ in range(9):
        x, y, bend = rng.between(0, 1), rng.between(0.82, 1.0), rng.around(0.08)
        line = [(x, y, 0.008), (x + bend, y - 0.14, 0.007), (x - bend, y - 0.3, 0.003)]
        pen.stroke(line, mix(land.growth, dark(land.growth), rng.between(0, 1)))


def _beams(pen: Pen, rng: Rng, land: Landscape) -> None:
    for _ in range(5):
        x, wide = rng.between(-0.2, 1), rng.between(0.02, 0.08)
        outline = [(x, -0.05), (x + wide, -0.05), (x + wide * 2.4 + 0.25, 0.75), (x + 0.25, 0.75)]
        pen.facet(outline, light(land.sky[0], 0.5), 42)
    for _ in range(24):
        size = rng.between(0.002, 0.005)
        pen.oval(
            (rng.between(0, 1), rng.between(0, 1)), (size, size), light(land.sky[0], 0.6), 0.0, 120
        )


def draw_litter(pen: Pen, rng: Rng, land: Landscape) -> None:
    """The ground from above: leaves, blades or pebbles."""
    if land.things in ("trunks", "grass", "reeds", "acacia"):
        for _ in range(30):
            spot = (rng.between(0, 1), rng.between(0, 1))
            size = rng.between(0.05, 0.13)
            autumn = mix((150, 96, 44), (104, 76, 44), rng.between(0, 1))
            paint = (
                autumn
                if land.things == "trunks"
                else mix(land.growth, light(land.growth), rng.between(0, 1))
            )
            turn = rng.between(0, 1)
            pen.oval(spot, (size, size * 0.36), dark(paint, 0.35), turn)
            pen.oval((spot[0] - 0.004, spot[1] - 0.006), (size * 0.97, size * 0.33), paint, turn)
    else:
        for _ in range(34):
            size = rng.between(0.008, 0.04)
            paint = mix(land.ground[0], land.ground[1], rng.between(-0.4, 1.5))
            pen.oval(
                (rng.between(0, 1), rng.between(0, 1)), (size, size * 0.8), paint, rng.between(0, 1)
            )


THINGS: dict[str, Callable[[Pen, Rng, Landscape], None]] = {
    "trunks": _trunks, "grass": _grass, "acacia": _acacia, "dunes": _dunes, "reeds": _reeds,
    "rocks": _rocks, "sea": _sea, "coral": _coral, "weeds": _weeds, "rays": _beams,
}  # fmt: skip


PANEL_PX = 320
N_PANELS = 4
"""painted panels of each habitat"""


@lru_cache(maxsize=96)
def panel(seed: int, habitat: str, view: str, number: int) -> Image.Image:
    """320 × 320 RGB; `view` is side, top, drop (a cell in water) or paper."""
    rng = Rng(seed, "panel", habitat, view, number)
    land = LANDSCAPES[habitat]
    if view == "paper":
        return _paper(rng)
    if view == "drop":
        return _drop(rng, land)
    if view == "top":
        base = _ground(rng, land, 0)
        return _with(base, rng, land, draw_litter)
    painted = _with(_backdrop(rng, land), rng, land, THINGS[land.things])
    return painted.filter(ImageFilter.BoxBlur(1))


def smooth_noise(rng: Rng, cells: int) -> NDArray[np.int16]:
    """(320, 320) in -128..127, hills about 320 / cells pixels wide; cells is 5 × a power of two."""
    start = rng.below(60000)
    data = noise_bytes("panel", 1 << 17)[start : start + cells * cells]
    tile = Image.frombytes("L", (cells, cells), data)
    large = tile.resize((PANEL_PX, PANEL_PX), Image.Resampling.BILINEAR)
    return np.asarray(large).astype(np.int16) - 128


def _gradient(top: Colour, bottom: Colour, rows: int) -> NDArray[np.int16]:
    step = np.arange(rows, dtype=np.int32)[:, None]
    one, other = np.array(top, dtype=np.int32), np.array(bottom, dtype=np.int32)
    return (one + (other - one) * step // max(1, rows - 1)).astype(np.int16)


def _textured(base: NDArray[np.int16], rng: Rng, rough: int) -> NDArray[np.uint8]:
    rows = base.shape[0]
    wave = smooth_noise(rng, 10) + smooth_noise(rng, 40) + smooth_noise(rng, 160)
    shift = (wave[PANEL_PX - rows :].astype(np.int32) * rough) >> 8
    full = np.broadcast_to(base[:, None, :], (rows, PANEL_PX, 3)) + shift[:, :, None]
    return np.clip(full, 0, 255).astype(np.uint8)


def _ground(rng: Rng, land: Landscape, first_row: int) -> NDArray[np.uint8]:
    shade = int(rng.around(18))
    near: Colour = (land.ground[1][0] + shade, land.ground[1][1] + shade, land.ground[1][2] + shade)
    return _textured(_gradient(land.ground[0], near, PANEL_PX - first_row), rng, land.rough)


def _backdrop(rng: Rng, land: Landscape) -> NDArray[np.uint8]:
    middle = 0.76 if land.things in ("coral", "weeds", "rays") else HORIZON
    line = int(PANEL_PX * (middle + rng.around(0.05)))
    sky = _textured(_gradient(*land.sky, line), rng, 9)
    return np.concatenate([sky, _ground(rng, land, line)])


def _with(
    base: NDArray[np.uint8], rng: Rng, land: Landscape, draw: Callable[[Pen, Rng, Landscape], None]
) -> Image.Image:
    pen, layer = Pen(), Layer()
    draw(pen, rng, land)
    layer.add(pen, Placement(0.0, 0.0, float(PANEL_PX)))
    sprite, result = layer.paint(PANEL_PX), Image.fromarray(base)
    if sprite is not None:
        result.paste(sprite.image, (sprite.x, sprite.y), sprite.image)
    return result


def _drop(rng: Rng, land: Landscape) -> Image.Image:
    water = mix((232, 236, 230), land.sky[0], 0.28)
    base = _textured(_gradient(light(water, 0.2), water, PANEL_PX), rng, 7)

    def specks(pen: Pen, rng: Rng, land: Landscape) -> None:
        for _ in range(22):
            size = rng.between(0.002, 0.008)
            pen.oval(
                (rng.between(0, 1), rng.between(0, 1)),
                (size, size * 0.7),
                dark(land.sky[1], 0.3),
                0.0,
                110,
            )

    return _with(base, rng, land, specks)


def _paper(rng: Rng) -> Image.Image:
    tone = int(rng.around(10))
    top, bottom = (234 + tone, 226 + tone, 204 + tone), (228 + tone, 218 + tone, 194 + tone)
    return Image.fromarray(_textured(_gradient(top, bottom, PANEL_PX), rng, 6))
