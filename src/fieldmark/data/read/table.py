"""Table files: CSV, TSV, Parquet and JSON, read as text, and what is said when they cannot be.

`read_table` takes tables of unknown encoding and separator, as users bring them; `read_annotations`
those of a published dataset. Columns are found by name, never by position, and an empty field is
null. What the columns mean is not known here.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.data._check import name_some
from fieldmark.errors import DataError, at
from fieldmark.files import parse_json

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
SEPARATORS = ",;\t|"


def find_table(root: Path) -> Path:
    """The table file that root is, or the only one that lies in it."""
    if root.is_file():
        if root.suffix.lower() not in (*TABLE_SUFFIXES, ".txt"):
            raise DataError(f"{root}  is not a table: expected a .csv, .tsv or .parquet file.")
        return root
    if not root.is_dir():
        raise DataError(
            f"{root}  does not exist: expected a table file, or a folder with one in it."
        )
    tables = sorted(
        path
        for path in root.iterdir()
        if path.suffix.lower() in TABLE_SUFFIXES and not path.name.startswith(".")
    )
    if not tables:
        raise DataError(f"{root}  contains no .csv, .tsv or .parquet file: expected exactly one.")
    if len(tables) > 1:
        names = ", ".join(path.name for path in tables[:5])
        raise DataError(
            f"{root}  contains {len(tables)} tables ({names}): name the one to use, such as "
            f"{tables[0]} (with --task: --data csv={tables[0]})."
        )
    return tables[0]


def read_columns(path: Path) -> list[str]:
    """The names of the columns."""
    if path.suffix.lower() == ".parquet":
        return list(_parquet_schema(path))
    text = _read_text(path)
    try:
        return next(csv.reader(io.StringIO(text), delimiter=_separator(text)), [])
    except csv.Error as error:
        raise DataError(f"{path}  cannot be read as a table: {error}") from error


def read_table(path: Path, as_text: Collection[str]) -> pl.DataFrame:
    """All rows. Columns in `as_text` stay as written ("007"); the others get a fitting type.

    Columns of a parquet file that hold bytes are left out.
    """
    if path.suffix.lower() == ".parquet":
        schema = _parquet_schema(path)
        names = [name for name, dtype in schema.items() if not holds_images(dtype)]
        with reading_parquet(path):
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


def _refuse_device(path: Path) -> None:
    """A pipe would be waited at for ever, and /dev/zero never ends."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(f"{path}  is a pipe or a device, not a table.")


def _parquet_schema(path: Path) -> pl.Schema:
    _refuse_device(path)
    with reading_parquet(path):
        return pl.scan_parquet(path, glob=False).collect_schema()


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Damage shows where it lies: in the schema at the end, or only when the rows are read."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"{path}  is not a parquet file that can be read: {line}.") from error


def _read_text(path: Path) -> str:
    _refuse_device(path)
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
    return max(SEPARATORS, key=lambda mark: len(next(csv.reader([header], delimiter=mark))))


def _explain(path: Path, text: str, error: Exception) -> str:
    """The line whose fields do not fit the header, or whose quote never closes, if that is it."""
    reader = csv.reader(io.StringIO(text), delimiter=_separator(text))
    n_columns = len(next(reader, []))
    before = line = reader.line_num
    for fields in reader:
        if len(fields) > n_columns:
            text = f"{len(fields)} fields where the header has {n_columns}"
            return at(path, reader.line_num, f"{text}: quote values that hold the separator.")
        before, line = line, reader.line_num
    if text.count('"') % 2 and line > before + 1:
        return at(path, before + 1, "a quote opens on this line and is never closed.")
    return f"{path}  cannot be read as a table: {str(error).strip().splitlines()[0]}"


# --- annotations of published datasets ---

Rule = pl.Expr | Callable[[str], pl.Expr]
"""what must hold for a column: an expression, or what makes one of the column's name"""
_YES, _NO = ["1", "1.0", "true"], ["0", "0.0", "false"]


def read_annotations(
    path: Path,
    needed: Sequence[str] = (),
    separator: str = ",",
    has_header: bool = True,
    nulls: Sequence[str] = ("",),
) -> pl.DataFrame:
    """All rows as text; without a header the columns take the `needed` names, in order."""
    try:
        frame = pl.read_csv(
            path,
            separator=separator,
            has_header=has_header,
            infer_schema=False,
            null_values=list(nulls),
            encoding="utf8-lossy",
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"{path}  cannot be read as a table: {line}.") from error
    if has_header:
        need_columns(f"{path}:1", frame.columns, needed)
        return frame
    if frame.width != len(needed):
        raise DataError(
            f"{path}:1  has {frame.width} fields: expected {len(needed)}, {' '.join(needed)}."
        )
    return frame.rename(dict(zip(frame.columns, needed, strict=True)))


def need_columns(
    where: Path | str, columns: Collection[str], needed: Sequence[str], expected: str = ""
) -> None:
    """Raises if columns are missing; `expected` says in words what should be there."""
    missing = [name for name in needed if name not in columns]
    if missing:
        raise DataError(
            f"{where}  lacks the columns {name_some(missing)}: expected "
            f"{expected or ', '.join(needed)}."
        )


def with_optional(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The frame with these columns; null where the file has none of them."""
    missing = [name for name in columns if name not in frame.columns]
    return frame.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)


def refuse_odd(
    path: Path, frame: pl.DataFrame, rules: Mapping[str, tuple[Rule, str]], first_line: int = 2
) -> None:
    """Raises for the first row that breaks a rule, with its line: column → (rule, expected)."""
    for column, (rule, expected) in rules.items():
        holds = rule if isinstance(rule, pl.Expr) else rule(column)
        is_odd = frame.select(~holds.fill_null(False)).to_series()
        if is_odd.any():
            row = is_odd.arg_max() or 0
            value = frame.get_column(column)[row]
            text = f"{column} is {value!r}: expected {expected}."
            raise DataError(at(path, row + first_line, text))


def refuse_twins(path: Path, ids: pl.Series) -> None:
    """Points at the first row whose id stands further up already."""
    seen: dict[str, int] = {}
    for line, name in enumerate(ids, start=2):
        if name is not None and seen.setdefault(name, line) != line:
            text = f"id {name!r} is already on line {seen[name]}: ids must be unique."
            raise DataError(at(path, line, text))


def is_whole(column: str) -> pl.Expr:
    """Is the text a whole number?"""
    return pl.col(column).str.contains(r"^-?\d+$")


def is_given(column: str) -> pl.Expr:
    return pl.col(column).is_not_null()


def is_yes_or_no(column: str) -> pl.Expr:
    """0, 1 or nothing."""
    text = pl.col(column).str.to_lowercase()
    return text.is_null() | text.is_in([*_YES, *_NO])


def as_boolean(column: str) -> pl.Expr:
    """1 is true, 0 is false, all else null."""
    text = pl.col(column).str.to_lowercase()
    return pl.when(text.is_in(_YES)).then(True).when(text.is_in(_NO)).then(False).alias(column)


def capitalised(column: str) -> pl.Expr:
    """`tamias striatus` → `Tamias striatus`, as ranks and scientific names are written."""
    text = pl.col(column)
    initial, rest = text.str.slice(0, 1).str.to_uppercase(), text.str.slice(1).str.to_lowercase()
    return (initial + rest).alias(column)


def numbered(column: str) -> pl.Expr:
    """The text; its second and later appearances get a number: `a`, `a#2`."""
    turn = pl.int_range(pl.len()).over(column)
    return pl.when(turn == 0).then(column).otherwise(pl.format("{}#{}", column, turn + 1))


# --- JSON ---


def read_json(path: Path) -> Any:
    """The content, whatever it is."""
    _refuse_device(path)
    try:
        return parse_json(path.read_bytes())
    except json.JSONDecodeError as error:
        raise DataError(at(path, error.lineno, f"is not valid JSON: {error.msg}.")) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}  cannot be read as JSON: {error}.") from error


def read_json_object(path: Path, what: str) -> dict[str, Any]:
    """The content, which must be an object; `what` says what it should hold."""
    content = read_json(path)
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise DataError(f"{path}  contains a {kind}: expected a JSON object, {what}.")
    return content
