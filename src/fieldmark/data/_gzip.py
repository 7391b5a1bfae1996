"""Random access to gzip files, and the LRU cache that keeps what was unpacked.

The file is unpacked once, forwards, in spans; at the start of each the state (about 40 KB) of the
unpacker is noted, so any span can be unpacked again from there. Spans used last stay in memory.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Generic, TypeVar, cast

from fieldmark.errors import DataError

if TYPE_CHECKING:
    Inflate = zlib._Decompress


Value = TypeVar("Value")
_EMPTY = object()


class _CacheSlot:
    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: object = _EMPTY


class LruCache(Generic[Value]):
    """At most `most` values; the one unused for longest makes room.

    Each value is made once even when several threads want it at the same moment, and the making of
    one never waits for another's.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[Hashable, _CacheSlot] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value under `key`, made now if need be. When `make` raises, nothing is kept."""
        with self._lock:
            entry = self._entries.setdefault(key, _CacheSlot())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.value is _EMPTY:
                entry.value = make()
            return cast(Value, entry.value)

    def __len__(self) -> int:
        return len(self._entries)


SPAN = 16 << 20
CHUNK = 1 << 18
_SPANS: LruCache[bytes] = LruCache(most=6)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A place in the packed file from which unpacking can go on."""

    at: int
    inflate: Inflate
    is_fresh: bool
    """at the head of a gzip member, where the file may also end"""


class Gunzip:
    """The unpacked content of one gzip file, for reading anywhere, from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks = [_Mark(0, _new_inflate(), is_fresh=True)]
        self._n_spans: int | None = None
        self._lock = threading.Lock()

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end of the content."""
        parts: list[bytes] = []
        while size > 0:
            span = self._span(offset // SPAN)
            part = span[offset % SPAN : offset % SPAN + size]
            if not part:
                break
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def _span(self, index: int) -> bytes:
        while len(self._marks) <= index and self._n_spans is None:
            self._kept_span(len(self._marks) - 1)
        if self._n_spans is not None and index >= self._n_spans:
            return b""
        return self._kept_span(index)

    def _kept_span(self, index: int) -> bytes:
        # Under this object, not under the path: another one has not passed the marks before it.
        return _SPANS.get((self, index), lambda: self._unpack_span(index))

    def _unpack_span(self, index: int) -> bytes:
        with self._path.open("rb") as file:
            try:
                content, mark = _unpack(file, self._marks[index])
            except (zlib.error, EOFError) as error:
                raise DataError(f"{self._path}  is damaged: {error}. Fetch it again.") from error
        with self._lock:
            if mark is None:
                self._n_spans = index + 1
            elif len(self._marks) == index + 1:
                self._marks.append(mark)
        return content


def _new_inflate() -> Inflate:
    return zlib.decompressobj(wbits=31)


def _unpack(file: BinaryIO, mark: _Mark) -> tuple[bytes, _Mark | None]:
    """One span from the mark on, and the mark of the next (None at the end of the file)."""
    inflate, at, is_fresh = mark.inflate.copy(), mark.at, mark.is_fresh
    content = bytearray()
    while len(content) < SPAN:
        file.seek(at)
        chunk = file.read(CHUNK)
        if is_fresh and not chunk.strip(b"\0"):
            return bytes(content), None  # zeros after the last member are padding
        piece = inflate.decompress(chunk, SPAN - len(content))
        content += piece
        if not chunk and not piece and not inflate.eof:
            raise EOFError("the file is cut off")
        at += len(chunk) - len(inflate.unused_data if inflate.eof else inflate.unconsumed_tail)
        is_fresh = inflate.eof
        if inflate.eof:
            inflate = _new_inflate()
    return bytes(content), _Mark(at, inflate, is_fresh)
