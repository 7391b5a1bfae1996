"""Archive reader: the members of tar and zip files, whichever way they are packed.

Gives the members of tar, tar.gz, tar.bz2, tar.xz and zip files one after the other. An archive may
lie in several parts, which are read as one. Damage is told as `DataError`, never passed over: a tar
file whose middle is broken does not simply end there. Nothing is written here.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fieldmark.errors import DataError

_BLOCK = 1 << 20
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError,
    NotImplementedError,
)  # fmt: skip
"""the last: what `zipfile` says of versions and compressions it does not know"""


@dataclass(frozen=True, slots=True)
class Member:
    """One entry; `kind` is file, folder, link (to `leads_to`), twin (hard link), or other."""

    name: str
    kind: str
    size: int
    leads_to: str
    open: Callable[[], IO[bytes]]


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


@contextmanager
def open_archive(
    paths: Sequence[Path], name: str, on_bytes: Callable[[int], None]
) -> Iterator[Iterator[Member]]:
    """The members, in order; each must be read before the next. `on_bytes` counts packed bytes."""
    packed: Any = io.BufferedReader(_JoinedFiles(paths, on_bytes), 1 << 18)
    with packed:
        try:
            if name.lower().endswith(".zip"):
                with zipfile.ZipFile(packed) as zipped:
                    yield _zip_members(zipped)
            else:
                yield _tar_members(name, packed)
        except DAMAGE as error:
            where = ", ".join(str(path) for path in paths)
            raise DataError(
                f"{where}  is damaged ({error or type(error).__name__}): remove it and run the "
                "same command again."
            ) from error


def _zip_members(zipped: zipfile.ZipFile) -> Iterator[Member]:
    for info in zipped.infolist():
        if info.flag_bits & 1:
            raise zipfile.BadZipFile(f"{info.filename} needs a password")
        mode = info.external_attr >> 16
        kind = "folder" if info.is_dir() else "file"
        target = ""
        if stat.S_ISLNK(mode):
            kind = "link"
            target = zipped.read(info).decode(errors="replace") if info.file_size < 4096 else ""
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            kind = "other"
        yield Member(info.filename, kind, info.file_size, target, _zip_opener(zipped, info))


def _zip_opener(zipped: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        try:
            return zipped.open(info)
        except RuntimeError as error:
            raise zipfile.BadZipFile(f"{info.filename}: {error}") from error

    return opened


def _tar_members(name: str, raw: IO[bytes]) -> Iterator[Member]:
    noted = _LastReadFile(_unpacked(name.lower(), raw))
    file: Any = noted
    with tarfile.open(fileobj=file, mode="r:") as opened:
        tar: Any = opened
        while (info := tar.next()) is not None:
            tar.members.clear()  # two million of them would fill the memory
            yield Member(info.name, _tar_kind(info), info.size, info.linkname, _opener(tar, info))
    ended_at = noted.last
    while noted.read(_BLOCK):
        pass  # the checksum of what is packed stands behind it, and is looked at only there
    if ended_at.strip(b"\0"):
        raise tarfile.ReadError("a header in the middle is broken")


def _opener(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        file = tar.extractfile(info)
        return file if file is not None else io.BytesIO()

    return opened


def _tar_kind(info: tarfile.TarInfo) -> str:
    kinds = {"file": info.isreg(), "folder": info.isdir(), "link": info.issym(),
             "twin": info.islnk()}  # fmt: skip
    return next((kind for kind, is_it in kinds.items() if is_it), "other")


def _unpacked(name: str, packed: IO[bytes]) -> Any:
    if name.endswith("gz"):
        return gzip.GzipFile(fileobj=packed)
    if name.endswith("bz2"):
        return bz2.BZ2File(packed)
    if name.endswith("xz"):
        return lzma.LZMAFile(packed)
    return packed


class _LastReadFile:
    """A file that remembers what was read last: the block at which `tarfile` ended."""

    def __init__(self, file: Any) -> None:
        self.file, self.last = file, b""
        self.seek, self.tell = file.seek, file.tell

    def read(self, n: int = -1) -> bytes:
        try:
            self.last = self.file.read(n)
        except OSError as error:
            if error.errno is None:  # not the disk's: bz2 says so of bytes that are not its own
                raise tarfile.ReadError(str(error)) from error
            raise
        return self.last


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
            raise OSError(22, "before the beginning")
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
