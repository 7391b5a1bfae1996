"""How does a value of a column that holds pictures become what a task's code expects?

Pictures become Pillow images, upright, as the `datasets` library makes them, with one difference:
only their header is read here. Sounds and videos stay encoded: fieldmark sends none, and decoding
them takes packages that a task about pictures should not need.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from fieldmark.locate import is_file

DAMAGE = (
    OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
    AssertionError, RuntimeError, ImportError, struct.error, zlib.error,
    Image.DecompressionBombError,
)  # fmt: skip
"""what decoders are known to raise on damaged files"""
LISTS = ("List", "LargeList", "Sequence")
_LEFT_ENCODED = ("Audio", "Video", "Nifti", "Mesh", "Pdf")
_LONGEST = 1024
"""characters of a path"""
_ORIENTATION = 0x0112
_PNG_TURNS = (b"eXIf", b"Raw profile type", b"XML:com.adobe.xmp")
"""where a PNG may say that it is turned; asking Pillow would decode it"""


def decoded(feature: Any, value: Any, folders: Sequence[Path] = ()) -> Any:
    """The value of a column of this kind, deep in lists and mappings too."""
    if value is None:
        return None
    kind = type(feature).__name__
    if kind == "Image" and feature.decode:
        return open_picture(value, feature.mode, folders)
    if isinstance(feature, Mapping):
        return {name: decoded(each, value[name], folders) for name, each in feature.items()}
    if isinstance(feature, list):
        return [decoded(feature[0], each, folders) for each in value]
    if kind in LISTS:
        return [decoded(feature.feature, each, folders) for each in value]
    is_decodable = hasattr(feature, "decode_example") and getattr(feature, "decode", True)
    if is_decodable and kind not in _LEFT_ENCODED:
        return feature.decode_example(value)
    return value


def open_picture(
    value: Mapping[str, Any], mode: str | None = None, folders: Sequence[Path] = ()
) -> Image.Image:
    """The picture of `{bytes, path}`; its pixels are read on first use."""
    data, path = value["bytes"], value["path"]
    if data is None:
        data = (find_picture(path, folders) or Path(path)).read_bytes()
    image: Image.Image = Image.open(io.BytesIO(data))
    if value["bytes"] is None:
        vars(image)["filename"] = path
    if _is_turned(image, data):
        image = ImageOps.exif_transpose(image)
    return image.convert(mode) if mode and mode != image.mode else image


def find_picture(text: str, folders: Sequence[Path]) -> Path | None:
    """The image file a text names, looked for in the folders; None if it names none.

    >>> find_picture("an owl, half asleep", [Path("photos")])
    """
    if len(text) > _LONGEST or Path(text).suffix.lower() not in Image.registered_extensions():
        return None
    places = (folder / text for folder in folders or (Path(),))
    return next((each for each in places if is_file(each)), None)


def without_pictures(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as templates see it: a picture has no words, but it can write files."""
    return {name: each for name, each in row.items() if not holds_picture(each)}


def holds_picture(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Image.Image)


def untouched_bytes(image: Image.Image) -> bytes | None:
    """The bytes the picture was opened from, as long as its pixels were not looked at.

    From then on somebody may have drawn on it. Not those of a picture that says it is turned: who
    opened it so wants its pixels as they lie.
    """
    source = getattr(image, "fp", None)
    if not isinstance(source, io.BytesIO) or not getattr(image, "tile", None):
        return None
    data = source.getvalue()
    return None if _is_turned(image, data) else data


def _is_turned(image: Image.Image, data: bytes) -> bool:
    if image.format == "PNG" and not any(mark in data for mark in _PNG_TURNS):
        return False
    return image.getexif().get(_ORIENTATION) is not None


def words_of(error: BaseException) -> str:
    """Why a picture cannot be read."""
    if type(error).__name__ == "UnidentifiedImageError":
        return "it is no picture Pillow knows"
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
