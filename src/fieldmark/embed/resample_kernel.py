"""Resampling kernel (Triton): what `resample.py` says, in one launch for a batch of any sizes.

Each output pixel sums its own taps, columns first and rounded in between, as Pillow does. Turning a
picture upright is a matter of steps: where the next pixel to the right and the next one below lie.
One launch instead of fifty matters more than its arithmetic: between launches threads wait for the
interpreter lock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from fieldmark.embed.resample import FILTERS, MIRRORED, Cut

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
def _resample(  # type: ignore[no-untyped-def]
    canvas, cuts, places, out, height, width, columns,
    x_taps, y_taps, SUPPORT: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cut = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    y, x = at // width, at % width
    row = cuts + cut * 16
    start_x, start_y = tl.load(row), tl.load(row + 1)
    scale_x, scale_y = tl.load(row + 2), tl.load(row + 3)
    low_x, low_y = tl.load(row + 4), tl.load(row + 5)
    high_x, high_y = tl.load(row + 6), tl.load(row + 7)
    seen_h, seen_w = tl.load(row + 8).to(tl.int32), tl.load(row + 9).to(tl.int32)
    y = y - (height - seen_h) // 2
    x = x - (width - seen_w) // 2
    is_seen = (y >= 0) & (y < seen_h) & (x >= 0) & (x < seen_w) & (at < height * width)
    place = places + cut * 3
    base, step_x, step_y = tl.load(place), tl.load(place + 1), tl.load(place + 2)
    spread_x, spread_y = tl.maximum(scale_x, 1.0), tl.maximum(scale_y, 1.0)
    center_x = start_x + (x.to(tl.float32) + 0.5) * scale_x
    center_y = start_y + (y.to(tl.float32) + 0.5) * scale_y
    first_x = tl.maximum(tl.floor(center_x - SUPPORT * spread_x + 0.5), low_x)
    first_y = tl.maximum(tl.floor(center_y - SUPPORT * spread_y + 0.5), low_y)
    last_x = tl.minimum(tl.floor(center_x + SUPPORT * spread_x + 0.5), high_x)
    last_y = tl.minimum(tl.floor(center_y + SUPPORT * spread_y + 0.5), high_y)
    sum_x = tl.zeros([BLOCK], tl.float32)
    for tap in range(x_taps):
        w = _weight((first_x + tap - center_x + 0.5) / spread_x, KIND)
        sum_x += tl.where(first_x + tap < last_x, w, 0.0)
    sum_y = tl.zeros([BLOCK], tl.float32)
    red = tl.zeros([BLOCK], tl.float32)
    green = tl.zeros([BLOCK], tl.float32)
    blue = tl.zeros([BLOCK], tl.float32)
    for tap_y in range(y_taps):
        row_y = first_y + tap_y
        is_row = is_seen & (row_y < last_y)
        w_y = tl.where(is_row, _weight((row_y - center_y + 0.5) / spread_y, KIND), 0.0)
        sum_y += w_y
        line = canvas + base + row_y.to(tl.int64) * step_y
        r = tl.zeros([BLOCK], tl.float32)
        g = tl.zeros([BLOCK], tl.float32)
        b = tl.zeros([BLOCK], tl.float32)
        for tap_x in range(x_taps):
            column = first_x + tap_x
            is_there = is_row & (column < last_x)
            w_x = tl.where(is_there, _weight((column - center_x + 0.5) / spread_x, KIND), 0.0)
            pixel = line + column.to(tl.int64) * step_x
            r += w_x * tl.load(pixel, is_there, other=0).to(tl.float32)
            g += w_x * tl.load(pixel + columns, is_there, other=0).to(tl.float32)
            b += w_x * tl.load(pixel + 2 * columns, is_there, other=0).to(tl.float32)
        red += w_y * tl.minimum(tl.maximum(tl.floor(r / sum_x + 0.5), 0.0), 255.0)
        green += w_y * tl.minimum(tl.maximum(tl.floor(g / sum_x + 0.5), 0.0), 255.0)
        blue += w_y * tl.minimum(tl.maximum(tl.floor(b / sum_x + 0.5), 0.0), 255.0)
    area = height * width
    result = out + cut.to(tl.int64) * 3 * area + at
    sum_y = tl.where(is_seen, sum_y, 1.0)
    for channel in tl.static_range(3):
        value = red if channel == 0 else (green if channel == 1 else blue)
        value = tl.minimum(tl.maximum(tl.floor(value / sum_y + 0.5), 0.0), 255.0)
        value = tl.where(is_seen, value, tl.load(row + 10 + channel))
        tl.store(result + channel * area, value.to(tl.uint8), at < area)


def resample_at_once(
    canvas: Any, cuts: Sequence[Cut], size: tuple[int, int], kind: str, fill: Sequence[int]
) -> Any:
    """As `resample.resample`, for cuts of any kinds together."""
    _, rows, _, columns = canvas.shape
    table = np.zeros((len(cuts), 16), np.float32)
    places = np.zeros((len(cuts), 3), np.int64)
    for number, cut in enumerate(cuts):
        left, top, right, bottom = cut.box
        out_h, out_w = cut.out
        scale_x, scale_y = (right - left) / out_w, (bottom - top) / out_h
        table[number, :13] = (
            left, top, scale_x, scale_y, *cut.bounds, out_h, out_w, *fill
        )  # fmt: skip
        places[number] = _steps(cut, rows, columns)
    both = np.concatenate([table.view(np.uint8).ravel(), places.view(np.uint8).ravel()])
    on_device = torch.from_numpy(both).to(canvas.device, non_blocking=True)
    floats, longs = (
        on_device[: table.nbytes].view(torch.float32), on_device[table.nbytes :].view(torch.int64)
    )  # fmt: skip
    support = FILTERS[kind].support
    x_taps, y_taps = (
        math.ceil(2 * support * max(1.0, float(table[:, 2 + axis].max()))) + 2 for axis in (0, 1)
    )
    out = torch.empty((len(cuts), 3, *size), dtype=torch.uint8, device=canvas.device)
    grid = (len(cuts), triton.cdiv(size[0] * size[1], BLOCK))
    _resample[grid](
        canvas, floats, longs, out, size[0], size[1], columns,
        x_taps, y_taps, SUPPORT=support, KIND=_KINDS[kind], BLOCK=BLOCK,
    )  # fmt: skip
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
