"""Image decoding: the bytes of a photo become the upright RGB image every model sees.

One way for all of them: decode, make RGB (alpha on white, 16-bit scaled), turn as EXIF says, then
crop. Whatever is wrong with a file ends in a `DataError` of one line that names it; `quick_check`
finds most of it without decoding a pixel.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image, UnidentifiedImageError

from fieldmark.data._bytes import base_folder, read_bytes
from fieldmark.errors import DataError

MAX_PIXELS = 200_000_000
"""Larger images are refused: decoded, each would take more than 600 MB."""

Box = tuple[float, float, float, float]

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
"""files of phones; AVIF is of the same family, and Pillow reads it without help"""
# What Pillow's decoders are known to raise on damaged files: they parse before they validate.
_DAMAGE = (
    OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
    AssertionError, EOFError, RuntimeError, MemoryError, struct.error, zlib.error,
    Image.DecompressionBombError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ImageRef:
    """One image of a dataset, or a part of it."""

    image: str
    """relative to the dataset's root; `archive.tar::member` and `file.parquet::row` too"""
    crop: Box | None = None
    """x, y, width, height in pixels of the upright image"""


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """What the first bytes of an image say."""

    format: str
    """as Pillow calls it: JPEG, MPO, PNG"""
    mode: str
    """as Pillow calls it: RGB, L, CMYK"""
    height: int
    """of the stored image, before it is turned"""
    width: int
    orientation: int
    """as EXIF numbers them: 1 (upright) to 8"""
    is_moving: bool
    """an animation, of which only the first frame is read"""


def load_image(root: Path, ref: ImageRef) -> Image.Image:
    """The upright RGB image a reference names."""
    return open_image(
        read_bytes(root, ref.image), ref.crop, name=str(base_folder(root) / ref.image)
    )


def open_image(data: bytes, crop: Box | None = None, *, name: str = "image") -> Image.Image:
    """Upright RGB pixels of an encoded image; of an animation, its first frame.

    Alpha is laid on white. Grey values of 16 bits are scaled 65535 → 255. `name` is what errors
    call the file.
    """
    reason = _unreadable_start(data)
    if reason:
        raise DataError(f"{name}  {reason}.")
    try:
        with open_encoded(data) as image:
            _refuse_huge(image.size)
            image.load()
            upright = _turn(_to_rgb(image), image)
    except _DAMAGE as error:
        raise DataError(f"{name}  {_explain(error, data)}.") from error
    return upright if crop is None else crop_image(upright, crop, name)


def read_header(data: bytes, *, name: str = "image") -> ImageHeader:
    """What `open_image` would decode; raises what it raises. Decodes no pixels."""
    reason = _unreadable_start(data)
    if reason:
        raise DataError(f"{name}  {reason}.")
    try:
        with open_encoded(data) as image:
            _refuse_huge(image.size)
            # Further pictures of an MPO follow the end of a JPEG: previews, the other eye's view.
            is_moving = image.format != "MPO" and getattr(image, "is_animated", False)
            size = image.height, image.width
            kind, turn = image.format or "", _orientation(image)
            return ImageHeader(kind, image.mode, *size, turn if turn in _TURNS else 1, is_moving)
    except _DAMAGE as error:
        raise DataError(f"{name}  {_explain(error, data)}.") from error


def quick_check(data: bytes) -> str | None:
    """Why these bytes cannot be a whole image, or None. Decodes no pixels: about 50 µs an image."""
    reason = _unreadable_start(data) or _cut_off(data)
    if reason:
        return reason
    try:
        with open_encoded(data) as image:
            _refuse_huge(image.size)
    except _DAMAGE as error:
        return _explain(error, data)
    return None


def open_encoded(data: bytes) -> Image.Image:
    """Pillow's image of these bytes, HEIC too: header read, pixels not, as it lies in the file."""
    # Pillow's own guard is one number for the whole process and warns for each image above it;
    # fieldmark refuses by MAX_PIXELS instead, so the guard only has to stay out of the way.
    if Image.MAX_IMAGE_PIXELS is not None and Image.MAX_IMAGE_PIXELS < 8 * MAX_PIXELS:
        Image.MAX_IMAGE_PIXELS = 8 * MAX_PIXELS
    if _is_heif(data):
        _register_heif()
    return Image.open(io.BytesIO(data))


def open_header(path: Path) -> Image.Image:
    """The image of an ordinary file, for its header: only that is read from the disk."""
    if not path.is_file():  # opening a pipe would wait for ever
        raise DataError(f"{path}  is no file.")
    with path.open("rb") as file:
        is_heif = _is_heif(file.read(12))
    if is_heif:
        _register_heif()
    return Image.open(path)


def _is_heif(data: bytes) -> bool:
    return data[4:8] == b"ftyp" and data[8:12] in _HEIF_BRANDS


@cache
def _register_heif() -> None:
    """Teaches Pillow HEIC, at the first such photo: others do not wait for the import. libheif
    turns the pixels itself and sets the EXIF orientation to 1, so nothing is turned twice.
    """
    from pillow_heif import register_heif_opener

    register_heif_opener()


def _refuse_huge(size: tuple[int, int]) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise Image.DecompressionBombError(f"{size[0]} × {size[1]}")


def _explain(error: BaseException, data: bytes) -> str:
    if isinstance(error, UnidentifiedImageError) and _is_heif(data):
        return "is cut off or damaged: the HEIC cannot be read"
    if isinstance(error, UnidentifiedImageError):
        return f"is not an image of a known format (it starts with {data[:12]!r})"
    if isinstance(error, Image.DecompressionBombError):
        size = re.search(r"\d+ pixels|\d+ × \d+", str(error))
        return (
            f"is too large ({size[0] if size else error}): at most {MAX_PIXELS:,} pixels are read"
        )
    text = str(error).strip().splitlines()
    return f"cannot be decoded: {(text[0] if text else type(error).__name__).rstrip('.')}"


# --- signs of a file that is not whole ---


def _unreadable_start(data: bytes) -> str | None:
    if not data:
        return "is empty (0 bytes)"
    head = data[:256].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "is a web page, not an image: the download failed"
    if head.startswith((b"%!ps", b"\xc5\xd0\xd3\xc6")):
        return "is PostScript, which fieldmark does not read: convert it to PNG"
    return None


def _cut_off(data: bytes) -> str | None:
    if data.startswith(b"\xff\xd8\xff"):
        return None if _has_jpeg_end(data) else "is cut off: the JPEG has no end marker"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return None if _has_png_end(data) else "is cut off: the PNG has no IEND chunk"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        expected = int.from_bytes(data[4:8], "little") + 8
        if len(data) < expected:
            return f"is cut off: the WebP contains {len(data)} of {expected} bytes"
    return None


def _has_jpeg_end(data: bytes) -> bool:
    """Looks behind the start of the scan: a thumbnail inside EXIF has its own end marker."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1  # fill byte
        elif marker == 0xDA:
            return data.rfind(b"\xff\xd9", at) >= 0
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def _has_png_end(data: bytes) -> bool:
    at = 8
    while at + 12 <= len(data):
        if data[at + 4 : at + 8] == b"IEND":
            return True
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    return False


# --- pixels ---


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image.copy()
    if image.mode == "I" or image.mode.startswith("I;16"):
        return _from_integers(np.asarray(image))
    if image.mode == "F":
        return _from_floats(np.asarray(image))
    if image.has_transparency_data:
        solid = image.convert("RGBA")
        on_white = Image.new("RGB", solid.size, "white")
        on_white.paste(solid, mask=solid.getchannel("A"))
        return on_white
    return image.convert("RGB")


def _from_integers(values: np.ndarray[Any, Any]) -> Image.Image:
    wide = values.astype(np.int64)
    if wide.min(initial=0) < 0 or wide.max(initial=0) > 65535:
        return _stretched(wide.astype(np.float64))
    return _grey((wide * 255 + 32767) // 65535)


def _from_floats(values: np.ndarray[Any, Any]) -> Image.Image:
    """0..1, 0..255 and 0..65535 are read as such; anything else is stretched to fit."""
    wide = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    top = wide.max(initial=0.0)
    if wide.min(initial=0.0) < 0 or top > 65535:
        return _stretched(wide)
    full = 1.0 if top <= 1 else 255.0 if top <= 255 else 65535.0
    return _grey(np.rint(wide * (255.0 / full)))


def _stretched(values: np.ndarray[Any, Any]) -> Image.Image:
    low, high = values.min(), values.max()
    return _grey(np.rint((values - low) * (255.0 / max(high - low, 1e-300))))


def _grey(values: np.ndarray[Any, Any]) -> Image.Image:
    return Image.fromarray(values.astype(np.uint8)).convert("RGB")


def _turn(image: Image.Image, source: Image.Image) -> Image.Image:
    """Asks the loaded source: Pillow turns TIFFs itself while loading and drops the tag."""
    turn = _TURNS.get(_orientation(source))
    return image if turn is None else image.transpose(turn)


def _orientation(image: Image.Image) -> int:
    """What EXIF says; 1 where it cannot be read, as in viewers: the photo is not lost with it."""
    try:
        return cast(int, image.getexif().get(_ORIENTATION, 1))
    except (SyntaxError, ValueError, LookupError, struct.error):
        return 1


def crop_image(image: Image.Image, crop: Box, name: str = "image") -> Image.Image:
    """The part of an upright image that the box and the image share."""
    return image.crop(crop_box(image.width, image.height, crop, name))


def crop_box(width: int, height: int, crop: Box, name: str = "image") -> tuple[int, int, int, int]:
    """left, top, right, bottom of what the crop and an upright image of that size share."""
    x, y, crop_w, crop_h = crop
    if all(math.isfinite(side) for side in crop) and crop_w > 0 and crop_h > 0:
        left, top = max(0, round(x)), max(0, round(y))
        right, bottom = min(width, round(x + crop_w)), min(height, round(y + crop_h))
        if left < right and top < bottom:
            return left, top, right, bottom
    raise DataError(
        f"{name}  crop {tuple(crop)} is empty in an image of {width} × {height} "
        "pixels: expected x, y, width and height in pixels."
    )


def is_of_file(reason: str) -> bool:
    """Does the reason hold for the whole file and for good, not only for a crop or a moment?"""
    return not reason.startswith("crop (") and "MemoryError" not in reason
