"""Decoding and encoding pictures: from a column to task code, from task code to a message.

Pictures of a column become Pillow images, upright, as the `datasets` library makes them, with one
difference: only their header is read. A task's `doc_to_visual` gives Pillow images, paths, bytes or
rows of an image column. Sounds and videos stay encoded and are refused in one line: fieldmark sends
none, and decoding them takes packages that a task about pictures should not need.
"""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from fieldmark.chat import Picture
from fieldmark.data import is_image, open_encoded
from fieldmark.errors import DataError, FieldmarkError, UsageError, at
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.data.sources import folders_of, is_of_hub, outside
from fieldmark.lmms.read.schema import DocumentTask
from fieldmark.source_lines import is_file, with_home

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


@dataclass(frozen=True, slots=True)
class PictureFolders:
    """Where rows and code of a task may name image files.

    What they name is sent to a model: it lies with the task, where the user said, or where the
    hub's clients keep what they fetch.
    """

    folders: tuple[Path, ...] = ()
    """relative names are looked for in these"""
    trust: Trust | None = None
    """None: anywhere"""

    def find(self, text: str) -> Path | None:
        """The image file a text names; None if it names none that may be read.

        >>> PictureFolders((Path("photos"),)).find("an owl, half asleep")
        """
        if len(text) > _LONGEST or not is_image(text):
            return None
        paths = (folder / text for folder in self.folders or (Path(),))
        return next((path for path in paths if self._may_read(path) and is_file(path)), None)

    def at(self, text: str) -> Path:
        """The same, of a text that names one. Raises."""
        path = self.find(text) or with_home(text.removeprefix("file://"))
        # Base64 without a word before it is a text too, of megabytes.
        is_path = len(text) <= _LONGEST
        if is_path and not self._may_read(path):
            raise UsageError(outside(f"the picture {text!r} lies", path, self.trust or Trust()))
        if not is_path or not is_file(path):
            more = "…" if len(text) > _LONGEST_SHOWN else ""
            raise DataError(f"image {text[:_LONGEST_SHOWN]!r}{more} does not exist.")
        return path

    def _may_read(self, path: Path) -> bool:
        return self.trust is None or self.trust.allows(path) or is_of_hub(path)


ANYWHERE = PictureFolders()


def folders_for(task: DocumentTask) -> PictureFolders:
    return PictureFolders(tuple(folders_of(task, "dataset_kwargs")), task.trust)


def decoded(feature: Any, value: Any, folders: PictureFolders = ANYWHERE) -> Any:
    """The value of a column of this kind, deep in lists and mappings too."""
    if value is None:
        return None
    kind = type(feature).__name__
    if kind == "Image" and feature.decode:
        return open_picture(value, feature.mode, folders)
    if isinstance(feature, Mapping):
        return {name: decoded(inner, value[name], folders) for name, inner in feature.items()}
    if isinstance(feature, list):
        return [decoded(feature[0], inner, folders) for inner in value]
    if kind in LISTS:
        return [decoded(feature.feature, inner, folders) for inner in value]
    is_decodable = hasattr(feature, "decode_example") and getattr(feature, "decode", True)
    if is_decodable and kind not in _LEFT_ENCODED:
        return feature.decode_example(value)
    return value


def open_picture(
    value: Mapping[str, Any], mode: str | None = None, folders: PictureFolders = ANYWHERE
) -> Image.Image:
    """The picture of `{bytes, path}`; its pixels are read on first use."""
    data, path = value["bytes"], value["path"]
    if data is None:
        data = folders.at(path).read_bytes()
    image = open_encoded(data)
    if value["bytes"] is None:
        vars(image)["filename"] = path
    if _is_turned(image, data):
        image = ImageOps.exif_transpose(image)
    return image.convert(mode) if mode and mode != image.mode else image


def without_pictures(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as templates see it: a picture has no words, but it can write files."""
    return {name: value for name, value in row.items() if not holds_picture(value)}


def holds_picture(value: Any) -> bool:
    sample = value[0] if isinstance(value, list) and value else value
    return isinstance(sample, Image.Image)


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
        return "Pillow cannot read it as a picture"
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


_VIDEOS = {".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv"}
_SOUNDS = {".wav", ".mp3", ".m4a", ".aac", ".flac", ".ogg", ".opus"}
_LONGEST_SHOWN = 200
_PNG_MODES = {"1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"}


def to_picture(visual: Any, where: str = "", folders: PictureFolders = ANYWHERE) -> Picture:
    """A picture whose bytes are made when they are read; changed Pillow images become PNG."""
    if isinstance(visual, Image.Image):
        # Its own bytes where it is still as it was in the dataset: smaller than a PNG, and exact.
        data = untouched_bytes(visual)
        return Picture(lambda: _png(visual, where)) if data is None else Picture(data)
    if isinstance(visual, (bytes, bytearray)):
        return Picture(bytes(visual))
    if isinstance(visual, (str, Path)):
        text = str(visual)
        if text.startswith("data:image/"):
            return Picture(_decoded(text, where))
        text = text.removeprefix("file://")
        if "://" in text:
            raise UsageError(
                at(where, None, f"{text!r} is remote: a file on this machine is expected.")
            )
        _refuse_others(text, where)
        try:
            path = folders.at(text)
        except FieldmarkError as error:
            raise type(error)(at(where, None, str(error))) from None
        return Picture(path.read_bytes, name=str(path.resolve()))
    if isinstance(visual, Mapping):
        return _from_row(visual, where, folders)
    if type(visual).__name__ == "ndarray" and visual.ndim in (2, 3):
        return Picture(lambda: _png(Image.fromarray(visual), where))
    raise _unfit(where, _kind_of(visual))


def _from_row(row: Mapping[str, Any], where: str, folders: PictureFolders) -> Picture:
    """`{bytes, path}` as image columns hold them, `{type, url}` as messages do."""
    kind = row.get("type", "image")
    if kind not in ("image", "image_url"):
        raise _unfit(where, str(kind))
    if "sampling_rate" in row:
        raise _unfit(where, "sound")
    if "video_start" in row or "video_end" in row:
        raise _unfit(where, "video")
    path = str(row.get("path") or "")
    if row.get("bytes") is not None:
        _refuse_others(path, where)
        return Picture(bytes(row["bytes"]))
    for key in ("path", "url", "image", "image_url"):
        if row.get(key) is not None:
            return to_picture(row[key], where, folders)
    raise _unfit(where, f"mapping of {', '.join(map(str, row)) or 'nothing'}")


def _decoded(address: str, where: str) -> bytes:
    try:
        return base64.b64decode(address.partition(",")[2], validate=True)
    except ValueError as error:
        raise DataError(at(where, None, f"a data address is not base64: {error}.")) from None


def _refuse_others(path: str, where: str) -> None:
    ending = Path(path).suffix.lower()
    if ending in _VIDEOS or ending in _SOUNDS:
        raise _unfit(where, f"{'video' if ending in _VIDEOS else 'sound'} ({path})")


def _png(image: Image.Image, where: str) -> bytes:
    target = io.BytesIO()
    try:
        plain = image if image.mode in _PNG_MODES else image.convert("RGB")
        plain.save(target, "PNG")
    except DAMAGE as error:
        raise DataError(at(where, None, f"a picture cannot be read: {words_of(error)}.")) from error
    return target.getvalue()


def _kind_of(visual: object) -> str:
    name = type(visual).__name__
    kinds = {"VideoDecoder": "video", "VideoReader": "video", "AudioDecoder": "sound"}
    return kinds.get(name, name)


def _unfit(where: str, kind: str) -> UsageError:
    return UsageError(at(where, None, f"doc_to_visual gave a {kind}: fieldmark sends images only."))
