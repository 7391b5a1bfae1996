"""All pairs of rows: how does each row of a table compare with each other one?

The numbers are those of `compare`, found by the same functions; only the answers are read once for
all rows that were asked alike, not once for every pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fieldmark.report.compare.models import (
    OverallDifference,
    PairedErrors,
    RowComparison,
    compare_tasks,
    counted_tasks,
    overall_of,
    shared_rows,
)
from fieldmark.report.providers import is_valued
from fieldmark.report.rows import Row
from fieldmark.report.tiers import ColumnErrors, ColumnKey, photo_sets, read_errors
from fieldmark.stats import Comparison, Errors, compare_many, join
from fieldmark.store import Store


@dataclass(eq=False)
class _AlikeRows:
    """Rows that were asked all of the same items in the same draws: of one column, or joined."""

    at: dict[str, int]
    """place of each row, by its name"""
    errors: Errors
    _known: dict[str, dict[str, Comparison]] = field(default_factory=dict)

    def compare(self, a: str, b: str) -> Comparison:
        """All rows after `a` are compared with it at once, and remembered until the next."""
        if b not in self._known.get(a, {}):
            is_later = self.at[b] > self.at[a]
            others = [name for name, at in self.at.items() if at > self.at[a]] if is_later else [b]
            compared = compare_many(self.errors, self.at[a], [self.at[name] for name in others])
            self._known = {a: dict(zip(others, compared, strict=True))}
        return self._known[a][b]

    def mean(self, name: str) -> float:
        return float(self.errors.value_m[self.at[name]])


@dataclass(eq=False)
class AllPairs:
    """Compares the rows of a table, the first minus the second; keeps what it has read."""

    store: Store
    rows: Sequence[Row]
    _by_name: dict[str, list[Row]] = field(default_factory=dict)
    _alike: dict[tuple[ColumnKey, str], tuple[_AlikeRows, ColumnErrors]] = field(
        default_factory=dict
    )
    _joined: dict[tuple[int, ...], tuple[_AlikeRows, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        groups: dict[tuple[object, ...], list[Row]] = {}
        for row in self.rows:
            self._by_name.setdefault(row.name, []).append(row)
            if row.is_stored and not row.score.part and not math.isnan(row.score.value):
                draws = tuple((run.spec.seed, run.spec.repeats, run.n_items) for run in row.runs)
                is_whole = all(run.n_ok == run.n_items for run in row.runs)
                setup = draws if is_whole or not is_valued(row.run) else row.name
                groups.setdefault((row.column_key, row.run.spec.n_test, setup), []).append(row)
        for group in groups.values():
            if len(group) > 1:
                self._read(group)

    def of_row(self, name: str) -> Iterator[RowComparison]:
        """With all rows that come after it and share a task."""
        names = list(self._by_name)
        for other in names[names.index(name) + 1 :]:
            compared = self.compare(name, other)
            if compared is not None:
                yield compared

    def compare(self, a: str, b: str) -> RowComparison | None:
        """None where nothing compares them item by item."""
        rows = [*self._by_name[a], *self._by_name[b]]
        read_pairs = [self._pair(*pair) for pair in shared_rows(rows, a, b)]
        pairs = [pair for pair in read_pairs if pair is not None]
        return RowComparison(a, b, self._overall(pairs), compare_tasks(pairs)) if pairs else None

    def _read(self, rows: Sequence[Row]) -> None:
        column = read_errors(self.store, rows, least=0.0, with_blind=False)
        if column is not None and column.errors is not None and set(column.asked) == {1.0}:
            alike = _AlikeRows({row.name: at for at, row in enumerate(rows)}, column.errors)
            self._alike |= {(row.column_key, row.name): (alike, column) for row in rows}

    def _pair(self, a: Row, b: Row) -> PairedErrors | None:
        alike, column = self._alike.get((a.column_key, a.name), (None, None))
        if alike is not None and column is not None and b.name in alike.at:
            at = (alike.at[a.name], alike.at[b.name])
            return PairedErrors(a, b, column, at, alike.compare(a.name, b.name))
        column = read_errors(self.store, [a, b], least=0.0, with_blind=False)
        return None if column is None or column.errors is None else PairedErrors(a, b, column)

    def _overall(self, pairs: Sequence[PairedErrors]) -> OverallDifference | None:
        """Rows that are alike in all their tasks are joined once."""
        counted = counted_tasks(pairs)
        if len(counted) < 2 or any(pair.known is None for pair in counted):
            return overall_of(pairs)
        groups = [self._alike[pair.a.column_key, pair.a.name] for pair in counted]
        key = tuple(id(alike) for alike, _ in groups)
        if key not in self._joined:
            self._joined[key] = _join(groups)
        joined, n_photo_sets = self._joined[key]
        a, b = pairs[0].a.name, pairs[0].b.name
        compared = joined.compare(a, b)
        return overall_of(pairs, (compared, joined.mean(a), joined.mean(b), n_photo_sets))


def _join(groups: Sequence[tuple[_AlikeRows, ColumnErrors]]) -> tuple[_AlikeRows, int]:
    """The mean over columns of the rows that all of them have, and the number of photo sets."""
    alike = [group for group, _ in groups]
    names = [name for name in alike[0].at if all(name in group.at for group in alike)]
    tasks = [group.errors.taken([group.at[name] for name in names]) for group in alike]
    photos = photo_sets([column for _, column in groups])
    index_of = {name: at for at, name in enumerate(names)}
    return _AlikeRows(index_of, join(tasks, photos)), len(set(photos))
