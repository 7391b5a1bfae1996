"""SQL writes: how do runs, their parts, scores and names get into the store?"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, islice
from typing import Any, TypeVar

from fieldmark.errors import DataError
from fieldmark.files import canonical_json
from fieldmark.registry import app_version
from fieldmark.store.database import Database
from fieldmark.store.records import (
    OK,
    Marks,
    PartResult,
    Predictions,
    RunName,
    RunSpec,
    Score,
    known,
    score_sum,
    utc_now,
)
from fieldmark.words import is_text


def insert_part(
    connection: sqlite3.Connection, names: TextTable, run: int, result: PartResult
) -> None:
    """Writes a part and its predictions, in place of what stood there."""
    from fieldmark.store.predictions import insert_columns  # numpy: not needed to open a file

    columns = plain_columns(result.predictions)
    check_columns(columns, f"part {result.part!r}, repeat {result.repeat}")
    named = [columns[name] for name in ("item", "target", "prediction", "unit", "outcome")]
    numbers = names.intern(chain([result.part], *named))
    where = (run, numbers[result.part], int(result.repeat))
    connection.execute("DELETE FROM part WHERE run = ? AND part = ? AND repeat = ?", where)
    info = None if result.info is None else canonical_json(result.info)
    counts = (len(columns["item"]), columns["outcome"].count(OK))
    connection.execute(
        "INSERT INTO part (run, part, repeat, finished, n_train, n_items, n_ok, seconds, info) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [*where, utc_now(), result.n_train, *counts, float(result.seconds), info],
    )
    insert_columns(connection, where, columns, numbers)


def drop_unused_items(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM item_list WHERE id NOT IN (SELECT items FROM answer)")


def plain_columns(predictions: Predictions) -> dict[str, list[Any]]:
    """Python lists of equal length, from lists, arrays or series; gaps are filled in."""
    ids = _plain(predictions.ids)
    columns = {
        "item": ids,
        "target": _plain(predictions.targets),
        "prediction": _plain(predictions.predictions),
        "score": _plain(predictions.scores, len(ids)),
        "unit": _plain(predictions.units, len(ids)),
        "outcome": _plain(predictions.outcomes, len(ids), OK),
        "info": _plain(predictions.infos, len(ids)),
        "content": _plain(predictions.contents, len(ids)),
    }
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of predictions differ in length: {lengths}")
    return columns


def _plain(column: Sequence[Any] | None, n: int = 0, default: Any = None) -> list[Any]:
    if column is None:
        return [default] * n
    for way in ("tolist", "to_list"):  # numpy's own numbers are foreign to SQLite
        if hasattr(column, way):
            return list(getattr(column, way)())
    return list(column)


def check_columns(columns: Mapping[str, list[Any]], where: str) -> None:
    ids, outcomes = columns["item"], columns["outcome"]
    if len(set(ids)) < len(ids):
        twins = [item for item, count in Counter(ids).items() if count > 1]
        shown = ", ".join(repr(twin) for twin in twins[:3])
        raise DataError(
            f"{where}: {len(twins)} ids have more than one prediction ({shown}): ids must be "
            "unique; nothing of this part was stored."
        )
    if None in ids:
        raise TypeError(f"{where}: a prediction has no id")
    if any(digest is not None and len(digest) != 16 for digest in columns["content"]):
        raise ValueError(f"{where}: the digest of an item's content has 16 bytes")
    if outcomes.count(OK) == len(outcomes):
        return
    pairs = zip(columns["prediction"], outcomes, strict=True)
    if any(answer is not None and outcome != OK for answer, outcome in pairs):
        raise ValueError(f"{where}: only the outcome {OK!r} may have a prediction")


def replace_scores(connection: sqlite3.Connection, run: int, scores: Sequence[Score]) -> None:
    rows = []
    for score in scores:
        numbers = (known(score.value), known(score.low), known(score.high))
        counts = (int(score.n), None if score.n_units is None else int(score.n_units))
        flags = (int(score.is_primary), int(score.higher_is_better), int(score.is_fraction))
        columns = (
            *(score.part, score.metric, *numbers, float(score.level), *counts),
            *(score.method, *flags, score.warning),
        )
        rows.append((run, *columns, score_sum(columns)))
    connection.execute("DELETE FROM score WHERE run = ?", [run])
    connection.executemany(
        "INSERT INTO score (run, part, metric, value, low, high, level, n, n_units, method, "
        "is_primary, higher_is_better, is_fraction, warning, sum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def insert_run(
    connection: sqlite3.Connection,
    spec: RunSpec,
    record: Mapping[str, Any],
    fingerprint: str,
    root: str,
    marks: Marks,
) -> int:
    now = utc_now()
    row = {column.name: getattr(spec, column.name) for column in fields(spec)} | {
        "settings": canonical_json(spec.settings),
        "key": spec.key,
        "state": "running",
        "created": now,
        "started": now,
        "fingerprint": fingerprint,
        "root": root,
        "is_synthetic": int(marks.is_synthetic),
        "stand_in": marks.stand_in,
        "app": app_version(),
        "record": canonical_json(record),
    }
    question_marks = ",".join("?" * len(row))
    done = connection.execute(
        f"INSERT INTO run ({','.join(row)}) VALUES ({question_marks})", list(row.values())
    )
    assert done.lastrowid is not None
    return done.lastrowid


def reopen_run(
    connection: sqlite3.Connection,
    run: int,
    record: Mapping[str, Any],
    fingerprint: str,
    root: str,
    marks: Marks,
) -> None:
    """Takes an unfinished run up again; parts of a model with another fingerprint go, and the
    records of attempts before stay as `earlier`.
    """
    ((former, former_record),) = connection.execute(
        "SELECT fingerprint, record FROM run WHERE id = ?", [run]
    ).fetchall()
    if former and fingerprint and former != fingerprint:
        connection.execute("DELETE FROM part WHERE run = ?", [run])
    history = json.loads(former_record)
    earlier = history.pop("earlier", [])
    if history and history != json.loads(canonical_json(record)):
        earlier = [*earlier, history]
    kept = canonical_json({**record, "earlier": earlier} if earlier else record)
    connection.execute(
        "UPDATE run SET state = 'running', error = NULL, started = ?, finished = NULL, "
        "fingerprint = ?, root = ?, is_synthetic = ?, stand_in = ?, app = ?, record = ? "
        "WHERE id = ?",
        [
            *(utc_now(), fingerprint or former, root, int(marks.is_synthetic), marks.stand_in),
            *(app_version(), kept, run),
        ],
    )


def take_turn(connection: sqlite3.Connection, names: Collection[RunName]) -> None:
    """Puts the done runs of these names behind all others, in the order of what is asked for now.

    A turn is the time in milliseconds, so that runs of several files can be put in order; a clock
    that is set back does not bring a run behind those before it.
    """
    ((last,),) = connection.execute("SELECT coalesce(max(turn), 0) FROM run").fetchall()
    turn = max(last + 1, time.time_ns() // 1_000_000)
    connection.executemany(
        "UPDATE run SET turn = ? WHERE key = ? AND data = ? AND state = 'done'",
        [(turn, *name) for name in names],
    )


SUMS_OF_PARTS = (
    "(seconds, n_items, n_ok) = (SELECT total(seconds), coalesce(sum(n_items), 0), "
    "coalesce(sum(n_ok), 0) FROM part WHERE part.run = run.id)"
)


def close_run(connection: sqlite3.Connection, run: int, state: str, error: str | None) -> None:
    connection.execute(
        f"UPDATE run SET state = ?, error = ?, finished = ?, {SUMS_OF_PARTS} WHERE id = ? "
        "AND NOT (state = 'done' AND ? = 'failed')",
        [state, error, utc_now(), run, state],
    )


# --- names ---
#
# String interning: item ids, labels, units and part names stand once in the table `text`, and both
# directions are remembered while the store is open.


T = TypeVar("T")

_AT_ONCE = 10_000
"""values in one IN (...): below SQLite's limit of 32,766"""


@dataclass(frozen=True, slots=True)
class TextTable:
    """The table `text`, as far as it was read."""

    database: Database
    _numbers: dict[str, int] = field(default_factory=dict)
    _texts: dict[int, str] = field(default_factory=dict)

    def intern(self, values: Iterable[str | None]) -> Mapping[str, int]:
        """The numbers of all values but None, and more; makes the missing ones.

        Only within `database.writing()`; `forget` must follow if that is rolled back.
        """
        missing = [value for value in dict.fromkeys(values) if value not in self._numbers]
        names = _checked(missing)
        self.find(names)
        ((highest,),) = self.database.rows("SELECT coalesce(max(id), 0) FROM text")
        fresh = [value for value in names if value not in self._numbers]
        numbered = [(value, number) for number, value in enumerate(fresh, start=highest + 1)]
        self.database.connection.executemany("INSERT INTO text (value, id) VALUES (?, ?)", numbered)
        self._numbers.update(numbered)
        return self._numbers

    def find(self, values: Sequence[str]) -> Mapping[str, int]:
        """The numbers of those values that have one, and more."""
        for some in _chunks([value for value in values if value not in self._numbers]):
            marks = ",".join("?" * len(some))
            sql = f"SELECT value, id FROM text WHERE value IN ({marks})"
            self._numbers.update(self.database.rows(sql, some))
        return self._numbers

    def forget(self) -> None:
        self._numbers.clear()
        self._texts.clear()

    def texts(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """The names behind the numbers, and more."""
        for some in _chunks([number for number in numbers if number not in self._texts]):
            marks = ",".join("?" * len(some))
            sql = f"SELECT id, value FROM text WHERE id IN ({marks})"
            self._texts.update(self.database.rows(sql, some))
        return self._texts


def _chunks(values: Sequence[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def _checked(values: Iterable[str | None]) -> list[str]:
    names = [value for value in values if value is not None]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a name is text, found {name!r} ({type(name).__name__})")
        if not name.isascii() and not is_text(name):
            raise DataError(
                f"the name {name!r} is not valid Unicode and cannot be stored: rename it."
            )
    return names
