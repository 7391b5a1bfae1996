"""How do the values of documents become the scores of a run?

A mean has the interval that means have everywhere here. Any other aggregation, named or brought by
the task, is computed again on resamples of the documents, or of the units they belong to. A score
that cannot be computed is NaN, and its warning says why: the others stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.lmms.ask.calls import Caller, numbers_in
from fieldmark.lmms.metrics import (
    Aggregation,
    DocumentMetric,
    aggregation,
    find_document_metric,
    known_aggregations,
)
from fieldmark.lmms.score.spread import Limits, function_limits, weighted_limits
from fieldmark.lmms.score.values import as_number
from fieldmark.metrics import document_value
from fieldmark.stats import Items, Resampling, interval
from fieldmark.store import Score

SEVERAL_SECONDS, AT_ONCE = 10.0, 6
"""for the resamples of one function, and how many functions may take as long"""
ELSEWHERE = "scored elsewhere: 999 stands for no number"

OF_THE_WHOLE = ("", "overall", "all", "average", "avg", "mean", "total", "acc", "accuracy", "score")
"""what task code calls the number that stands for all of a mapping"""


@dataclass(frozen=True, slots=True)
class ScoredMetric:
    """One metric under one pipeline, and how its values become one number."""

    name: str
    pipeline: str = "none"
    aggregation: str | Callable[..., Any] | None = None
    """None: what belongs to a metric of that name, else the mean"""
    higher_is_better: bool | None = None
    """None: what belongs to the metric or its aggregation"""
    where: str = ""
    """`file:line`, for messages"""

    @property
    def result(self) -> str:
        """What it is called in results."""
        return self.name if self.pipeline == "none" else f"{self.name},{self.pipeline}"

    @property
    def known(self) -> DocumentMetric | None:
        return find_document_metric(self.name)

    @property
    def way(self) -> Aggregation:
        """The aggregation, found by name; raises for one that is not known."""
        told = self.aggregation or (self.known.aggregation if self.known else "mean")
        if isinstance(told, str):
            return aggregation(told, self.where)
        return Aggregation(getattr(told, "__name__", type(told).__name__), told)

    @property
    def is_up(self) -> bool:
        if self.higher_is_better is not None:
            return self.higher_is_better
        if self.known:
            return self.known.higher_is_better
        is_named = isinstance(self.aggregation, str) and self.aggregation in known_aggregations()
        return self.way.higher_is_better if is_named else True


@dataclass(frozen=True, slots=True)
class DocumentValues:
    """What one document got."""

    values: Mapping[str, Mapping[str, Any]]
    """pipeline → metric → value; a document may lack a metric"""
    unit: str | None = None
    """what is independent; None: the document"""


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """What is the same for all scores of a run."""

    task: str = ""
    seed: int = 0
    folder: Path | None = None
    """where aggregations may write files; None: into a folder that is thrown away"""
    flags: Mapping[str, Any] = field(default_factory=dict)
    """what an aggregation that asks for `args` is told besides the usual"""
    seconds: float = SEVERAL_SECONDS
    """for the resamples of one function; of many functions each has less"""


_DEFAULT = ScoreSettings()


def score_documents(
    metrics: Sequence[ScoredMetric],
    rows: Sequence[DocumentValues],
    settings: ScoreSettings = _DEFAULT,
) -> list[Score]:
    """All scores, in the order of the metrics; the first that is a number is the primary one.

    Aggregations that give a mapping have a score `metric/key` for every number in it. `bypass` says
    that a number is made elsewhere: it is the primary one only where nothing else is.
    """
    n_functions = sum(callable(each.aggregation) for each in metrics)
    seconds = settings.seconds * min(1.0, AT_ONCE / max(1, n_functions))
    settings = replace(settings, seconds=seconds)
    scores = [each for metric in metrics for each in _scores(metric, rows, settings)]
    numbers = [i for i, each in enumerate(scores) if not math.isnan(each.value)]
    real = [i for i in numbers if scores[i].warning != ELSEWHERE]
    first = [*real, *numbers, 0][0]
    return [replace(each, is_primary=i == first) for i, each in enumerate(scores)]


def _scores(
    metric: ScoredMetric, rows: Sequence[DocumentValues], settings: ScoreSettings
) -> list[Score]:
    of_pipeline = [(row.values.get(metric.pipeline, {}), row.unit) for row in rows]
    having = [(values[metric.name], unit) for values, unit in of_pipeline if metric.name in values]
    empty = Score(metric.result, math.nan, n=len(having), higher_is_better=metric.is_up)
    empty = replace(empty, is_fraction=False)
    if not having:
        return [replace(empty, warning="no document has a value of it")]
    items = [value for value, _ in having]
    units = [unit for _, unit in having]
    try:
        return _computed(metric, items, units, settings, empty)
    except FieldmarkError as error:
        return [replace(empty, warning=f"not computed: {error}")]


def _computed(
    metric: ScoredMetric,
    items: list[Any],
    units: list[str | None],
    settings: ScoreSettings,
    empty: Score,
) -> list[Score]:
    way = metric.way
    resampling = Resampling(seed=settings.seed, task=f"{settings.task} {metric.result}")
    if way.weighted is None:
        return _of_function(metric, way, items, units, settings, empty)
    if way.name == "mean" and _all_numbers(items):
        return [_mean(metric, np.array(items, np.float64), _items(units), resampling, empty)]
    if way.units is not None and not any(units):
        found = _items([str(each) for each in way.units(items)])
    else:
        found = _items(units)
    score = _weighted(way, items)
    value = float(score(np.ones((1, len(items))))[0])
    if way.name == "bypass":
        return [replace(empty, value=value, warning=ELSEWHERE)]
    limits = weighted_limits(value, score, found, resampling, way.bounds, settings.seconds)
    filled = replace(empty, value=value, is_fraction=way.bounds == (0.0, 1.0))
    return [_with_limits(filled, limits)]


def _weighted(way: Aggregation, items: list[Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Values that a task's code made may be of any kind."""
    assert way.weighted is not None
    try:
        return way.weighted(items)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise UsageError(
            f"aggregation {way.name!r} cannot take these values: {type(error).__name__}: {error}."
        ) from error


def _all_numbers(items: Sequence[Any]) -> bool:
    """None is a number that is not known."""
    return all(each is None or as_number(each) is not None for each in items)


def _items(units: Sequence[str | None]) -> Items:
    return Items(np.zeros(len(units), np.int64), unit=np.array(units, dtype=object))


def _mean(
    metric: ScoredMetric, value_n: np.ndarray, items: Items, resampling: Resampling, empty: Score
) -> Score:
    n_lacking = int(np.isnan(value_n).sum())
    if n_lacking:
        lacking = f"{n_lacking} of {len(value_n)} values are NaN or None"
        return replace(empty, warning=f"{lacking}: the aggregation nanmean omits them")
    is_share = bool(((value_n >= 0) & (value_n <= 1)).all())
    bounds = (0.0, 1.0) if is_share else (-math.inf, math.inf)
    value = float(value_n.mean())
    filled = replace(empty, value=value, is_fraction=is_share and metric.is_up)
    if not is_share and np.ptp(value_n) == 0:
        return replace(
            filled, n_units=_n_units(items), warning="all values are equal: the spread is not known"
        )
    found = interval(items, value_n, document_value(metric.name, bounds=bounds), resampling)
    return _with_limits(filled, Limits(found.low, found.high, found.method, found.n_units))


def _n_units(items: Items) -> int:
    return int(items.unit_codes().max(initial=-1)) + 1


def _with_limits(score: Score, limits: Limits) -> Score:
    return replace(
        score,
        low=limits.low,
        high=limits.high,
        method=limits.method,
        n_units=limits.n_units,
        warning=limits.warning,
    )


def _of_function(
    metric: ScoredMetric,
    way: Aggregation,
    items: list[Any],
    units: list[str | None],
    settings: ScoreSettings,
    empty: Score,
) -> list[Score]:
    assert way.function is not None
    caller = Caller(
        way.function, metric.where or f"metric {metric.name!r}", settings.seed, settings.flags
    )
    result = caller.once(items, settings.folder)
    values = numbers_in(result)
    if not values:
        kind = "nothing" if result is None else f"a {type(result).__name__}"
        return [replace(empty, warning=f"the aggregation gave {kind}, no number")]
    resampling = Resampling(seed=settings.seed, task=f"{settings.task} {metric.result}")
    limits = function_limits(caller, items, _items(units), resampling, settings.seconds)
    return [
        _with_limits(replace(empty, metric=_named(metric, key), value=values[key]), limits[key])
        for key in sorted(values, key=_standing)
    ]


def _standing(key: str) -> tuple[bool, str]:
    """The number of the whole comes first; the others in an order that no document decides."""
    return key.lower() not in OF_THE_WHOLE, key


def _named(metric: ScoredMetric, key: str) -> str:
    inside = f"{metric.name}/{key}" if key else metric.name
    return replace(metric, name=inside).result
