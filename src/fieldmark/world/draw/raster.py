"""Polygon rasterizer (scan line, even-odd rule), with the same pixels on every machine.

All arithmetic after the corners are rounded to 1/16 of a sample is on whole numbers, so neither the
compiler (fused multiply-add moves Pillow's polygon edges) nor SIMD can change a pixel. All polygons
of a picture are filled in one pass: crossings of edges with sample rows are found together, sorted
by (polygon, row, column), paired into spans and written in order; numpy keeps the last of several
writes to one place. There are two samples a pixel and axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fieldmark.world.colour import Colour

Point = tuple[float, float]

SAMPLES = 2  # a pixel and axis
_GRID = 16  # corner positions between two samples
_PARTS = 4  # pieces a curve is cut into between two control points
# Catmull-Rom weights at t = 0, 1/4, 1/2, 3/4: whole numbers of 1/128
_CURVE = np.array(
    [[0, 128, 0, 0], [-9, 111, 29, -3], [-8, 72, 72, -8], [-3, 29, 111, -9]], dtype=np.float64
).T
_LINE = np.array(
    [[0, 128, 0, 0], [0, 96, 32, 0], [0, 64, 64, 0], [0, 32, 96, 0]], dtype=np.float64
).T


@lru_cache(maxsize=4096)
def pack(colour: Colour, alpha: int = 255) -> int:
    """A colour as the canvas holds it: premultiplied, red in the lowest byte."""
    red, green, blue = (max(0, min(255, level)) * alpha // 255 for level in colour)
    return red | green << 8 | blue << 16 | alpha << 24


@dataclass(frozen=True, slots=True)
class Sprite:
    """A painted piece and where its upper left corner lies in the picture, in pixels."""

    x: int
    y: int
    image: Image.Image
    """RGBA"""


def fill(
    corners: NDArray[np.float64],
    counts: Sequence[int],
    smooth: Sequence[bool],
    inks: Sequence[int],
    size_px: int,
) -> Sprite | None:
    """Polygons (control points in pixels) painted one over the other, cut to what they cover.

    None when nothing lies in the picture.
    """
    if not counts:
        return None
    x, y, polygon, following = _outline(corners * SAMPLES, counts, smooth)
    left, top, right, bottom = _frame(x, y, size_px)
    if left >= right or top >= bottom:
        return None
    width, height = (right - left) * SAMPLES, (bottom - top) * SAMPLES
    step = _GRID * SAMPLES
    start, length, owner = _spans(
        x - left * step, y - top * step, polygon, following, width, height
    )
    canvas = np.zeros(height * width, dtype="<u4")
    if start.size:
        where = np.repeat(start - np.cumsum(length) + length, length)
        where += _ramp(max(18, where.size.bit_length()))[: where.size]
        canvas[where] = np.repeat(np.asarray(inks, dtype="<u4")[owner], length)
    image = Image.frombuffer("RGBa", (width, height), canvas, "raw", "RGBa", 0, 1)
    # each pixel the mean of its samples
    return Sprite(left, top, image.reduce(SAMPLES).convert("RGBA"))


@lru_cache(maxsize=4)
def _ramp(n_bits: int) -> NDArray[np.int64]:
    """0, 1, 2, …: kept, because page faults of a fresh one cost more than the sum it is used in."""
    return np.arange(1 << n_bits)


def _frame(x: NDArray[np.int32], y: NDArray[np.int32], size_px: int) -> tuple[int, int, int, int]:
    """Left, top, right, bottom in pixels of what the outlines cover inside the picture."""
    step = _GRID * SAMPLES
    low = (max(0, int(axis.min()) // step) for axis in (x, y))
    high = (min(size_px, int(axis.max()) // step + 1) for axis in (x, y))
    return (*low, *high)  # type: ignore[return-value]


def _outline(
    corners: NDArray[np.float64], counts: Sequence[int], smooth: Sequence[bool]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Curves cut into short edges: x, y, each corner's polygon and the corner that follows it."""
    count = np.asarray(counts, dtype=np.int32)
    ends = np.cumsum(count, dtype=np.int32)
    begins = ends - count
    polygon = np.repeat(np.arange(len(count), dtype=np.int32), count)
    here = np.arange(ends[-1], dtype=np.int32)
    after = here + 1
    after[ends - 1] = begins
    before = here - 1
    before[begins] = ends - 1
    weight = np.where(np.asarray(smooth)[polygon][:, None, None], _CURVE[None], _LINE[None])
    points = corners * (_GRID / 128)
    spread = (
        points[before][:, :, None] * weight[:, 0, None, :]
        + points[:, :, None] * weight[:, 1, None, :]
        + points[after][:, :, None] * weight[:, 2, None, :]
        + points[after[after]][:, :, None] * weight[:, 3, None, :]
    )
    whole = np.floor(spread + 0.5).astype(np.int32)
    following = np.arange(1, whole.shape[0] * _PARTS + 1, dtype=np.int32)
    following[ends * _PARTS - 1] = begins * _PARTS
    x, y = (np.ascontiguousarray(whole[:, axis]).reshape(-1) for axis in (0, 1))
    return x, y, np.repeat(polygon, _PARTS), following


def _spans(
    x: NDArray[np.int32],
    y: NDArray[np.int32],
    polygon: NDArray[np.int32],
    following: NDArray[np.int32],
    width: int,
    height: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Runs of covered samples: flat start, length, polygon; ordered by polygon. Even-odd rule."""
    x2, y2 = x[following], y[following]
    row = np.clip((np.minimum(y, y2) + _GRID // 2 - 1) >> 4, 0, height)
    n_rows = np.clip((np.maximum(y, y2) + _GRID // 2 - 1) >> 4, 0, height) - row
    edge = np.flatnonzero(n_rows)
    n_rows = n_rows[edge]
    ends = np.cumsum(n_rows, dtype=np.int32)
    total = int(ends[-1]) if ends.size else 0
    each_row = np.arange(total, dtype=np.int32) + np.repeat(row[edge] - ends + n_rows, n_rows)
    edge = np.repeat(edge, n_rows)
    x1, y1 = x[edge].astype(np.int64), y[edge]
    rise = (each_row * _GRID + _GRID // 2 - y1).astype(np.int64) * (x2[edge] - x1)
    column = np.clip((x1 + rise // (y2[edge] - y1) + _GRID // 2 - 1) >> 4, 0, width)
    key = (polygon[edge].astype(np.int64) << 32) | (each_row * width + column)
    key.sort()
    left, right = key[0::2], key[1::2]
    length = right - left
    kept = length > 0
    left = left[kept]
    return left & 0xFFFFFFFF, length[kept], left >> 32
