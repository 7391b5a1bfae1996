"""Tar stream (USTAR, GNU, pax): which members does a tar file hold, and is it whole?

Only headers are read, or every byte where a hash of the file is wanted too. Unlike `tarfile`, which
takes any end of the file for the archive's, this reader wants the end mark (two blocks of zeros): a
file that was cut between two members is noticed. Nothing is known here of samples and keys.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fieldmark.data import is_packed
from fieldmark.errors import DataError

BLOCK = tarfile.BLOCKSIZE
SHARD_SUFFIXES = (".tar", ".tar.gz", ".tgz")
FILE_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
CHUNK = 1 << 20
END_MARK = bytes(2 * BLOCK)
_BUFFER = 1 << 14
"""holds the text members of a sample, but few images that would only be passed over"""
_MAX_EXTENDED = 1 << 20
"""bytes of an extended header (a long name); a larger one is damage"""
_ZEROS = bytes(BLOCK)
_WITHOUT_DATA = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
)  # fmt: skip
_EXTENDED = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip


class Defect(NamedTuple):
    """Something wrong with a shard, or (`is_note`) passed over as webdataset does."""

    kind: str
    """one word: "cut_off", "key_again" """
    offset: int
    key: str
    """of the sample it belongs to; "" = none"""
    text: str
    """what a person reads behind the shard's name"""
    is_note: bool = False

    def line(self, path: Path) -> str:
        """`shard.tar  at byte 512, key 'a': is cut off inside member 'a.jpg'.`"""
        key = f", key {self.key!r}" if self.key else ""
        return f"{path}  at byte {self.offset:,}{key}: {self.text}."


class TarEntry(NamedTuple):
    name: str
    kind: bytes
    offset: int
    """of its first byte"""
    size: int

    @property
    def header(self) -> int:
        return self.offset - BLOCK


def padded(n_bytes: int) -> int:
    """Rounded up to whole blocks."""
    return -(-n_bytes // BLOCK) * BLOCK


def tar_member(name: str, data: bytes) -> bytes:
    """A file as a tar file holds it (header, bytes, padding), with a fixed time, owner and mode."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    return header + data + bytes(padded(len(data)) - len(data))


# --- bytes ---


def open_file(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=_BUFFER)
    except OSError as error:
        raise DataError(f"{path}  cannot be read: {error.strerror or error}.") from error


class TarBytes:
    """The unpacked bytes of a shard, from front to back."""

    def __init__(self, path: Path, on_bytes: Callable[[bytes], None] | None = None) -> None:
        """`on_bytes` is given every byte; without it members are passed over where they can be."""
        self.path, self.at = path, 0
        self.content_end = -1
        """where the end mark begins, once it was read"""
        self._on_bytes = on_bytes
        self._raw = open_file(path)
        self.n_bytes = os.fstat(self._raw.fileno()).st_size
        """of the file as it is"""
        self._file: Any = gzip.GzipFile(fileobj=self._raw) if is_packed(path) else self._raw

    def read(self, n: int) -> bytes:
        """Fewer only at the end."""
        data: bytes = self._file.read(n)
        self.at += len(data)
        if self._on_bytes is not None:
            self._on_bytes(data)
        return data

    def skip_to(self, position: int) -> None:
        """Moves on to a place, or to the end where that comes first."""
        if self._on_bytes is None and self._file is self._raw:
            self.at = min(position, self.n_bytes)
            self._file.seek(self.at)
        while self.at < position and self.read(min(CHUNK, position - self.at)):
            pass

    def close(self) -> None:
        self._raw.close()

    def __enter__(self) -> TarBytes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- members ---


def read_entries(stream: TarBytes) -> Iterator[TarEntry | Defect]:
    try:
        yield from _read_entries(stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        text = f"is packed data that is damaged or cut off ({str(error).rstrip('.')})"
        yield Defect("cut_off", stream.at, "", text)
    except OSError as error:
        raise DataError(f"{stream.path}  cannot be read: {error.strerror or error}.") from error


def _read_entries(stream: TarBytes) -> Iterator[TarEntry | Defect]:
    every: dict[str, str] = {}
    entry_fields: dict[str, str] = {}
    while True:
        at = stream.at
        block = stream.read(BLOCK)
        if len(block) < BLOCK:
            yield _cut(at, stream.at)
            return
        if block == _ZEROS:
            yield from _ending(stream, at)
            return
        try:
            name, kind, size = _plain_file(block) or _any_header(block)
            if kind in _EXTENDED:
                fields = _fields(stream, kind, size)
                (every if kind == tarfile.XGLTYPE else entry_fields).update(fields)
                continue
            entry = _entry(
                name, kind, size, every | entry_fields if every else entry_fields, at + BLOCK
            )
        except (tarfile.HeaderError, ValueError) as error:
            text = "is not a tar file" if at == 0 else f"has a damaged header ({error})"
            yield Defect("no_tar" if at == 0 else "bad_header", at, "", text)
            return
        entry_fields = {}
        has_data = entry.kind not in _WITHOUT_DATA
        end = entry.offset + entry.size if has_data else entry.offset
        stream.skip_to(padded(end))
        if stream.at < end:
            text = f"is cut off inside member {entry.name!r}: {end - stream.at:,} bytes are missing"
            yield Defect("cut_off", stream.at, "", text)
            return
        yield entry


def _plain_file(block: bytes) -> tuple[str, bytes, int] | None:
    """Name, type and size of an ordinary file; None = look closer. `tarfile` takes five times as
    long for a header, and shards have a dozen of them for each image.
    """
    kind, checksum, size = block[156:157], block[148:156], block[124:136]
    if kind != tarfile.REGTYPE:
        return None
    try:
        is_sound = int(checksum.strip(b" \0"), 8) == sum(block) - sum(checksum) + 256
        n_bytes = int(size.strip(b" \0"), 8)
    except ValueError:
        return None
    name, prefix = (block[a:b].partition(b"\0")[0] for a, b in ((0, 100), (345, 500)))
    whole = prefix + b"/" + name if prefix else name
    return (whole.decode("utf-8", "surrogateescape"), kind, n_bytes) if is_sound else None


def _any_header(block: bytes) -> tuple[str, bytes, int]:
    header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    return header.name, header.type, header.size


def _cut(start: int, end: int) -> Defect:
    if end == 0:
        return Defect("cut_off", 0, "", "is empty (0 bytes)")
    if start == end and start % BLOCK == 0:
        text = "has no end mark: the shard is cut off between two members"
        return Defect("cut_off", end, "", text)
    return Defect("cut_off", end, "", "is cut off inside a header or the padding before it")


def _ending(stream: TarBytes, at: int) -> Iterator[Defect]:
    """Two blocks of zeros, then nothing but zeros."""
    stream.content_end = at
    part = stream.read(BLOCK)
    if len(part) < BLOCK:
        yield Defect("cut_off", stream.at, "", "is cut off inside its end mark")
        return
    while part and part.count(0) == len(part):
        part = stream.read(CHUNK)
    if part:
        text = "contains more after its end mark, which readers never see (were files joined?)"
        yield Defect("data_after_end", at, "", text)
    while stream.read(CHUNK):  # `on_bytes` wants all of it, and gzip checks itself at the end
        pass


def _fields(stream: TarBytes, kind: bytes, size: int) -> dict[str, str]:
    """What an extended header says: a name too long for an ordinary one, a size too large."""
    if size > _MAX_EXTENDED:
        raise ValueError(f"an extended header of {size:,} bytes")
    data = stream.read(padded(size))[:size]  # if it is cut, the next header is missing
    if len(data) < size:
        return {}
    if kind == tarfile.GNUTYPE_LONGNAME:
        return {"path": data.partition(b"\0")[0].decode("utf-8", "surrogateescape")}
    return {} if kind == tarfile.GNUTYPE_LONGLINK else dict(_records(data))


def _records(data: bytes) -> Iterator[tuple[str, str]]:
    """`LENGTH KEYWORD=VALUE\\n`, the length that of the whole record (POSIX pax)."""
    while data.strip(b"\0"):
        length, space, _ = data.partition(b" ")
        if not space or not length.isdigit() or not len(length) + 2 < int(length) <= len(data):
            raise ValueError("an extended header that is damaged")
        record, data = data[len(length) + 1 : int(length) - 1], data[int(length) :]
        keyword, _, value = record.partition(b"=")
        yield keyword.decode("utf-8", "replace"), value.decode("utf-8", "surrogateescape")


def _entry(name: str, kind: bytes, size: int, fields: dict[str, str], offset: int) -> TarEntry:
    if fields:
        name, size = fields.get("path", name), int(fields.get("size", size))
        if any(field.startswith("GNU.sparse") for field in fields):
            kind = tarfile.GNUTYPE_SPARSE
    if size < 0:
        raise ValueError(f"a size of {size}")
    return TarEntry(name, kind, offset, size)
