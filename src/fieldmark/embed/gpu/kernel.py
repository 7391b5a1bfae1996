"""Resampling kernels (Triton): what `resize.py` says, in two launches for a batch of any sizes.

Columns first, rounded in between, as Pillow does. Turning a picture upright is a matter of steps:
where the next pixel to the right and the next one below lie. Two launches instead of fifty matter
as much as their arithmetic: between launches threads wait for the interpreter lock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from fieldmark.embed.gpu.resize import FILTERS, MIRRORED, Cut

BLOCK = 256
_KINDS = {"bilinear": 0, "bicubic": 1, "lanczos": 2}


@triton.jit
def _weight(x, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    x = tl.abs(x)
    if KIND == 0:
        return tl.maximum(1.0 - x, 0.0)
    if KIND == 1:
        near = (1.5 * x - 2.5) * x * x + 1.0
        far = (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5
        return tl.where(x < 1.0, near, tl.where(x < 2.0, far, 0.0))
    pi = 3.141592653589793
    safe = tl.maximum(x, 1e-6) * pi
    value = 3.0 * tl.sin(safe) * tl.sin(safe / 3.0) / (safe * safe)
    return tl.where(x < 1e-6, 1.0, tl.where(x < 3.0, value, 0.0))


@triton.jit
def _narrow(  # type: ignore[no-untyped-def]
    canvas, cuts, places, narrow, n_rows, width, columns,
    n_taps, SUPPORT: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Every row of the upright pictures, in the width of the result."""
    cut = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    y, x = at // width, at % width
    row = cuts + cut * 16
    start, scale, low, high = tl.load(row), tl.load(row + 2), tl.load(row + 4), tl.load(row + 6)
    top, bottom = tl.load(row + 5).to(tl.int32), tl.load(row + 7).to(tl.int32)
    n_seen = tl.load(row + 9).to(tl.int32)
    x = x - (width - n_seen) // 2
    is_seen = (x >= 0) & (x < n_seen) & (y >= top) & (y < bottom)
    place = places + cut * 3
    base, step_x, step_y = tl.load(place), tl.load(place + 1), tl.load(place + 2)
    spread = tl.maximum(scale, 1.0)
    center = start + (x.to(tl.float32) + 0.5) * scale
    first = tl.maximum(tl.floor(center - SUPPORT * spread + 0.5), low)
    last = tl.minimum(tl.floor(center + SUPPORT * spread + 0.5), high)
    total = tl.zeros([BLOCK], tl.float32)
    red = tl.zeros([BLOCK], tl.float32)
    green = tl.zeros([BLOCK], tl.float32)
    blue = tl.zeros([BLOCK], tl.float32)
    line = canvas + base + y.to(tl.int64) * step_y
    for tap in range(n_taps):
        column = first + tap
        is_there = is_seen & (column < last)
        w = tl.where(is_there, _weight((column - center + 0.5) / spread, KIND), 0.0)
        pixel = line + column.to(tl.int64) * step_x
        total += w
        red += w * tl.load(pixel, is_there, other=0).to(tl.float32)
        green += w * tl.load(pixel + columns, is_there, other=0).to(tl.float32)
        blue += w * tl.load(pixel + 2 * columns, is_there, other=0).to(tl.float32)
    total = tl.where(is_seen, total, 1.0)
    area = n_rows * width
    result = narrow + cut.to(tl.int64) * 3 * area + at
    for channel in tl.static_range(3):
        value = red if channel == 0 else (green if channel == 1 else blue)
        value = tl.minimum(tl.maximum(tl.floor(value / total + 0.5), 0.0), 255.0)
        tl.store(result + channel * area, value.to(tl.uint8), at < area)


@triton.jit
def _shorten(  # type: ignore[no-untyped-def]
    narrow, cuts, out, n_rows, height, width,
    n_taps, SUPPORT: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Narrow pictures in the height of the result, in the middle of their margins."""
    cut = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    y, x = at // width, at % width
    row = cuts + cut * 16
    start, scale, low, high = tl.load(row + 1), tl.load(row + 3), tl.load(row + 5), tl.load(row + 7)
    n_seen, n_wide = tl.load(row + 8).to(tl.int32), tl.load(row + 9).to(tl.int32)
    left = (width - n_wide) // 2
    y = y - (height - n_seen) // 2
    area = height * width
    is_seen = (y >= 0) & (y < n_seen) & (x >= left) & (x < left + n_wide) & (at < area)
    spread = tl.maximum(scale, 1.0)
    center = start + (y.to(tl.float32) + 0.5) * scale
    first = tl.maximum(tl.floor(center - SUPPORT * spread + 0.5), low)
    last = tl.minimum(tl.floor(center + SUPPORT * spread + 0.5), high)
    total = tl.zeros([BLOCK], tl.float32)
    red = tl.zeros([BLOCK], tl.float32)
    green = tl.zeros([BLOCK], tl.float32)
    blue = tl.zeros([BLOCK], tl.float32)
    plane = n_rows * width
    picture = narrow + cut.to(tl.int64) * 3 * plane + x
    for tap in range(n_taps):
        line = first + tap
        is_there = is_seen & (line < last)
        w = tl.where(is_there, _weight((line - center + 0.5) / spread, KIND), 0.0)
        pixel = picture + line.to(tl.int32) * width
        total += w
        red += w * tl.load(pixel, is_there, other=0).to(tl.float32)
        green += w * tl.load(pixel + plane, is_there, other=0).to(tl.float32)
        blue += w * tl.load(pixel + 2 * plane, is_there, other=0).to(tl.float32)
    total = tl.where(is_seen, total, 1.0)
    result = out + cut.to(tl.int64) * 3 * area + at
    for channel in tl.static_range(3):
        value = red if channel == 0 else (green if channel == 1 else blue)
        value = tl.minimum(tl.maximum(tl.floor(value / total + 0.5), 0.0), 255.0)
        value = tl.where(is_seen, value, tl.load(row + 10 + channel))
        tl.store(result + channel * area, value.to(tl.uint8), at < area)


def resample_at_once(
    canvas: Any, cuts: Sequence[Cut], size: tuple[int, int], kind: str, fill: Sequence[int]
) -> Any:
    """As `resample.resample`, for cuts of any kinds together."""
    n, (height, width) = len(cuts), size
    _, rows, _, columns = canvas.shape
    table, places = np.zeros((n, 16), np.float32), np.zeros((n, 3), np.int64)
    for number, cut in enumerate(cuts):
        left, top, right, bottom = cut.box
        out_h, out_w = cut.out
        scales = (right - left) / out_w, (bottom - top) / out_h
        table[number, :13] = (left, top, *scales, *cut.bounds, out_h, out_w, *fill)
        places[number] = _steps(cut, rows, columns)
    both = np.concatenate([table.view(np.uint8).ravel(), places.view(np.uint8).ravel()])
    there = torch.from_numpy(both).to(canvas.device, non_blocking=True)
    floats, longs = there[: table.nbytes].view(torch.float32), there[table.nbytes :]
    longs = longs.view(torch.int64)
    n_rows = int(table[:, 7].max())
    narrow = torch.empty((n, 3, n_rows, width), dtype=torch.uint8, device=canvas.device)
    out = torch.empty((n, 3, height, width), dtype=torch.uint8, device=canvas.device)
    support = FILTERS[kind].support
    widest = np.maximum(table[:, 2:4].max(axis=0), 1.0)
    x_taps, y_taps = (math.ceil(2 * support * float(scale)) + 2 for scale in widest)
    how = {"SUPPORT": support, "KIND": _KINDS[kind], "BLOCK": BLOCK}
    _narrow[(n, triton.cdiv(n_rows * width, BLOCK))](
        canvas, floats, longs, narrow, n_rows, width, columns, x_taps, **how
    )
    _shorten[(n, triton.cdiv(height * width, BLOCK))](
        narrow, floats, out, n_rows, height, width, y_taps, **how
    )
    return out


def _steps(cut: Cut, rows: int, columns: int) -> tuple[int, int, int]:
    """Where the upright picture begins on the canvas, and how far away the next pixel to the right
    and the next one below are.
    """
    height, width = cut.stored
    is_left_right, is_upside_down = MIRRORED.get(cut.turn, (False, False))
    base = cut.place * rows * 3 * columns
    base += (width - 1) if is_left_right else 0
    base += (height - 1) * 3 * columns if is_upside_down else 0
    step_x = -1 if is_left_right else 1
    step_y = -3 * columns if is_upside_down else 3 * columns
    return (base, step_y, step_x) if cut.is_swapped else (base, step_x, step_y)
