"""How do the predictions of a run become its scores?

Scores need nothing but stored predictions and the task: a new metric never needs a new run. Every
score has an interval over independent units; an item that was not answered is left out here and
reported as its own rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from fieldmark.metrics import Metric, load_metric
from fieldmark.protocols._items import PartItems
from fieldmark.registry import short_name
from fieldmark.stats import Items, code_labels, estimate, interval
from fieldmark.store import OK, Score
from fieldmark.tasks import Task

POOLED = "all images pooled"
MEAN = "mean over parts"
MANY_PARTS = 20
"""above it, parts get scores only of metrics whose interval costs nothing"""


@dataclass(frozen=True, slots=True)
class _View:
    """Some of a run's rows, and how they make one number."""

    name: str
    rows: pl.DataFrame
    is_mean: bool = False


def score_run(task: Task, parts: Sequence[PartItems], predictions: pl.DataFrame) -> list[Score]:
    """All scores of a run: the whole first, then groups and parts."""
    rows = _coded(predictions.filter(pl.col("outcome") == OK))
    names = (task.metric, *task.also)
    scores = []
    for view in _views(task, parts, rows):
        is_part = view.name in {part.name for part in parts}
        for name in names:
            metric = load_metric(name)
            if is_part and len(parts) > MANY_PARTS and metric.kind != "mean":
                continue
            scores.append(
                _score(view, name, metric, is_primary=not view.name and name == task.metric)
            )
    return scores


def _views(task: Task, parts: Sequence[PartItems], rows: pl.DataFrame) -> Iterator[_View]:
    if len(parts) == 1 and not parts[0].name:
        yield _View("", rows)
        return
    if task.primary:
        yield _View("", rows.filter(pl.col("part") == task.primary))
    else:
        is_mean = task.score == "mean"
        yield _View("", rows, is_mean)
        yield _View(POOLED if is_mean else MEAN, rows, not is_mean)
        for column in task.groups:
            of_part = {part.name: dict(part.groups).get(column) for part in parts}
            for value in sorted({value for value in of_part.values() if value is not None}):
                mine = [name for name, each in of_part.items() if each == value]
                yield _View(f"{column}: {value}", rows.filter(pl.col("part").is_in(mine)), is_mean)
    for part in parts:
        yield _View(part.name, rows.filter(pl.col("part") == part.name))


def _coded(rows: pl.DataFrame) -> pl.DataFrame:
    """Label names to whole numbers, and a unit for every row."""
    columns = [rows.get_column(name).to_numpy() for name in ("part", "target", "prediction")]
    target, prediction = code_labels(*columns)
    return rows.with_columns(
        pl.Series("target", target),
        pl.Series("prediction", prediction),
        pl.col("unit").fill_null(pl.col("id")),
    )


def _score(view: _View, name: str, metric: Metric, is_primary: bool) -> Score:
    """Repeats are further answers about the same units, so a unit is drawn with all of them."""
    rows = view.rows
    items = Items(
        target=rows["target"].to_numpy(),
        unit=rows["unit"].to_numpy(),
        part=rows["part"].to_numpy() if view.is_mean else None,
        score="mean" if view.is_mean else "pooled",
    )
    prediction = rows["prediction"].to_numpy()
    found = interval(items, prediction, metric)
    return Score(
        metric=short_name(name),
        value=estimate(items, prediction, metric),
        part=view.name,
        low=found.low,
        high=found.high,
        n=rows.select("part", "id").n_unique(),
        n_units=found.n_units,
        method=found.method,
        is_primary=is_primary,
        higher_is_better=metric.direction == "up",
        is_fraction=metric.bounds == (0.0, 1.0),
    )
