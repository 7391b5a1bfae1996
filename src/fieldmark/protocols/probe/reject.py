"""Rejection threshold (open-set recognition): how sure must an answer be to name a known class?

Chosen on training images only, as if one class in `folds` were new. Units (photos of one
observation stay together) and classes are dealt into folds. In fold f the probe learns from what
is in neither the units nor the classes of f, and is asked about the units of f; whatever it had no
training image of is new to it. The threshold is the one with the best score of the task's own
metric over the answers of all folds, rejecting the fewest among equals.

The share of new images is a guess (one in `folds`): looking at the test set for it would be
cheating. https://www.imageclef.org/FungiCLEF2023 is what it was made for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fieldmark import draws
from fieldmark.errors import DataError
from fieldmark.metrics import load_metric
from fieldmark.protocols._features import RowFeatures
from fieldmark.protocols._score import arrange
from fieldmark.protocols.probe.fit import Fitted
from fieldmark.tasks import Task

N_CANDIDATES = 100
Fit = Callable[[pl.DataFrame], Fitted]
"""training rows → a fitted probe"""


@dataclass(frozen=True, slots=True)
class Threshold:
    """An answer that is less sure than `value` is replaced by the label for new classes."""

    value: float
    score: float
    """of the task's metric on the training images, held out; NaN when nothing could be held out"""
    notes: tuple[str, ...] = ()
    """what a reader should know of the choice"""

    @property
    def chosen(self) -> dict[str, float]:
        return {"reject_below": self.value, "reject_score": self.score}

    def apply(self, answer: np.ndarray, sure: np.ndarray, label: str) -> np.ndarray:
        return np.where(sure < self.value, label, answer)


def choose_threshold(
    task: Task, train: pl.DataFrame, features: RowFeatures, fit: Fit, kinds: dict[str, str]
) -> Threshold:
    """The threshold for a probe fitted on the rows; without a fold to try, nothing is rejected."""
    block = task.block("probe")
    fold_answers = (
        _ask_fold(train, fold, features, fit, block.reject)
        for fold in _folds(task, train, block.reject_folds)
    )
    held_out = [answers for answers in fold_answers if answers is not None]
    if not held_out:
        return Threshold(-np.inf, np.nan, ("too few images to try a threshold: nothing rejected",))
    threshold = _best(task, pl.concat(held_out), kinds)
    n_lost = block.reject_folds - len(held_out)
    lost = f"{n_lost} of {block.reject_folds} folds of the threshold had one class or no image"
    return replace(threshold, notes=(lost,) if n_lost else ())


def _folds(task: Task, train: pl.DataFrame, n: int) -> list[pl.DataFrame]:
    """Per fold: id, whether it is asked about, and whether its class is hidden from training."""
    classes = draws.shuffled(train["target"].unique(), task.task, "reject", "class")
    class_fold = {name: number % n for number, name in enumerate(classes)}
    unit_fold: dict[tuple[str, str], int] = {}
    by_class = train.group_by("target").agg(pl.col("unit").unique()).sort("target")
    for name, units in by_class.iter_rows():
        offset = draws.number(task.task, "reject", name)
        for number, unit in enumerate(draws.shuffled(units, task.task, "reject", name)):
            unit_fold[name, unit] = (offset + number) % n
    pairs = train.select("target", "unit").rows()
    of_unit = np.array([unit_fold[pair] for pair in pairs])
    of_class = np.array([class_fold[name] for name, _ in pairs])
    return [
        train.select("id").with_columns(
            is_asked=pl.Series(of_unit == fold), is_hidden=pl.Series(of_class == fold)
        )
        for fold in range(n)
    ]


def _ask_fold(
    train: pl.DataFrame, fold: pl.DataFrame, features: RowFeatures, fit: Fit, label: str
) -> pl.DataFrame | None:
    """Answers of one fold; None where too little is left to learn from or to ask."""
    learnt = train.filter(~fold["is_asked"] & ~fold["is_hidden"])
    held_out = train.filter(fold["is_asked"])
    if learnt["target"].n_unique() < 2 or held_out.is_empty():
        return None
    answer, sure = fit(learnt).ask_labels(features.matrix(held_out))
    is_known = held_out["target"].is_in(learnt["target"].unique().to_list())
    return held_out.select("id", "unit").with_columns(
        pl.lit("").alias("part"),
        pl.lit(0).alias("repeat"),
        target=pl.when(is_known).then(held_out["target"]).otherwise(pl.lit(label)),
        prediction=pl.Series(answer, dtype=pl.String),
        score=pl.Series(sure, dtype=pl.Float64),
    )


def _best(task: Task, answers: pl.DataFrame, kinds: dict[str, str]) -> Threshold:
    sure = answers["score"].to_numpy()
    if not np.isfinite(sure).all():
        classifier = task.block("probe").classifier
        raise DataError(
            f"task {task.task!r}: probe {classifier!r} does not say how sure it is "
            "(predict_score), so it cannot reject."
        )
    metric = load_metric(task.metric)
    sign = 1 if metric.direction == "up" else -1
    quantiles = np.quantile(sure, np.linspace(0, 1, N_CANDIDATES), method="higher")
    candidates = [-np.inf, *np.unique(quantiles), np.inf]
    label, given = task.block("probe").reject, answers["prediction"].to_numpy()
    scores = []
    for candidate in candidates:
        changed = Threshold(candidate, np.nan).apply(given, sure, label)
        frame = answers.with_columns(prediction=pl.Series(changed, dtype=pl.String))
        numbers, function = arrange(frame, ["prediction"], metric, kinds)
        columns = (numbers[name].to_numpy() for name in ("target", "prediction"))
        scores.append(function(*columns))
    best = int(np.argmax(sign * np.nan_to_num(scores, nan=-sign * np.inf)))
    return Threshold(float(candidates[best]), float(scores[best]))
