"""Comparisons of all pairs of rows, for the page: what does `fieldmark compare` say of each?

One file per row, loaded when asked for, with all rows that stand below it in the table. The page
turns a pair round where it is asked for the other way; it works out nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fieldmark.report.compare.models import ComparedTask, RowComparison
from fieldmark.report.compare.pairs import AllPairs
from fieldmark.report.compare.text import training_notes, verdict
from fieldmark.report.rows import Table
from fieldmark.report.site.summary import columns_of, row_key
from fieldmark.report.table.ranking import rank_rows
from fieldmark.store import Store

TASK = (
    "column", "difference", "low", "high", "p", "p_corrected", "side", "visible", "n", "units",
    "draws", "discordant",
)  # fmt: skip
"""what stands at which place of a compared task; side: 1 the first is better, -1 the second, 0:
too close to call"""


class RowComparisons:
    """The comparisons of the rows of a public table, in its order."""

    def __init__(self, store: Store, table: Table) -> None:
        self.names = rank_rows(table).names
        self.columns = {
            rows[0].column_key: number for number, rows in enumerate(columns_of(table).values())
        }
        order = {name: number for number, name in enumerate(self.names)}
        self.pairs = AllPairs(store, sorted(table.rows, key=lambda row: order[row.name]))

    def files(self) -> dict[str, str]:
        """Name of each file → the row it is about."""
        return {f"compare-{row_key(name)}": name for name in self.names}

    def of_row(self, name: str) -> dict[str, Any]:
        """What the file holds."""
        order = {other: number for number, other in enumerate(self.names)}
        return {
            "task": TASK,
            "pairs": {
                str(order[pair.b]): _plain(pair, self.columns) for pair in self.pairs.of_row(name)
            },
        }


def _plain(pair: RowComparison, columns: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    lead, more = verdict(pair)
    return {
        "verdict": lead,
        "more": more,
        "note": "; ".join(training_notes(pair)),
        "methods": list(dict.fromkeys(task.comparison.method for task in pair.tasks)),
        "tasks": [_task(task, columns[task.a.column_key]) for task in pair.tasks],
    }


def _task(task: ComparedTask, column: int) -> Sequence[Any]:
    one = task.comparison
    numbers = (one.difference, one.low, one.high, one.p, task.p_corrected)
    side = {"a": 1, "b": -1, "tie": 0}[task.verdict]
    return [
        column, *map(_short, numbers), side, _short(one.detectable), one.n, one.n_units,
        one.n_repeats, one.n_discordant,
    ]  # fmt: skip


def _short(value: float) -> float | None:
    """Six figures; None for what JSON has no number for."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
