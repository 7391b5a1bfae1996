"""Do two models differ, on the same items?

The test asks how often chance alone would part them so far: the exact McNemar test for a share
without clusters, else swapping the two models' answers unit by unit. The interval of the difference
comes from resamples that both models share; for a share without clusters from Bonett and Price's
formula, because resamples of a handful of items on which the models disagree cover too little (85 %
of n=100 with 4 such items, the formula 99) and contradict the exact test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy.special import bdtr

from fieldmark.stats._interval import count_units, percentile_limits, replicate_mean
from fieldmark.stats._items import Items, Metric, estimate, item_values, weighted_score
from fieldmark.stats._resample import Resampling, cell_kinds, mean_kinds

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
    first, second = np.asarray(first), np.asarray(second)
    if not len(items.target):
        return Difference(math.nan, math.nan, math.nan, 1.0, "sign-flip")
    value = estimate(items, first, metric) - estimate(items, second, metric)
    lead_n = _leads(items, first, second, metric)
    p, test = _test(items, first, second, metric, resampling)
    if lead_n is not None and test == "mcnemar":
        low, high = _split_limits(lead_n, resampling.level)
        return Difference(value, min(low, value), max(high, value), p, test)
    if lead_n is not None:
        replicate_r = replicate_mean(items, lead_n, resampling)
    else:
        replicate_r = _replicate_cells(items, first, second, metric, resampling)
    least, most = getattr(metric, "bounds", (-math.inf, math.inf))
    bounds = (least - most, most - least)
    return Difference(
        value, *percentile_limits(value, replicate_r, items, resampling, bounds), p, test
    )


def ties_with_best(
    items: Items,
    predictions: Mapping[str, np.ndarray],
    metric: Metric,
    resampling: Resampling = _DEFAULT,
) -> Ties:
    """Compares every model with the best one, Holm-corrected at 1 - level.

    The best was chosen by looking, which makes its lead look larger than it is; so the correction
    counts all pairs of models, not only those with the best.
    """
    if not predictions:
        raise ValueError("no models to compare.")
    up = getattr(metric, "direction", "up") == "up"
    scores = {name: estimate(items, each, metric) for name, each in predictions.items()}
    order = sorted(scores, key=lambda name: -scores[name] if up else scores[name])
    best, others = order[0], order[1:]
    raw = {
        name: _test(items, predictions[best], predictions[name], metric, resampling)[0]
        for name in others
    }
    p = _holm(raw, n_tests=len(order) * (len(order) - 1) // 2)
    tied = tuple(name for name in others if p[name] > 1 - resampling.level)
    return Ties(best, (best, *tied), p)


def _leads(
    items: Items, first: np.ndarray, second: np.ndarray, metric: Metric
) -> np.ndarray | None:
    """Item by item, how much the first model is ahead, where the metric is a mean."""
    ours, theirs = (item_values(metric, items.target, each) for each in (first, second))
    return None if ours is None or theirs is None else ours - theirs


def _replicate_cells(
    items: Items, first: np.ndarray, second: np.ndarray, metric: Metric, resampling: Resampling
) -> np.ndarray:
    cells = cell_kinds(items, first, second)
    target, ours, theirs = cells.columns.T
    score_first = weighted_score(items, metric, cells.part, target, ours)
    score_second = weighted_score(items, metric, cells.part, target, theirs)
    return cells.values(
        cells.kinds.resampled(resampling, "interval"),
        lambda weight: score_first(weight) - score_second(weight),
    )


def _test(
    items: Items, first: np.ndarray, second: np.ndarray, metric: Metric, resampling: Resampling
) -> tuple[float, str]:
    lead_n = _leads(items, np.asarray(first), np.asarray(second), metric)
    if lead_n is None:
        return _swap_cells(items, first, second, metric, resampling), "sign-flip"
    is_simple = items.score == "pooled" and count_units(items) == len(items.target)
    if is_simple and np.isin(lead_n, (-1, 0, 1)).all():
        return _mcnemar(int((lead_n > 0).sum()), int((lead_n < 0).sum())), "mcnemar"
    return _flip_means(items, lead_n, resampling), "sign-flip"


def _mcnemar(n_first: int, n_second: int) -> float:
    """Exact two-sided p of so uneven a split of the items on which only one model is right."""
    return min(1.0, 2 * float(bdtr(min(n_first, n_second), n_first + n_second, 0.5)))


def _split_limits(lead_n: np.ndarray, level: float) -> tuple[float, float]:
    """Bonett and Price 2012: one item added to each side on which only one model is right."""
    n, z = len(lead_n) + 2, NormalDist().inv_cdf((1 + level) / 2)
    first, second = (int((lead_n == sign).sum() + 1) / n for sign in (1, -1))
    half = z * math.sqrt((first + second - (first - second) ** 2) / n)
    return max(-1.0, first - second - half), min(1.0, first - second + half)


def _flip_means(items: Items, lead_n: np.ndarray, resampling: Resampling) -> float:
    units = mean_kinds(items, lead_n)
    size_k = np.full(len(units.size), len(items.target), float)
    if items.score == "mean":
        part_n = np.bincount(items.part_codes())
        size_k = (part_n * len(part_n))[units.kinds.part.astype(int)].astype(float)
    lead_k = units.total / size_k
    found = float(lead_k @ units.kinds.count)
    flipped_r = [
        (2 * each - units.kinds.count) @ lead_k for each in units.kinds.halved(resampling, "test")
    ]
    return _share_as_far(np.concatenate(flipped_r), found)


def _swap_cells(
    items: Items, first: np.ndarray, second: np.ndarray, metric: Metric, resampling: Resampling
) -> float:
    cells = cell_kinds(items, first, second)
    target, ours, theirs = cells.columns.T
    twice = np.tile(cells.part, 2), np.tile(target, 2)
    score_first = weighted_score(items, metric, *twice, np.concatenate([ours, theirs]))
    score_second = weighted_score(items, metric, *twice, np.concatenate([theirs, ours]))
    whole = cells.weights(cells.kinds.count[None, :])

    def difference(kept: np.ndarray) -> np.ndarray:
        weight = np.concatenate([kept, whole - kept], axis=1)
        return np.asarray(score_first(weight) - score_second(weight))

    swapped_r = cells.values(cells.kinds.halved(resampling, "test"), difference)
    return _share_as_far(swapped_r, float(difference(whole)[0]))


def _share_as_far(chance_r: np.ndarray, found: float) -> float:
    """Share of chance results at least as far from 0, the found one counted among them.

    Where none of them is, the draws only say "less than one in so many", which no correction for
    many models survives; Hoeffding's bound for sums of random signs then says how much less.
    """
    n_far = int((np.abs(chance_r) >= abs(found) - 1e-12).sum())
    share = (1 + n_far) / (1 + len(chance_r))
    if n_far:
        return share
    steps = abs(found) / float(np.sqrt(np.mean(chance_r**2)))
    return min(share, 2 * math.exp(-(steps**2) / 2))


def _holm(raw: Mapping[str, float], n_tests: int) -> dict[str, float]:
    """Holm's step-down correction of these p values, as the smallest among `n_tests`."""
    corrected: dict[str, float] = {}
    floor = 0.0
    for rank, name in enumerate(sorted(raw, key=lambda each: raw[each])):
        floor = max(floor, min(1.0, raw[name] * (n_tests - rank)))
        corrected[name] = floor
    return corrected
