"""List of URLs: a table of addresses becomes a folder of images.

One row per file: one or several addresses (tried in turn), a checksum where there is one, and a
name to save it under. `report.csv` lists what could not be fetched and why.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from fieldmark.data.get.download import ByteCounter, fetch_all
from fieldmark.data.get.http import url_fault
from fieldmark.data.get.state import FOLDER, locked_folder
from fieldmark.data.get.verify import Download, DownloadResult, Pace, fault
from fieldmark.data.read.table import find_table, read_columns, read_table
from fieldmark.errors import DataError, UnknownName, at
from fieldmark.files import csv_text, write_file
from fieldmark.progress import Progress, Silent

URL_COLUMNS = (
    "url", "source_url", "image_url", "img_url", "url_gcp", "url_azure", "url_aws", "link",
)  # fmt: skip
SUM_COLUMNS = ("md5", "hashsum_original", "sha256", "checksum", "hash")
NAME_COLUMNS = ("filepath", "file_path", "filename", "file_name")
ID_COLUMNS = ("id", "image_id", "uuid")
REPORT = "report.csv"
FailedRow = tuple[str, str, str, str]
"""row of the table (the header is 1), file, address, reason"""
LONGEST_NAME = 240
"""bytes of a file's name: file systems take 255, and `.part.jsonl` is added"""
SUM = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class UrlColumns:
    """Which columns mean what; empty = known by their names."""

    urls: tuple[str, ...] = ()
    """several are mirrors of each other"""
    checksum: str = ""
    """MD5 or SHA-256, told by its length"""
    save_as: str = ""
    """a column with file names, or a pattern of columns: `{id}.jpg`"""


@dataclass(frozen=True, slots=True)
class UrlListResult:
    """What became of a list; `failed` is what `report.csv` holds."""

    n_here: int
    n_fetched: int
    failed: tuple[FailedRow, ...]


def get_urls(
    table: Path,
    out: Path,
    columns: UrlColumns | None = None,
    pace: Pace | None = None,
    progress: Progress | None = None,
) -> UrlListResult:
    """Fetches all files of a table into `out`, those that are right already excepted."""
    files, unnamed = read_files(table, out, columns or UrlColumns())
    progress = progress or Silent()
    results: list[DownloadResult] = []
    with locked_folder(out):
        todo = [file for file in files if not is_here(file)]
        progress.start("files", len(todo))

        def done(result: DownloadResult) -> None:
            results.append(result)
            progress.advance()

        try:
            fetch_all(todo, pace or Pace(), ByteCounter(progress), done)
        finally:
            failed = [*unnamed, *(_row(one, out) for one in results if one.state == "failed")]
            failed.sort(key=lambda row: int(row[0]))
            write_report(out / REPORT, ("row", "file", "url", "reason"), failed)
    n_fetched = sum(one.state == "fetched" for one in results)
    return UrlListResult(len(files) - len(todo), n_fetched, tuple(failed))


def read_files(
    table: Path, out: Path, columns: UrlColumns
) -> tuple[list[Download], list[FailedRow]]:
    """The files of a table, each once; and the rows that have no address that can be fetched."""
    if table.is_dir():
        raise DataError(f"{table}  is a folder: expected a .csv, .tsv or .parquet file.")
    path = find_table(table)
    names = read_columns(path)
    found_columns = _find(path, names, columns)
    needed = [
        *found_columns.urls,
        *([found_columns.checksum] if found_columns.checksum else []),
        *_fields(found_columns.save_as),
    ]
    rows = read_table(path, as_text=names).select(*dict.fromkeys(needed))
    files: dict[Path, Download] = {}
    failed: list[FailedRow] = []
    for line, row in enumerate(rows.iter_rows(named=True), 2):
        texts = {key: "" if value is None else str(value).strip() for key, value in row.items()}
        file = _planned_file(at(path, line, ""), line, texts, out, found_columns)
        if isinstance(file, tuple):
            failed.append(file)
        elif _is_other(files.setdefault(file.target, file), file):
            raise DataError(
                at(path, line, f"{file.target.name!r} is the name of two files, here and on line ")
                + f"{files[file.target].origin}: choose a column or pattern with --save-as."
            )
    return list(files.values()), failed


def _planned_file(
    where: str, line: int, row: Mapping[str, str], out: Path, columns: UrlColumns
) -> Download | FailedRow:
    urls = [row[name] for name in columns.urls if row[name]]
    fetchable = tuple(url for url in urls if not url_fault(url))
    if not fetchable:
        address = next(iter(urls), "")
        return (str(line), "", address, url_fault(address))
    digest = row[columns.checksum] if columns.checksum else ""
    if digest and not SUM.fullmatch(digest):
        raise DataError(
            f"{where}{columns.checksum} is {digest!r}: expected an MD5 (32 characters) or "
            "SHA-256 (64)."
        )
    name = _name(where, row, fetchable[0], columns)
    md5, sha256 = (digest, "") if len(digest) == 32 else ("", digest)
    return Download(out / name, fetchable, None, md5, sha256, origin=str(line))


def _name(where: str, row: Mapping[str, str], url: str, columns: UrlColumns) -> str:
    """Where the file goes below the folder; never out of it, never onto our own files."""
    if columns.save_as:
        name = re.sub(r"\{([^{}]*)\}", lambda match: row[match[1]], columns.save_as)
    else:
        name = PurePosixPath(unquote(urlsplit(url).path)).name
    parts = PurePosixPath(name.replace("\\", "/")).parts
    is_odd = not parts or parts[0].lower() in ("/", FOLDER, REPORT) or ".." in parts or "\0" in name
    is_odd |= any(len(os.fsencode(part)) > LONGEST_NAME for part in parts)
    if is_odd or re.match(r"[A-Za-z]:", name):
        raise DataError(f"{where}{name[:80]!r} cannot be the name of a file below the folder.")
    return "/".join(parts)


def _find(path: Path, names: Sequence[str], given: UrlColumns) -> UrlColumns:
    """The columns that were asked for, else those whose names say what they are."""
    for name in (*given.urls, given.checksum, *_fields(given.save_as)):
        if name and name not in names:
            raise UnknownName("column", name, names, where=str(path))
    urls = given.urls or tuple(name for name in URL_COLUMNS if name in names)
    if not urls:
        raise DataError(
            f"{path}  has no column of addresses that is known by its name "
            f"({', '.join(URL_COLUMNS[:3])}, …): say which it is with --url-column."
        )
    checksum = given.checksum or next((name for name in SUM_COLUMNS if name in names), "")
    named = next((f"{{{name}}}" for name in NAME_COLUMNS if name in names), "")
    numbered = next((f"{{{name}}}.jpg" for name in ID_COLUMNS if name in names), "")
    save_as = given.save_as or named or numbered
    return UrlColumns(
        urls, checksum, save_as if "{" in save_as or not save_as else f"{{{save_as}}}"
    )


def _fields(save_as: str) -> list[str]:
    if save_as and "{" not in save_as:
        return [save_as]
    return re.findall(r"\{([^{}]*)\}", save_as)


def _is_other(one: Download, other: Download) -> bool:
    is_same = one.urls[0] == other.urls[0]
    has_same_sum = one.has_checksum and (one.md5, one.sha256) == (other.md5, other.sha256)
    return not (has_same_sum or (is_same and not one.has_checksum and not other.has_checksum))


def is_here(file: Download) -> bool:
    """A wrong one loses its name, so that the right one can take it."""
    if not file.target.is_file():
        return False
    if fault(file, file.target):
        file.target.replace(file.bad)
        return False
    return file.has_checksum or file.target.stat().st_size > 0


def _row(result: DownloadResult, out: Path) -> FailedRow:
    file = result.file
    return (file.origin, file.target.relative_to(out).as_posix(), file.urls[0], result.reason)


def write_report(path: Path, header: Sequence[str], failed: Sequence[Sequence[str]]) -> None:
    write_file(path, csv_text([header, *failed]).encode())
