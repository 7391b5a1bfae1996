"""Resize of photos on a device (antialiased resampling): Pillow's resize as two matrix products.

A separable filter is a matrix for the rows and one for the columns. The matrices are those Pillow
computes (`precompute_coeffs` in its Resample.c: the filter's support grows with the reduction, each
row is normalised), made on the device for each image of a batch, so images of any sizes and boxes
go through in one product. As in Pillow columns come first and are rounded to 8 bits in between:
pixels agree within one grey level, and nearly all are equal. A mirrored box gives a mirrored image,
so a photo that must be turned upright costs no more. To which size, and what is cropped, says
`Recipe` in models/_backbone.py; on a CPU, embed/cpu/decode.py does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

Box = tuple[float, float, float, float]


class ResampleFilter(NamedTuple):
    weight: Callable[[Any], Any]
    """of a distance in output pixels (of input pixels where the image is enlarged)"""
    support: float


class Cut(NamedTuple):
    """What of one stored picture becomes one input of a network. Boxes are left, top, right, bottom
    in the upright picture.
    """

    place: int
    """of the picture on the canvas"""
    stored: tuple[int, int]
    """height and width of the picture there"""
    box: Box
    """what is seen of it"""
    bounds: Box
    """pixels outside do not exist: the picture, or a crop of it"""
    out: tuple[int, int]
    """height and width of what is seen, in the result"""
    turn: int = 1
    """EXIF orientation: how the stored picture is turned to be upright"""

    @property
    def is_swapped(self) -> bool:
        """Do rows and columns change places?"""
        return self.turn in SWAPPED


def _bicubic(x: Any) -> Any:
    a, x = -0.5, x.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _lanczos(x: Any) -> Any:
    return torch.where(x.abs() < 3, torch.sinc(x) * torch.sinc(x / 3), torch.zeros_like(x))


FILTERS = {
    "bicubic": ResampleFilter(_bicubic, 2.0),
    "bilinear": ResampleFilter(lambda x: (1 - x.abs()).clamp(min=0), 1.0),
    "lanczos": ResampleFilter(_lanczos, 3.0),
}
MIRRORED = {
    2: (True, False), 3: (True, True), 4: (False, True),
    6: (False, True), 7: (True, True), 8: (True, False),
}  # fmt: skip
"""EXIF orientation → is the stored picture mirrored left-right and upside down, before rows and
columns change places where they do"""
SWAPPED = (5, 6, 7, 8)
"""orientations in which rows and columns change places"""


def resample(
    canvas: Any, cuts: Sequence[Cut], size: tuple[int, int], kind: str, fill: Sequence[int]
) -> Any:
    """uint8, n × 3 × height × width of upright pictures; what is smaller than `size` lies in the
    middle, in the colour `fill`.

    `canvas` holds the stored pictures in its top left corners: uint8, n × rows × 3 × columns. Rows
    and columns change places in all cuts or in none.
    """
    is_swapped = cuts[0].is_swapped
    out_h, out_w = size[::-1] if is_swapped else size
    numbers = [cut.place for cut in cuts]
    if numbers != list(range(len(canvas))):
        canvas = canvas[torch.tensor(numbers, device=canvas.device)]
    n, rows, _, columns = canvas.shape
    x_weights = _weights([_line(cut, 0) for cut in cuts], columns, out_w, kind, canvas.device)
    y_weights = _weights([_line(cut, 1) for cut in cuts], rows, out_h, kind, canvas.device)
    pixels = canvas.to(x_weights.dtype)
    if is_swapped:  # the upright picture's columns are the stored one's rows, and come first
        short = _rounded(_product(y_weights, pixels.view(n, rows, 3 * columns)))
        lines = short.to(x_weights.dtype).view(n, out_h * 3, columns)
        small = _rounded(_product(lines, x_weights.transpose(1, 2))).view(n, out_h, 3, out_w)
        upright = small.permute(0, 2, 3, 1)
    else:
        narrow = _rounded(_product(pixels.view(n, rows * 3, columns), x_weights.transpose(1, 2)))
        small = _rounded(_product(y_weights, narrow.to(x_weights.dtype).view(n, rows, 3 * out_w)))
        upright = small.view(n, out_h, 3, out_w).permute(0, 2, 1, 3)
    if any(cut.out != tuple(size) for cut in cuts):
        _fill_margins(upright, cuts, fill)
    return upright.to(torch.uint8)


def _fill_margins(upright: Any, cuts: Sequence[Cut], fill: Sequence[int]) -> None:
    colour = torch.tensor(fill, dtype=upright.dtype, device=upright.device)[:, None, None]
    height, width = upright.shape[2:]
    for image, (out_h, out_w) in zip(upright, (cut.out for cut in cuts), strict=True):
        top, left = (height - out_h) // 2, (width - out_w) // 2
        for margin in (
            image[:, :top], image[:, top + out_h :], image[:, :, :left], image[:, :, left + out_w :]
        ):  # fmt: skip
            margin[:] = colour


class _Line(NamedTuple):
    """One axis of a cut."""

    start: float
    end: float
    low: float
    high: float
    n_seen: int
    is_mirrored: bool


def _line(cut: Cut, axis: int) -> _Line:
    """Of the stored picture: axis 0 runs along its columns, 1 along its rows."""
    upright = 1 - axis if cut.is_swapped else axis
    is_mirrored = MIRRORED.get(cut.turn, (False, False))[axis]
    box, bounds = (
        _stored_box(stored_box, cut.turn, *cut.stored) for stored_box in (cut.box, cut.bounds)
    )
    ends = (box[axis], box[axis + 2], bounds[axis], bounds[axis + 2])
    return _Line(*ends, cut.out[1 - upright], is_mirrored)


def _weights(lines: Sequence[_Line], n_in: int, n_out: int, kind: str, device: Any) -> Any:
    """n × out × in: how much each input pixel counts in each output pixel, along one axis.

    All but a band of it is zero, and only that is computed.
    """
    weight, support = FILTERS[kind]
    table = torch.tensor(lines, dtype=torch.float32).to(device)
    start, end, low, high, n_seen, mirrored = (column[:, None, None] for column in table.T)
    scale = (end - start) / n_seen
    spread = scale.clamp(min=1.0)
    index = torch.arange(n_out, device=device, dtype=torch.float32)[None, :, None]
    index = index - ((n_out - n_seen) / 2).floor()
    is_seen = (index >= 0) & (index < n_seen)
    index = torch.where(mirrored > 0, n_seen - 1 - index, index)
    center = start + (index + 0.5) * scale
    first = torch.maximum((center - support * spread + 0.5).floor(), low)
    last = torch.minimum((center + support * spread + 0.5).floor(), high)
    widest = max((line.end - line.start) / line.n_seen for line in lines)
    n_taps = min(n_in, math.ceil(2 * support * max(widest, 1.0)) + 2)
    at = first + torch.arange(n_taps, device=device, dtype=torch.float32)
    taps = weight((at - center + 0.5) / spread) * (is_seen & (at < last))
    taps = taps / taps.sum(dim=2, keepdim=True).clamp(min=1e-6)
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    weights = torch.zeros((len(lines), n_out, n_in), dtype=dtype, device=device)
    return weights.scatter_add_(2, at.long().clamp(0, n_in - 1), taps.to(dtype))


def _product(left: Any, right: Any) -> Any:
    """float32 sums of products; pixels are exact in float16, weights nearly."""
    if left.dtype == torch.float16:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left, right)


def _rounded(values: Any) -> Any:
    return values.round_().clamp_(0, 255)


def _stored_box(box: Box, turn: int, height: int, width: int) -> Box:
    """A box of the upright picture, in the stored one of that height and width."""
    left, top, right, bottom = box
    if turn in SWAPPED:
        left, top, right, bottom = top, left, bottom, right
    is_left_right, is_upside_down = MIRRORED.get(turn, (False, False))
    if is_left_right:
        left, right = width - right, width - left
    if is_upside_down:
        top, bottom = height - bottom, height - top
    return left, top, right, bottom


def groups_by_size(
    sizes: Sequence[tuple[int, int]], most_bytes: int, swapped: Sequence[bool]
) -> list[list[int]]:
    """Which pictures share a canvas: alike in size, so that little of it stays empty, and together
    no larger than `most_bytes` (one alone may be).
    """
    order = sorted(range(len(sizes)), key=lambda index: (swapped[index], math.prod(sizes[index])))
    groups: list[list[int]] = []
    height = width = 0
    for index in order:
        grown = max(height, sizes[index][0]), max(width, sizes[index][1])
        is_alike = bool(groups) and swapped[groups[-1][0]] == swapped[index]
        if is_alike and (len(groups[-1]) + 1) * math.prod(grown) * 3 <= most_bytes:
            groups[-1].append(index)
            height, width = grown
        else:
            groups.append([index])
            height, width = sizes[index]
    return groups
