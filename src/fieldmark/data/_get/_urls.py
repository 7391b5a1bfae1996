"""How does a table of addresses become a folder of images?

One row per file: one or several addresses (tried in turn), a checksum where there is one, and a
name to save it under. `report.csv` lists what could not be fetched and why.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from fieldmark.data._get._crew import fetch_all
from fieldmark.data._get._http import url_fault
from fieldmark.data._get._job import Job, Outcome, Pace, fault
from fieldmark.data._get._state import FOLDER, held
from fieldmark.data._get._tally import Tally
from fieldmark.errors import DataError, UnknownName, at
from fieldmark.progress import Progress, Silent

URL_COLUMNS = (
    "url", "source_url", "image_url", "img_url", "url_gcp", "url_azure", "url_aws", "link",
)  # fmt: skip
SUM_COLUMNS = ("md5", "hashsum_original", "sha256", "checksum", "hash")
NAME_COLUMNS = ("filepath", "file_path", "filename", "file_name")
ID_COLUMNS = ("id", "image_id", "uuid")
REPORT = "report.csv"
POLITE = Pace(parallel=8, per_host=2, delay_s=0.1)
SUM = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns mean what; empty = found by their names."""

    urls: tuple[str, ...] = ()
    """several are mirrors of each other"""
    checksum: str = ""
    """MD5 or SHA-256, told by its length"""
    save_as: str = ""
    """a column with file names, or a pattern of columns: `{id}.jpg`"""


@dataclass(frozen=True, slots=True)
class Listed:
    """What became of a list."""

    n_here: int
    n_fetched: int
    failed: tuple[tuple[str, str, str, str], ...] = field(default_factory=tuple)
    """row, file, address, reason"""


def get_urls(
    table: Path,
    out: Path,
    columns: Columns | None = None,
    pace: Pace = POLITE,
    progress: Progress | None = None,
) -> Listed:
    """Fetches all files of a table into `out`, those that are right already excepted."""
    jobs, failed = read_jobs(table, out, columns or Columns())
    tally = Tally(progress or Silent())
    outcomes: list[Outcome] = []
    with held(out):
        todo = [job for job in jobs if not _is_here(job)]
        if todo:
            tally.progress.start("files", len(todo))
        fetch_all(todo, pace, _Files(tally), outcomes.append)
        lost = [each for each in outcomes if each.state == "failed"]
        rows = [
            (each.job.origin, each.job.target.relative_to(out).as_posix(), each.job.urls[0],
             each.reason)
            for each in lost
        ]  # fmt: skip
        failed = sorted([*failed, *rows], key=lambda row: int(row[0]))
        _write_report(out, failed)
    return Listed(len(jobs) - len(todo), len(outcomes) - len(lost), tuple(failed))
