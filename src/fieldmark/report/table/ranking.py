"""Ranking: in which order do models stand over all tasks, how sure is that, do the tasks agree?

By their mean over the columns; models that lack a column come after those that have all, as a mean
over fewer tasks is no fair match. Where directions or units differ, a mean of ranks is taken.

Rank intervals: the items of each task are drawn anew by way of the scores' own intervals, so that
no prediction is read; models are taken as independent, which makes the ranks rather too wide than
too narrow. The tasks are drawn anew as well: with other tasks the order could have been another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fieldmark.report.rows import Row, Table
from fieldmark.report.table.layout import MISSING, arrow, number
from fieldmark.stats import kendall_tau, rank_limits_elsewhere, ranked
from fieldmark.store import Score


@dataclass(frozen=True, slots=True)
class Ranking:
    models: list[str]
    """best first"""
    heading: str
    """of the column of summaries; "" where there is nothing to sum up"""
    summaries: list[str]


def rank_models(grid: Mapping[tuple[str, str], Row], models: Iterable[str] = ()) -> Ranking:
    """The models of a grid (model, column) → row, best first; then those it does not hold."""
    absent = sorted(set(models) - {model for model, _ in grid})
    ranking = _rank(grid) if grid else Ranking([], "", [])
    return Ranking(
        [*ranking.models, *absent],
        ranking.heading,
        [*ranking.summaries, *([MISSING] * len(absent))],
    )


def _rank(grid: Mapping[tuple[str, str], Row]) -> Ranking:
    columns = {column: row.score for (_, column), row in grid.items()}
    values: dict[str, dict[str, float]] = {model: {} for model, _ in grid}
    for (model, column), row in grid.items():
        if not math.isnan(row.score.value):
            values[model][column] = row.score.value
    kinds = {(score.higher_is_better, score.is_fraction) for score in columns.values()}
    if len(kinds) > 1:
        return _ranking(_ranks(values, columns), len(columns), "mean rank ↓", "{:.1f}".format)
    score = next(iter(columns.values()))
    heading = f"mean {arrow(score)}"
    return _ranking(values, len(columns), heading, lambda mean: number(mean, score))


def _ranking(
    values: Mapping[str, Mapping[str, float]],
    n_columns: int,
    heading: str,
    written: Callable[[float], str],
) -> Ranking:
    means = {model: sum(mine.values()) / max(len(mine), 1) for model, mine in values.items()}
    sign = -1 if heading.endswith("↑") else 1

    def standing(model: str) -> tuple[int, float, str]:
        n_missing = n_columns - len(values[model])
        return (
            (0 if not n_missing else 2 if n_missing == n_columns else 1),
            sign * means[model],
            model,
        )

    models = sorted(values, key=standing)
    summaries = [
        written(means[model]) if len(values[model]) == n_columns else MISSING for model in models
    ]
    return Ranking(models, heading if n_columns > 1 else "", summaries)


def _ranks(
    values: Mapping[str, Mapping[str, float]], columns: Mapping[str, Score]
) -> dict[str, dict[str, float]]:
    """1 for the best of a column; equal values share the mean of their ranks."""
    ranks: dict[str, dict[str, float]] = {model: {} for model in values}
    for column, score in columns.items():
        sign = -1 if score.higher_is_better else 1
        keys = {m: sign * mine[column] for m, mine in values.items() if column in mine}
        for model, key in keys.items():
            n_better = sum(other < key for other in keys.values())
            n_equal = sum(other == key for other in keys.values())
            ranks[model][column] = n_better + (n_equal + 1) / 2
    return ranks


# --- rank intervals ---


FEWEST = 3
"""tasks and models, below which an order is no more than a coin's toss"""
Grid = Mapping[tuple[str, str], Row]
"""(model, column) → row"""


@dataclass(frozen=True, slots=True)
class RankInterval:
    """1 is the best; equals share the mean of their places."""

    rank: float
    low: int
    """the best place it may well have"""
    high: int

    @property
    def text(self) -> str:
        """
        >>> RankInterval(2.0, 1, 3).text, RankInterval(4.0, 4, 4).text
        ('1–3', '4')
        """
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"


def grid_of(table: Table) -> dict[tuple[str, str], Row]:
    """The scores of whole tasks by model and column; a group would count its members again."""
    return {
        (row.model, f"{row.column}\n{row.score.metric}"): row
        for row in table.rows
        if row.is_counted and not row.score.part and row.is_stored
    }


def model_ranks(grid: Grid) -> dict[str, RankInterval]:
    """Of the models that did all tasks; {} where there are not two of them and two tasks."""
    columns = _columns(grid)
    models = _complete(grid, columns)
    if len(models) < 2 or len(columns) < 2:
        return {}
    rows_tm = [[grid[model, column] for model in models] for column in columns]
    height_tm = np.array([[_height(row) for row in rows] for rows in rows_tm])
    kinds = {(rows[0].score.higher_is_better, rows[0].score.is_fraction) for rows in rows_tm}
    if len(kinds) > 1:
        height_tm = -ranked(height_tm)
    limits = rank_limits_elsewhere(height_tm)
    if np.isnan(limits).any():
        return {}
    own_m = ranked(height_tm.mean(axis=0)[None])[0]
    return {
        model: RankInterval(float(rank), int(low), int(high))
        for model, rank, (low, high) in zip(models, own_m, limits, strict=True)
    }


def plain_ranks(table: Table) -> dict[str, dict[str, float | None]]:
    """What programs read beside each score of a model; null where it has no place."""
    ranks = model_ranks(grid_of(table))
    return {
        row.model: {
            "rank": place.rank if (place := ranks.get(row.model)) else None,
            "rank_low": place.low if place else None,
            "rank_high": place.high if place else None,
        }
        for row in table.rows
    }


def agreement(grid: Grid) -> str:
    """How alike the tasks order the models, in a sentence; "" for too few of either."""
    columns = _columns(grid)
    models = list(dict.fromkeys(model for model, _ in grid))
    if len(columns) < FEWEST or len(models) < FEWEST:
        return ""
    tau_tt = kendall_tau([[_height(grid.get((m, c))) for m in models] for c in columns])
    first, second = np.triu_indices(len(columns), 1)
    tau_p = tau_tt[first, second]
    if np.isnan(tau_p).all():
        return ""
    words = "Do the tasks order the models alike? Kendall's tau (1 alike, 0 unrelated, −1 reversed)"
    least, most = int(np.nanargmin(tau_p)), int(np.nanargmax(tau_p))
    names = [column.split("\n")[0] for column in columns]
    return (
        f"{words}: {_signed(float(np.nanmedian(tau_p)))} in the middle of all pairs of tasks, from "
        f"{_signed(tau_p[least])} ({names[first[least]]}, {names[second[least]]}) to "
        f"{_signed(tau_p[most])} ({names[first[most]]}, {names[second[most]]})."
    )


def _columns(grid: Grid) -> list[str]:
    return list(dict.fromkeys(column for _, column in grid))


def _complete(grid: Grid, columns: Sequence[str]) -> list[str]:
    models = dict.fromkeys(model for model, _ in grid)
    return [
        model
        for model in models
        if all(not math.isnan(_height(grid.get((model, column)))) for column in columns)
    ]


def _height(row: Row | None) -> float:
    """The score, turned so that more is better."""
    if row is None:
        return math.nan
    return row.score.value if row.score.higher_is_better else -row.score.value


def _signed(tau: float) -> str:
    return f"{abs(tau):.2f}" if abs(tau) < 0.005 else f"{tau:+.2f}".replace("-", "−")
