"""Between which values does the true score lie, 19 times out of 20?

A share without clusters: Wilson's interval (normal theory covers 81 % of n=30, p=.9 where it
claims 95). Means over classes: `_class_interval`. Everything else: a percentile bootstrap over
units, moved onto the estimate because resamples lose rare classes and sit below it, and widened for
few units as Student's t widens a mean's. The interval always contains its estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fieldmark.stats._class_interval import class_limits
from fieldmark.stats._class_replicates import replicate_classes
from fieldmark.stats._influence import form_of
from fieldmark.stats._items import Items, Metric, estimate, item_values, weighted_score
from fieldmark.stats._laws import ndtr, stdtrit
from fieldmark.stats._resample import Resampling, cell_kinds, mean_kinds
from fieldmark.stats._wilson import wilson_limits

_DEFAULT = Resampling()


@dataclass(frozen=True, slots=True)
class Interval:
    """Limits of a score, and what they rest on."""

    low: float
    high: float
    method: str
    """"wilson", "leave-one-out" or "bootstrap" """
    n: int
    n_units: int
    """independent units among the n items"""

    @property
    def half_width(self) -> float:
        """What stands after ± in a table."""
        return (self.high - self.low) / 2


def wilson(hits: int, n: int, level: float = 0.95) -> Interval:
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


def interval(
    items: Items, prediction: np.ndarray, metric: Metric, resampling: Resampling = _DEFAULT
) -> Interval:
    """The interval of a score by the method that fits it."""
    n = len(items.target)
    if n and form_of(metric) in ("recall", "f1"):
        low, high = class_limits(items, prediction, metric, resampling.level)
        value = estimate(items, prediction, metric)
        return Interval(min(low, value), max(high, value), "leave-one-out", n, count_units(items))
    value_n = item_values(metric, items.target, prediction)
    is_simple = items.score == "pooled" and n == count_units(items)
    if is_simple and value_n is not None and np.isin(value_n, (0, 1)).all():
        return wilson(int(value_n.sum()), n, resampling.level)
    return bootstrap(items, prediction, metric, resampling)


def bootstrap(
    items: Items, prediction: np.ndarray, metric: Metric, resampling: Resampling = _DEFAULT
) -> Interval:
    """The bootstrap interval of any score, resampling units within parts."""
    bounds = getattr(metric, "bounds", (-math.inf, math.inf))
    if not len(items.target):
        return Interval(bounds[0], bounds[1], "bootstrap", 0, 0)
    value_n = item_values(metric, items.target, prediction)
    if value_n is not None:
        replicate_r = replicate_mean(items, value_n, resampling)
    elif form_of(metric):
        replicate_r = replicate_classes(items, np.asarray(prediction), metric, resampling)
    else:
        cells = cell_kinds(items, prediction)
        statistic = weighted_score(items, metric, cells.part, *cells.columns.T)
        replicate_r = cells.values(cells.kinds.resampled(resampling, "interval"), statistic)
    value = estimate(items, prediction, metric)
    low, high = percentile_limits(value, replicate_r, items, resampling, bounds)
    return Interval(low, high, "bootstrap", len(items.target), count_units(items))


def replicate_mean(items: Items, value_n: np.ndarray, resampling: Resampling) -> np.ndarray:
    """Resampled scores where the score is a mean of item values."""
    kinds = mean_kinds(items, value_n)
    blocks = kinds.kinds.resampled(resampling, "interval")
    return np.concatenate([kinds.means(block) for block in blocks])


def percentile_limits(
    value: float,
    replicate_r: np.ndarray,
    items: Items,
    resampling: Resampling,
    bounds: tuple[float, float],
) -> tuple[float, float]:
    """Percentiles of the replicates, moved so that their mean is the value, within the bounds.

    When every resample gives the same, nothing was learned about the spread: the limits are then
    as far away as a surprise that never came in that many units may still be (rule of three).
    """
    n_units = count_units(items)
    freedom = n_units - (int(items.part_codes().max()) + 1)
    low, high = np.quantile(replicate_r, widened_tails(n_units, freedom, resampling.level))
    shift = value - replicate_r.mean()
    low, high = low + shift, high + shift
    if np.ptp(replicate_r) <= 1e-12:
        unseen = wilson(0, n_units, resampling.level).high
        low, high = value - unseen, value + unseen
    return min(max(float(low), bounds[0]), value), max(min(float(high), bounds[1]), value)


def count_units(items: Items) -> int:
    """Independent units among the items."""
    return int(items.unit_codes().max(initial=-1)) + 1


def widened_tails(n: int, freedom: int, level: float) -> tuple[float, float]:
    """Which percentiles of resamples to take: beyond (1 - level) / 2 when few things were drawn
    (Hesterberg 2015)."""
    if freedom < 1:
        return 0.0, 1.0
    tail = float(ndtr(stdtrit(freedom, (1 - level) / 2) * math.sqrt(n / freedom)))
    return tail, 1 - tail
