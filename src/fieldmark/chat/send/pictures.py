"""Pictures as they are sent: which bytes go on the wire, and how are they made in time?

The original bytes, but for metadata, when the provider takes them: re-encoding takes time and
alters the picture. Otherwise the same pixels always become the same bytes: upright, cut, shrunk
with Lanczos, JPEG; sizes, quality and hash are recorded. Providers may shrink again silently.

Reading and shrinking run in a few threads; a picture that several requests want at the same moment
is prepared once.
"""

from __future__ import annotations

import asyncio
import binascii
import hashlib
import io
import math
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from PIL import Image

from fieldmark.chat.messages import Box, Picture, PictureKey
from fieldmark.chat.send.metadata import without_metadata
from fieldmark.data import ImageHeader, open_image, quick_check, read_header
from fieldmark.errors import DataError

MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
QUALITY = 92
_LEAST_QUALITY = 60
_PLAIN_MODES = ("RGB", "L", "P", "RGBA", "1", "LA")
_ON_THEIR_SIDE = (5, 6, 7, 8)


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """What an endpoint takes per image."""

    long_px: int | None = None
    """longest side"""
    n_bytes: int | None = None
    """encoded, before base64"""


NO_LIMITS = PictureLimits()


@dataclass(frozen=True, slots=True)
class PictureSize:
    """What a picture takes up in a request."""

    width: int
    height: int
    n_bytes: int
    """in base64"""


@dataclass(frozen=True, slots=True)
class SentPicture:
    """A picture as it goes on the wire."""

    base64: str
    media_type: str
    width: int
    height: int
    sha256: str
    """of the bytes before base64"""
    note: str = ""
    """what was done to it; "" = sent as it is, but for metadata"""

    @property
    def size(self) -> PictureSize:
        return PictureSize(self.width, self.height, len(self.base64))


def prepare(picture: Picture, limits: PictureLimits = NO_LIMITS) -> SentPicture:
    """Reads a picture and makes it fit. `DataError` names one that cannot be read."""
    data = picture.read()
    header = _header(picture, data)
    size = header.width, header.height
    kind = "JPEG" if header.format == "MPO" else header.format
    is_upright = header.orientation == 1 and not header.is_moving
    is_taken = kind in MEDIA_TYPES and header.mode in _PLAIN_MODES and is_upright
    bare = without_metadata(data, kind) if is_taken and _is_whole(picture.crop, size) else None
    if bare is not None and _fits(size, bare, limits):
        return _sent(bare, MEDIA_TYPES[kind], size, "")
    return _redrawn(picture, data, limits)


def _header(picture: Picture, data: bytes) -> ImageHeader:
    name = picture.name or "picture"
    if reason := quick_check(data):
        raise DataError(f"{name}  {reason}.")
    return read_header(data, name=name)


def _fits(size: tuple[int, int], data: bytes, limits: PictureLimits) -> bool:
    is_small = limits.long_px is None or max(size) <= limits.long_px
    return is_small and (limits.n_bytes is None or len(data) <= limits.n_bytes)


def _is_whole(crop: Box | None, size: tuple[int, int]) -> bool:
    return crop is None or tuple(crop) == (0, 0, *size)


def _redrawn(picture: Picture, data: bytes, limits: PictureLimits) -> SentPicture:
    image = open_image(data, picture.crop, name=picture.name or "picture")
    before = image.size
    image = shrunk(image, (limits.long_px or max(before)) / max(before))
    quality, made = QUALITY, _jpeg(image, QUALITY)
    while limits.n_bytes is not None and len(made) > limits.n_bytes and min(image.size) > 1:
        if quality > _LEAST_QUALITY:
            quality -= 8
        else:
            image = shrunk(image, 0.8)
        made = _jpeg(image, quality)
    note = (
        f"{before[0]}×{before[1]} → {image.width}×{image.height} jpeg quality {quality} "
        f"from {hashlib.sha256(data).hexdigest()[:16]}"
    )
    return _sent(made, "image/jpeg", image.size, note)


def shrunk(image: Image.Image, scale: float) -> Image.Image:
    if scale >= 1:
        return image
    width, height = (max(1, round(side * scale)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _jpeg(image: Image.Image, quality: int) -> bytes:
    target = io.BytesIO()
    image.save(target, "JPEG", quality=quality, subsampling=0 if quality >= 90 else 2)
    made = target.getvalue()
    return without_metadata(made, "JPEG") or made  # Pillow hands comments on


def _sent(data: bytes, media_type: str, size: tuple[int, int], note: str) -> SentPicture:
    digest = hashlib.sha256(data).hexdigest()
    encoded = binascii.b2a_base64(data, newline=False).decode("ascii")
    return SentPicture(encoded, media_type, *size, digest, note)


def glance(picture: Picture, limits: PictureLimits = NO_LIMITS) -> PictureSize:
    """What a picture will take up, from its header: exact but for the bytes of one that is redrawn.

    `DataError` names one that cannot be read.
    """
    data = picture.read()
    header = _header(picture, data)
    size = header.width, header.height
    size = size[::-1] if header.orientation in _ON_THEIR_SIDE else size
    width, height = size if picture.crop is None else picture.crop[2:]
    scale = min(1.0, (limits.long_px or math.inf) / max(width, height, 1))
    n_bytes = min(len(data) * scale**2, limits.n_bytes or math.inf)
    return PictureSize(round(width * scale), round(height * scale), round(n_bytes * 4 / 3))


class PictureCache:
    """Pictures that are measured for a prompt, sent, and shown by many requests, prepared once.

    Bounded by bytes: the least recently used go first, and of them the size is kept.
    """

    def __init__(self, limits: PictureLimits = NO_LIMITS, most_bytes: int = 128 << 20) -> None:
        self.limits, self.most_bytes = limits, most_bytes
        self._kept: OrderedDict[PictureKey, SentPicture] = OrderedDict()
        self._sizes: dict[PictureKey, PictureSize] = {}
        self._bytes = 0

    def get(self, picture: Picture) -> SentPicture | None:
        key = picture.cache_key
        if key is None or key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def put(self, picture: Picture, sent: SentPicture) -> None:
        key = picture.cache_key
        if key is None or key in self._kept:
            return
        if len(sent.base64) > self.most_bytes // 4:
            self._sizes[key] = sent.size
            return
        self._kept[key] = sent
        self._bytes += len(sent.base64)
        while self._bytes > self.most_bytes:
            name, oldest = self._kept.popitem(last=False)
            self._sizes[name] = oldest.size
            self._bytes -= len(oldest.base64)

    def prepare(self, picture: Picture) -> SentPicture:
        sent = self.get(picture)
        if sent is None:
            sent = prepare(picture, self.limits)
            self.put(picture, sent)
        return sent

    def size(self, picture: Picture) -> PictureSize:
        key = picture.cache_key
        size = self._sizes.get(key) if key else None
        return size or self.prepare(picture).size


_THREADS = 4
_AT_ONCE_BYTES = 400_000
"""bytes in memory up to this size are hashed on the spot: a thread would take longer"""


class PicturePreparer:
    """Prepares pictures in threads, beside an event loop."""

    def __init__(self, cache: PictureCache) -> None:
        self._cache = cache
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="pictures")
        self._coming: dict[PictureKey, asyncio.Future[SentPicture]] = {}

    async def all(self, pictures: Sequence[Picture]) -> list[SentPicture]:
        """The pictures as they will be sent, in their order."""
        return [await self._one(picture) for picture in pictures]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _one(self, picture: Picture) -> SentPicture:
        sent = self._cache.get(picture)
        if sent is not None:
            return sent
        source = picture.source
        if isinstance(source, bytes) and len(source) <= _AT_ONCE_BYTES and picture.crop is None:
            return self._cache.prepare(picture)
        key = picture.cache_key
        coming = self._coming.get(key) if key else None
        if coming is None:
            coming = asyncio.ensure_future(self._read(picture))
            # Whoever waits gets the error; when nobody does any more, it is nobody's.
            coming.add_done_callback(lambda done: done.cancelled() or done.exception())
            if key:
                self._coming[key] = coming
                coming.add_done_callback(lambda _: self._coming.pop(key, None))
        return await asyncio.shield(coming)

    async def _read(self, picture: Picture) -> SentPicture:
        loop = asyncio.get_running_loop()
        sent = await loop.run_in_executor(self._pool, prepare, picture, self._cache.limits)
        self._cache.put(picture, sent)
        return sent
