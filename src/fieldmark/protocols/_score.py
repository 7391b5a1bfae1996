"""How do the predictions of a run become its scores?

Scores need nothing but stored predictions and the task: a new metric never needs a new run. Every
score has an interval over independent units; an item that was not answered is left out here and
reported as its own rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark.metrics import Metric, load_metric
from fieldmark.protocols._arrange import arrange
from fieldmark.protocols._items import PartItems
from fieldmark.registry import portable_name, short_name
from fieldmark.stats import Items, estimate, interval, weak_coverage
from fieldmark.store import OK, Score
from fieldmark.tasks import Task

if TYPE_CHECKING:
    from fieldmark.protocols._contract import Assignment

POOLED = "all images pooled"
MEAN = "mean over parts"
MANY_PARTS = 20
"""above it, parts get scores only of metrics whose interval costs nothing"""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a run's answers make its scores; the run itself records all of it."""

    metrics: tuple[str, ...]
    """the first is the task's own"""
    rule: str
    """"mean" or "pooled" over parts, or the part whose score is the task's"""
    parts: Mapping[str, Mapping[str, str]]
    """part → the groups it belongs to, by column"""


@dataclass(frozen=True, slots=True)
class _View:
    """Some of a run's parts, and how they make one number."""

    name: str
    parts: frozenset[str]
    is_mean: bool = False
    is_part: bool = False


def scoring_facts(assignment: Assignment) -> dict[str, Any]:
    """What a run's key says of its parts, metrics and draw."""
    task, draw = assignment.task, assignment.draw
    facts: dict[str, Any] = {
        "parts": assignment.part_names,
        "metric": [portable_name(name) for name in (task.metric, *task.also)],
        "score": task.primary or task.score,
    }
    if draw.shots:
        facts["shots"] = draw.shots
    if task.test == "rest":
        facts["test"] = "rest"
    if draw.n_train >= 0:
        facts["sampling"] = draw.sampling
    return facts


def score_run(
    task: Task,
    parts: Sequence[PartItems],
    predictions: pl.DataFrame,
    kinds: Mapping[str, str] | None = None,
) -> list[Score]:
    """All scores of a run: the whole first, then groups and parts.

    `kinds` says what each class is, as the run recorded it, for metrics that ask.
    """
    groups = {part.name: dict(part.groups) for part in parts}
    scoring = Scoring((task.metric, *task.also), task.primary or task.score, groups)
    return score_answers(scoring, predictions, kinds)


def score_answers(
    scoring: Scoring, predictions: pl.DataFrame, kinds: Mapping[str, str] | None = None
) -> list[Score]:
    """`score_run` without the task: what the store holds is enough."""
    rows = predictions.filter(pl.col("outcome") == OK)
    metrics = {name: load_metric(name) for name in _with_steadier(scoring.metrics)}
    arranged: dict[str, pl.DataFrame] = {}
    for name, each in metrics.items():
        if each.uses not in arranged or each.uses == "kinds":
            arranged[each.uses], metrics[name] = arrange(rows, ["prediction"], each, kinds)
    scores = []
    for view in _views(scoring):
        for name, metric in metrics.items():
            if _is_shown(view, metric, len(scoring.parts)):
                is_primary = not view.name and name == scoring.metrics[0]
                scores.append(_score(view, arranged[metric.uses], name, metric, is_primary))
    return scores


def _with_steadier(metrics: Sequence[str]) -> tuple[str, ...]:
    """Balanced accuracy stands beside macro F1, whose interval is weak with rare classes."""
    needs = "macro_f1" in metrics and "macro_accuracy" not in metrics
    return (*metrics, "macro_accuracy") if needs else tuple(metrics)


def _is_shown(view: _View, metric: Metric, n_parts: int) -> bool:
    if metric.uses == "whole":
        return not view.name
    return not view.is_part or n_parts <= MANY_PARTS or metric.kind == "mean"


def _views(scoring: Scoring) -> Iterator[_View]:
    every = frozenset(scoring.parts)
    if every == {""}:
        yield _View("", every)
        return
    if scoring.rule not in ("mean", "pooled"):
        yield _View("", every & {scoring.rule})
    else:
        is_mean = scoring.rule == "mean"
        yield _View("", every, is_mean)
        yield _View(POOLED if is_mean else MEAN, every, not is_mean)
        for column, value in _groups(scoring.parts):
            mine = {part for part, groups in scoring.parts.items() if groups.get(column) == value}
            yield _View(f"{column}: {value}", frozenset(mine), is_mean)
    for part in scoring.parts:
        yield _View(part, frozenset([part]), is_part=True)


def _groups(parts: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str]]:
    return sorted({pair for groups in parts.values() for pair in groups.items()})


def _score(view: _View, rows: pl.DataFrame, name: str, metric: Metric, is_primary: bool) -> Score:
    """Repeats are further answers about the same units, so a unit is drawn with all of them."""
    is_mean = view.is_mean and metric.uses != "whole"
    if metric.uses != "whole":
        rows = rows.filter(pl.col("part").is_in(view.parts))
    items = Items(
        target=rows["target"].to_numpy(),
        unit=rows["unit"].to_numpy(),
        part=rows["part"].to_numpy() if is_mean else None,
        score="mean" if is_mean else "pooled",
    )
    prediction = rows["prediction"].to_numpy()
    found = interval(items, prediction, metric)
    weak = weak_coverage(items, metric)
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
        warning=weak.words if weak else "",
    )
