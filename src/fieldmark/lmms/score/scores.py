"""Scores: how do the stored values of documents become the scores of a run?

A mean has the interval that means have everywhere here. Any other aggregation, named or brought by
the task, is computed again on resamples of the documents, or of the units they belong to. A score
that cannot be computed is NaN, and its warning says why: the others stand. Where each question was
asked several times, scores of agreement stand beside: the mean (what one answer is worth), the
majority (what the most frequent answer is worth, or whether most answers are right), the variance
within documents, and the share of documents whose repeats all agree.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.lmms.code.call import FreshFunction, load_function
from fieldmark.lmms.code.imports import find_file
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.metrics.registry import (
    Aggregation,
    DocumentMetric,
    aggregation,
    find_document_metric,
    known_aggregations,
)
from fieldmark.lmms.read.schema import DocumentTask, MetricItem, result_name
from fieldmark.lmms.score.encoding import as_number, decode
from fieldmark.lmms.score.resample import (
    Caller,
    ScoreLimits,
    function_limits,
    numbers_in,
    weighted_limits,
)
from fieldmark.metrics import mean_value
from fieldmark.stats import Items, Resampling, count_units, interval
from fieldmark.store import AMONG_ANSWERED, OK, Score

SEVERAL_SECONDS, AT_ONCE = 10.0, 6
"""for the resamples of one function, and how many functions may take as long"""
ELSEWHERE = "scored elsewhere: 999 means no number"

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
    fresh: FreshFunction | None = None
    """the aggregation with its modules as they are when nothing has run"""

    @property
    def result(self) -> str:
        """What it is called in results."""
        return result_name(self.name, self.pipeline)

    @property
    def known(self) -> DocumentMetric | None:
        return find_document_metric(self.name)

    @property
    def way(self) -> Aggregation:
        """The aggregation, found by name; raises for one that is not known."""
        given = self.aggregation or (self.known.aggregation if self.known else "mean")
        if isinstance(given, str):
            return aggregation(given, self.where)
        return Aggregation(getattr(given, "__name__", type(given).__name__), given)

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
    is_answered: bool = True
    """False: it has no values, and counts 0 in a mean of shares"""


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
    n_functions = sum(callable(metric.aggregation) for metric in metrics)
    seconds = settings.seconds * min(1.0, AT_ONCE / max(1, n_functions))
    settings = replace(settings, seconds=seconds)
    scores = [score for metric in metrics for score in _scores(metric, rows, settings)]
    numbers = [i for i, score in enumerate(scores) if not math.isnan(score.value)]
    real = [i for i in numbers if scores[i].warning != ELSEWHERE]
    primary = [*real, *numbers, 0][0]
    return [replace(score, is_primary=i == primary) for i, score in enumerate(scores)]


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
    silent = [row.unit for row in rows if not row.is_answered]
    try:
        if silent and _are_right_or_wrong(metric, items):
            items, units, silent = items + [0.0] * len(silent), units + silent, []
        scores = _computed(metric, items, units, settings, replace(empty, n=len(items)))
    except FieldmarkError as error:
        return [replace(empty, warning=f"not computed: {error}")]
    left_out = f"{len(silent)} of {len(rows)} documents were not answered and are left out"
    return [_warned(score, left_out) for score in scores] if silent else scores


def _are_right_or_wrong(metric: ScoredMetric, items: Sequence[Any]) -> bool:
    """Is the score a mean of shares, in which a document that was not answered counts 0?"""
    is_mean = metric.way.name == "mean" and metric.is_up and _all_numbers(items)
    return is_mean and _are_shares(np.array(items, np.float64))


def _warned(score: Score, *warnings: str) -> Score:
    return replace(score, warning="; ".join(filter(None, (*warnings, score.warning))))


def _computed(
    metric: ScoredMetric,
    items: list[Any],
    units: list[str | None],
    settings: ScoreSettings,
    empty: Score,
) -> list[Score]:
    way = metric.way
    if way.weighted is None:
        return _of_function(metric, way, items, units, settings, empty)
    if way.name == "mean" and _all_numbers(items):
        return [_mean(metric, np.array(items, np.float64), _items(units), empty)]
    if way.units is not None and not any(units):
        grouping = _items([str(unit) for unit in way.units(items)])
    else:
        grouping = _items(units)
    score = _weighted(way, items)
    value = float(score(np.ones((1, len(items))))[0])
    if way.name == "bypass":
        return [replace(empty, value=value, warning=ELSEWHERE)]
    resampling = Resampling(seed=settings.seed, task=f"{settings.task} {metric.result}")
    limits = weighted_limits(value, score, grouping, resampling, way.bounds, settings.seconds)
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
    return all(item is None or as_number(item) is not None for item in items)


def _items(units: Sequence[str | None]) -> Items:
    return Items(np.zeros(len(units), np.int64), unit=np.array(units, dtype=object))


def _mean(metric: ScoredMetric, value_n: np.ndarray, items: Items, empty: Score) -> Score:
    n_lacking = int(np.isnan(value_n).sum())
    if n_lacking:
        lacking = f"{n_lacking} of {len(value_n)} values are NaN or None"
        return replace(empty, warning=f"{lacking}: the aggregation nanmean omits them")
    is_share = _are_shares(value_n)
    filled = replace(empty, value=float(value_n.mean()), is_fraction=is_share and metric.is_up)
    if not is_share and np.ptp(value_n) == 0:
        text = "all values are equal: the spread is not known"
        return replace(filled, n_units=count_units(items), warning=text)
    return _with_limits(filled, _mean_limits(metric.name, value_n, items))


def _are_shares(value_n: np.ndarray) -> bool:
    return bool(((value_n >= 0) & (value_n <= 1)).all())


def _mean_limits(name: str, value_n: np.ndarray, items: Items) -> ScoreLimits:
    """The interval of a mean, as `stats` has it."""
    bounds = (0.0, 1.0) if _are_shares(value_n) else (-math.inf, math.inf)
    limits = interval(items, value_n, mean_value(name, bounds=bounds))
    return ScoreLimits(limits.low, limits.high, limits.method, limits.n_units)


def _with_limits(score: Score, limits: ScoreLimits) -> Score:
    return replace(score, **asdict(limits))


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
        way.function,
        metric.where or f"metric {metric.name!r}",
        settings.seed,
        settings.flags,
        metric.fresh,
    )
    result = caller.once(items, settings.folder)
    values = numbers_in(result)
    if not values:
        kind = "nothing" if result is None else f"a {type(result).__name__}"
        return [replace(empty, warning=f"the aggregation gave {kind}, no number")]
    resampling = Resampling(seed=settings.seed, task=f"{settings.task} {metric.result}")
    limits = function_limits(caller, values, items, _items(units), resampling, settings.seconds)
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


MEAN, MAJORITY = "mean_accuracy", "majority_accuracy"
VARIANCE, AGREEMENT = "within_variance", "agreement_rate"


def agreement_scores(
    metric: str,
    values: Sequence[Sequence[Any]],
    units: Sequence[str | None] | None = None,
    answers: Sequence[Sequence[Any]] | None = None,
) -> list[Score]:
    """Four scores `metric/...` from the values of each document's repeats.

    `answers`: what was answered in each repeat; agreement and majority are then those of answers,
    else those of values. A document with fewer than two numbers is left out; without any document
    there are no scores.
    """
    kept = [
        row for row, value in enumerate(values) if len(value) > 1 and all(map(_is_known, value))
    ]
    if not kept:
        return []
    repeat_values = [[float(value) for value in values[row]] for row in kept]
    answer_lists = [list(answers[row]) for row in kept] if answers else repeat_values
    unit = np.array([units[row] for row in kept], dtype=object) if units else None
    items = Items(np.zeros(len(kept), np.int64), unit=unit)
    per_document: dict[str, Callable[[list[float], list[Any]], float]] = {
        MEAN: lambda value, _: float(np.mean(value)),
        MAJORITY: _by_answer if answers else _by_value,
        VARIANCE: lambda value, _: float(np.var(value, ddof=1)),
        AGREEMENT: lambda _, answer: float(len({*map(repr, answer)}) == 1),
    }
    per_score = {
        name: list(map(value, repeat_values, answer_lists)) for name, value in per_document.items()
    }
    return [
        replace(_score(name, np.array(value), items), metric=f"{metric}/{name}")
        for name, value in per_score.items()
    ]


def _score(name: str, value_n: np.ndarray, items: Items) -> Score:
    is_up = name != VARIANCE
    score = Score(
        name,
        float(value_n.mean()),
        n=len(value_n),
        higher_is_better=is_up,
        is_fraction=is_up and _are_shares(value_n),
    )
    return _with_limits(score, _mean_limits(name, value_n, items))


def _is_known(value: Any) -> bool:
    number = as_number(value)
    return number is not None and math.isfinite(number)


def _by_value(value: list[float], _: list[Any]) -> float:
    """1 where more than half are right; a tie is not."""
    return float(sum(value) > len(value) / 2)


def _by_answer(value: list[float], answer: list[Any]) -> float:
    """The value of the most frequent answer; of equals the one that came first."""
    keys = [repr(text) for text in answer]
    return value[keys.index(Counter(keys).most_common(1)[0][0])]


def score_document_run(
    task: DocumentTask, predictions: pl.DataFrame, seed: int, folder: Path | None
) -> list[Score]:
    """All scores of a run; aggregations write their files into the folder."""
    # The store sorts ids as texts; aggregations may count on the documents' own order.
    answered = predictions.filter(pl.col("outcome") == OK).sort(pl.col("id").cast(pl.Int64))
    infos = [json.loads(text) for text in answered["info"]]
    rows = [
        DocumentValues(_values(info), unit)
        for info, unit in zip(infos, answered["unit"], strict=True)
    ]
    silent = predictions.filter(pl.col("outcome") != OK)["unit"]
    every = [*rows, *(DocumentValues({}, unit, is_answered=False) for unit in silent)]
    settings, metrics = ScoreSettings(task.task, seed, folder), scored_metrics(task)
    scores = score_documents(metrics, every, settings)
    scores += _among_answered(metrics, scores, rows, settings)
    if task.n_repeats > 1:
        scores += _agreement(task, infos, answered["unit"].to_list())
    hows = sorted({info["how"] for info in infos if "how" in info})
    warnings = [*hows, *_oddities(task, infos, answered["unit"].to_list())]
    if not infos:
        warnings = [_silence(predictions)]
    return [_warned(score, *warnings) for score in scores]


def _among_answered(
    metrics: Sequence[ScoredMetric],
    scores: Sequence[Score],
    rows: Sequence[DocumentValues],
    settings: ScoreSettings,
) -> list[Score]:
    """The first score among the documents that were answered, where others count in it."""
    primary = next(score for score in scores if score.is_primary)
    metric_of_primary = next(
        (metric for metric in metrics if metric.result == primary.metric), None
    )
    if metric_of_primary is None or primary.n <= len(rows):
        return []
    return [replace(_scores(metric_of_primary, rows, settings)[0], metric=AMONG_ANSWERED)]


def _silence(predictions: pl.DataFrame) -> str:
    """Why there is nothing to score, in the words of the first failure."""
    errors = (json.loads(text).get("error", "") for text in predictions["info"] if text)
    error = next(filter(None, errors), "").rstrip(".")
    return f"none of {len(predictions)} documents was answered{f': {error}' if error else ''}"


def _oddities(
    task: DocumentTask, infos: Sequence[dict[str, Any]], units: Sequence[str | None]
) -> Iterator[str]:
    """What looks like a mistake in the task's file."""
    for oddity, n in sorted(Counter(info.get("odd", "") for info in infos).items()):
        if oddity:
            yield f"{n} of {len(infos)} documents: {oddity}"
    if task.cluster_key and infos and not any(units):
        yield f"cluster_key {task.cluster_key!r} is in no document: each counts as independent"


def scored_metrics(task: DocumentTask) -> list[ScoredMetric]:
    """Every metric under every pipeline."""
    return [
        ScoredMetric(
            item.name,
            pipeline.name,
            load_function(item.aggregation, task.trust)
            if isinstance(item.aggregation, Function)
            else item.aggregation,
            higher_is_better(item),
            task.line_of("metric_list", number, "aggregation"),
            FreshFunction(
                item.aggregation, task.trust, find_file(item.aggregation, task.trust).resolve()
            )
            if isinstance(item.aggregation, Function)
            else None,
        )
        for pipeline in task.pipelines
        for number, item in enumerate(task.metrics)
    ]


def higher_is_better(item: MetricItem) -> bool:
    """The file's word, else what belongs to a metric of that name."""
    if item.higher_is_better is not None:
        return item.higher_is_better
    metric = find_document_metric(item.name)
    return metric is None or metric.higher_is_better


def metric_names(task: DocumentTask) -> list[str]:
    """As results call them."""
    return [
        result_name(item.name, pipeline.name)
        for pipeline in task.pipelines
        for item in task.metrics
    ]


def mean_of(task: DocumentTask) -> tuple[str, str]:
    """The first metric, if it is a mean of documents' values, else ""; and the first pipeline.

    Loads no code.
    """
    metric, listed = task.metrics[0], find_document_metric(task.metrics[0].name)
    is_mean = (metric.aggregation or (listed.aggregation if listed else "mean")) == "mean"
    return metric.name if is_mean else "", task.pipelines[0].name


def _agreement(
    task: DocumentTask, infos: Sequence[dict[str, Any]], units: Sequence[str | None]
) -> list[Score]:
    """How far the repeats of a document differ, by the first metric."""
    every = [info.get("each", []) for info in infos]
    values = [[decode(value) for _, value in repeats] for repeats in every]
    answers = [[answer for answer, _ in repeats] for repeats in every]
    metric = scored_metrics(task)[0]
    scores = agreement_scores(metric.name, values, units, answers)
    return [
        replace(repeats, metric=result_name(repeats.metric, metric.pipeline)) for repeats in scores
    ]


def _values(info: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        pipeline: {name: decode(text) for name, text in values.items()}
        for pipeline, values in info["values"].items()
    }
