"""Ranking: in which order do rows stand over all tasks, how sure is that, do the tasks agree?

By their mean over the tasks that count; rows that lack one come after those that have all, as a
mean over fewer tasks is no fair match. Tasks of another unit or direction are in no mean. Intervals
and ranks are the study's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from fieldmark.report.rows import Row, Table, without_stand_ins
from fieldmark.report.table.layout import MISSING, arrow, margin_text, number
from fieldmark.report.tiers import ColumnKey, averaged
from fieldmark.stats import kendall_tau
from fieldmark.words import by_number

ABOVE = "above\nchance ↑"
HERE, ELSEWHERE = "rank\n(these\ntasks)", "rank\n(similar\ntasks)"
Grid = Mapping[tuple[str, str], Row]
"""(row, column) → the score there"""


@dataclass(frozen=True, slots=True)
class Ranking:
    names: list[str]
    """of the rows, best first"""
    summary: dict[str, list[str]] = field(default_factory=dict)
    """columns of what sums the tasks up, by heading; one text per row"""


def rank_rows(table: Table) -> Ranking:
    """All rows of the table; {} where there is nothing to sum up."""
    rows = without_stand_ins(table.rows)
    keys, stand_ins = averaged(rows), {row.name for row in table.rows if row.stand_in}
    values = _values(table.rows, keys)
    means = {name: _mean(values[name], keys) for name in values} | _studied_means(table)
    means |= dict.fromkeys(stand_ins, math.nan)
    sign = -1 if _is_up(table.rows, keys) else 1

    def standing(name: str) -> tuple[int, float, list[str | int]]:
        if name in stand_ins:
            return 3, 0.0, by_number(name)
        n_missing = len(keys) - len(values[name])
        gap = 0 if not n_missing else 2 if not values[name] else 1
        model_scores = list(values[name].values())
        mean = (
            sum(model_scores) / max(len(model_scores), 1)
            if math.isnan(means[name])
            else means[name]
        )
        return gap, sign * mean, by_number(name)

    names = sorted(values, key=standing)
    summary: dict[str, list[str]] = {}
    if len(keys) > 1:
        main_row = next(row for row in table.rows if row.column_key == keys[0])
        summary[_heading(keys, arrow(main_row.score))] = _mean_cells(table, main_row, names, means)
        summary |= _above(table, names) | _ranks(table, names)
    # Where no model has all tasks, nobody has a mean.
    return Ranking(names, {k: cells for k, cells in summary.items() if {*cells} != {MISSING}})


def _studied_means(table: Table) -> dict[str, float]:
    """On the items and draws that all rows share, as intervals and ranks are."""
    overall = table.study.overall if table.study else None
    return {one.name: one.mean for one in overall.standings} if overall else {}


def _values(rows: Sequence[Row], keys: Sequence[ColumnKey]) -> dict[str, dict[ColumnKey, float]]:
    """The scores that a mean is over, by row and column."""
    values: dict[str, dict[ColumnKey, float]] = {row.name: {} for row in rows}
    for row in rows:
        is_whole = row.is_stored and not row.score.part
        if is_whole and row.column_key in keys and not math.isnan(row.score.value):
            values[row.name][row.column_key] = row.score.value
    return values


def _is_up(rows: Sequence[Row], keys: Sequence[ColumnKey]) -> bool:
    return all(row.score.higher_is_better for row in rows if row.column_key in keys)


def _mean(values: Mapping[ColumnKey, float], keys: Sequence[ColumnKey]) -> float:
    """NaN where a place is missing."""
    missing = any(key not in values for key in keys)
    return math.nan if missing or not keys else sum(values.values()) / len(keys)


def _heading(keys: Sequence[ColumnKey], way: str) -> str:
    """A mean of one metric is a mean; of several, it says so."""
    metrics = sorted({metric for _, metric in keys})
    return f"mean {way}" if len(metrics) == 1 else "mean of\n" + ",\n".join(metrics) + f" {way}"


def _mean_cells(
    table: Table, row: Row, names: Sequence[str], means: Mapping[str, float]
) -> list[str]:
    cells = []
    for name in names:
        one = table.study.standing(name) if table.study else None
        text = MISSING if math.isnan(means[name]) else number(means[name], row.score)
        if one and one.low is not None and one.high is not None:
            text += f" {margin_text(one.mean, one.low, one.high, row.score)}"
        cells.append(text)
    return cells


def above_chance(table: Table) -> tuple[dict[str, float], list[ColumnKey]]:
    """The mean over tasks of how far each row is from guessing to all right (1), NaN for rows with
    gaps; and the tasks it is over, those whose chance level is known.
    """
    columns = table.study.columns if table.study else {}
    rows = without_stand_ins(table.rows)
    keys = [p for p in averaged(rows) if p in columns and columns[p].blind is not None]
    values = _values(rows, keys)
    above = {
        name: {key: columns[key].above_chance(value) for key, value in column_scores.items()}
        for name, column_scores in values.items()
    }
    return {name: _mean(column_scores, keys) for name, column_scores in above.items()}, keys


def _above(table: Table, names: Sequence[str]) -> dict[str, list[str]]:
    above, keys = above_chance(table)
    if not keys or not _is_up(table.rows, keys):
        return {}
    values = [above.get(name, math.nan) for name in names]
    return {ABOVE: [MISSING if math.isnan(value) else f"{100 * value:.1f}" for value in values]}


def _ranks(table: Table, names: Sequence[str]) -> dict[str, list[str]]:
    standings = [table.study.standing(name) if table.study else None for name in names]
    here = [rank_text(one.rank) if one else MISSING for one in standings]
    other = [one.rank_elsewhere if one else None for one in standings]
    columns = {HERE: here} if any(standings) else {}
    if any(other):
        columns[ELSEWHERE] = [rank_text(limits) if limits else MISSING for limits in other]
    return columns


def rank_text(limits: tuple[int, int]) -> str:
    """
    >>> rank_text((1, 3)), rank_text((4, 4))
    ('1–3', '4')
    """
    low, high = limits
    return f"{low}" if low == high else f"{low}–{high}"


def mean_notes(table: Table) -> Iterator[str]:
    """What the mean, and the one above chance, are not over."""
    keys = averaged(without_stand_ins(table.rows))
    if len(keys) < 2:
        return
    rows = {row.column_key: row for row in table.rows if row.is_counted and row.is_stored}
    kind = _kind(rows[keys[0]])
    other = {p: f"{row.heading} ({row.score.metric})" for p, row in rows.items() if p not in keys}
    unlike = [text for key, text in other.items() if _kind(rows[key]) != kind]
    rare = [text for key, text in other.items() if _kind(rows[key]) == kind]
    if unlike:
        yield f"Not in the mean, as their unit or direction differs: {', '.join(unlike)}."
    if rare:
        yield f"Not in the mean, as most models lack it: {', '.join(rare)}."
    studied = _studied_means(table)
    values = _values(table.rows, keys)
    gaps = [abs(studied[name] - _mean(values[name], keys)) for name in studied]
    if max(gaps, default=0.0) > 1e-6:
        yield "Means use only photos and training samples that all models share, scores use all."
    above, keys_with_chance = above_chance(table)
    unknown = [rows[key].heading for key in keys if key not in keys_with_chance]
    if keys_with_chance and unknown and not all(map(math.isnan, above.values())):
        yield f"Not in `above chance`, as the chance level is unknown: {', '.join(unknown)}."


def _kind(row: Row) -> tuple[bool, bool]:
    return row.score.higher_is_better, row.score.is_fraction


def plain_standings(table: Table) -> dict[str, dict[str, float | int | bool | None]]:
    """What programs read beside each score, by the row's name; null where it has no such place."""
    above, _ = above_chance(table)
    standings = {row.name: None for row in table.rows} | {
        one.name: one
        for one in (table.study.overall.standings if table.study and table.study.overall else ())
    }
    return {
        name: {
            "mean": one.mean if one else None,
            "mean_low": one.low if one else None,
            "mean_high": one.high if one else None,
            "mean_above_chance": None if math.isnan(above.get(name, math.nan)) else above[name],
            "may_be_best_overall": one.may_be_best if one else None,
            "rank_low": one.rank[0] if one else None,
            "rank_high": one.rank[1] if one else None,
            "rank_elsewhere_low": one.rank_elsewhere[0] if one and one.rank_elsewhere else None,
            "rank_elsewhere_high": one.rank_elsewhere[1] if one and one.rank_elsewhere else None,
        }
        for name, one in standings.items()
    }


# --- do the tasks agree? ---


FEWEST_TASKS, FEWEST_ROWS = 3, 8
"""below which the correlation of two orders is mostly noise"""


def grid_of(table: Table) -> dict[tuple[str, str], Row]:
    """The scores of models on whole tasks, by row and column; a group would count its members
    again.
    """
    return {
        (row.name, f"{row.column}\n{row.score.metric}"): row
        for row in without_stand_ins(table.rows)
        if row.is_counted and not row.score.part and row.is_stored
    }


def agreement(grid: Grid) -> str:
    """How alike the tasks order the rows that have them all, in a sentence; "" for too few of
    either.
    """
    columns = list(dict.fromkeys(column for _, column in grid))
    names = [
        name
        for name in dict.fromkeys(name for name, _ in grid)
        if all((name, column) in grid for column in columns)
    ]
    if len(columns) < FEWEST_TASKS or len(names) < FEWEST_ROWS:
        return ""
    # Scores turned so that more is better.
    scores = [[grid[name, column].score for name in names] for column in columns]
    tau_tt = kendall_tau(
        [[s.value if s.higher_is_better else -s.value for s in row] for row in scores]
    )
    task_i, task_j = np.triu_indices(len(columns), 1)
    is_known = ~np.isnan(tau_tt[task_i, task_j])
    task_i, task_j = task_i[is_known], task_j[is_known]
    if not len(task_i):
        return ""
    tau_p = tau_tt[task_i, task_j]
    opening = (
        "Do the tasks rank the models alike? Kendall's tau (1 alike, 0 unrelated, −1 reversed)"
    )
    least, most = int(tau_p.argmin()), int(tau_p.argmax())
    tasks = [column.split("\n")[0] for column in columns]
    return (
        f"{opening}: median over all pairs of tasks {_signed(median(tau_p.tolist()))}, from "
        f"{_signed(tau_p[least])} ({tasks[task_i[least]]}, {tasks[task_j[least]]}) to "
        f"{_signed(tau_p[most])} ({tasks[task_i[most]]}, {tasks[task_j[most]]})."
    )


def _signed(tau: float) -> str:
    return f"{abs(tau):.2f}" if abs(tau) < 0.005 else f"{tau:+.2f}".replace("-", "−")
