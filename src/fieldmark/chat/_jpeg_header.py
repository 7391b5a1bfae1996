"""Is this a whole, plain JPEG, and how large is it? Answered from its markers alone.

Most photos are, and those need no image library before they are sent. Anything unusual gets no
answer here and is looked at properly.
"""

from __future__ import annotations

_PLAIN_FRAMES = (0xC0, 0xC1, 0xC2)
_SCAN, _EXIF = 0xDA, 0xE1
_END = b"\xff\xd9"
_MOST_MARKERS = 100


def plain_jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of an 8-bit grey or colour JPEG that is upright as stored; else None."""
    if not data.startswith(b"\xff\xd8\xff") or data.rfind(_END) < 0:
        return None
    size, at = None, 2
    for _ in range(_MOST_MARKERS):
        if at + 10 > len(data) or data[at] != 0xFF:
            return None
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == _SCAN:
            # The end must come after the pixels: a thumbnail in the header has one of its own.
            return size if data.rfind(_END) > at + 2 + length else None
        if marker == _EXIF:
            return None  # it may say that the image lies on its side
        if marker in _PLAIN_FRAMES:
            size = _frame_size(data, at)
            if size is None:
                return None
        at += 2 + length
    return None


def _frame_size(data: bytes, at: int) -> tuple[int, int] | None:
    precision, components = data[at + 4], data[at + 9]
    height = int.from_bytes(data[at + 5 : at + 7], "big")
    width = int.from_bytes(data[at + 7 : at + 9], "big")
    is_plain = precision == 8 and components in (1, 3) and width > 0 and height > 0
    return (width, height) if is_plain else None
