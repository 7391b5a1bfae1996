"""How much do the answers to one question differ when it is asked several times?

Of every repeat's value of one metric: the mean (what one answer is worth), the majority (what the
most frequent answer is worth, or whether most answers are right), the variance within documents,
and the share of documents whose repeats all agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fieldmark.lmms.score.values import as_number
from fieldmark.metrics import document_value
from fieldmark.stats import Items, Resampling, interval
from fieldmark.store import Score

MEAN, MAJORITY = "mean_accuracy", "majority_accuracy"
VARIANCE, AGREEMENT = "within_variance", "agreement_rate"


def agreement_scores(
    metric: str,
    values: Sequence[Sequence[Any]],
    units: Sequence[str | None] | None = None,
    answers: Sequence[Sequence[Any]] | None = None,
    resampling: Resampling | None = None,
) -> list[Score]:
    """Four scores `metric/...` from the values of each document's repeats.

    `answers`: what was answered in each repeat; agreement and majority are then those of answers,
    else those of values. A document with fewer than two numbers is left out; without any document
    there are no scores.
    """
    kept = [
        place for place, each in enumerate(values) if len(each) > 1 and all(map(_is_known, each))
    ]
    if not kept:
        return []
    own = [[float(each) for each in values[place]] for place in kept]
    said = [list(answers[place]) for place in kept] if answers else own
    unit = np.array([units[place] for place in kept], dtype=object) if units else None
    items = Items(np.zeros(len(kept), np.int64), unit=unit)
    per_document: dict[str, Callable[[list[float], list[Any]], float]] = {
        MEAN: lambda value, _: float(np.mean(value)),
        MAJORITY: _by_answer if answers else _by_value,
        VARIANCE: lambda value, _: float(np.var(value, ddof=1)),
        AGREEMENT: lambda _, answer: float(len({*map(repr, answer)}) == 1),
    }
    found = {name: list(map(each, own, said)) for name, each in per_document.items()}
    return [
        replace(_score(name, np.array(each), items, resampling), metric=f"{metric}/{name}")
        for name, each in found.items()
    ]


def _score(name: str, value_n: np.ndarray, items: Items, resampling: Resampling | None) -> Score:
    is_share = bool(((value_n >= 0) & (value_n <= 1)).all())
    bounds = (0.0, 1.0) if is_share else (-math.inf, math.inf)
    mean = document_value(name, bounds=bounds)
    found = interval(items, value_n, mean, resampling or Resampling())
    return Score(
        name,
        float(value_n.mean()),
        low=found.low,
        high=found.high,
        n=len(value_n),
        n_units=found.n_units,
        method=found.method,
        higher_is_better=name != VARIANCE,
        is_fraction=is_share and name != VARIANCE,
    )


def _is_known(value: Any) -> bool:
    number = as_number(value)
    return number is not None and math.isfinite(number)


def _by_value(value: list[float], _: list[Any]) -> float:
    """1 where more than half are right; a tie is not."""
    return float(sum(value) > len(value) / 2)


def _by_answer(value: list[float], answer: list[Any]) -> float:
    """The value of the most frequent answer; of equals the one that came first."""
    keys = [repr(each) for each in answer]
    return value[keys.index(Counter(keys).most_common(1)[0][0])]
