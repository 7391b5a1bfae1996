"""JPEG header: can the card's decoder take this file, how large is it, which way up?

Only what such decoders do exactly as libjpeg does is taken: baseline, 8 bits, one interleaved scan,
grey or YCbCr with 4:4:4, 4:2:2 or 4:2:0 chroma, not tiny. Everything else (progressive, CMYK,
RGB, 4:1:1, …) is left to Pillow. https://www.w3.org/Graphics/JPEG/itu-t81.pdf, annex B
"""

from __future__ import annotations

import io
from typing import NamedTuple

LEAST_SIDE = 64
"""smaller pictures are sooner decoded on a CPU, and engines refuse some of them"""
MOST_SIDE = 16_384
_SAMPLINGS = {
    (((1, 1),) * 3),
    ((2, 1), (1, 1), (1, 1)),
    ((2, 2), (1, 1), (1, 1)),
}
_BASELINE, _SCAN, _JFIF, _EXIF, _ADOBE = 0xC0, 0xDA, 0xE0, 0xE1, 0xEE
_OTHER_FRAMES = frozenset(range(0xC1, 0xD0)) - {0xC4, 0xC8, 0xCC}
_TURN = 0x0112


class JpegFacts(NamedTuple):
    """What must be known of a JPEG before it is decoded."""

    width: int
    height: int
    """of the stored picture, before it is turned upright"""
    turn: int
    """EXIF orientation, 1 to 8"""


def jpeg_facts(data: bytes) -> JpegFacts | None:
    """None for files that are to be decoded with Pillow."""
    if data[:2] != b"\xff\xd8":
        return None
    size: tuple[int, int] | None = None
    is_jfif, has_exif, n_components, ids = False, False, 0, b""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 2 + length]
        if marker == _BASELINE:
            size, ids = _frame(body)
            n_components = len(ids)
        elif marker in _OTHER_FRAMES or (marker == _ADOBE and not _is_ycc(body)):
            return None
        elif marker == _JFIF:
            is_jfif = is_jfif or body.startswith(b"JFIF\0")
        elif marker == _EXIF:
            has_exif = True
        elif marker == _SCAN:
            is_plain = size is not None and body[:1] == bytes([n_components])
            if not is_plain or not (is_jfif or ids in (b"\x01", b"\x01\x02\x03")):
                return None
            assert size is not None
            return JpegFacts(*size, _orientation(data) if has_exif else 1)
        at += 2 + length
    return None


def _frame(body: bytes) -> tuple[tuple[int, int] | None, bytes]:
    """Width and height of a frame that is taken, and the names of its components."""
    if len(body) < 9 or body[0] != 8:
        return None, b""
    height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    parts = [body[6 + 3 * index : 9 + 3 * index] for index in range(body[5])]
    ids = bytes(part[0] for part in parts if len(part) == 3)
    sampling = tuple((part[1] >> 4, part[1] & 15) for part in parts if len(part) == 3)
    is_taken = len(sampling) == 1 or sampling in _SAMPLINGS
    is_sized = min(height, width) >= LEAST_SIDE and max(height, width) <= MOST_SIDE
    return ((width, height), ids) if is_taken and is_sized else (None, b"")


def _is_ycc(adobe: bytes) -> bool:
    """Does Adobe's marker say YCbCr?"""
    return adobe.startswith(b"Adobe") and len(adobe) >= 12 and adobe[11] == 1


def _orientation(data: bytes) -> int:
    """As Pillow reads it, from EXIF or XMP."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        turn = image.getexif().get(_TURN, 1)
    return int(turn) if turn in range(1, 9) else 1
