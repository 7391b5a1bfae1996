"""Scoring: how do the predictions of a run become its scores?

Scores need nothing but stored predictions and the task: a new metric never needs a new run. Every
score has an interval over independent units. An item that was not answered counts as answered
wrongly; what the score is among those answered stands beside.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from fieldmark.errors import FieldmarkError
from fieldmark.metrics import Metric, fill_values, load_metric, wrong_answers
from fieldmark.registry import short_name
from fieldmark.stats import Items, code_labels, estimate, interval
from fieldmark.store import AMONG_ANSWERED, OK, PartRecord, Score

if TYPE_CHECKING:
    from fieldmark.protocols._question import Workspace

YES = ("true", "yes", "1")
NO = ("false", "no", "0")
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
    seed: int = 0
    folder: Path | None = None
    """where files go that scoring writes"""
    workspace: Workspace | None = None
    """of a run that was just done"""

    @classmethod
    def of(
        cls, parts: Iterable[PartRecord], metrics: Iterable[str], rule: str, **more: Any
    ) -> Scoring:
        """Of a run whose parts are stored."""
        groups = {part.part: (part.info or {}).get("groups", {}) for part in parts}
        return cls(tuple(dict.fromkeys(metrics)), rule, groups, **more)


@dataclass(frozen=True, slots=True)
class _View:
    """Some of a run's parts, and how they make one number."""

    name: str
    parts: frozenset[str]
    is_mean: bool = False
    is_part: bool = False


def score_answers(
    scoring: Scoring, predictions: pl.DataFrame, kinds: Mapping[str, str] | None = None
) -> list[Score]:
    """All scores of a run: the whole first, then groups and parts. `kinds` says what each class is,
    as the run recorded it, for metrics that ask.
    """
    scores = list(_scores(scoring.metrics, scoring, list(_views(scoring)), predictions, kinds))
    answered = predictions.filter(pl.col("outcome") == OK)
    if scoring.metrics and len(answered) < len(predictions):
        whole = [next(_views(scoring))]
        among = next(_scores(scoring.metrics[:1], scoring, whole, answered, kinds))
        scores.append(replace(among, metric=AMONG_ANSWERED, is_primary=False))
    return scores


def _scores(
    names: Sequence[str],
    scoring: Scoring,
    views: Sequence[_View],
    rows: pl.DataFrame,
    kinds: Mapping[str, str] | None,
) -> Iterator[Score]:
    if "macro_f1" in names and "macro_accuracy" not in names:
        names = (*names, "macro_accuracy")  # the interval of macro F1 is weak with rare classes
    metrics = {name: load_metric(name) for name in names}
    arranged: dict[str, pl.DataFrame] = {}
    for name, metric in metrics.items():
        if metric.uses == "value":
            # The rows with their value of that name in place of the prediction; without those that
            # were answered and have none.
            stored, is_silent = (
                item_values(rows, name).to_numpy(),
                (rows["outcome"] != OK).to_numpy(),
            )
            value = pl.Series("prediction", fill_values(stored, is_silent, metric))
            unit = pl.col("unit").fill_null(pl.col("id"))
            valued = rows.with_columns(value, unit, pl.lit(0).alias("target"))
            arranged[name] = valued.filter(pl.col("prediction").is_not_nan())
        elif metric.uses not in arranged or metric.uses == "kinds":
            arranged[metric.uses], metrics[name] = arrange(rows, ["prediction"], metric, kinds)
    for view in views:
        for name, metric in metrics.items():
            is_cheap = len(scoring.parts) <= MANY_PARTS or metric.kind == "mean"
            if (view.name and metric.uses == "whole") or (view.is_part and not is_cheap):
                continue
            is_primary = not view.name and name == scoring.metrics[0]
            metric_rows = arranged[name if metric.uses == "value" else metric.uses]
            yield _score(view, metric_rows, name, metric, is_primary)


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
            members = {
                part for part, groups in scoring.parts.items() if groups.get(column) == value
            }
            yield _View(f"{column}: {value}", frozenset(members), is_mean)
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
        repeat=rows["repeat"].to_numpy(),
    )
    n = rows.select("part", "id").n_unique()
    score = make_score(short_name(name), items, rows["prediction"].to_numpy(), metric, n)
    return replace(score, part=view.name, is_primary=is_primary)


def known_metric(name: str) -> Metric | None:
    """None for a metric that is not here: only its task knows it, or its file is gone."""
    try:
        return load_metric(name)
    except FieldmarkError:
        return None


def make_score(
    name: str, items: Items, prediction: np.ndarray, metric: Metric, n: int, part: str = ""
) -> Score:
    """The score of `n` photos' answers, with its interval."""
    ends = interval(items, prediction, metric)
    return Score(
        name,
        estimate(items, prediction, metric),
        part,
        low=None if ends.why else ends.low,
        high=None if ends.why else ends.high,
        n=n,
        n_units=ends.n_units,
        method=ends.method,
        higher_is_better=metric.direction == "up",
        is_fraction=metric.bounds == (0.0, 1.0),
        warning=ends.why,
    )


def item_values(rows: pl.DataFrame, name: str) -> pl.Series:
    """What each row's item was worth by a metric, as it was stored with the answer; null: it has
    no such value.
    """
    values = [_stored_values(info).get(name) for info in rows["info"]]
    return pl.Series(name, values, pl.Float64, strict=False)


def values_by_item(rows: pl.DataFrame, name: str) -> dict[tuple[str, int, str], float]:
    """What each item was worth by a metric, by part, repeat and item id."""
    keys = rows.select("part", "repeat", "id").iter_rows()
    values = zip(keys, item_values(rows, name), strict=True)
    return {key: value for key, value in values if value is not None}


def value_names(predictions: pl.DataFrame) -> list[str]:
    """The metrics that any answer has a value of, in the order they are stored."""
    if "info" not in predictions.columns:
        return []
    values = map(_stored_values, predictions["info"])
    return list(dict.fromkeys(name for names in values for name in names))


def _stored_values(info: str | None) -> dict[str, Any]:
    """`values` of an answer's info; a protocol may also keep text that is no JSON object."""
    try:
        stored = json.loads(info) if info else None
    except ValueError:
        return {}
    values = stored.get("values") if isinstance(stored, dict) else None
    return values if isinstance(values, dict) else {}


def recorded_kinds(parts: Iterable[PartRecord]) -> dict[str, str]:
    """Class → kind, as the parts of a run recorded it."""
    kinds: dict[str, str] = {}
    for part in parts:
        kinds |= (part.info or {}).get("kinds", {})
    return kinds


def arrange(
    rows: pl.DataFrame,
    answers: Sequence[str],
    metric: Metric,
    kinds: Mapping[str, str] | None = None,
) -> tuple[pl.DataFrame, Metric]:
    """The rows with `target` and each column of answers as numbers, and the metric to apply.

    Answers are stored as label names with a certainty; a metric says by `uses` what it is computed
    from. Needs the stored rows and the kinds recorded with the run, never the dataset.
    `answers` are columns of predicted labels; the certainty of column `x` stands in `score` for
    one column, else in `score x`. Also needed: part, repeat, id, target, unit. A null among the
    answers is no answer, and counts as a wrong one.
    """
    rows = rows.with_columns(pl.col("unit").fill_null(pl.col("id")))
    if metric.uses == "score":
        return _with_wrong(_signed(rows, answers), rows, answers, metric), metric
    if metric.uses == "whole":
        return _whole(rows, answers), metric
    names = ("part", "target", *answers)
    coded = code_labels(*(rows.get_column(name).to_numpy() for name in names))
    numbers = rows.with_columns(
        pl.Series(name, code) for name, code in zip(names[1:], coded, strict=True)
    )
    numbers = _with_wrong(numbers, rows, answers, metric)
    if metric.uses == "kinds":
        return numbers, _with_kinds(metric, rows, coded, names[1:], kinds or {})
    return numbers, metric


def _with_wrong(
    numbers: pl.DataFrame, rows: pl.DataFrame, answers: Sequence[str], metric: Metric
) -> pl.DataFrame:
    """The numbers with a wrong answer wherever the rows have none."""
    wrong = pl.Series(wrong_answers(numbers["target"].to_numpy(), metric))
    return numbers.with_columns(
        pl.when(rows[name].is_null()).then(wrong).otherwise(pl.col(name)).alias(name)
        for name in answers
    )


def _signed(rows: pl.DataFrame, answers: Sequence[str]) -> pl.DataFrame:
    """1 for yes; certainty of yes, negative for no."""
    by_name = {column: "score" if len(answers) == 1 else f"score {column}" for column in answers}
    return rows.with_columns(
        pl.col("target").is_in(YES).cast(pl.Int64),
        *(
            pl.when(pl.col(column).is_in(YES))
            .then(_sure(score))
            .otherwise(-_sure(score))
            .alias(column)
            for column, score in by_name.items()
        ),
    )


def _sure(column: str) -> pl.Expr:
    """A model that does not say how sure it is, is sure."""
    return pl.col(column).fill_nan(None).fill_null(1.0)


def _whole(rows: pl.DataFrame, answers: Sequence[str]) -> pl.DataFrame:
    """One row per item that every part asked about: 1 where all its answers are right."""
    n_parts = rows.get_column("part").n_unique()
    is_right = [pl.col(name).eq_missing(pl.col("target")).all().cast(pl.Int64) for name in answers]
    items = rows.group_by("repeat", "id", maintain_order=True).agg(
        pl.col("part").n_unique(), pl.col("unit").first(), *is_right
    )
    whole = items.filter(pl.col("part") == n_parts)
    return whole.with_columns(pl.lit("").alias("part"), pl.lit(1).alias("target"))


def _with_kinds(
    metric: Metric,
    rows: pl.DataFrame,
    coded: Sequence[np.ndarray],
    names: Sequence[str],
    kinds: Mapping[str, str],
) -> Metric:
    """The metric with the kind of each class number ("" where nobody recorded it)."""
    n_classes = 1 + max((int(code.max()) for code in coded if len(code)), default=-1)
    kind_c = np.full(n_classes, "", dtype=object)
    for name, code in zip(names, coded, strict=True):
        label_n = rows.get_column(name).to_numpy()
        first_row = np.unique(code, return_index=True)[1]
        for row in first_row:
            kind_c[code[row]] = kinds.get(label_n[row], "")
    bound = partial(cast(Any, metric), kind=kind_c)
    return cast(Metric, update_wrapper(bound, metric))
