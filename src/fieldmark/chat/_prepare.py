"""How are a request's pictures read without holding up the others?

Reading and shrinking run in a few threads; a picture that several requests want at the same moment
is prepared once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fieldmark.chat._messages import Picture, Spot
from fieldmark.chat._pictures import PictureLimits, SentPicture, Shelf, prepare

_THREADS = 4
_AT_ONCE_BYTES = 400_000
"""bytes in memory up to this size are hashed on the spot: a thread would take longer"""


class Preparer:
    def __init__(self, limits: PictureLimits) -> None:
        self._shelf = Shelf(limits)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="pictures")
        self._coming: dict[Spot, asyncio.Future[SentPicture]] = {}

    async def all(self, pictures: Sequence[Picture]) -> list[SentPicture]:
        """The pictures as they will be sent, in their order."""
        return [await self._one(picture) for picture in pictures]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _one(self, picture: Picture) -> SentPicture:
        found = self._shelf.get(picture)
        if found is not None:
            return found
        source = picture.source
        if isinstance(source, bytes) and len(source) <= _AT_ONCE_BYTES and picture.crop is None:
            return self._shelf.prepare(picture)
        spot = picture.spot
        coming = self._coming.get(spot) if spot else None
        if coming is None:
            coming = asyncio.ensure_future(self._read(picture))
            # Whoever waits gets the error; when nobody does any more, it is nobody's.
            coming.add_done_callback(lambda done: done.cancelled() or done.exception())
            if spot:
                self._coming[spot] = coming
                coming.add_done_callback(lambda _: self._coming.pop(spot, None))
        return await asyncio.shield(coming)

    async def _read(self, picture: Picture) -> SentPicture:
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._pool, prepare, picture, self._shelf.limits)
        self._shelf.put(picture, made)
        return made
