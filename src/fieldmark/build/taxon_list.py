"""Lists of taxa (CSV, TSV, Parquet, plain lists): which taxa does a file name?

One row per image or per taxon, of any length. Lists come from spreadsheets, portals and editors, so
encoding and separator are unknown. The separator is read off the header alone, since author strings
hold commas; a file whose header has none is one column, whatever its lines hold. Files in UTF-8
with usual line ends are streamed, all others are decoded in memory.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import polars as pl

from fieldmark.data.read.table import SEPARATORS
from fieldmark.errors import DataError, at
from fieldmark.taxa import Taxon, find_homonyms, parse_name
from fieldmark.taxa.record import COLUMNS, known_column, normal_taxon, row_values, taxon_columns

_BLOCK = 1 << 20
_MOST_ABOVE, _MOST_ODD = 1000, 1000
_NO_SEPARATOR = "\x1f"
"""in no text; so that a line is one field"""
_HEADER_WORDS = re.compile(r"\b(names?|species|taxon|taxa|list)\b", re.IGNORECASE)
_KINDS = {
    b"PK\x03\x04": "is a spreadsheet or zip file: save the table as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "is an Excel file: save the table as CSV (UTF-8)",
    b"\x1f\x8b": "is compressed: unpack it first",
    b"BZh": "is compressed: unpack it first",
    b"PAR1": "is a Parquet file: give it the ending .parquet",
}
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")


@dataclass(frozen=True, slots=True)
class TaxonList:
    """The taxa of a file, unique by all ranks, in the order of their first rows."""

    taxa: tuple[Taxon, ...]
    n_rows: int
    skipped: Mapping[str, int]
    """why rows name no taxon → how many rows"""

    @property
    def homonyms(self) -> dict[str, str]:
        """Keys of the taxa that share their name with another organism of the list → the sort."""
        return find_homonyms(self.taxa)


def read_taxa(path: Path) -> TaxonList:
    """The taxa of a table; memory grows with the number of taxa, not of rows."""
    frame = _unique_rows(path)
    taxa: dict[tuple[str, ...], Taxon] = {}
    skipped: Counter[str] = Counter()
    names = frame.columns[:-2]
    columns = taxon_columns(names) or {"scientific_name": names}
    for *cells, _, n_rows in frame.iter_rows():
        taxon = normal_taxon(row_values(dict(zip(names, cells, strict=True)), columns))
        if isinstance(taxon, str):
            skipped[taxon] += n_rows
            continue
        former = taxa.setdefault(taxon.ranks, taxon)
        if taxon.common_name and not former.common_name:
            taxa[taxon.ranks] = replace(former, common_name=taxon.common_name)
    if not taxa:
        why = "; ".join(f"{count} × {reason}" for reason, count in skipped.most_common(3))
        raise DataError(f"{path}  names no taxon ({why or 'it has no rows'}).")
    return TaxonList(tuple(taxa.values()), int(frame[_N].sum()), dict(skipped.most_common()))


_ROW, _N = "\0row", "\0n"


def _unique_rows(path: Path) -> pl.DataFrame:
    """Different rows in the order of their first appearance, and how often each stands there."""
    if not path.is_file():
        raise DataError(f"{path}  does not exist: expected a CSV, TSV or Parquet file of taxa.")
    is_parquet = path.suffix.lower() == ".parquet"
    file = None if is_parquet else _open(path)
    try:
        lazy = file.scan() if file else pl.scan_parquet(path, glob=False)
        names = _used(path, lazy.collect_schema().names())
        rows = lazy.with_row_index(_ROW).select(
            *(pl.col(name).cast(pl.String) for name in names), _ROW
        )
        counted = rows.group_by(names).agg(pl.col(_ROW).min(), pl.len().alias(_N))
        return counted.collect(engine="streaming").sort(_ROW)
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"{path}  cannot be read as a table of taxa: {line}.") from error


def _used(path: Path, names: Sequence[str]) -> list[str]:
    """The columns that say something of taxa; the only one is that in any case."""
    columns = taxon_columns(names)
    if columns.keys() & {"genus", "species", "scientific_name"}:
        return [name for word in columns for name in columns[word]]
    if len(names) == 1 and not columns:
        return list(names)
    raise DataError(
        f"{path}  has the columns {', '.join(names[:8])}: expected kingdom … species, or one of "
        f"{', '.join(COLUMNS['scientific_name'])}, name."
    )


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the lines of a file are to be read."""

    separator: str
    has_header: bool
    n_before: int
    """lines above the header: blank ones and comments"""
    n_columns: int

    @property
    def quote(self) -> str | None:
        return None if self.separator == _NO_SEPARATOR else '"'


@dataclass(frozen=True, slots=True)
class _NamesFile:
    """A text file of names, ready to be read."""

    path: Path
    text: str | None
    """what is in it, where it had to be decoded"""
    layout: _Layout

    def scan(self) -> pl.LazyFrame:
        """All columns as text. Raises if rows have more fields than the header: polars does so
        only where it needs the last column, and reads the wrong ones in silence elsewhere.
        """
        if self._may_be_ragged():
            self._refuse_ragged()
        return self._scan(self.layout.separator, self.layout.quote, self.layout.has_header)

    def _scan(self, separator: str, quote: str | None, has_header: bool) -> pl.LazyFrame:
        return pl.scan_csv(
            self.path if self.text is None else io.BytesIO(self.text.encode()),
            separator=separator,
            quote_char=quote,
            has_header=has_header,
            skip_lines=self.layout.n_before,
            infer_schema=False,
            glob=False,
        )

    def _may_be_ragged(self) -> bool:
        """Does any line have too many separators, quoted or not?"""
        if self.layout.n_columns == 1:
            return False
        lines = self._scan(_NO_SEPARATOR, None, False)
        n_marks = pl.nth(0).str.count_matches(self.layout.separator, literal=True)
        is_odd = lines.select((n_marks >= self.layout.n_columns).any())
        return bool(is_odd.collect(engine="streaming").item())

    def _refuse_ragged(self) -> None:
        with _lines(self.path, self.text) as lines:
            odd = list(islice(_ragged(lines, self.layout), _MOST_ODD))
        if odd:
            (line, n_fields), mark = odd[0], self.layout.separator
            n_odd = f"{len(odd)}{'+' if len(odd) == _MOST_ODD else ''}"
            text = f"{n_fields} fields where the header has {self.layout.n_columns}"
            text += f" (rows like this: {n_odd}): put values that hold {mark!r} in double quotes."
            raise DataError(at(self.path, line, text))


def _open(path: Path) -> _NamesFile:
    with path.open("rb") as file:
        start = file.read(4)
    for mark, what in _KINDS.items():
        if start.startswith(mark):
            raise DataError(f"{path}  {what}.")
    if not start:
        raise DataError(f"{path}  is empty: expected a header line and rows.")
    if path.suffix.lower() in _SPREADSHEETS:
        raise DataError(f"{path}  is a spreadsheet: save the table as CSV (UTF-8).")
    text = None if _is_plain(path) else _decoded(path)
    with _lines(path, text) as lines:
        layout = _layout(list(islice(lines, _MOST_ABOVE)))
    return _NamesFile(path, text, layout)


def _is_plain(path: Path) -> bool:
    """UTF-8, with line feeds?"""
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_returns = n_feeds = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            n_returns, n_feeds = n_returns + block.count(b"\r"), n_feeds + block.count(b"\n")
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                return False
            if b"\0" in block:
                return False
    return n_returns <= n_feeds


def _decoded(path: Path) -> str:
    data = path.read_bytes()
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in data and not is_wide:
        raise DataError(f"{path}  is not text: expected a table in UTF-8.")
    for encoding in ("utf-16",) if is_wide else ("utf-8-sig", "cp1252", "latin-1"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return text.replace("\r\n", "\n").replace("\r", "\n")
    raise DataError(f"{path}  is cut off: its text is UTF-16, and half a character is missing.")


def _lines(path: Path, text: str | None) -> io.TextIOBase:
    if text is not None:
        return io.StringIO(text, newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _layout(lines: list[str]) -> _Layout:
    """By the first line that is neither blank nor a comment."""
    is_above = [not line.strip() or line.lstrip().startswith("#") for line in lines]
    n_before = is_above.index(False) if False in is_above else len(lines)
    header, *rest = [line.strip("\r\n") for line in lines[n_before:]] or [""]
    cells = {mark: next(csv.reader([header], delimiter=mark), []) for mark in SEPARATORS}
    n_known = {mark: sum(map(bool, map(known_column, cells[mark]))) for mark in SEPARATORS}
    separator = max(SEPARATORS, key=lambda mark: (n_known[mark], len(cells[mark])))
    has_header = n_known[separator] > 0 or not _is_name(header, rest)
    if len(cells[separator]) == 1 or not has_header:
        return _Layout(_NO_SEPARATOR, has_header, n_before, 1)
    return _Layout(separator, has_header, n_before, len(cells[separator]))


def _is_name(line: str, rest: list[str]) -> bool:
    """Is the first line a name already? One word is, if the next line is one word too."""
    name = parse_name(line.strip("\"' "))
    if name is None or _HEADER_WORDS.search(line):
        return False
    is_genus = " " not in line.strip() and bool(rest) and bool(re.fullmatch(r"[A-Z]\w+", rest[0]))
    return bool(name.species) or is_genus


def _ragged(lines: io.TextIOBase, layout: _Layout) -> Iterator[tuple[int, int]]:
    """Line and number of fields of the rows that have too many."""
    for _ in range(layout.n_before):
        next(lines)
    reader = csv.reader(lines, delimiter=layout.separator)
    for fields in reader:
        if len(fields) > layout.n_columns:
            yield reader.line_num + layout.n_before, len(fields)
