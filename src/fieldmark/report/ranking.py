"""In which order do models stand?

By their mean over the columns; models that lack a column come after those that have all, as a
mean over fewer tasks is no fair match. Where directions or units differ, a mean of ranks takes
its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fieldmark.report.cells import MISSING, arrow, number
from fieldmark.report.rows import Row
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
    found = _rank(grid) if grid else Ranking([], "", [])
    return Ranking(
        [*found.models, *absent], found.heading, [*found.summaries, *([MISSING] * len(absent))]
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
