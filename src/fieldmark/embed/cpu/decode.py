"""Image decoding on the CPU: what does a model see of a file, exactly (Pillow) and fast?

The fast way is within one grey level of the exact one (two in about one of 40 million values).

JPEGs are decoded by torchvision (libjpeg-turbo straight into one block of memory), everything else
by Pillow; both are resized by torch's antialiased 8-bit kernels, which agree with Pillow's filters
up to rounding. It must never be more lenient than the exact way: what torchvision does not decode
goes to Pillow, and what Pillow refuses is handed back to the caller. JPEGs are never decoded at a
reduced scale: `benchmarks/embed_cpu.py` holds the measured differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fieldmark.data import Box, ImageRef, crop_box, crop_image, open_image, read_header
from fieldmark.errors import DataError, naming_model, plain_reason

if TYPE_CHECKING:
    from PIL import Image

    from fieldmark.models import Recipe


KERNELS = ("bilinear", "bicubic")
"""filters that torch has for 8-bit pixels"""
_RGB = 3
"""torchvision's number for what it makes of grey JPEGs too: torch resizes one channel more slowly
than three"""
MIN_SHRINK = 1.5
"""Pillow resizes what is reduced less: with its weights of 16 bits, torch would be off by two grey
levels in one of a million values, forty times as often as above"""
MAX_WASTE = 4.0
"""torch resizes the whole image, Pillow only what is kept, which is faster where that is less than
a fourth"""


class _Turn(NamedTuple):
    """How a stored image becomes upright: rows and columns swapped first, then mirrored."""

    is_swapped: bool
    flips_rows: bool
    flips_columns: bool


_TURNS = {
    1: _Turn(False, False, False),
    2: _Turn(False, False, True),
    3: _Turn(False, True, True),
    4: _Turn(False, True, False),
    5: _Turn(True, False, False),
    6: _Turn(True, False, True),
    7: _Turn(True, True, True),
    8: _Turn(True, True, False),
}


class _Stored(NamedTuple):
    """Decoded pixels as they lie in the file."""

    pixels: np.ndarray
    """uint8, height × width × 3, contiguous"""
    turn: _Turn


def decode(data: bytes, recipe: Recipe, crops: Sequence[Box | None]) -> list[np.ndarray] | None:
    """What `recipe` gives of the crops (None: the whole image), within one grey level: uint8,
    height × width × 3. The file is decoded once. None: the exact way must say what is wrong.
    """
    try:
        stored = _jpeg_pixels(data) or _Stored(np.array(open_image(data)), _TURNS[1])
        return [_seen(stored if crop is None else _part(stored, crop), recipe) for crop in crops]
    except DataError:
        return None


# --- pixels of a file ---


@cache
def _jpeg_decoder() -> Any:
    """torchvision's decoder, None where this torchvision has none. Its Python function warns that
    it will move to another package; the operator behind it does not.
    """
    try:
        import torch
        import torchvision.io  # noqa: F401  registers the operator

        return torch.ops.image.decode_jpeg
    except (ImportError, AttributeError):
        return None


def _jpeg_pixels(data: bytes) -> _Stored | None:
    """None for what torchvision cannot decode as Pillow would."""
    if not data.startswith(b"\xff\xd8") or _jpeg_decoder() is None:
        return None
    import torch

    header = read_header(data)
    if header.format not in ("JPEG", "MPO") or header.mode not in ("RGB", "L"):
        return None
    writable = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    try:
        planes = _jpeg_decoder()(writable, _RGB, False)
    except RuntimeError:
        return None
    if tuple(planes.shape) != (3, header.height, header.width):
        return None
    pixels = np.ascontiguousarray(planes.permute(1, 2, 0).numpy())
    return _Stored(pixels, _TURNS[header.orientation])


def _part(stored: _Stored, crop: Box) -> _Stored:
    """The part of the stored pixels that lies in a box of the upright image."""
    height, width = stored.pixels.shape[:2]
    if stored.turn.is_swapped:
        height, width = width, height
    left, top, right, bottom = crop_box(width, height, crop)
    if stored.turn.flips_columns:
        left, right = width - right, width - left
    if stored.turn.flips_rows:
        top, bottom = height - bottom, height - top
    if stored.turn.is_swapped:
        left, top, right, bottom = top, left, bottom, right
    return stored._replace(pixels=_cut(stored.pixels, top, left, bottom - top, right - left))


def _cut(pixels: np.ndarray, top: int, left: int, height: int, width: int) -> np.ndarray:
    """A contiguous copy; rows are copied whole, 25 times as fast as pixel by pixel."""
    rows = pixels.reshape(len(pixels), -1)[top : top + height]
    return np.ascontiguousarray(rows[:, 3 * left : 3 * (left + width)]).reshape(height, width, 3)


# --- what the recipe makes of them ---


def _seen(stored: _Stored, recipe: Recipe) -> np.ndarray:
    swaps = stored.turn.is_swapped
    height, width = stored.pixels.shape[:2][:: -1 if swaps else 1]
    (left, top, right, bottom), (out_h, out_w) = recipe.placed(height, width)
    # `placed` is a whole number of pixels of the resized image: torch resizes all of it
    scaled_h = round(height * out_h / (bottom - top))
    scaled_w = round(width * out_w / (right - left))
    shrink = min(height / scaled_h, width / scaled_w)
    waste = scaled_h * scaled_w / (out_h * out_w)
    if recipe.interpolation not in KERNELS or shrink < MIN_SHRINK or waste > MAX_WASTE:
        import PIL.Image

        return recipe(PIL.Image.fromarray(_upright(stored.pixels, stored.turn)))
    left, top = round(left * scaled_w / width), round(top * scaled_h / height)
    if stored.turn.flips_columns:
        left = scaled_w - out_w - left
    if stored.turn.flips_rows:
        top = scaled_h - out_h - top
    rows_first = _rows_first(height, width, out_h, out_w) != swaps
    if swaps:
        scaled_h, scaled_w, left, top, out_h, out_w = scaled_w, scaled_h, top, left, out_w, out_h
    pixels = stored.pixels
    if rows_first:
        tall = _resize(pixels, scaled_h, pixels.shape[1], recipe.interpolation)
        pixels, scaled_h, top = tall[top : top + out_h], out_h, 0
    resized = _resize(pixels, scaled_h, scaled_w, recipe.interpolation)
    return _filled(_upright(_cut(resized, top, left, out_h, out_w), stored.turn), recipe)


def _rows_first(height: int, width: int, out_h: int, out_w: int) -> bool:
    """Whether Pillow resizes along the rows' axis before the columns'. Values are rounded and
    clipped between the two steps, so the order shows: by up to 20 grey levels in pure noise.
    """
    import PIL

    is_new = int(PIL.__version__.partition(".")[0]) >= 13
    return is_new and height > out_h and height - out_h > 2 * (width - out_w)


def _resize(pixels: np.ndarray, height: int, width: int, interpolation: str) -> np.ndarray:
    """Columns first. Runs in one thread: torch's 8-bit kernels do not use its pool."""
    import torch
    from torch.nn.functional import interpolate

    # The axis is added before the turn: torch takes its fast way by the strides it sees.
    planes = torch.from_numpy(pixels)[None].permute(0, 3, 1, 2)
    resized = interpolate(planes, (height, width), mode=interpolation, antialias=True)
    return np.ascontiguousarray(resized[0].permute(1, 2, 0).numpy())


def _upright(pixels: np.ndarray, turn: _Turn) -> np.ndarray:
    if turn.is_swapped:
        pixels = pixels.transpose(1, 0, 2)
    pixels = pixels[:: -1 if turn.flips_rows else 1, :: -1 if turn.flips_columns else 1]
    return np.ascontiguousarray(pixels)


def _filled(pixels: np.ndarray, recipe: Recipe) -> np.ndarray:
    """In the middle of the model's input where they do not cover it."""
    height, width = pixels.shape[:2]
    if (height, width) == recipe.size:
        return pixels
    canvas = np.empty((*recipe.size, 3), np.uint8)
    canvas[:] = recipe.fill
    top, left = (recipe.size[0] - height) // 2, (recipe.size[1] - width) // 2
    canvas[top : top + height, left : left + width] = pixels
    return canvas


# --- Reference decoding (Pillow): what does a model see of a file, the exact way?


def see_exactly(
    data: bytes,
    refs: Sequence[ImageRef],
    transform: Callable[[Image.Image], np.ndarray],
    model: str,
) -> list[np.ndarray | str]:
    """What the transform of the model makes of all parts of one file, decoded once; a text says why
    a part cannot be seen.
    """
    image = refs[0].image
    try:
        whole = open_image(data, name=image)
    except DataError as error:
        return [plain_reason(error)] * len(refs)
    seen: list[np.ndarray | str] = []
    for ref in refs:
        try:
            part = whole if ref.crop is None else crop_image(whole, ref.crop, image)
        except DataError as error:
            seen.append(plain_reason(error))
            continue
        with naming_model(model, f"transform of {image}"):
            seen.append(transform(part))
    return seen
