"""Shard files: what runs does a results file hold that another process wrote and left?

Nothing in the file or beside it is changed and no lock is asked for. A file that was left in the
middle of a transaction (it has a journal) is read from a copy that is put in order first. Whatever
is wrong with a file is one line that names it.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark.errors import StoreError, at
from fieldmark.store.database import VERSION, Database, explained, open_database, open_unchanging
from fieldmark.store.predictions import unpack
from fieldmark.store.records import RunName, answer_sum, items_key, score_sum

_SEPARATORS = "\x1f\x1e\x1d\x1c\x02\x03\ue000\uf8ff"
"""between names: characters that hardly any name has, and none has all of"""
_TRIES = 20
_PAUSE_S = 0.1
_PART = "part.part, repeat, finished, n_train, n_items, n_ok, seconds, part.info"
_ANSWER = "items, prediction, outcome, score, answer.info, sum"
_ITEMS = "n, item, target, unit, content"


@dataclass(frozen=True, slots=True)
class ShardPart:
    """A finished part; names are numbers of the file's own."""

    columns: tuple[Any, ...]
    """part, repeat, finished, n_train, n_items, n_ok, seconds, info"""
    items: int
    answers: tuple[bytes, bytes | None, bytes | None, bytes | None]
    """prediction, outcome, score, info"""


@dataclass(frozen=True, slots=True)
class ShardRun:
    """A run with all it has; `parts` and `scores` are empty where they were not asked for."""

    row: dict[str, Any]
    """by the columns of the table `run`, without its number"""
    parts: tuple[ShardPart, ...] = ()
    scores: tuple[tuple[Any, ...], ...] = ()
    """rows of the table `score`, by its columns, without the run's number"""

    @property
    def name(self) -> RunName:
        return self.row["key"], self.row["data"]


@dataclass(frozen=True, slots=True)
class ShardNames:
    """The file's names and their numbers, joined: shards of one task often have the very same."""

    numbers: str
    values: str
    between: str
    """what stands between the values"""

    def listed(self) -> list[str]:
        return self.values.split(self.between)

    def numbered(self) -> np.ndarray:
        return np.fromstring(self.numbers, np.int64, sep=",")


@dataclass(frozen=True, slots=True)
class Shard:
    """The runs of one file, done ones first."""

    path: Path
    runs: tuple[ShardRun, ...] = ()
    names: ShardNames | None = None
    """None: no part was read"""
    items: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    """what was asked, by number: n, item, target, unit, content"""
    n_bytes: int = 0


def read_shard(path: Path, passed_over: Collection[RunName] = (), is_left: bool = True) -> Shard:
    """The runs of a file; of those in `passed_over` no parts. StoreError: it is damaged,
    or cannot be read now (`may_pass`).

    A file that is not there, or empty, holds no runs. Without `is_left` somebody may still write
    to it: then all is read from a copy.
    """
    try:
        with explained(path, 0.0), _opened(path, is_left) as database:
            return Shard(path) if database is None else _read(path, database, passed_over)
    except OSError as error:
        text = f"cannot be read ({error.strerror or error}): check the file and its folder."
        raise _passing(path, text) from error
    except (sqlite3.Error, ValueError, LookupError) as error:
        raise _damaged(path, str(error)) from error


def _read(path: Path, database: Database, passed_over: Collection[RunName]) -> Shard:
    if (problems := database.rows("PRAGMA quick_check(1)")) != [("ok",)]:
        raise _damaged(path, str(problems[0][0]).replace("\n", " "))
    cursor = database.connection.execute("SELECT * FROM run ORDER BY state <> 'done', id")
    columns = [column[0] for column in cursor.description]
    rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    runs = [_run(database, row, (row["key"], row["data"]) in passed_over) for row in rows]
    parts = [part for run in runs for part in run.parts]
    if not parts:
        return Shard(path, tuple(runs))
    numbers = {part.items for part in parts}
    listed = database.rows(f"SELECT id, key, {_ITEMS} FROM item_list")
    items = {number: tuple(rest) for number, _, *rest in listed if number in numbers}
    names = _names(database)
    _check(path, parts, items, names.numbered())
    if any(key != items_key(rest[1:4], rest[4]) for _, key, *rest in listed):
        raise ValueError("its lists of items are not as they were written")
    blobs = (blob for held in (*items.values(), *(part.answers for part in parts)) for blob in held)
    n_bytes = sum(len(blob) for blob in blobs if isinstance(blob, bytes))
    return Shard(path, tuple(runs), names, items, n_bytes)


def _names(database: Database) -> ShardNames:
    """One row of all names: thousands of rows would take longer than all else."""
    for between in _SEPARATORS:
        ((n, numbers, values),) = database.rows(
            "SELECT count(*), group_concat(id), group_concat(value, ?) "
            "FROM (SELECT id, value FROM text ORDER BY id)",
            [between],
        )
        if n and values.count(between) == n - 1:  # else a name has it too
            return ShardNames(numbers, values, between)
    raise ValueError("its names cannot be told apart")


def _run(database: Database, row: dict[str, Any], is_passed_over: bool) -> ShardRun:
    number = row.pop("id")
    if is_passed_over:
        return ShardRun(row)
    sql = (
        f"SELECT {_PART}, {_ANSWER} FROM part LEFT JOIN answer USING (run, part, repeat) "
        "WHERE part.run = ? ORDER BY part.part, repeat"
    )
    parts = []
    for columns in database.rows(sql, [number]):
        columns_of_part, items, answers, written = (
            columns[:8],
            columns[8],
            columns[9:13],
            columns[13],
        )
        if items is not None and answer_sum(answers) != written:
            raise ValueError("its predictions are not as they were written")
        parts.append(ShardPart(tuple(columns_of_part), items, tuple(answers)))
    scores = database.rows("SELECT * FROM score WHERE run = ? ORDER BY part, metric", [number])
    if any(score_sum(score[1:-1]) != score[-1] for score in scores):
        raise ValueError("its scores are not as they were written")
    return ShardRun(row, tuple(parts), tuple(score[1:] for score in scores))


def _check(
    path: Path,
    parts: Collection[ShardPart],
    items: Mapping[int, tuple[Any, ...]],
    numbered: np.ndarray,
) -> None:
    """That all columns of a part have its length and all numbers a name."""
    highest, named_parts = int(numbered.max()), set(numbered.tolist())
    is_named = np.zeros(highest + 1, bool)
    is_named[numbered] = is_named[0] = True
    columns: list[tuple[bytes, int]] = []
    for n, item, target, unit, content in items.values():
        columns += [(item, n), (target, n), (unit, n)]
        if content is not None and len(content) != 16 * n:
            raise _damaged(path, "the digests of a part have another length")
    for part in parts:
        if part.columns[0] not in named_parts or part.items not in items:
            raise _damaged(path, "a part has no name or no answers")
        n = items[part.items][0]
        prediction, outcome, score, _ = part.answers
        columns += [(prediction, n)] + ([] if outcome is None else [(outcome, n)])
        if score is not None and len(score) != 8 * n:
            raise _damaged(path, "the scores of a part have another length")
    for blob, n in columns:
        numbers = unpack(blob)
        is_right = len(numbers) == n and (
            n == 0 or (numbers.min() >= 0 and numbers.max() <= highest and is_named[numbers].all())
        )
        if not is_right:
            raise _damaged(path, "an answer has a name that is not there")


# --- opening ---


@contextmanager
def _opened(path: Path, is_left: bool) -> Iterator[Database | None]:
    """A connection to the file as it is, or to a copy that was put in order; None: no runs."""
    if not path.exists() or path.stat().st_size == 0:
        yield None
        return
    if is_left and len(_files(path)) == 1:
        database = open_unchanging(path)
        with closing(database.connection):
            if database.rows("PRAGMA user_version") == [(VERSION,)]:
                yield database
                return
    with tempfile.TemporaryDirectory(prefix="fieldmark-shard-") as folder:
        copy = _copied(path, Path(folder))
        try:
            database = open_database(copy, read_only=False, timeout_s=0.0)
        except StoreError as error:
            text = str(error).replace(str(copy), str(path))
            raise StoreError(text, error.may_pass) from error
        with closing(database.connection):
            yield database


def _files(path: Path) -> list[Path]:
    """The file, and what belongs to a transaction that was not finished."""
    beside = [path.with_name(path.name + suffix) for suffix in ("-journal", "-wal")]
    return [path, *(file for file in beside if file.exists() and file.stat().st_size)]


def _copied(path: Path, folder: Path) -> Path:
    """A copy during which nobody wrote to the file."""
    for _ in range(_TRIES):
        before = _stamps(path)
        for file in folder.iterdir():
            file.unlink()
        for file in _files(path):
            shutil.copyfile(file, folder / file.name)
        if _stamps(path) == before:
            return folder / path.name
        time.sleep(_PAUSE_S)
    raise _passing(path, "is still being written: merge it when its process has ended.")


def _stamps(path: Path) -> list[tuple[str, int, int]]:
    status = [(file.name, file.stat()) for file in _files(path)]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in status]


def _passing(path: Path, text: str) -> StoreError:
    return StoreError(at(path, None, text), may_pass=True)


def _damaged(path: Path, why: str) -> StoreError:
    text = f"is damaged ({why}): its runs are done again when it is moved away."
    return StoreError(at(path, None, text))
