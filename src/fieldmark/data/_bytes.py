"""Image bytes: where the bytes of an image come from.

An image is named relative to its dataset's root, in one of three ways:

    photos/a.jpg                 a file
    shard.tar::folder/a.jpg      a member of a tar file (.tar, .tar.gz, .tgz)
    train.parquet::17            a row of a parquet file, column `image`: bytes, or the
                                 {bytes, path} pair that image datasets use
    train.parquet::17::photo     the same, another column

Safe to call from many threads. What is kept in memory is bounded: tar indexes, and the blocks of
parquet rows used last. A packed tar file (.tar.gz) can only be read forwards: it stays open, and
the members passed last are kept, so that threads which ask for them nearly in order read it once.
Whoever goes back further reads it from its start again. A file that changes on disk is read anew.
"""

from __future__ import annotations

import gzip
import stat
import tarfile
import threading
import zlib
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from fieldmark.errors import DataError, closest

if TYPE_CHECKING:
    import polars as pl


TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")
PARQUET_SUFFIX = ".parquet"
PARQUET_BLOCK_BYTES = 32 << 20

_ENCODED = "utf-8", "surrogatepass"

Key = tuple[str, int, int]
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


def read_bytes(root: Path, image: str) -> bytes:
    """The bytes of one image; `root` is the dataset's folder, or the table file in it."""
    name, inner = split_reference(image)
    path = locate(root, name)
    try:
        if not inner:
            if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
                raise DataError(f"{path}  is a pipe or a device, not a photo.")
            return path.read_bytes()
        if name.lower().endswith(PARQUET_SUFFIX):
            return _read_row(path, inner)
        return _read_member(path, inner)
    except FileNotFoundError as error:
        raise DataError(f"{path}  is missing.") from error
    except IsADirectoryError as error:
        raise DataError(f"{path}  is a folder, not an image file.") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}  cannot be read: {_reason(error)}.") from error


def split_reference(image: str) -> tuple[str, str]:
    """The file and what is in it: `a.tar::b/c.jpg` → `a.tar`, `b/c.jpg`; nothing → ""."""
    if "::" not in image:
        return image, ""
    name, _, inner = image.partition("::")
    is_container = name.lower().endswith((*TAR_SUFFIXES, PARQUET_SUFFIX))
    return (name, inner) if is_container else (image, "")


def archive_order(root: Path, images: Sequence[str]) -> list[str]:
    """Images of one archive in the order in which they lie in it; those it lacks come first."""
    name = split_reference(images[0])[0]
    inner = {image: split_reference(image)[1] for image in images}
    if name.lower().endswith(PARQUET_SUFFIX):
        return sorted(images, key=lambda image: _row_order(inner[image]))
    if not inner[images[0]]:
        return list(images)
    try:
        path = locate(root, name)
        members = _ARCHIVES.get(_key(path), lambda: _index_tar(path)).members
    except (DataError, OSError, ValueError):  # told when they are read
        return list(images)
    return sorted(images, key=lambda image: members.get(inner[image].removeprefix("./"), (-1, 0)))


def _row_order(inner: str) -> tuple[str, int]:
    row, _, column = inner.partition("::")
    return column, int(row) if row.isdecimal() else -1


def locate(root: Path, name: str) -> Path:
    """The path of a file under root; refuses names that lead out (links may point anywhere)."""
    base = base_folder(root)
    if not name or leads_out(name):
        raise DataError(
            f"{base}  image {name!r} is outside the dataset's folder: give a path inside it."
        )
    return base / name


def leads_out(name: str) -> bool:
    """Is this an absolute path, or one with `..`, on any system?"""
    if ".." not in name and ":" not in name and not name.startswith(("/", "\\")):
        return False  # nearly all of them: the readings below take ten times as long
    readings = (PurePosixPath(name), PureWindowsPath(name))
    return any(path.is_absolute() or ".." in path.parts for path in readings)


def base_folder(root: Path) -> Path:
    """The folder image paths start at: root, or the one that holds the table file root is."""
    return root.parent if root.is_file() else root


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).strip().rstrip(".")


def _key(path: Path) -> Key:
    state = path.stat()
    return str(path), state.st_mtime_ns, state.st_size


# --- tar ---


class _TarMembers(Mapping[str, tuple[int, int]]):
    """Name → offset and size, in the order of the archive. Packed: a dict takes five times as much,
    and a run over many shards fills the cache of them.
    """

    def __init__(self, members: dict[str, tuple[int, int]]) -> None:
        by_name = sorted((name.encode(*_ENCODED), span) for name, span in members.items())
        self._names = b"".join(name for name, _ in by_name)
        self._ends = array("q", accumulate(len(name) for name, _ in by_name))
        self._offsets = array("q", (offset for _, (offset, _) in by_name))
        self._sizes = array("q", (size for _, (_, size) in by_name))

    def __getitem__(self, name: str) -> tuple[int, int]:
        key = name.encode(*_ENCODED)
        at = bisect_left(range(len(self)), key, key=self._name)
        if at == len(self) or self._name(at) != key:
            raise KeyError(name)
        return self._offsets[at], self._sizes[at]

    def __iter__(self) -> Iterator[str]:
        for at in sorted(range(len(self)), key=self._offsets.__getitem__):
            yield self._name(at).decode(*_ENCODED)

    def __len__(self) -> int:
        return len(self._ends)

    def _name(self, at: int) -> bytes:
        return self._names[self._ends[at - 1] if at else 0 : self._ends[at]]


@dataclass(frozen=True, slots=True)
class _TarIndex:
    members: _TarMembers
    is_whole: bool


_ARCHIVES: LruCache[_TarIndex] = LruCache(most=64)


def is_packed(path: Path) -> bool:
    """Can this tar file only be read forwards?"""
    return path.name.lower().endswith("gz")


def _read_member(path: Path, member: str) -> bytes:
    key = _key(path)
    archive = _ARCHIVES.get(key, lambda: _index_tar(path))
    span = archive.members.get(member.removeprefix("./"))
    if span is None:
        tail = "" if archive.is_whole else " The archive is cut off: fetch it again."
        near = closest(member, archive.members, most=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(f"{path}  has no member {member!r}.{hint}{tail}")
    if is_packed(path):
        data = _PACKED.get(key, lambda: PackedFile(path)).read_at(*span)
    else:
        with path.open("rb") as file:
            file.seek(span[0])
            data = file.read(span[1])
    if len(data) < span[1]:
        raise DataError(f"{path}  is cut off inside member {member!r}: fetch it again.")
    return data


def tar_members(path: Path) -> tuple[Iterable[str], bool]:
    """Names of the files in a tar file, in its order, and whether the archive is whole."""
    archive = _ARCHIVES.get(_key(path), lambda: _index_tar(path))
    return archive.members, archive.is_whole


def _index_tar(path: Path) -> _TarIndex:
    members: dict[str, tuple[int, int]] = {}
    with gzip.open(path) if is_packed(path) else path.open("rb") as file:
        noted: Any = LastReadFile(file)
        try:
            with tarfile.open(fileobj=noted, mode="r:") as opened:
                archive: Any = opened
                for member in archive:
                    if member.isreg():
                        name = member.name.removeprefix("./")
                        members[name] = (member.offset_data, member.size)
                    archive.members.clear()  # it keeps all it has seen, 1 KB each
        except _DAMAGE as error:
            raise _damaged(path, error) from error
        except tarfile.TarError as error:
            if not members:
                raise DataError(
                    f"{path}  is not a tar file that can be read: {_reason(error)}."
                ) from error
            return _TarIndex(_TarMembers(members), is_whole=False)
    # `tarfile` takes any end of the file for the archive's, which is a block of zeros.
    is_whole = len(noted.last) == tarfile.BLOCKSIZE and not any(noted.last)
    return _TarIndex(_TarMembers(members), is_whole)


class LastReadFile:
    """A file that remembers what was read last: the block at which `tarfile` ended."""

    def __init__(self, file: Any) -> None:
        self.file, self.last = file, b""
        self.seek, self.tell = file.seek, file.tell

    def read(self, n: int = -1) -> bytes:
        try:
            self.last = self.file.read(n)
        except OSError as error:
            if error.errno is None:  # not the disk's: of bytes that were not packed so
                raise tarfile.ReadError(str(error)) from error
            raise
        return self.last


_DAMAGE = (zlib.error, EOFError)


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}  is damaged: {_reason(error)}. Fetch it again.")


class PackedFile:
    """The content of one gzip file, read forwards, with a window on what was read last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._rewind()

    def _rewind(self) -> None:
        self._file = gzip.open(self._path)  # noqa: SIM115 - open as long as this object lives
        self._window, self._start = bytearray(), 0

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end of the content."""
        with self._lock:
            if offset < self._start:
                self._rewind()
            try:
                while self._start + len(self._window) < offset + size and self._advance(offset):
                    pass
            except (*_DAMAGE, gzip.BadGzipFile) as error:
                raise _damaged(self._path, error) from error
            at = offset - self._start
            return bytes(self._window[at : at + size])

    def _advance(self, offset: int) -> bool:
        """Reads a block, if there is one; keeps the last `WINDOW` bytes of what lies before
        `offset`.
        """
        block = self._file.read(BLOCK)
        self._window += block
        n_old = min(offset - self._start, len(self._window) - WINDOW)
        if n_old > 0:
            del self._window[:n_old]
            self._start += n_old
        return bool(block)


BLOCK = 1 << 20
WINDOW = 64 << 20
_PACKED: LruCache[PackedFile] = LruCache(most=2)


# --- parquet ---


@dataclass(frozen=True, slots=True)
class _ParquetFacts:
    n_rows: int
    block_rows: int
    columns: dict[str, bool]
    """name → does it hold {bytes, path} pairs? Only columns that can hold images."""


_FACTS: LruCache[_ParquetFacts] = LruCache(most=256)
_BLOCKS: LruCache[pl.Series] = LruCache(most=6)


def _read_row(path: Path, inner: str) -> bytes:
    row_text, _, column = inner.partition("::")
    column = column or "image"
    key = _key(path)
    file = _FACTS.get(key, lambda: _parquet_facts(path))
    if not row_text.isdecimal() or int(row_text) >= file.n_rows:
        raise DataError(f"{path}  has no row {row_text!r}: its rows are 0 to {file.n_rows - 1}.")
    if column not in file.columns:
        listed = ", ".join(map(repr, file.columns)) or "none"
        raise DataError(
            f"{path}  has no image column {column!r}: columns that hold images: {listed}."
        )
    index, row = divmod(int(row_text), file.block_rows)
    block = _BLOCKS.get((key, column, index), lambda: _read_block(path, column, file, index))
    data = block[row]
    if data is None:
        raise DataError(f"{path}  row {row_text} contains no image in column {column!r}.")
    return bytes(data)


def parquet_columns(path: Path) -> tuple[list[str], int]:
    """The columns of a parquet file that can hold images, and how many rows it has."""
    file = _FACTS.get(_key(path), lambda: _parquet_facts(path))
    return list(file.columns), file.n_rows


def _parquet_facts(path: Path) -> _ParquetFacts:
    import polars as pl

    try:
        rows = pl.scan_parquet(path, glob=False)
        schema, n_rows = rows.collect_schema(), rows.select(pl.len()).collect().item()
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{path}  is not a parquet file that can be read: {_first_line(error)}"
        ) from error
    columns: dict[str, bool] = {}
    for name, dtype in schema.items():
        if isinstance(dtype, pl.Struct) and dict(dtype).get("bytes") == pl.Binary:
            columns[name] = True
        elif dtype == pl.Binary:
            columns[name] = False
    row_bytes = max(1, path.stat().st_size // max(1, n_rows))
    return _ParquetFacts(n_rows, max(1, PARQUET_BLOCK_BYTES // row_bytes), columns)


def _read_block(path: Path, column: str, file: _ParquetFacts, index: int) -> pl.Series:
    import polars as pl

    data = pl.col(column).struct.field("bytes") if file.columns[column] else pl.col(column)
    rows = pl.scan_parquet(path, glob=False).select(data.alias("data"))
    try:
        block = rows.slice(index * file.block_rows, file.block_rows).collect()
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}  is damaged: {_first_line(error)}") from error
    return block.get_column("data")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
