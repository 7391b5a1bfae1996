"""Feature files (Parquet, npy, safetensors): how are features written for other people's tools?

Written whole or not at all, in a file beside its place that gets its name at the end. Rows come in
chunks and are on disk before the next chunk, so nothing grows with their number. What a row is of
stands in the Parquet file itself, and beside the other two in `FILE.ids.csv`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from fieldmark.errors import DataError, UsageError, first_line
from fieldmark.files import csv_text, try_lock

if TYPE_CHECKING:
    from fieldmark.data import ImageSource, ListedImage
    from fieldmark.embed.chunks import EmbeddedChunk

SUFFIXES = (".parquet", ".npy", ".safetensors")
BAD_COLUMNS = ("id", "image", "reason")
_SAFE_NAMES = {"float32": "F32", "float16": "F16"}
_ROW_GROUP = 8192
"""rows of a Parquet file that are held at a time"""
_LARGEST = 10**15
"""rows that a header has room for"""


class RowName(NamedTuple):
    """What a row is of."""

    id: str
    image: str
    label: str | None = None
    split: str | None = None


@dataclass(frozen=True, slots=True)
class FileForm:
    """What is written, and where."""

    path: Path
    dim: int
    """numbers in one row"""
    dtype: str = "float32"
    has_labels: bool = False
    """are there labels and splits to write?"""
    about: Mapping[str, str] = field(default_factory=dict)
    """what the features belong to, where the format has room for it"""

    @property
    def row_bytes(self) -> int:
        return self.dim * np.dtype(self.dtype).itemsize

    @property
    def columns(self) -> tuple[str, ...]:
        return ("id", "image", "label", "split") if self.has_labels else ("id", "image")

    def cast(self, rows: np.ndarray) -> np.ndarray:
        """The rows in the file's precision; refuses what does not fit it."""
        with np.errstate(over="ignore"):
            made = np.ascontiguousarray(rows, self.dtype)
        if self.dtype == "float16" and not np.isfinite(made).all():
            raise DataError(
                f"{self.path}  features up to {float(np.abs(rows).max()):.4g} are too large for "
                "float16: use --dtype float32."
            )
        return made


def check_place(path: Path) -> None:
    """Refuses a place where no feature file can be written, before hours are spent."""
    if path.suffix.lower() not in SUFFIXES:
        expected = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise UsageError(f"--out {path}: expected a file that ends in {expected}.")
    if path.is_dir():
        raise UsageError(f"--out {path}: is a folder; expected the name of a file.")
    with writable(path, "Choose another folder with --out."):
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = path.with_name(f".{path.name}.{os.getpid()}")
        probe.touch()
        probe.unlink()


IN_CACHE = "Features computed so far are in the cache: run the same command to continue."


@contextlib.contextmanager
def writable(path: Path, kept: str = IN_CACHE) -> Iterator[None]:
    """Says in one line why a file cannot be written, and what is not lost."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}  cannot be written: {error.strerror or error}. {kept}") from error


@contextlib.contextmanager
def feature_file(form: FileForm) -> Iterator[ArrayFile | _ParquetParts]:
    """A file to add rows to; whatever goes wrong inside leaves none."""
    is_table = form.path.suffix.lower() == ".parquet"
    with writable(form.path):
        file = _ParquetParts(form) if is_table else ArrayFile(form)
        try:
            yield file
        finally:
            file.close()


def write_chunks(
    form: FileForm, chunks: Iterable[EmbeddedChunk], is_one_of_many: bool = False
) -> list[Path]:
    """Writes the features of all images that can be read, in their order, and lists the others in
    `FILE.bad.csv`; the files that were written. Of many sources, ids begin with the name of theirs.
    """
    n_bad = 0
    with feature_file(form) as file, CsvPart(beside(form.path, "bad"), BAD_COLUMNS) as bad:
        for chunk in chunks:
            for images, rows in chunk.blocks():
                file.add(list(row_names(chunk.source, images, is_one_of_many)), rows)
            for image, reason in chunk.unreadable():
                (name,) = row_names(chunk.source, [image], is_one_of_many)
                bad.add([(*name[:2], reason)])
                n_bad += 1
        files = file.finish()
        return files + bad.finish_if(n_bad > 0)


def row_names(
    source: ImageSource, images: Iterable[ListedImage], is_one_of_many: bool
) -> Iterator[RowName]:
    for image in images:
        name = source.full_id(image) if is_one_of_many else image.id
        yield RowName(name, source.path_of(image), image.label, image.split)


# --- arrays ---


class ArrayFile:
    """Rows behind a header that is written last: npy or safetensors, with `FILE.ids.csv`."""

    def __init__(self, form: FileForm) -> None:
        self.form, self.n_rows = form, 0
        self._part = part_of(form.path)
        self._data = open_alone(self._part)
        self._data.truncate(0)
        self._data.write(array_header(form, 0))
        self.ids = CsvPart(beside(form.path, "ids"), ("row", *form.columns))

    def add(self, names: Sequence[RowName], rows: np.ndarray) -> None:
        self._data.write(self.form.cast(rows).data)
        n = len(self.form.columns)
        self.ids.add((self.n_rows + at, *name[:n]) for at, name in enumerate(names))
        self.n_rows += len(rows)

    def finish(self) -> list[Path]:
        """Gives the file its name; the files that there are now."""
        self._data.seek(0)
        self._data.write(array_header(self.form, self.n_rows))
        self._data.close()
        ids = self.ids.finish()
        self._part.replace(self.form.path)
        return [self.form.path, ids]

    def close(self) -> None:
        """Gives up what has no name yet."""
        try:
            self._data.close()  # on a full disk it raises what was not written
        finally:
            self._part.unlink(missing_ok=True)
            self.ids.close()


def array_header(form: FileForm, n_rows: int) -> bytes:
    """What stands before the rows of an npy or safetensors file."""
    is_npy = form.path.suffix.lower() == ".npy"
    return _npy_header(form, n_rows) if is_npy else _safetensors_header(form, n_rows)


def _npy_header(form: FileForm, n_rows: int) -> bytes:
    """Of one length for any number of rows: numpy leaves room for the axis that grows."""
    header = io.BytesIO()
    description = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(form.dtype)),
        "fortran_order": False,
        "shape": (n_rows, form.dim),
    }
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()


def _safetensors_header(form: FileForm, n_rows: int) -> bytes:
    """Of one length for any number of rows, filled up with blanks as the format allows: 8 bytes of
    length, then JSON, then the tensors (https://github.com/huggingface/safetensors#format).
    """

    def described(n: int) -> bytes:
        tensor = {
            "dtype": _SAFE_NAMES[form.dtype],
            "shape": [n, form.dim],
            "data_offsets": [0, n * form.row_bytes],
        }
        return json.dumps({"__metadata__": dict(form.about), "features": tensor}).encode()

    length = len(described(_LARGEST))
    length += -length % 8
    return length.to_bytes(8, "little") + described(n_rows).ljust(length)


# --- Parquet ---


class _ParquetParts:
    """A file per block; one file of them all at the end, row group by row group."""

    def __init__(self, form: FileForm) -> None:
        self.form, self._folder = form, part_of(form.path)
        self._parts: list[Path] = []
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = open_alone(self._folder / "lock")

    def add(self, names: Sequence[RowName], rows: np.ndarray) -> None:
        import polars as pl

        columns = [
            pl.Series(column, [getattr(name, column) for name in names], pl.String)
            for column in self.form.columns
        ]
        part = self._folder / f"{len(self._parts):06}.parquet"
        with self._told():
            features = pl.Series("feature", self.form.cast(rows))
            pl.DataFrame([*columns, features]).write_parquet(part)
        self._parts.append(part)

    def finish(self) -> list[Path]:
        import polars as pl

        whole = self._folder / "whole.parquet"
        with self._told():
            rows = pl.scan_parquet(self._parts, glob=False)
            rows.sink_parquet(whole, row_group_size=_ROW_GROUP, maintain_order=True)
        whole.replace(self.form.path)
        return [self.form.path]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """What polars says of a full disk, as others say it."""
        import polars as pl

        try:
            yield
        except pl.exceptions.PolarsError as error:
            reason = re.search(r"IO error: (.*?) \(os error", str(error))
            raise OSError(reason[1] if reason else first_line(error)) from error


# --- files beside it ---


def part_of(path: Path) -> Path:
    """Where a file is written before it has its name."""
    return path.with_name(f"{path.name}.part")


def beside(path: Path, what: str) -> Path:
    """`birds.npy` → `birds.npy.ids.csv`."""
    return path.with_name(f"{path.name}.{what}.csv")


def open_alone(path: Path) -> IO[bytes]:
    """The file, for this process only; what is in it stays."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    file = os.fdopen(descriptor, "r+b")
    if try_lock(file) is False:
        file.close()
        raise DataError(
            f"{path}  is being written by another process: wait for it, or choose another name "
            "with --out."
        )
    return file


class CsvPart:
    """A CSV file under way."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self._part = path, part_of(path)
        self._stream = self._part.open("w", encoding="utf-8", newline="")
        self.add([columns])

    def add(self, rows: Iterable[Sequence[object]]) -> None:
        self._stream.write(csv_text(rows))

    def finish(self) -> Path:
        self._stream.close()
        self._part.replace(self.path)
        return self.path

    def finish_if(self, is_wanted: bool) -> list[Path]:
        """Without one that an earlier command left, where this one has nothing to say."""
        if is_wanted:
            return [self.finish()]
        self.path.unlink(missing_ok=True)
        return []

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._part.unlink(missing_ok=True)

    def __enter__(self) -> CsvPart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()
