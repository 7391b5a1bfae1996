"""Which bytes of a picture go on the wire?

The original ones when the provider takes them: re-encoding takes time and alters the picture.
Otherwise the same pixels always become the same bytes: upright, cut,
shrunk with Lanczos, JPEG; sizes, quality and hash are recorded. Providers may shrink again
silently.
"""

from __future__ import annotations

import binascii
import hashlib
import io
from collections import OrderedDict
from dataclasses import dataclass

from PIL import Image

from fieldmark.chat._jpeg_header import plain_jpeg_size
from fieldmark.chat._messages import Box, Picture, Spot
from fieldmark.data import open_image, quick_check
from fieldmark.errors import DataError

MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
QUALITY = 92
_LEAST_QUALITY = 60
_PLAIN_MODES = ("RGB", "L", "P", "RGBA", "1", "LA")
_ORIENTATION = 0x0112


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """What an endpoint takes per image."""

    long_px: int | None = None
    """longest side"""
    n_bytes: int | None = None
    """encoded, before base64"""


NO_LIMITS = PictureLimits()


@dataclass(frozen=True, slots=True)
class SentPicture:
    """A picture as it goes on the wire."""

    base64: bytes
    media_type: str
    width: int
    height: int
    sha256: str
    """of the bytes before base64"""
    note: str = ""
    """what was done to it; "" = sent as it is"""

    @property
    def n_bytes(self) -> int:
        return len(self.base64) * 3 // 4


def prepare(picture: Picture, limits: PictureLimits = NO_LIMITS) -> SentPicture:
    """Reads a picture and makes it fit. `DataError` names one that cannot be read."""
    data = picture.read()
    plain = plain_jpeg_size(data)
    if plain is not None and _fits(plain, data, limits) and _is_whole(picture.crop, plain):
        return _sent(data, "image/jpeg", plain, "")
    return _prepared(picture, data, limits)


def _prepared(picture: Picture, data: bytes, limits: PictureLimits) -> SentPicture:
    reason = quick_check(data)
    if reason:
        raise DataError(f"{picture.name or 'picture'}  {reason}.")
    with Image.open(io.BytesIO(data)) as header:
        kind, size, mode = header.format or "", header.size, header.mode
        is_turned = header.getexif().get(_ORIENTATION, 1) not in (0, 1)
        is_moving = getattr(header, "is_animated", False)
    is_taken = kind in MEDIA_TYPES and mode in _PLAIN_MODES and not (is_turned or is_moving)
    if is_taken and _fits(size, data, limits) and _is_whole(picture.crop, size):
        return _sent(data, MEDIA_TYPES[kind], size, "")
    return _redrawn(picture, data, limits)


def _fits(size: tuple[int, int], data: bytes, limits: PictureLimits) -> bool:
    is_small = limits.long_px is None or max(size) <= limits.long_px
    return is_small and (limits.n_bytes is None or len(data) <= limits.n_bytes)


def _is_whole(crop: Box | None, size: tuple[int, int]) -> bool:
    return crop is None or tuple(crop) == (0, 0, *size)


def _redrawn(picture: Picture, data: bytes, limits: PictureLimits) -> SentPicture:
    image = open_image(data, picture.crop, name=picture.name or "picture")
    before = image.size
    image = _shrunk(image, (limits.long_px or max(before)) / max(before))
    quality, made = QUALITY, _jpeg(image, QUALITY)
    while limits.n_bytes is not None and len(made) > limits.n_bytes and min(image.size) > 1:
        if quality > _LEAST_QUALITY:
            quality -= 8
        else:
            image = _shrunk(image, 0.8)
        made = _jpeg(image, quality)
    note = (
        f"{before[0]}×{before[1]} → {image.width}×{image.height} jpeg quality {quality} "
        f"from {hashlib.sha256(data).hexdigest()[:16]}"
    )
    return _sent(made, "image/jpeg", image.size, note)


def _shrunk(image: Image.Image, scale: float) -> Image.Image:
    if scale >= 1:
        return image
    width, height = (max(1, round(side * scale)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _jpeg(image: Image.Image, quality: int) -> bytes:
    target = io.BytesIO()
    image.save(target, "JPEG", quality=quality, subsampling=0 if quality >= 90 else 2)
    return target.getvalue()


def _sent(data: bytes, media_type: str, size: tuple[int, int], note: str) -> SentPicture:
    digest = hashlib.sha256(data).hexdigest()
    return SentPicture(binascii.b2a_base64(data, newline=False), media_type, *size, digest, note)


class Shelf:
    """Pictures many requests share (the shots of a prompt), prepared once.

    Bounded by bytes: what was not used for longest goes first.
    """

    def __init__(self, limits: PictureLimits = NO_LIMITS, most_bytes: int = 128 << 20) -> None:
        self.limits, self.most_bytes = limits, most_bytes
        self._held: OrderedDict[Spot, SentPicture] = OrderedDict()
        self._bytes = 0

    def get(self, picture: Picture) -> SentPicture | None:
        spot = picture.spot
        found = self._held.get(spot) if spot else None
        if spot and found is not None:
            self._held.move_to_end(spot)
        return found

    def put(self, picture: Picture, sent: SentPicture) -> None:
        spot = picture.spot
        if not spot or spot in self._held or len(sent.base64) > self.most_bytes // 4:
            return
        self._held[spot] = sent
        self._bytes += len(sent.base64)
        while self._bytes > self.most_bytes:
            _, gone = self._held.popitem(last=False)
            self._bytes -= len(gone.base64)

    def prepare(self, picture: Picture) -> SentPicture:
        found = self.get(picture)
        if found is None:
            found = prepare(picture, self.limits)
            self.put(picture, found)
        return found
