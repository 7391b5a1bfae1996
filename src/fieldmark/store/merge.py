"""Merging databases (sharding): how do the runs of other results files get into this one?

Workers on many machines write files of their own; one process takes their runs over. A run enters
with its own times, record and folder, and stands in the order in which runs were finished, not in
which they were merged: `turn` is a time. What is there already stays, so that merging a file twice,
or in two processes, changes nothing; a file is in the store whole or not at all.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark.errors import StoreError
from fieldmark.files import canonical_json
from fieldmark.store import claims, writing
from fieldmark.store.predictions import NUMBER, insert_answer, keep_items, unpack
from fieldmark.store.records import RunName
from fieldmark.store.shards import Shard, ShardNames, ShardPart, ShardRun, read_shard
from fieldmark.store.store import Store
from fieldmark.store.writing import SUMS_OF_PARTS

_log = logging.getLogger(__name__)

_AT_ONCE = 256
_AT_ONCE_BYTES = 32_000_000
"""files, and bytes of answers, in one transaction: others wait for it"""
_KNOWN_NAMES = 64
"""tables of names that are remembered"""


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What merging brought into the store."""

    n_runs: int = 0
    """runs that entered, or were brought forward, in whatever state"""
    n_parts: int = 0
    n_rows: int = 0
    """predictions"""
    n_before: int = 0
    """runs that stay as they were in the store"""
    faults: tuple[tuple[Path, StoreError], ...] = ()
    """files that could not be read, and why: nothing of them is in the store"""


def merge_shards(
    main: Store, shards: Sequence[Path], replaced: Collection[RunName] = ()
) -> MergeCounts:
    """Takes the runs of these files into `main`, all of a file in one transaction.

    A run that is done in `main` stays, unless it is one of `replaced` (it was asked for again)
    and the file's was finished later. Of an unfinished or failed run those parts enter that `main`
    lacks. A damaged file is named in `faults` and the others are merged; one that is not there
    holds no runs.
    """
    return _merge(main, shards, frozenset(replaced), is_left=True)


def adopt_shard(store: Store, earlier: Path) -> None:
    """Takes over what an earlier attempt at the same work holds, done and partly done.

    It may have been killed in the middle of a write, or hang and write again some day: its file is
    not touched. One that cannot be read is passed over, as what it held can be done again.
    """
    for _, error in _merge(store, [earlier], frozenset(), is_left=False).faults:
        _log.warning("%s", error)


def _merge(
    main: Store, paths: Sequence[Path], replaced: frozenset[RunName], is_left: bool
) -> MergeCounts:
    merging = _Merging(main, replaced)
    done = main._database.rows("SELECT key, data FROM run WHERE state = 'done'")
    kept = {(key, data) for key, data in done} - replaced
    for batch in _batches(merging.readable(paths, kept, is_left)):
        merging.write(batch)
    return MergeCounts(**merging.counts, faults=tuple(merging.faults))


def _batches(shards: Iterable[Shard]) -> Iterator[list[Shard]]:
    batch, n_bytes = list[Shard](), 0
    for shard in shards:
        batch.append(shard)
        n_bytes += shard.n_bytes
        if len(batch) >= _AT_ONCE or n_bytes >= _AT_ONCE_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


@dataclass(slots=True)
class _Merging:
    """One call of `merge_shards`."""

    main: Store
    replaced: frozenset[RunName]
    counts: Counter[str] = field(default_factory=Counter)
    """fields of `MergeCounts`"""
    faults: list[tuple[Path, StoreError]] = field(default_factory=list)
    numbers_of: dict[ShardNames, np.ndarray] = field(default_factory=dict)

    def readable(
        self, paths: Iterable[Path], kept: Collection[RunName], is_left: bool
    ) -> Iterator[Shard]:
        for path in paths:
            try:
                yield read_shard(path, kept, is_left)
            except StoreError as error:
                self.faults.append((path, error))

    def write(self, shards: Sequence[Shard]) -> None:
        try:
            with self.main._database.writing() as connection:
                entering = _Entering(connection, self.replaced)
                for shard in shards:
                    if shard.names is not None:
                        entering.read_as(self._numbers(shard.names), shard.items)
                    for run in shard.runs:
                        entering.take(run)
                if entering.has_dropped:
                    writing.drop_unused_items(connection)
        except BaseException:
            # names made in a transaction that was rolled back are not there
            self.main._names.forget()
            raise
        self.counts.update(entering.counts)

    def _numbers(self, names: ShardNames) -> np.ndarray:
        """The store's number of a name by that of the file; 0 stands for none in both."""
        if names not in self.numbers_of:
            if len(self.numbers_of) >= _KNOWN_NAMES:
                self.numbers_of.clear()
            listed, numbered = names.listed(), names.numbered()
            kept = self.main._names.intern(listed)
            numbers = np.zeros(int(numbered.max()) + 1, NUMBER)
            numbers[numbered] = [kept[name] for name in listed]
            self.numbers_of[names] = numbers
        return self.numbers_of[names]


@dataclass(slots=True)
class _Entering:
    """One transaction."""

    connection: sqlite3.Connection
    replaced: frozenset[RunName]
    counts: Counter[str] = field(default_factory=Counter)
    has_dropped: bool = False
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, NUMBER))
    """of the file that is read now: its number of a name → the store's"""
    items_of: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    kept_items: dict[int, int] = field(default_factory=dict)
    """of that file: its number of a list of items → the store's"""

    def read_as(self, numbers: np.ndarray, items: Mapping[int, tuple[Any, ...]]) -> None:
        """From now on runs are those of another file."""
        self.numbers, self.items_of, self.kept_items = numbers, items, {}

    def take(self, run: ShardRun) -> None:
        has_entered = self._done(run) if run.row["state"] == "done" else self._unfinished(run)
        self.counts["n_runs" if has_entered else "n_before"] += 1

    # -- runs -------------------------------------------------------------------------------------

    def _done(self, run: ShardRun) -> bool:
        row, name = run.row, run.name
        former = self._row("state = 'done'", name)
        if former is not None:
            is_newer = (row["finished"] or "") >= (former["finished"] or "")
            if name not in self.replaced or not is_newer or _is_same(former, row):
                self._confirm(former, row)
                return False
            self._drop(former["id"])
        begun = self._row("state <> 'done'", name)
        if begun is not None and claims.other(self.connection, name[0]) is None:
            self._drop(begun["id"])
        self._insert(row, run)
        return True

    def _confirm(self, former: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """It was done a second time: so it was right then, in that folder."""
        if row["turn"] > former["turn"]:
            self.connection.execute(
                "UPDATE run SET turn = ?, root = ?, is_synthetic = ? WHERE id = ?",
                [row["turn"], row["root"] or former["root"], row["is_synthetic"], former["id"]],
            )

    def _unfinished(self, run: ShardRun) -> bool:
        row, name = run.row, run.name
        done = self._row("state = 'done'", name)
        if done is not None and (name not in self.replaced or done["started"] >= row["started"]):
            return False
        begun = self._row("state <> 'done'", name)
        if begun is None:
            self._insert(row, run)
            return True
        is_free = claims.other(self.connection, name[0]) is None
        is_later = is_free and _times(row) > _times(begun)
        prints = {begun["fingerprint"], row["fingerprint"]} - {""}
        if len(prints) > 1:
            if not is_later:
                return False
            self.connection.execute("DELETE FROM part WHERE run = ?", [begun["id"]])
            self.has_dropped = True
        n_new = self._add_parts(begun["id"], run.parts)
        if is_later:
            self._bring_forward(begun, row)
        if begun["state"] == "failed" or (is_later and row["state"] == "failed"):
            sql = f"UPDATE run SET {SUMS_OF_PARTS} WHERE id = ?"
            self.connection.execute(sql, [begun["id"]])
        return n_new > 0 or is_later

    def _bring_forward(self, begun: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """The later attempt says how the run stands; the earlier one is history."""
        # The record of a later attempt, with those of the earlier ones in the order of time
        before, after = json.loads(begun["record"]), json.loads(row["record"])
        earlier, later = before.pop("earlier", []), after.pop("earlier", [])
        past = [*earlier, *([before] if before else []), *later]
        unique = {canonical_json(one): one for one in past}
        unique.pop(canonical_json(after), None)
        self.connection.execute(
            "UPDATE run SET state = ?, error = ?, started = ?, finished = ?, fingerprint = ?, "
            "root = ?, is_synthetic = ?, app = ?, record = ? WHERE id = ?",
            [
                *(row[name] for name in ("state", "error", "started", "finished")),
                row["fingerprint"] or begun["fingerprint"],
                *(row["root"], row["is_synthetic"], row["app"]),
                canonical_json({**after, "earlier": list(unique.values())} if unique else after),
                begun["id"],
            ],
        )

    def _row(self, condition: str, name: RunName) -> dict[str, Any] | None:
        """The run in the store; the condition lets SQLite use the index of done or begun runs."""
        cursor = self.connection.execute(
            "SELECT id, state, started, finished, seconds, fingerprint, root, record, turn "
            f"FROM run WHERE key = ? AND data = ? AND {condition}",
            name,
        )
        row = cursor.fetchone()
        columns = (column[0] for column in cursor.description)
        return None if row is None else dict(zip(columns, row, strict=True))

    def _drop(self, run: int) -> None:
        self.connection.execute("DELETE FROM run WHERE id = ?", [run])
        self.has_dropped = True

    # -- rows -------------------------------------------------------------------------------------

    def _insert(self, row: Mapping[str, Any], run: ShardRun) -> None:
        number = self.connection.execute(
            f"INSERT INTO run ({', '.join(row)}) VALUES ({_marks(len(row))})", list(row.values())
        ).lastrowid
        assert number is not None
        self._add_parts(number, run.parts)
        if run.scores:
            marks = _marks(len(run.scores[0]) + 1)
            rows = [(number, *score) for score in run.scores]
            self.connection.executemany(f"INSERT INTO score VALUES ({marks})", rows)

    def _add_parts(self, run: int, parts: Iterable[ShardPart]) -> int:
        """Writes the parts that the run lacks, or has with fewer answers; how many."""
        held = {
            (part, repeat): n_ok
            for part, repeat, n_ok in self.connection.execute(
                "SELECT part, repeat, n_ok FROM part WHERE run = ?", [run]
            )
        }
        n_new = 0
        for part in parts:
            name, repeat, *values = part.columns
            where = (run, int(self.numbers[name]), repeat)
            if held.get(where[1:], -1) >= part.columns[5]:
                continue
            if where[1:] in held:
                sql = "DELETE FROM part WHERE run = ? AND part = ? AND repeat = ?"
                self.connection.execute(sql, where)
                self.has_dropped = True
            self._insert_part(where, values, part)
            n_new += 1
            self.counts["n_rows"] += part.columns[4]
        self.counts["n_parts"] += n_new
        return n_new

    def _insert_part(
        self, where: tuple[int, int, int], values: Sequence[Any], part: ShardPart
    ) -> None:
        self.connection.execute(
            "INSERT INTO part (run, part, repeat, finished, n_train, n_items, n_ok, seconds, info) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [*where, *values],
        )
        prediction, outcome, score, info = part.answers
        named = [self._named(prediction), None if outcome is None else self._named(outcome)]
        if part.items not in self.kept_items:
            n, item, target, unit, content = self.items_of[part.items]
            columns = [self._named(blob) for blob in (item, target, unit)]
            self.kept_items[part.items] = keep_items(self.connection, n, columns, content)
        insert_answer(self.connection, where, self.kept_items[part.items], [*named, score, info])

    def _named(self, blob: bytes) -> bytes:
        return bytes(self.numbers[unpack(blob)].astype(NUMBER, copy=False).tobytes())


def _marks(n: int) -> str:
    return ", ".join("?" * n)


def _times(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["started"], row["finished"] or ""


def _is_same(former: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Is it the very same doing of the run, merged before?"""
    names = ("started", "finished", "seconds", "fingerprint", "record")
    return all(former[name] == row[name] for name in names)
