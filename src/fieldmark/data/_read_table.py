"""How is a table file of unknown encoding and separator read, and what is said when it cannot be?

Answers with a polars frame; knows nothing about what the columns mean.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from pathlib import Path

import polars as pl

from fieldmark.errors import DataError, at

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
SEPARATORS = ",;\t|"


def find_table(root: Path) -> Path:
    """The table file that root is, or the only one that lies in it."""
    if root.is_file():
        if root.suffix.lower() not in (*TABLE_SUFFIXES, ".txt"):
            raise DataError(f"{root}  is no table: expected a .csv, .tsv or .parquet file.")
        return root
    if not root.is_dir():
        raise DataError(
            f"{root}  does not exist: expected a table file, or a folder with one in it."
        )
    found = sorted(
        each
        for each in root.iterdir()
        if each.suffix.lower() in TABLE_SUFFIXES and not each.name.startswith(".")
    )
    if not found:
        raise DataError(f"{root}  holds no .csv, .tsv or .parquet file: expected exactly one.")
    if len(found) > 1:
        names = ", ".join(each.name for each in found[:5])
        raise DataError(
            f"{root}  holds {len(found)} tables ({names}): name the one to use, "
            f"as in --data csv={found[0]}."
        )
    return found[0]


def read_columns(path: Path) -> list[str]:
    """The names of the columns."""
    if path.suffix.lower() == ".parquet":
        return list(_parquet_schema(path))
    text = _read_text(path)
    return next(csv.reader(io.StringIO(text), delimiter=_separator(text)), [])


def read_table(path: Path, as_text: Collection[str]) -> pl.DataFrame:
    """All rows. Columns in `as_text` stay as written ("007"); the others get a fitting type.

    Columns of a parquet file that hold bytes are left out.
    """
    if path.suffix.lower() == ".parquet":
        schema = _parquet_schema(path)
        names = [name for name, dtype in schema.items() if not holds_images(dtype)]
        return pl.scan_parquet(path, glob=False).select(names).collect()
    text = _read_text(path)
    try:
        return pl.read_csv(
            io.BytesIO(text.encode()),
            separator=_separator(text),
            schema_overrides=dict.fromkeys(as_text, pl.String),
            infer_schema_length=None,
            null_values=[""],
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(_explain(path, text, error)) from error


def image_columns(path: Path) -> dict[str, pl.DataType]:
    """The columns of a parquet file that hold encoded images; none for other tables."""
    if path.suffix.lower() != ".parquet":
        return {}
    return {name: dtype for name, dtype in _parquet_schema(path).items() if holds_images(dtype)}


def holds_images(dtype: pl.DataType) -> bool:
    is_pair = isinstance(dtype, pl.Struct) and dict(dtype).get("bytes") == pl.Binary
    return is_pair or dtype == pl.Binary


def _parquet_schema(path: Path) -> pl.Schema:
    try:
        return pl.scan_parquet(path, glob=False).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0]
        raise DataError(f"{path}  is not a parquet file that can be read: {line}") from error


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}  cannot be read: {error.strerror}.") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]  # what spreadsheets call Unicode text
    elif data.startswith(b"PK\x03\x04"):
        raise DataError(f"{path}  is a spreadsheet or zip file: save the table as CSV.")
    elif b"\0" in data:
        encodings = []
    else:
        encodings = ["utf-8-sig", "cp1252", "latin-1"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not text.strip():
            raise DataError(f"{path}  is empty: expected a header line and rows.")
        return text.lstrip("\r\n")
    raise DataError(f"{path}  is not text: expected a table in UTF-8.")


def _separator(text: str) -> str:
    """The one that cuts the header into most columns."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    return max(SEPARATORS, key=lambda each: len(next(csv.reader([header], delimiter=each))))


def _explain(path: Path, text: str, error: Exception) -> str:
    """The line whose fields do not fit the header, or whose quote never closes, if that is it."""
    reader = csv.reader(io.StringIO(text), delimiter=_separator(text))
    n_columns = len(next(reader, []))
    before = line = reader.line_num
    for fields in reader:
        if len(fields) > n_columns:
            found = f"{len(fields)} fields where the header has {n_columns}"
            return at(path, reader.line_num, f"{found}: quote values that hold the separator.")
        before, line = line, reader.line_num
    if text.count('"') % 2 and line > before + 1:
        return at(path, before + 1, "a quote opens on this line and is never closed.")
    return f"{path}  cannot be read as a table: {str(error).strip().splitlines()[0]}"
