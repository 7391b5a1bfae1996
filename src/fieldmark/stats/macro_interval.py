"""Interval of macro accuracy and macro F1 (means over classes), where some classes have few images.

Resamples of a class's one image never differ, so bootstrap intervals are too narrow in a long tail
(macro accuracy, 100 classes, n = 500: they held the truth 82 times in 100). Here each item is held
against what the *other* items of its class say (leave-one-out), drawn towards the mean of all
classes as by two items more; the sum of these over a unit is the unit's share of the spread. Limits
are Wilson's for as many independent items as would spread so, because a score near 1 can only be
lower. Where classes are so thin that even this covers too little, `weak_coverage` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fieldmark.stats.influence import Classes, form_of, read_classes
from fieldmark.stats.items import Items, Metric
from fieldmark.stats.wilson import wilson_limits

_PRIOR = 2
"""items of the mean of all classes that every class is given"""


def class_limits(
    items: Items, prediction: np.ndarray, metric: Metric, level: float
) -> tuple[float, float]:
    """The limits of a score whose closed form is a mean over classes."""
    from scipy.special import stdtrit  # slow to load, and most reports need none

    prediction = np.asarray(prediction)
    classes = read_classes(items, int(prediction.max()))
    value, spread_n = class_spread(items, classes, prediction, metric)
    spread_u = np.bincount(items.unit_codes(), spread_n)
    n_units, n_parts = len(spread_u), int(items.part_codes().max()) + 1
    if n_units <= n_parts:
        return 0.0, 1.0
    variance = float(spread_u @ spread_u) * n_units / (n_units - n_parts)
    if variance < 1e-15:  # all right, or all wrong
        return wilson_limits(value, n_units, NormalDist().inv_cdf((1 + level) / 2))
    n_alike = max(value * (1 - value) / variance, 1e-9)
    return wilson_limits(value, n_alike, float(stdtrit(n_units - n_parts, (1 + level) / 2)))


def class_spread(
    items: Items, classes: Classes, prediction: np.ndarray, metric: Metric
) -> tuple[float, np.ndarray]:
    """The score, and each item's part of its spread."""
    is_right = np.asarray(prediction == items.target)
    if form_of(metric) == "recall":
        return _recall(classes, is_right)
    return _f1(classes, prediction, is_right)


def _recall(classes: Classes, is_right: np.ndarray) -> tuple[float, np.ndarray]:
    size = classes.size[classes.target]
    hits_c = np.bincount(classes.target, is_right, len(classes.size))
    value = float(classes.share @ (hits_c / np.maximum(classes.size, 1)))
    others = (hits_c[classes.target] - is_right + _PRIOR * value) / (size - 1 + _PRIOR)
    return value, classes.share[classes.target] / size * (is_right - others)


def _f1(classes: Classes, prediction: np.ndarray, is_right: np.ndarray) -> tuple[float, np.ndarray]:
    """What one item changes in 2 hits / (size + answers), of its own class and the answered one."""
    n, answered = len(classes.size), classes.answered(prediction)
    whole = np.r_[1, classes.size + np.bincount(answered, minlength=n + 1)[1:]]
    hits = np.r_[0, np.bincount(classes.target, is_right, n)]
    share = np.r_[0.0, classes.share]
    value = float(share @ (2 * hits / np.maximum(whole, 1)))
    own = classes.target + 1
    with_right = 2 * (hits - 1) + _PRIOR * value
    with_wrong = share / np.maximum(whole, 1) * (2 * hits + _PRIOR * value) / (whole - 1 + _PRIOR)
    gain = 2 * share / np.maximum(whole, 1) * (1 - with_right / np.maximum(whole - 2 + _PRIOR, 1))
    return value, np.where(is_right, gain[own], -with_wrong[own] - with_wrong[answered])


# --- known weakness ---


FEW = 5
"""test images below which a class counts as thin"""


@dataclass(frozen=True, slots=True)
class WeakCoverage:
    """Why an interval may be too narrow, and which metric to show beside it."""

    n_thin: int
    n_classes: int
    few: int
    beside: str
    """the metric whose interval behaves better; "" where the metric is that one"""

    @property
    def words(self) -> str:
        """The warning, one line."""
        return f"{self.n_thin} of {self.n_classes} classes have < {self.few} test images"


def weak_coverage(items: Items, metric: Metric, few: int = FEW) -> WeakCoverage | None:
    """The warning for this metric on these items; None where its interval is as good as it claims.

    Metrics that are means over items need none. Of parts, each part's classes are counted.
    """
    form = getattr(metric, "closed_form", "")
    if getattr(metric, "kind", "other") == "mean" or form not in ("recall", "f1"):
        return None
    key = np.asarray(items.target)
    if items.score == "mean":
        key = items.part_codes() * (int(key.max(initial=0)) + 1) + key
    size_c = np.unique(key, return_counts=True)[1]
    n_thin = int((size_c < few).sum())
    if not n_thin:
        return None
    return WeakCoverage(n_thin, len(size_c), few, "" if form == "recall" else "macro_accuracy")
