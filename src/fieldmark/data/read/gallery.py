"""Precomputed image embeddings on disk (memory-mapped), as clip-retrieval writes them.

    ROOT/embs/MODEL/img_emb/img_emb_0.npy, img_emb_1.npy, …     vectors, float16 or float32
    ROOT/embs/MODEL/metadata/metadata_0.parquet, …              image_path of every vector

Files are taken in the order of the numbers in their names (10 after 9), so that row i of all arrays
together belongs to row i of all metadata. Five million vectors are never in memory at once: blocks
are maps of the files, and the paths are looked through one file at a time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from fieldmark.data._check import counted, name_some
from fieldmark.data._content import Contents
from fieldmark.data.read.table import reading_parquet
from fieldmark.errors import DataError, UnknownName

FOLDER = "embs"
ARRAYS, METADATA = "img_emb", "metadata"
PATH = "image_path"
DTYPES = ("float16", "float32")
_NUMBER = re.compile(r"(\d+)$")
Vectors = npt.NDArray[Any]


@dataclass(frozen=True)
class VectorGallery:
    """The images of a search: one vector and one path each."""

    name: str
    arrays: tuple[Path, ...]
    metadata: tuple[Path, ...]
    lengths: tuple[int, ...]
    """vectors of each array"""
    dim: int

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    def blocks(self) -> Iterator[Vectors]:
        """The arrays (n × dim), memory-mapped and read-only, in the order of their rows."""
        for path in self.arrays:
            yield _map(path)

    @cached_property
    def paths(self) -> pl.Series:
        """`image_path` of all rows, without `.jpg`; of five million images about 1 GB."""
        return pl.concat(list(self._path_parts()))

    def digest(self, contents: Contents) -> str:
        """Changes when the content of any file does. Files are read whole, once: `contents`
        remembers them for as long as they are not touched.
        """
        hasher = hashlib.blake2b(digest_size=16)
        for path in (*self.arrays, *self.metadata):
            hasher.update(contents.digest(path))
        return hasher.hexdigest()

    def locate(self, paths: pl.Series) -> pl.DataFrame:
        """image_path and row of every row that shows a wanted image, in the order of rows."""
        images, parts, start = paths.unique().implode(), [], 0
        for part in self._path_parts():
            rows = pl.int_range(start, start + len(part), dtype=pl.Int64, eager=True)
            frame = pl.DataFrame({PATH: part, "row": rows})
            parts.append(frame.filter(pl.col(PATH).is_in(images)))
            start += len(part)
        return pl.concat(parts)

    def paths_at(self, rows: Sequence[int]) -> list[str]:
        """The paths of some rows, in the order asked for."""
        numbers, by_row, start = np.unique(np.asarray(rows, np.int64)), dict[int, str](), 0
        for part in self._path_parts():
            inside = numbers[(numbers >= start) & (numbers < start + len(part))]
            by_row.update(zip(inside.tolist(), part.gather(inside - start), strict=True))
            start += len(part)
        return [by_row[int(row)] for row in rows]

    def n_twins(self) -> int:
        """Rows whose image stands in an earlier row already; told by 64-bit hashes."""
        hashes = pl.concat([part.hash() for part in self._path_parts()])
        return len(hashes) - hashes.n_unique()

    def _path_parts(self) -> Iterator[pl.Series]:
        for path in self.metadata:
            with reading_parquet(path):
                part = pl.read_parquet(path, columns=[PATH])
            yield part.select(bare_path(PATH)).to_series()


def bare_path(column: str) -> pl.Expr:
    """The path of an image without spaces around it and without its suffix."""
    return pl.col(column).cast(pl.String).str.strip_chars().str.replace(r"(?i)\.(jpe?g|png)$", "")


def gallery_names(root: Path) -> list[str]:
    """The models whose embeddings lie below root, sorted."""
    folder = root / FOLDER
    inside = folder.iterdir() if folder.is_dir() else ()
    return sorted(path.name for path in inside if (path / ARRAYS).is_dir())


def open_gallery(root: Path, name: str) -> VectorGallery:
    """The embeddings of a model. Reads headers only, and refuses files that do not fit together."""
    names = gallery_names(root)
    if not names:
        raise DataError(
            f"{root / FOLDER}  has no embeddings: expected MODEL/{ARRAYS}/{ARRAYS}_0.npy, … and "
            f"MODEL/{METADATA}/*.parquet."
        )
    if name not in names:
        raise UnknownName("embeddings", name, names, where=str(root / FOLDER))
    folder = root / FOLDER / name
    arrays = _numbered(folder / ARRAYS, f"{ARRAYS}_*.npy")
    metadata = _numbered(folder / METADATA, "*.parquet")
    shapes = {path: _map(path).shape for path in arrays.values()}
    name_0 = next(iter(shapes))
    for path, (_, dim) in shapes.items():
        if dim != shapes[name_0][1]:
            raise DataError(
                f"{path}  has vectors of {dim} numbers: those of {name_0.name} have "
                f"{shapes[name_0][1]}."
            )
    lengths = {path: n for path, (n, _) in shapes.items()}
    _refuse_misfit(folder, arrays, metadata, lengths)
    return VectorGallery(
        name, tuple(lengths), tuple(metadata.values()), tuple(lengths.values()), shapes[name_0][1]
    )


def _numbered(folder: Path, pattern: str) -> dict[int, Path]:
    """The files by their numbers, in order, none of which may be missing."""
    files: dict[int, Path] = {}
    for path in sorted(folder.glob(pattern)):
        match = _NUMBER.search(path.stem)
        if match is None:
            raise DataError(f"{path}  has no number at the end of its name: expected one.")
        former = files.setdefault(int(match[1]), path)
        if former != path:
            raise DataError(f"{path}  has the same number as {former.name}: expected one of them.")
    if not files:
        raise DataError(f"{folder}  contains no {pattern}: expected one or more.")
    gaps = [str(number) for number in range(min(files), max(files)) if number not in files]
    if gaps:
        raise DataError(f"{folder}  lacks {pattern} of number {name_some(gaps)}.")
    return dict(sorted(files.items()))


def _refuse_misfit(
    folder: Path, arrays: dict[int, Path], metadata: dict[int, Path], lengths: dict[Path, int]
) -> None:
    """As many paths as vectors: file by file where there are as many files, else in all."""
    n_paths = {path: _n_paths(path) for path in metadata.values()}
    if len(arrays) == len(metadata):
        for (number, array), (other, table) in zip(arrays.items(), metadata.items(), strict=True):
            if number != other:
                text = f"has number {other} where {array.name} has {number}"
                raise DataError(f"{table}  {text}: expected the same numbers.")
            if lengths[array] != n_paths[table]:
                text = f"has {counted(n_paths[table], 'row')}: expected {lengths[array]:,}"
                raise DataError(f"{table}  {text}, the vectors of {array.name}.")
    n, n_named = sum(lengths.values()), sum(n_paths.values())
    if n != n_named:
        raise DataError(
            f"{folder}  has {counted(n, 'vector')} in {counted(len(arrays), 'file')} and "
            f"{counted(n_named, 'path')} in {counted(len(metadata), 'file')}: expected as many "
            "paths as vectors."
        )


def _map(path: Path) -> Vectors:
    try:
        array: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"{path}  cannot be read as a NumPy array: {line}.") from error
    if array.ndim != 2 or array.dtype.name not in DTYPES:
        shape = " × ".join(map(str, array.shape))
        expected = f"rows of vectors, {' or '.join(DTYPES)}"
        raise DataError(f"{path}  contains {shape} {array.dtype.name}: expected {expected}.")
    return array


def _n_paths(path: Path) -> int:
    with reading_parquet(path):
        schema = pl.read_parquet_schema(path)
        if PATH not in schema:
            raise DataError(f"{path}  lacks the column {PATH!r}: it has {', '.join(schema)}.")
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
