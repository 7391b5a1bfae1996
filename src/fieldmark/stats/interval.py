"""Confidence interval of a score: between which values does it lie, 19 times out of 20?

A share without clusters: Wilson's interval (normal theory covers 81 % of n=30, p=.9 where it
claims 95). Any other score with bounds, and an accuracy over as many items of every class
(stratified): Wilson's formula for as many independent items as would spread so much, with Student's
t for the effective units; a score near its end can only move one way. Scores without bounds:
Student's t. The interval always contains its estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fieldmark.stats.covariance import Errors, errors
from fieldmark.stats.items import LEVEL, Items, Metric

# --- a share: Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212 ---


@dataclass(frozen=True, slots=True)
class Interval:
    """Limits of a score, and what they rest on."""

    low: float
    high: float
    method: str
    """"wilson", "units" (cluster-robust), "units and training draws", or how else"""
    n: int
    n_units: int
    """independent units among the n items"""
    why: str = ""
    """why there are no limits (they are NaN then), in words"""

    @property
    def half_width(self) -> float:
        """What stands after ± in a table."""
        return (self.high - self.low) / 2


def wilson(hits: int, n: int, level: float = LEVEL) -> Interval:
    """Wilson's score interval for a share; without any item, all of [0, 1].

    >>> round(wilson(9, 10).low, 3)
    0.596
    """
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} hits of {n}: expected 0 <= hits <= n.")
    if n == 0:
        return Interval(0.0, 1.0, "wilson", 0, 0)
    low, high = wilson_limits(hits / n, n, NormalDist().inv_cdf((1 + level) / 2))
    return Interval(low, high, "wilson", n, n)


def wilson_limits(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score limits; `n` need not be whole. A share of 0 or 1 is its own limit."""
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z * math.sqrt(max(0.0, share * (1 - share)) / n + z * z / (4 * n * n)) / shrink
    low = 0.0 if share <= 0 else min(centre - half, share)
    high = 1.0 if share >= 1 else max(centre + half, share)
    return low, high


_NO_UNITS = "fewer than two independent units"


def interval(items: Items, prediction: np.ndarray, metric: Metric) -> Interval:
    """The interval of one score."""
    if not len(items.target):
        low, high = getattr(metric, "bounds", (-math.inf, math.inf))
        return Interval(low, high, "no items", 0, 0)
    return score_intervals(errors(items, np.asarray(prediction)[None], metric))[0]


def score_intervals(scores: Errors) -> list[Interval]:
    """The intervals of all scores."""
    return [_interval(scores, model) for model in range(len(scores.value_m))]


def _interval(scores: Errors, model: int) -> Interval:
    if scores.right_mn is not None and not (scores.why or scores.is_stratified):
        return wilson(int(scores.right_mn[model].sum()), scores.n)
    why = scores.why or ("" if scores.n_units > 1 else _NO_UNITS)
    if why:
        return Interval(math.nan, math.nan, "none", scores.n, scores.n_units, why)
    value, variance = float(scores.value_m[model]), float(scores.own_m[model])
    freedom = max(float(scores.own_freedom_m[model]), 1.0)
    least, most = scores.bounds
    if math.isinf(least) or math.isinf(most):
        half = student(freedom) * math.sqrt(variance)
        low, high = max(value - half, least), min(value + half, most)
    else:
        share = (value - least) / (most - least)
        variance /= (most - least) ** 2
        low, high = _share_limits(share, variance, freedom, scores.n_effective)
        # Near an end a variance of few mistakes knows little: exact limits (ceiling.py).
        if scores.counts is not None:
            low = 1 - scores.counts.limit(model, 0, 1 - low)
            high = scores.counts.limit(model, 1, high)
        # Classes whose few items agree by luck may hide a spread (rare_classes.py).
        if scores.slack_m2 is not None:
            low = min(low, max(0.0, share - float(scores.slack_m2[model, 0])))
            high = max(high, min(1.0, share + float(scores.slack_m2[model, 1])))
        low, high = least + low * (most - least), least + high * (most - least)
    method = "units" if len(scores.sources) == 1 else "units and training draws"
    return Interval(min(low, value), max(high, value), method, scores.n, scores.n_units)


def _share_limits(
    share: float, variance: float, freedom: float, n_effective: float
) -> tuple[float, float]:
    # As many independent items as would spread so much, p(1 - p) / variance (Kish 1965), take the
    # place of n in Wilson's formula (1927).
    inside = share * (1 - share)
    if variance <= 1e-15 or inside <= 0:  # all right, or all wrong
        return wilson_limits(share, n_effective, student(freedom))
    return wilson_limits(share, inside / variance, student(freedom))


def student(freedom: float) -> float:
    """The quantile of Student's t that the middle 95 % of its law end at."""
    from scipy.special import stdtrit  # slow to load, and most reports need none

    return float(stdtrit(freedom, (1 + LEVEL) / 2))
