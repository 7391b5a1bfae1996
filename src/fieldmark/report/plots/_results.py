"""Results for a plot: which scores does it look at?

Those of the table, with the table's intervals, tiers and ranks: a plot works out none of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fieldmark.errors import DataError
from fieldmark.report.rows import Row, Table, read_table
from fieldmark.store import RunFilter, Store, nothing_stored

MOST_PANELS = 4
"""in one figure, as many as a page of a paper takes"""


@dataclass(frozen=True, slots=True)
class Results:
    """The table asked for, and the store it came from, still open."""

    store: Store
    table: Table
    by: str = ""
    """the setting that a sweep is drawn over; "" = the one with most values"""

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.table.rows

    def columns(self) -> dict[str, list[Row]]:
        """The rows by column, best first; the columns with most rows first."""
        columns: dict[str, list[Row]] = {}
        for row in self.rows:
            columns.setdefault(f"{row.column}\n{row.score.metric}", []).append(row)
        ordered = sorted(columns.items(), key=lambda column: -len(column[1]))
        return {name: sorted(mine, key=_from_best) for name, mine in ordered}


def read_results(
    store: Store, where: RunFilter | None = None, metric: str = "", by: str = ""
) -> Results:
    """The finished runs asked for, compared; DataError where there are none."""
    table = read_table(store, where, metric)
    if not table.rows:
        raise nothing_stored(store.path)
    return Results(store, table, by)


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


def rival_columns(results: Results) -> dict[str, list[Row]]:
    """The defined columns, of rows that compete."""
    columns = {
        name: [row for row in rows if row.competes]
        for name, rows in defined_columns(results).items()
    }
    return {name: rows for name, rows in columns.items() if rows}


def _from_best(row: Row) -> tuple[bool, float, str]:
    """Stand-ins come last, whatever they score."""
    value = row.score.value if row.score.higher_is_better else -row.score.value
    return bool(row.stand_in), math.inf if math.isnan(value) else -value, row.name
