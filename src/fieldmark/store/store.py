"""The store: runs, predictions and scores in one SQLite file.

A part is there whole or not at all, a finished run is never done twice, and two processes on the
same file do not do the same run. A `Store` belongs to the thread that opened it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from sqlite3 import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fieldmark.errors import StoreError, at
from fieldmark.files import canonical_json
from fieldmark.leases import wait_until_heard
from fieldmark.store import claims, queries, writing
from fieldmark.store.database import Database, open_database
from fieldmark.store.records import (
    NO_MARKS,
    Claim,
    Marks,
    PartRecord,
    PartResult,
    Run,
    RunFilter,
    RunName,
    RunSpec,
    Score,
)
from fieldmark.store.writing import TextTable

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.store.predictions import Answers

EVERYTHING = RunFilter()


@dataclass(frozen=True, slots=True)
class Store:
    """An open results file; use it in a `with` statement."""

    path: Path
    _database: Database
    _names: TextTable
    _claimed: set[str] = field(default_factory=set)
    is_private: bool = False
    """no other process has the file: no locks, and every run is this process's own"""

    @classmethod
    def open(
        cls,
        path: Path | str,
        read_only: bool = False,
        timeout_s: float = 30.0,
        is_private: bool = False,
    ) -> Store:
        """Opens the file, making it and its folders where needed.

        With `read_only` nothing on disk changes, and a missing file is answered as an empty store.
        With `is_private` the caller promises that nobody else opens the file before this store is
        closed: it works on file systems whose locks do not, and `merge_shards` takes the runs over
        into a store that others read.
        """
        database = open_database(Path(path), read_only, timeout_s, is_private)
        return cls(Path(path), database, TextTable(database), is_private=is_private)

    def close(self) -> None:
        self._database.connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- doing a run ------------------------------------------------------------------------------

    def begin_run(
        self,
        spec: RunSpec,
        record: Mapping[str, Any] | None = None,
        fingerprint: str = "",
        root: str = "",
        again: bool = False,
        marks: Marks = NO_MARKS,
    ) -> int:
        """The number of the run, new or taken up again where it stopped.

        A done run stays done. With `again` it stays until a second one is finished, whose number
        this is. The finished parts of an unfinished run are kept, unless the model's fingerprint is
        another now: then they are another model's and go.
        """
        with self._database.writing() as connection:
            rows = connection.execute(
                "SELECT state = 'done', id FROM run WHERE key = ? AND data = ?", spec.name
            ).fetchall()
            done, unfinished = dict(rows).get(1), dict(rows).get(0)
            if done is not None and not again:
                if unfinished is not None and claims.other(connection, spec.key) is None:
                    connection.execute("DELETE FROM run WHERE id = ?", [unfinished])
                return int(done)
            if unfinished is None:
                return writing.insert_run(connection, spec, record or {}, fingerprint, root, marks)
            writing.reopen_run(connection, unfinished, record or {}, fingerprint, root, marks)
            return int(unfinished)

    def finished_parts(self, run: int) -> list[PartRecord]:
        """The parts that need not be done again, by name and repeat."""
        rows = self._database.rows(
            "SELECT value, repeat, finished, n_train, n_items, n_ok, seconds, info FROM part "
            "JOIN text ON text.id = part.part WHERE run = ? ORDER BY value, repeat",
            [run],
        )
        return [PartRecord(*[*columns, info and json.loads(info)]) for *columns, info in rows]

    def write_part(self, run: int, result: PartResult) -> None:
        """Writes one part in one transaction. A part that is there already is replaced.

        ClaimLost when the run is not this process's any more.
        """
        try:
            with self._database.writing() as connection:
                self._check_claim(connection, run)
                writing.insert_part(connection, self._names, run, result)
        except BaseException:
            self._names.forget()  # names made in a transaction that was rolled back are not there
            raise

    def finish_run(self, run: int, scores: Sequence[Score]) -> None:
        """Makes the run done, in place of one of the same name; ClaimLost as in `write_part`."""
        with self._database.writing() as connection:
            name = self._check_claim(connection, run)
            sql = "DELETE FROM run WHERE state = 'done' AND id <> ? AND key = ? AND data = ?"
            if connection.execute(sql, [run, *name]).rowcount:
                writing.drop_unused_items(connection)
            writing.replace_scores(connection, run, scores)
            writing.close_run(connection, run, "done", None)
            writing.take_turn(connection, [name])

    def note_part(self, run: int, part: str, repeat: int, info: Mapping[str, Any]) -> None:
        """Puts other facts about a part in place of those it has; its predictions stay."""
        with self._database.writing() as connection:
            self._name(run)
            connection.execute(
                "UPDATE part SET info = ? WHERE run = ? AND repeat = ? "
                "AND part = (SELECT id FROM text WHERE value = ?)",
                [canonical_json(info), run, repeat, part],
            )

    def fail_run(self, run: int, error: str) -> None:
        """Keeps the error with its traceback, and the finished parts.

        A done run stays done, and one that another process is on is left to that.
        """
        with self._database.writing() as connection:
            if claims.other(connection, self._name(run)[0]) is None:
                writing.close_run(connection, run, "failed", error)

    def forget_start(self, run: int) -> None:
        """Forgets a run of which no part was finished; one that another process is on stays."""
        with self._database.writing() as connection:
            if claims.other(connection, self._name(run)[0]) is None:
                connection.execute(
                    "DELETE FROM run WHERE id = ? AND state <> 'done' "
                    "AND NOT EXISTS (SELECT 1 FROM part WHERE part.run = run.id)",
                    [run],
                )

    def rescore_run(self, run: int, scores: Sequence[Score]) -> None:
        """Replaces the scores of a run; its predictions stay."""
        with self._database.writing() as connection:
            self._name(run)
            writing.replace_scores(connection, run, scores)

    def replace_answers(
        self, run: int, results: Sequence[PartResult], scores: Sequence[Score]
    ) -> None:
        """Puts answers that were read again, and their scores, in place of those of a done run."""
        try:
            with self._database.writing() as connection:
                self._name(run)
                for result in results:
                    writing.insert_part(connection, self._names, run, result)
                writing.replace_scores(connection, run, scores)
                connection.execute(
                    "UPDATE run SET n_ok = "
                    "(SELECT coalesce(sum(n_ok), 0) FROM part WHERE part.run = run.id) "
                    "WHERE id = ?",
                    [run],
                )
        except BaseException:
            self._names.forget()
            raise

    def drop_run(self, name: RunName) -> bool:
        """Forgets a run with its predictions and scores; False when there is none."""
        return self.drop_runs([name]) > 0

    def drop_runs(self, names: Collection[RunName]) -> int:
        """Forgets these runs, all or none; ClaimLost where another process is on one of them."""
        with self._database.writing() as connection:
            for key, _ in names:
                claims.check(connection, key, is_held=False)
            sql = "DELETE FROM run WHERE key = ? AND data = ?"
            dropped = sum(connection.execute(sql, name).rowcount > 0 for name in names)
            writing.drop_unused_items(connection)
            return dropped

    def confirm(
        self, roots: Mapping[RunName, str], drawn: Collection[RunName] | None = None
    ) -> None:
        """Says that these done runs are right today, and in which folder ("": as before),
        whatever was finished after them. `drawn`: those of synthetic data; None: as before.
        """
        with self._database.writing() as connection:
            writing.take_turn(connection, roots)
            connection.executemany(
                "UPDATE run SET root = ? WHERE key = ? AND data = ? AND state = 'done'",
                [(root, *name) for name, root in roots.items() if root],
            )
            connection.executemany(
                "UPDATE run SET is_synthetic = ? WHERE key = ? AND data = ? AND state = 'done'",
                [(int(name in drawn), *name) for name in roots if drawn is not None],
            )

    def _name(self, run: int) -> RunName:
        rows = self._database.rows("SELECT key, data FROM run WHERE id = ?", [run])
        if not rows:
            text = f"run {run} is not there (any more): another process dropped it."
            raise StoreError(at(self.path, None, text))
        key, data = rows[0]
        return key, data

    def _check_claim(self, connection: Connection, run: int) -> RunName:
        name = self._name(run)
        claims.check(connection, name[0], name[0] in self._claimed)
        return name

    # -- who is on it -----------------------------------------------------------------------------

    def claim(self, key: str) -> bool:
        """Makes the runs of a key this process's own, whatever their images hold; False while
        another living process has them.
        """
        if self.is_private:
            return True
        with self._database.writing() as connection:
            if claims.other(connection, key) is not None:
                return False
            connection.execute(
                f"INSERT OR REPLACE INTO claim ({claims.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                astuple(claims.mine(key)),
            )
        self._claimed.add(key)
        return True

    def heartbeat(self, key: str) -> bool:
        """To be called three times a minute or so; False when the claim is not held any more."""
        if self.is_private:
            return True
        claim = claims.mine(key)
        with self._database.writing() as connection:
            beaten = connection.execute(
                "UPDATE claim SET heartbeat = ? "
                "WHERE key = ? AND place = ? AND pid = ? AND born = ?",
                [claim.heartbeat, key, claim.place, claim.pid, claim.born],
            )
            return beaten.rowcount == 1

    def release(self, key: str) -> None:
        self._claimed.discard(key)
        if self.is_private:
            return
        claim = claims.mine(key)
        with self._database.writing() as connection:
            connection.execute(
                "DELETE FROM claim WHERE key = ? AND place = ? AND pid = ? AND born = ?",
                [key, claim.place, claim.pid, claim.born],
            )

    def free(self, key: str) -> Claim | None:
        """Takes the claim on a key from whoever has it: that process stops at its next write."""
        with self._database.writing() as connection:
            claim = claims.holding(connection, key)
            connection.execute("DELETE FROM claim WHERE key = ?", [key])
            return claim

    def wait_for_unseen(self, keys: Collection[str], tell: Callable[[str], None]) -> None:
        """Waits while it is not known whether processes elsewhere that are on these runs live:
        until their hearts beat once, or their claims run out. `tell` is told the key of one.
        """

        def unseen() -> dict[str, str]:
            held = [claim for key, claim in self.claims().items() if key in keys]
            return {one.key: one.heartbeat for one in held if claims.is_running(one) is None}

        wait_until_heard(unseen, tell)

    def claims(self) -> dict[str, Claim]:
        """The claims that hold now, by key, those of this process included."""
        rows = self._database.rows(f"SELECT {claims.COLUMNS} FROM claim ORDER BY key")
        held = (Claim(*row) for row in rows)
        return {claim.key: claim for claim in held if not claims.is_stale(claim)}

    # -- reading ----------------------------------------------------------------------------------

    def is_done(self, name: RunName) -> bool:
        sql = "SELECT 1 FROM run WHERE key = ? AND data = ? AND state = 'done'"
        return bool(self._database.rows(sql, name))

    def has_done(self, key: str) -> bool:
        """Is a run of that key done, whatever its images held?"""
        sql = "SELECT 1 FROM run WHERE key = ? AND state = 'done' LIMIT 1"
        return bool(self._database.rows(sql, [key]))

    def run(self, name: RunName) -> Run | None:
        """The run of that name; the done one, where it is being done again."""
        runs = queries.select_runs(self._database, "key = ? AND data = ?", name)
        return max(runs, key=lambda run: run.state == "done", default=None)

    def runs(self, where: RunFilter = EVERYTHING) -> list[Run]:
        """The runs asked for, in the order of task, variant, protocol, shots, seed, model.

        A done run that is being done again counts as done.
        """
        return queries.select_runs(self._database, *queries.condition(where))

    def superseded(self) -> dict[int, int]:
        """Done runs whose data were changed in place since: id → id of the newest run.

        The two have one key and lay in the same known folder.
        """
        rows = self._database.rows(
            "SELECT id, last_value(id) OVER (PARTITION BY key, root ORDER BY turn, finished, id "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS newest "
            "FROM run WHERE state = 'done' AND root <> '' ORDER BY id"
        )
        return {run: newest for run, newest in rows if run != newest}

    def scores(self, where: RunFilter = EVERYTHING) -> dict[int, list[Score]]:
        """All scores of the runs asked for, by run id; the whole run first, then parts by name."""
        return queries.select_scores(self._database, where)

    def predictions(self, run: int, part: str | None = None) -> pl.DataFrame:
        """Columns part, repeat, id, target, prediction, score, unit, outcome, info, content.

        In the order of the first three, whoever wrote first.
        """
        from fieldmark.store.predictions import select_predictions

        return select_predictions(self._database, self._names, run, part)

    def answers(self, runs: Sequence[int], with_scores: bool = False) -> Answers:
        """What these runs said about the items all of them were asked, in whole numbers."""
        from fieldmark.store.predictions import select_answers

        return select_answers(self._database, runs, with_scores)

    def drawn_answers(
        self, draws: Sequence[Sequence[tuple[int, int]]], with_scores: bool = False
    ) -> Answers:
        """What rows of several runs said in each draw (per row a run and its repeat), about the
        items most rows were asked; 0 where a row was not asked or did not answer."""
        from fieldmark.store.predictions import select_drawn

        return select_drawn(self._database, draws, with_scores)

    def repeats(self, runs: Sequence[int]) -> dict[int, list[int]]:
        """The repeats that each run has answers of."""
        from fieldmark.store.predictions import select_repeats

        return select_repeats(self._database, runs)

    def texts(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """The names behind the numbers of `answers`, and more."""
        return self._names.texts(map(int, numbers))  # numpy's own numbers are foreign to SQLite

    def damage(self) -> list[str]:
        """What is not as it was written, one line each. Reads the whole file."""
        return list(queries.find_damage(self._database))

    def outcomes(self, run: int) -> dict[str, int]:
        """How many predictions of a run had which outcome."""
        from fieldmark.store.predictions import count_outcomes

        return count_outcomes(self._database, self._names, run)

    def record(self, run: int) -> dict[str, Any]:
        """All that is needed to do the run again; {} for an unknown run."""
        rows = self._database.rows("SELECT record FROM run WHERE id = ?", [run])
        return dict(json.loads(rows[0][0])) if rows else {}
