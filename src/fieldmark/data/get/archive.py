"""Archive reader: how are tar and zip files opened, whichever way and in how many parts they lie?

Reads tar, tar.gz, tar.bz2, tar.xz and zip files. Parts of an archive are read as one file. Damage
is told as `DataError`, never passed over: `tarfile` takes a broken header in the middle for the
end of the archive. Nothing is written here.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from fieldmark.data._bytes import LastReadFile
from fieldmark.errors import DataError

_BLOCK = 1 << 20


class BeforeStart(OSError):
    """A place before the beginning of a file, which `zipfile` asks for when sizes lie."""


SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError,
    BeforeStart, NotImplementedError, RecursionError, UnicodeError,
)  # fmt: skip
"""the last three: what `zipfile` says of versions and compressions it does not know, of headers in
headers in headers, of names that are no text"""
MOST_HEADER_BYTES = 1 << 20
"""of the headers of one member (names, pax headers), which are held in memory as a whole"""
MOST_TRAILING_BYTES = 10_000_000
"""zeros behind the end: tar fills its last record"""


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


@contextmanager
def open_archive(
    paths: Sequence[Path], name: str, on_bytes: Callable[[int], None], most_bytes: int
) -> Iterator[zipfile.ZipFile | Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]]:
    """A zip file, or the members of a tar file, in order. `on_bytes` counts packed bytes;
    `most_bytes` bounds what a tar file unpacks to, headers and all.
    """
    packed: Any = io.BufferedReader(_JoinedFiles(paths, on_bytes), 1 << 18)
    with packed:
        try:
            if name.lower().endswith(".zip"):
                with zipfile.ZipFile(packed) as zipped:
                    yield zipped
            else:
                yield _tar_members(_BoundedFile(_unpacked(name.lower(), packed), most_bytes))
        except DAMAGE as error:
            where = ", ".join(str(path) for path in paths)
            raise DataError(
                f"{where}  is damaged ({error or type(error).__name__}): remove it and run the "
                "same command again."
            ) from error


class _BoundedFile(LastReadFile):
    """Ends what would fill the memory, or take for ever."""

    def __init__(self, file: Any, most_bytes: int) -> None:
        super().__init__(file)
        self.most_bytes = most_bytes
        self.header_bytes: int | None = 0
        """read of the next member's headers; None while a member is read"""

    def read(self, n: int = -1) -> bytes:
        if self.header_bytes is not None:
            self.header_bytes += n
            if n < 0 or self.header_bytes > MOST_HEADER_BYTES:
                raise tarfile.ReadError(f"headers of {self.header_bytes:,} bytes")
        if self.tell() > self.most_bytes:
            raise tarfile.ReadError(f"more than {self.most_bytes:,} bytes, headers included")
        return super().read(n)


def _tar_members(file: _BoundedFile) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    with tarfile.open(fileobj=cast(Any, file), mode="r:") as opened:
        tar: Any = opened
        while (info := tar.next()) is not None:
            tar.members.clear()  # two million of them would fill the memory
            if info.size < 0:  # the next header would be this one again
                raise tarfile.ReadError(f"{info.name[:80]!r} has {info.size:,} bytes")
            file.header_bytes = None
            yield tar, info
            file.header_bytes = 0
    ended_at, n_behind, file.header_bytes = file.last, 0, None
    while block := file.read(_BLOCK):  # the checksum of what is packed stands behind it
        n_behind += len(block)
        if n_behind > MOST_TRAILING_BYTES:
            raise tarfile.ReadError(f"more than {MOST_TRAILING_BYTES:,} bytes behind its end")
    if ended_at.strip(b"\0"):
        raise tarfile.ReadError("a header in the middle is broken")


def _unpacked(name: str, packed: Any) -> Any:
    if name.endswith("gz"):
        return gzip.GzipFile(fileobj=packed)
    if name.endswith("bz2"):
        return bz2.BZ2File(packed)
    if name.endswith("xz"):
        return lzma.LZMAFile(packed)
    return packed


class _JoinedFiles(io.RawIOBase):
    """Several files read as one."""

    def __init__(self, paths: Sequence[Path], on_bytes: Callable[[int], None]) -> None:
        self._saw, self._at = on_bytes, 0
        self._files = [path.open("rb") for path in paths]
        self._sizes = [path.stat().st_size for path in paths]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: sum(self._sizes)}[whence]
        if start + offset < 0:
            raise BeforeStart(errno.EINVAL, "a place before the beginning")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        start = 0
        for file, size in zip(self._files, self._sizes, strict=True):
            if self._at < start + size:
                file.seek(self._at - start)
                n = file.readinto(memoryview(buffer)[: start + size - self._at])
                self._at += n
                self._saw(n)
                return n
            start += size
        return 0

    def close(self) -> None:
        for file in self._files:
            file.close()
        super().close()
