"""How are a published dataset's annotation files read, and what is said when they are not as told?

Columns are found by name, never by position. Values stay text until a module gives them a meaning;
an empty field is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from fieldmark.data._check import name_some
from fieldmark.data._dataset import Finding
from fieldmark.errors import DataError, at

_YES, _NO = ["1", "1.0", "true"], ["0", "0.0", "false"]


def read_annotations(
    path: Path, needed: Sequence[str] = (), separator: str = ",", has_header: bool = True
) -> pl.DataFrame:
    """All rows as text; without a header the columns take the `needed` names, in order."""
    try:
        frame = pl.read_csv(
            path,
            separator=separator,
            has_header=has_header,
            infer_schema=False,
            null_values=[""],
            encoding="utf8-lossy",
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"{path}  cannot be read as a table: {line}.") from error
    if not has_header:
        return _with_names(path, frame, needed)
    missing = [each for each in needed if each not in frame.columns]
    if missing:
        raise DataError(
            f"{path}:1  lacks the columns {name_some(missing)}: expected {', '.join(needed)}."
        )
    return frame


def _with_names(path: Path, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    if frame.width != len(names):
        raise DataError(
            f"{path}:1  has {frame.width} fields: expected {len(names)}, {' '.join(names)}."
        )
    return frame.rename(dict(zip(frame.columns, names, strict=True)))


def refuse_odd(
    path: Path, frame: pl.DataFrame, rules: Mapping[str, tuple[pl.Expr, str]], first_line: int = 2
) -> None:
    """Raises for the first row that breaks a rule, with its line: column → (rule, expected)."""
    for column, (rule, expected) in rules.items():
        is_odd = frame.select(~rule.fill_null(False)).to_series()
        if is_odd.any():
            row = is_odd.arg_max() or 0
            found = frame.get_column(column)[row]
            told = f"{column} is {found!r}: expected {expected}."
            raise DataError(at(path, row + first_line, told))


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


def numbered(column: str) -> pl.Expr:
    """The text; its second and later appearances get a number: `a`, `a#2`."""
    turn = pl.int_range(pl.len()).over(column)
    return pl.when(turn == 0).then(column).otherwise(pl.format("{}#{}", column, turn + 1))


def split_counts(rows: pl.DataFrame) -> dict[str, int]:
    return {
        str(split): n
        for split, n in rows.drop_nulls("split").group_by("split").len().sort("split").rows()
    }


def size_findings(found: Mapping[str, int], published: Mapping[str, int]) -> list[Finding]:
    """A note where counts differ from the published ones."""
    odd = [
        f"{name} {found.get(name, 0):,} of {n:,}"
        for name, n in published.items()
        if found.get(name, 0) != n
    ]
    if not odd:
        return []
    return [Finding("note", f"not the published size: {', '.join(odd)}.")]
