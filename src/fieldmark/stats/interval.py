"""Confidence interval of a score: which method fits it, and the percentile bootstrap.

A share without clusters: Wilson's interval (normal theory covers 81 % of n=30, p=.9 where it
claims 95). Means over classes: `macro_interval`. Everything else: a percentile bootstrap over
units, moved onto the estimate because resamples lose rare classes and sit below it, and widened for
few units as Student's t widens a mean's. The interval always contains its estimate.
"""

from __future__ import annotations

import math

import numpy as np

from fieldmark.stats.bootstrap import (
    DEFAULT,
    Resampling,
    cell_kinds,
    replicate_classes,
    replicate_mean,
)
from fieldmark.stats.influence import form_of
from fieldmark.stats.items import Items, Metric, count_units, estimate, item_values, weighted_score
from fieldmark.stats.macro_interval import class_limits
from fieldmark.stats.wilson import Interval, wilson


def interval(
    items: Items, prediction: np.ndarray, metric: Metric, resampling: Resampling = DEFAULT
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
    items: Items, prediction: np.ndarray, metric: Metric, resampling: Resampling = DEFAULT
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


def widened_tails(n: int, freedom: int, level: float) -> tuple[float, float]:
    """Which percentiles of resamples to take: beyond (1 - level) / 2 when few things were drawn
    (Hesterberg 2015)."""
    from scipy.special import ndtr, stdtrit  # slow to load, and most reports need none

    if freedom < 1:
        return 0.0, 1.0
    tail = float(ndtr(stdtrit(freedom, (1 - level) / 2) * math.sqrt(n / freedom)))
    return tail, 1 - tail
