"""Results for a plot: which scores does it look at, and which predictions may it read?

Scores, always; predictions only where a plot cannot do without, and never more of them than can be
read while a person waits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fieldmark.errors import DataError
from fieldmark.report.cells import BEST, Row
from fieldmark.report.memory import Memory
from fieldmark.report.rows import read_table
from fieldmark.report.study import study_rows
from fieldmark.store import RunFilter, Store, nothing_stored

MOST_READ = 3_000_000
"""predictions read for one plot; what lies beyond is said in the plot"""
MOST_PANELS = 4
"""in one figure, as many as a page of a paper takes"""


@dataclass(frozen=True, slots=True)
class Results:
    """The rows asked for, and the store they came from, still open."""

    store: Store
    rows: tuple[Row, ...]
    by: str = ""
    """the setting that a sweep is drawn over; "" = the one with most values"""
    notes: tuple[str, ...] = ()
    """what a reader must know besides, a line each"""

    def columns(self) -> dict[str, list[Row]]:
        """The rows by column, best first; the columns with most models first."""
        columns: dict[str, list[Row]] = {}
        for row in self.rows:
            columns.setdefault(f"{row.column}\n{row.score.metric}", []).append(row)
        ordered = sorted(columns.items(), key=lambda column: -len(column[1]))
        return {name: sorted(mine, key=_from_best) for name, mine in ordered}


def read_results(
    store: Store, where: RunFilter | None = None, metric: str = "", by: str = ""
) -> Results:
    """The finished runs asked for, not compared yet; DataError where there are none."""
    table = read_table(store, where, metric, compare=False)
    if not table.rows:
        raise nothing_stored(store.path)
    return Results(store, table.rows, by, table.notes)


def defined_columns(results: Results) -> dict[str, list[Row]]:
    """The columns without scores that are not defined: NaN cannot be drawn."""
    columns = {
        name: [row for row in rows if not math.isnan(row.score.value)]
        for name, rows in results.columns().items()
    }
    defined = {name: rows for name, rows in columns.items() if rows}
    if not defined:
        raise DataError("none of these runs has a defined score: there is nothing to draw.")
    return defined


def n_predictions(rows: Sequence[Row]) -> int:
    return sum(row.run.n_items or 0 for row in rows)


def within(columns: dict[str, list[Row]], most: int = MOST_READ) -> Iterator[str]:
    """The columns whose predictions can be read in time, in their order."""
    spent = 0
    for name, rows in columns.items():
        spent += n_predictions(rows)
        if spent <= most:
            yield name


def tiers_of(results: Results, rows: Sequence[Row], is_tested: bool = True) -> dict[int, str]:
    """Run → letter of its tier; the rows come best first.

    Tested on the same items, which reads predictions; else, or where runs share no items, tier A
    holds those whose intervals meet the best one's, and tier B the others.
    """
    if is_tested:
        study = study_rows(results.store, rows, Memory())
        letters = {row.run.id: letter for row in rows if (letter := study.tier(row))}
        if len(letters) == len(rows):
            return letters
    best = limits(rows[0])
    return {row.run.id: BEST if _meet(limits(row), best) else "B" for row in rows}


def limits(row: Row) -> tuple[float, float]:
    """The interval; where there is none, the value twice."""
    low, high, value = row.score.low, row.score.high, row.score.value
    return (value if low is None else low), (value if high is None else high)


def _meet(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]


def _from_best(row: Row) -> tuple[float, str]:
    value = row.score.value
    if math.isnan(value):
        return math.inf, row.model
    return (-value if row.score.higher_is_better else value), row.model
