"""Backgrounds: what is behind the animal in each habitat.

Each habitat has a few painted panels, larger than a photo; a photo shows a part of one. They are
cached, since painting one costs as much as three photos. Smooth noise is random bytes enlarged by
powers of two, where Pillow's weights are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from fieldmark.world.colour import Colour, dark, light, mix
from fieldmark.world.draw.shapes import Layer, Pen, Placement
from fieldmark.world.rng import Rng, noise_bytes
from fieldmark.world.scenery import HORIZON, LANDSCAPES, THINGS, Landscape, draw_litter

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
