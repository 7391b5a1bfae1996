"""Image bytes: where the bytes of an image come from.

An image is named relative to its dataset's root, in one of three ways:

    photos/a.jpg                 a file
    shard.tar::folder/a.jpg      a member of a tar file (.tar, .tar.gz, .tgz)
    train.parquet::17            a row of a parquet file, column `image`: bytes, or the
                                 {bytes, path} pair that image datasets use
    train.parquet::17::photo     the same, another column

Safe to call from many threads. No file stays open between calls, and what is kept in memory is
bounded: tar indexes, and the blocks of parquet rows and of unpacked gzip used last. A file that
changes on disk is read anew.
"""

from __future__ import annotations

import io
import stat
import tarfile
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Protocol

from fieldmark.data._gzip import Gunzip, LruCache
from fieldmark.errors import DataError, closest

if TYPE_CHECKING:
    import polars as pl
    from _typeshed import WriteableBuffer


TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")
PARQUET_SUFFIX = ".parquet"
PARQUET_BLOCK_BYTES = 32 << 20

_ENCODED = "utf-8", "surrogatepass"

Key = tuple[str, int, int]


def read_bytes(root: Path, image: str) -> bytes:
    """The bytes of one image; `root` is the dataset's folder, or the table file in it."""
    name, inner = split_reference(image)
    path = locate(root, name)
    try:
        if not inner:
            return _read_file(path)
        if name.lower().endswith(PARQUET_SUFFIX):
            return _read_row(path, inner)
        return _read_member(path, inner)
    except FileNotFoundError as error:
        raise DataError(f"{path}  is missing.") from error
    except IsADirectoryError as error:
        raise DataError(f"{path}  is a folder: an image file was expected.") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}  cannot be read: {_reason(error)}.") from error


def _read_file(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
        raise DataError(f"{path}  is no ordinary file (a pipe or a device): a photo was expected.")
    return path.read_bytes()


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
            f"{base}  image {name!r} leads out of the dataset: expected a path inside it."
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


class _Seekable(Protocol):
    def read_at(self, offset: int, size: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Plain:
    """An unpacked file; opened for each read, so nothing is left open."""

    path: Path

    def read_at(self, offset: int, size: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(size)


class _Cursor(io.RawIOBase):
    """Content as the forward-reading file that `tarfile` wants."""

    def __init__(self, content: _Seekable) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset if whence == io.SEEK_SET else self._at + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._content.read_at(self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class _TarMembers(Mapping[str, tuple[int, int]]):
    """Name → offset and size, in the order of the archive. Packed: a dict takes five times as much,
    and a run over many shards fills the cache of them.
    """

    def __init__(self, members: dict[str, tuple[int, int]]) -> None:
        by_name = sorted((name.encode(*_ENCODED), place) for name, place in members.items())
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
    content: _Seekable
    members: _TarMembers
    is_whole: bool


_ARCHIVES: LruCache[_TarIndex] = LruCache(most=64)


def _read_member(path: Path, member: str) -> bytes:
    key = _key(path)
    archive = _ARCHIVES.get(key, lambda: _index_tar(path))
    place = archive.members.get(member.removeprefix("./"))
    if place is None:
        tail = "" if archive.is_whole else " The archive is cut off: fetch it again."
        near = closest(member, archive.members, most=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(f"{path}  has no member {member!r}.{hint}{tail}")
    data = archive.content.read_at(*place)
    if len(data) < place[1]:
        raise DataError(f"{path}  is cut off inside member {member!r}: fetch it again.")
    return data


def tar_members(path: Path) -> tuple[Iterable[str], bool]:
    """Names of the files in a tar file, in its order, and whether the archive is whole."""
    archive = _ARCHIVES.get(_key(path), lambda: _index_tar(path))
    return archive.members, archive.is_whole


def _index_tar(path: Path) -> _TarIndex:
    is_packed = not path.name.lower().endswith(".tar")
    content: _Seekable = Gunzip(path) if is_packed else _Plain(path)
    members: dict[str, tuple[int, int]] = {}
    try:
        with tarfile.open(fileobj=_Cursor(content), mode="r:") as opened:
            archive: Any = opened
            for member in archive:
                if member.isreg():
                    name = member.name.removeprefix("./")
                    members[name] = (member.offset_data, member.size)
                archive.members.clear()  # it keeps all it has seen, 1 KB each
            # `tarfile` takes any end of the file for the archive's, which is a block of zeros.
            end = content.read_at(archive.offset, tarfile.BLOCKSIZE)
    except tarfile.TarError as error:
        if not members:
            raise DataError(
                f"{path}  is not a tar file that can be read: {_reason(error)}."
            ) from error
        return _TarIndex(content, _TarMembers(members), is_whole=False)
    is_whole = len(end) == tarfile.BLOCKSIZE and not any(end)
    return _TarIndex(content, _TarMembers(members), is_whole)


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
    facts = _FACTS.get(key, lambda: _parquet_facts(path))
    if not row_text.isdecimal() or int(row_text) >= facts.n_rows:
        raise DataError(f"{path}  has no row {row_text!r}: its rows are 0 to {facts.n_rows - 1}.")
    if column not in facts.columns:
        known = ", ".join(map(repr, facts.columns)) or "none"
        raise DataError(
            f"{path}  has no image column {column!r}: columns that hold images: {known}."
        )
    index, place = divmod(int(row_text), facts.block_rows)
    block = _BLOCKS.get((key, column, index), lambda: _read_block(path, column, facts, index))
    data = block[place]
    if data is None:
        raise DataError(f"{path}  row {row_text} holds no image in column {column!r}.")
    return bytes(data)


def parquet_columns(path: Path) -> tuple[list[str], int]:
    """The columns of a parquet file that can hold images, and how many rows it has."""
    facts = _FACTS.get(_key(path), lambda: _parquet_facts(path))
    return list(facts.columns), facts.n_rows


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


def _read_block(path: Path, column: str, facts: _ParquetFacts, index: int) -> pl.Series:
    import polars as pl

    data = pl.col(column).struct.field("bytes") if facts.columns[column] else pl.col(column)
    rows = pl.scan_parquet(path, glob=False).select(data.alias("data"))
    try:
        block = rows.slice(index * facts.block_rows, facts.block_rows).collect()
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}  is damaged: {_first_line(error)}") from error
    return block.get_column("data")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
