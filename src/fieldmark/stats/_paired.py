"""The difference of two models and the models tied with the best, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fieldmark.stats._compare import compare
from fieldmark.stats._items import Items, Metric
from fieldmark.stats._resample import Resampling
from fieldmark.stats._tiers import tiers

_DEFAULT = Resampling()


@dataclass(frozen=True, slots=True)
class Difference:
    """First model minus second."""

    value: float
    low: float
    high: float
    p: float
    """how often models that do not differ would be parted at least so far"""
    test: str
    """"mcnemar" or "sign-flip" """


@dataclass(frozen=True, slots=True)
class Ties:
    """Which models cannot be told from the best."""

    best: str
    tied: tuple[str, ...]
    """the best and those not distinguishable from it, best score first"""
    p: Mapping[str, float]
    """of each other model against the best, corrected for the choice among all models"""


def paired_difference(
    items: Items,
    first: np.ndarray,
    second: np.ndarray,
    metric: Metric,
    resampling: Resampling = _DEFAULT,
) -> Difference:
    """How much better the first model's predictions score than the second's."""
    found = compare(items, first, second, metric, resampling)
    return Difference(found.difference, found.low, found.high, found.p, found.test)


def ties_with_best(
    items: Items,
    predictions: Mapping[str, np.ndarray],
    metric: Metric,
    resampling: Resampling = _DEFAULT,
) -> Ties:
    """The first tier by name."""
    if not predictions:
        raise ValueError("no models to compare.")
    names = list(predictions)
    answers_mn = np.stack([np.asarray(predictions[name]) for name in names])
    found = tiers(items, answers_mn, metric, resampling)
    best = names[found.order[0]]
    tied = tuple(names[model] for model in found.order if found.letters[model] == "A")
    p = {names[model]: float(found.p_best[model]) for model in found.order[1:]}
    return Ties(best, tied, p)
