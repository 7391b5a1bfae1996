"""Metadata stripping (EXIF, GPS, XMP, IPTC, comments): a picture without what is not the picture.

Whole segments and chunks are left out and every byte of the pixels stays as it is, so that the
image decodes to the same values. What decides colours is kept (ICC profile, Adobe's transform,
PNG's gamma); camera, place, author, caption, thumbnails and whatever follows the end are not. The
file is known by what it may hold, not by what it may not: a kind of segment nobody has heard of
goes too. https://www.w3.org/TR/png-3/#11Chunks, https://developers.google.com/speed/webp/docs/riff_container
"""

from __future__ import annotations

import re
from collections.abc import Callable

_START, _END = b"\xff\xd8", b"\xff\xd9"
_APP0, _APP2, _APP14, _APP15, _COMMENT, _SCAN = 0xE0, 0xE2, 0xEE, 0xEF, 0xFE, 0xDA
_JFIF, _JFIF_BYTES = b"JFIF\0", 18
_KEPT_APPS = {_APP0: _JFIF, _APP2: b"ICC_PROFILE\0", _APP14: b"Adobe"}
_AFTER_PIXELS = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""the marker that ends a scan: neither a stuffed byte nor a restart"""


def without_metadata(data: bytes, kind: str) -> bytes | None:
    """The same image without metadata; None where the file is not built as it should be.

    `kind` is JPEG, PNG or WEBP. A file that holds no metadata comes back as it is.
    """
    return _STRIP[kind](data)


def _strip_jpeg(data: bytes) -> bytes | None:
    if not data.startswith(_START):
        return None
    kept, at, has_pixels = [_START], 2, False
    while data[at : at + 2] != _END:
        if data[at : at + 2] == b"\xff\xff":  # any number of these may precede a marker
            at += 1
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        end = at + 2 + length
        if data[at : at + 1] != b"\xff" or length < 2 or end > len(data):
            return None
        marker = data[at + 1]
        kept.append(_jpeg_segment(marker, data[at:end]))
        if marker == _SCAN:
            match = _AFTER_PIXELS.search(data, end)
            if match is None:
                return None
            kept.append(data[end : match.start()])
            end, has_pixels = match.start(), True
        at = end
    return b"".join([*kept, _END]) if has_pixels else None


def _jpeg_segment(marker: int, segment: bytes) -> bytes:
    if marker == _APP0 and segment[4:9] == _JFIF and len(segment) > _JFIF_BYTES:
        return segment[:2] + b"\0\x10" + segment[4 : _JFIF_BYTES - 2] + b"\0\0"  # no thumbnail
    if _APP0 <= marker <= _APP15:
        is_kept = marker in _KEPT_APPS and segment[4:].startswith(_KEPT_APPS[marker])
        return segment if is_kept else b""
    return b"" if marker == _COMMENT else segment


_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_KEPT = frozenset(
    b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB iCCP sBIT cICP mDCV cLLI bKGD pHYs".split()
)


def _strip_png(data: bytes) -> bytes | None:
    if not data.startswith(_PNG_START):
        return None
    kept, at, name = [_PNG_START], len(_PNG_START), b""
    while name != b"IEND":
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : at + 8]
        if end > len(data) or (name[:1].isupper() and name not in _PNG_KEPT):
            return None
        if name in _PNG_KEPT:
            kept.append(data[at:end])
        at = end
    return b"".join(kept)


_WEBP_KEPT = (b"VP8 ", b"VP8L", b"ALPH", b"ICCP")
_WEBP_FLAGS_KEPT = 0b0011_0000
"""of VP8X: has a profile, has alpha; not: EXIF, XMP, animation"""


def _strip_webp(data: bytes) -> bytes | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    last = 8 + int.from_bytes(data[4:8], "little")
    kept, at = list[bytes](), 12
    while at < last:
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        end = at + 8 + size + size % 2
        chunk = data[at:end]
        if len(chunk) < 8 + size or (name == b"VP8X" and not size):
            return None
        if name == b"VP8X":
            kept.append(chunk[:8] + bytes([chunk[8] & _WEBP_FLAGS_KEPT]) + chunk[9:])
        elif name in _WEBP_KEPT:
            kept.append(chunk)
        at = end
    body = b"WEBP" + b"".join(kept)
    return b"RIFF" + len(body).to_bytes(4, "little") + body


_STRIP: dict[str, Callable[[bytes], bytes | None]] = {
    "JPEG": _strip_jpeg, "PNG": _strip_png, "WEBP": _strip_webp,
}  # fmt: skip
