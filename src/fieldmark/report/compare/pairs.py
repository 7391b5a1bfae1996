"""All pairs of rows: how does each row of a table compare with each other one?

The numbers are those of `compare`, found by the same functions; only the answers are read once for
all rows that were asked alike, not once for every pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fieldmark.errors import FieldmarkError
from fieldmark.report.cells import Row
from fieldmark.report.compare.models import (
    OverallDifference,
    PairedErrors,
    RowComparison,
    compare_tasks,
    counted_tasks,
    overall_of,
    shared_rows,
)
from fieldmark.report.paired import read_paired
from fieldmark.report.providers import pairing_metric
from fieldmark.report.study import ColumnErrors, Place, errors_of, photo_sets
from fieldmark.stats import Errors, join
from fieldmark.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class _AlikeRows:
    """Rows of one column that answered all of the same items in the same draws."""

    at: dict[str, int]
    """place of each row, by its name"""
    column: ColumnErrors


@dataclass(eq=False)
class AllPairs:
    """Compares the rows of a table, the first minus the second; keeps what it has read."""

    store: Store
    rows: Sequence[Row]
    _alike: dict[tuple[Place, str], _AlikeRows] = field(default_factory=dict)
    _joined: dict[tuple[int, ...], tuple[Errors, dict[str, int], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        groups: dict[tuple[object, ...], list[Row]] = {}
        for row in self.rows:
            if row.is_stored and not row.score.part and row.score.value == row.score.value:
                draws = tuple((run.spec.seed, run.spec.repeats, run.n_items) for run in row.runs)
                is_whole = all(run.n_ok == run.n_items for run in row.runs)
                own = draws if is_whole else row.name
                groups.setdefault((row.place, row.run.spec.n_test, own), []).append(row)
        for mine in groups.values():
            if len(mine) > 1:
                self._read(mine)

    def of_row(self, name: str) -> Iterator[RowComparison]:
        """With all rows that come after it and share a task."""
        names = list(dict.fromkeys(row.name for row in self.rows))
        for other in names[names.index(name) + 1 :]:
            compared = self.compare(name, other)
            if compared is not None:
                yield compared

    def compare(self, a: str, b: str) -> RowComparison | None:
        """None where nothing compares them item by item."""
        known = [self._pair(*pair) for pair in shared_rows(self._by_name(a, b), a, b)]
        pairs = [pair for pair in known if pair is not None]
        return RowComparison(a, b, self._overall(pairs), compare_tasks(pairs)) if pairs else None

    def _by_name(self, a: str, b: str) -> list[Row]:
        return [row for row in self.rows if row.name in (a, b)]

    def _read(self, rows: Sequence[Row]) -> None:
        column = self._column(rows)
        if column is not None and column.errors is not None and set(column.answered) == {1.0}:
            alike = _AlikeRows({row.name: at for at, row in enumerate(rows)}, column)
            self._alike |= {(row.place, row.name): alike for row in rows}

    def _column(self, rows: Sequence[Row]) -> ColumnErrors | None:
        try:
            metric = pairing_metric(self.store, rows[0].run, rows[0].score.metric)
        except FieldmarkError:  # a user's own metric whose file is not here
            return None
        if metric is None:
            return None
        paired = read_paired(self.store, [row.runs for row in rows], metric)
        return errors_of(paired, rows[0].run.root, with_blind=False)

    def _pair(self, a: Row, b: Row) -> PairedErrors | None:
        alike = self._alike.get((a.place, a.name))
        if alike is not None and b.name in alike.at:
            return PairedErrors(a, b, alike.column, (alike.at[a.name], alike.at[b.name]))
        column = self._column([a, b])
        return None if column is None or column.errors is None else PairedErrors(a, b, column)

    def _overall(self, pairs: Sequence[PairedErrors]) -> OverallDifference | None:
        """Rows that are alike in all their tasks are joined once."""
        counted = counted_tasks(pairs)
        if len(counted) < 2 or any(self._alike_of(pair) is None for pair in counted):
            return overall_of(pairs)
        key = tuple(id(pair.column) for pair in counted)
        if key not in self._joined:
            self._joined[key] = self._join(counted)
        errors, at, n_photo_sets = self._joined[key]
        return overall_of(pairs, (errors, at[pairs[0].a.name], at[pairs[0].b.name], n_photo_sets))

    def _alike_of(self, pair: PairedErrors) -> _AlikeRows | None:
        alike = self._alike.get((pair.a.place, pair.a.name))
        return alike if alike is not None and alike.column is pair.column else None

    def _join(self, pairs: Sequence[PairedErrors]) -> tuple[Errors, dict[str, int], int]:
        alike = [group for pair in pairs if (group := self._alike_of(pair)) is not None]
        names = [name for name in alike[0].at if all(name in group.at for group in alike)]
        tasks = [
            group.column.errors.taken([group.at[name] for name in names])
            for group in alike
            if group.column.errors is not None
        ]
        photos = photo_sets([group.column for group in alike])
        return join(tasks, photos), {name: at for at, name in enumerate(names)}, len(set(photos))
