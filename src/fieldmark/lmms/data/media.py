"""How does what a task shows become a picture of a message?

A task's `doc_to_visual` gives Pillow images, paths, bytes or rows of an image column. fieldmark
sends images: a video or a sound is refused in one line.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from fieldmark.chat import Picture
from fieldmark.errors import DataError, UsageError
from fieldmark.lmms.data.decode import DAMAGE, untouched_bytes, words_of
from fieldmark.locate import is_file, with_home

_VIDEOS = {".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv"}
_SOUNDS = {".wav", ".mp3", ".m4a", ".aac", ".flac", ".ogg", ".opus"}
_LONGEST_SHOWN = 200
_PNG_MODES = {"1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"}


def to_picture(visual: Any, where: str = "") -> Picture:
    """A picture whose bytes are made when they are read; changed Pillow images become PNG."""
    if isinstance(visual, Image.Image):
        return _from_image(visual, where)
    if isinstance(visual, (bytes, bytearray)):
        return Picture(bytes(visual))
    if isinstance(visual, (str, Path)):
        return _from_address(visual, where)
    if isinstance(visual, Mapping):
        return _from_row(visual, where)
    if type(visual).__name__ == "ndarray" and visual.ndim in (2, 3):
        return Picture(lambda: _png(Image.fromarray(visual), where))
    raise _unfit(where, _kind_of(visual))


def _from_image(image: Image.Image, where: str) -> Picture:
    """Its own bytes where it is still as it was in the dataset: smaller than a PNG, and exact."""
    data = untouched_bytes(image)
    return Picture(lambda: _png(image, where)) if data is None else Picture(data)


def _from_row(row: Mapping[str, Any], where: str) -> Picture:
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
            return to_picture(row[key], where)
    raise _unfit(where, f"mapping of {', '.join(map(str, row)) or 'nothing'}")


def _from_address(address: str | Path, where: str) -> Picture:
    text = str(address)
    if text.startswith("data:image/"):
        return Picture(_decoded(text, where))
    text = text.removeprefix("file://")
    if "://" in text:
        raise UsageError(_line(where, f"{text!r} is remote: a file on this machine is expected."))
    _refuse_others(text, where)
    path = with_home(text)
    if not is_file(path):
        raise DataError(_line(where, f"image {_shown(text)} does not exist."))
    return Picture(path.read_bytes, name=str(path.resolve()))


def _decoded(address: str, where: str) -> bytes:
    try:
        return base64.b64decode(address.partition(",")[2], validate=True)
    except ValueError as error:
        raise DataError(_line(where, f"a data address is not base64: {error}.")) from None


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
        raise DataError(_line(where, f"a picture cannot be read: {words_of(error)}.")) from error
    return target.getvalue()


def _shown(text: str) -> str:
    """Base64 without a word before it is a text too, of megabytes."""
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]!r}…"


def _kind_of(visual: object) -> str:
    name = type(visual).__name__
    known = {"VideoDecoder": "video", "VideoReader": "video", "AudioDecoder": "sound"}
    return known.get(name, name)


def _unfit(where: str, kind: str) -> UsageError:
    return UsageError(_line(where, f"doc_to_visual gave a {kind}: fieldmark sends images only."))


def _line(where: str, text: str) -> str:
    return f"{where}  {text}" if where else text
