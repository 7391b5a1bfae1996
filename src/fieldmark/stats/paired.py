"""Paired comparison (McNemar, sign flips): do two models differ, on the same items?

The test asks how often chance alone would part them so far: the exact McNemar test for a share
without clusters, else swapping the two models' answers unit by unit (sign flips). The interval of
the difference comes from resamples that both models share; for a share without clusters from Bonett
and Price's formula, because resamples of a handful of items on which the models disagree cover too
little (85 % of n=100 with 4 such items, the formula 99) and contradict the exact test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from fieldmark.stats.bootstrap import DEFAULT, Resampling, cell_kinds, replicate_mean
from fieldmark.stats.influence import form_of, item_share, lead_values, score_values
from fieldmark.stats.interval import percentile_limits
from fieldmark.stats.items import Items, Metric, count_units, estimate, weighted_score
from fieldmark.stats.permutation import ALL_SWAPS, binomial_split, sign_flip, swap_test
from fieldmark.stats.power import detectable_mean, detectable_share, items_to_detect
from fieldmark.stats.wilson import wilson


@dataclass(frozen=True, slots=True)
class Comparison:
    """Model a minus model b."""

    difference: float
    """in the metric's own units; where less is better, below 0 means a is better"""
    low: float
    high: float
    p: float
    """how often models that do not differ would be parted at least so far"""
    test: str
    """"mcnemar" or "sign-flip" """
    method: str
    """how difference, interval and p were found, in words"""
    n: int
    n_units: int
    """independent units among the n items"""
    n_discordant: int
    """units on which the two models do not score alike"""
    detectable: float
    """the smallest difference these items would show 4 times in 5; infinite where none"""
    direction: str
    """"up": more is better; or "down" """
    level: float
    se: float = 0.0
    df: float = 0.0

    @property
    def lead(self) -> float:
        """The difference turned so that above 0 means a is better."""
        return self.difference if self.direction == "up" else -self.difference

    @property
    def is_clear(self) -> bool:
        """Whether the items tell the two apart."""
        return self.p <= 1 - self.level

    def n_to_detect(self, difference: float) -> int:
        """Items needed in all to see a difference of that size, units staying as large."""
        return items_to_detect(self.detectable, self.n, difference)

    @property
    def n_to_halve(self) -> int:
        """Items needed in all to halve the smallest visible difference; 0 where none is visible."""
        is_visible = 0 < self.detectable < math.inf
        return self.n_to_detect(self.detectable / 2) if is_visible else 0


def compare(
    items: Items, a: np.ndarray, b: np.ndarray, metric: Metric, resampling: Resampling = DEFAULT
) -> Comparison:
    """How much higher model a's predictions score than model b's, and how sure that is."""
    a, b = np.asarray(a), np.asarray(b)
    n, n_units = len(items.target), count_units(items)
    if not n:
        return _nothing(metric, resampling.level)
    value = _difference(items, a, b, metric)
    lead_u = _lead_by_unit(items, a, b, metric)
    if lead_u is None:
        result = _by_swaps(items, a, b, metric, resampling)
    elif n_units == n and _is_split(items, lead_u, metric):
        result = _by_split(lead_u, n, resampling.level)
    else:
        result = _by_leads(items, a, b, metric, lead_u, resampling)
    return Comparison(
        difference=value,
        **result._asdict() | {"low": min(result.low, value), "high": max(result.high, value)},
        n=n,
        n_units=n_units,
        direction=getattr(metric, "direction", "up"),
        level=resampling.level,
        se=0.0 if lead_u is None else _standard_error(items, lead_u),
        df=float(n_units - 1),
    )


class _TestResult(NamedTuple):
    low: float
    high: float
    p: float
    test: str
    method: str
    n_discordant: int
    detectable: float


def _nothing(metric: Metric, level: float) -> Comparison:
    nan, direction = math.nan, getattr(metric, "direction", "up")
    return Comparison(
        nan, nan, nan, 1.0, "sign-flip", "no items", 0, 0, 0, math.inf, direction, level
    )


def _difference(items: Items, a: np.ndarray, b: np.ndarray, metric: Metric) -> float:
    scores = None
    if form_of(metric) in ("right", "recall", "f1"):
        scores = score_values(items, np.stack([a, b]), metric)
    if scores is not None:
        return float(scores[0][0] - scores[0][1])
    return estimate(items, a, metric) - estimate(items, b, metric)


def _is_split(items: Items, lead_u: np.ndarray, metric: Metric) -> bool:
    """Whether every item is right or wrong and counts alike."""
    if items.score != "pooled" or form_of(metric) not in ("right", "mean"):
        return False
    count_u = lead_u * len(lead_u)
    return bool((np.abs(count_u - np.sign(np.rint(count_u))) < 1e-9).all())


def _lead_by_unit(items: Items, a: np.ndarray, b: np.ndarray, metric: Metric) -> np.ndarray | None:
    lead_n = lead_values(items, a, b, metric)
    return None if lead_n is None else np.bincount(items.unit_codes(), lead_n)


def _by_split(lead_u: np.ndarray, n: int, level: float) -> _TestResult:
    n_a, n_b = int((lead_u > 0).sum()), int((lead_u < 0).sum())
    p = float(binomial_split(np.array(n_a), np.array(n_b)))
    low, high = _split_limits(n_a, n_b, n, level)
    detectable = detectable_share(n_a + n_b, n, level)
    words = "exact McNemar test; interval by Bonett and Price's formula"
    return _TestResult(low, high, p, "mcnemar", words, n_a + n_b, detectable)


def _split_limits(n_a: int, n_b: int, n: int, level: float) -> tuple[float, float]:
    """Bonett and Price 2012: one item added to each side on which only one model is right."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    first, second = (n_a + 1) / (n + 2), (n_b + 1) / (n + 2)
    half = z * math.sqrt((first + second - (first - second) ** 2) / (n + 2))
    return max(-1.0, first - second - half), min(1.0, first - second + half)


def _by_leads(
    items: Items,
    a: np.ndarray,
    b: np.ndarray,
    metric: Metric,
    lead_u: np.ndarray,
    resampling: Resampling,
) -> _TestResult:
    """Metrics whose difference is a sum over items."""
    form, n_units = form_of(metric), len(lead_u)
    is_exact = form != "f1" or n_units > ALL_SWAPS
    p = sign_flip(lead_u) if is_exact else swap_test(items, a, b, metric, resampling)
    se = _standard_error(items, lead_u)
    if form in ("recall", "f1"):
        value = _difference(items, a, b, metric)
        low, high = _lead_limits(value, se, items, metric, resampling.level)
        words = "sign flips of whole units; interval by the spread of the units' leads"
    else:
        lead_n = np.asarray(lead_values(items, a, b, metric)) / item_share(items)
        replicate_r = replicate_mean(items, lead_n, resampling)
        low, high = percentile_limits(
            float(lead_u.sum()), replicate_r, items, resampling, _bounds(metric)
        )
        words = f"sign flips of whole units; interval by {resampling.draws:,} shared resamples"
    n_discordant = int((np.abs(lead_u) > 1e-12).sum())
    return _TestResult(
        low, high, p, "sign-flip", words, n_discordant, _visible(se, n_units, metric)
    )


def _by_swaps(
    items: Items, a: np.ndarray, b: np.ndarray, metric: Metric, resampling: Resampling
) -> _TestResult:
    """Any other metric: scored anew for every resample and every swap."""
    cells = cell_kinds(items, a, b)
    target, ours, theirs = cells.columns.T
    score_a = weighted_score(items, metric, cells.part, target, ours)
    score_b = weighted_score(items, metric, cells.part, target, theirs)
    replicate_r = cells.values(
        cells.kinds.resampled(resampling, "interval"),
        lambda weight: score_a(weight) - score_b(weight),
    )
    value = float(estimate(items, a, metric) - estimate(items, b, metric))
    low, high = percentile_limits(value, replicate_r, items, resampling, _bounds(metric))
    p = swap_test(items, a, b, metric, resampling)
    n_units = int(cells.kinds.count.sum())
    n_discordant = len(np.unique(items.unit_codes()[a != b]))
    words = f"swaps of whole units; interval by {resampling.draws:,} shared resamples"
    visible = _visible(float(replicate_r.std()), n_units, metric)
    return _TestResult(low, high, p, "sign-flip", words, n_discordant, visible)


def _standard_error(items: Items, lead_u: np.ndarray) -> float:
    """Of the sum of the units' leads, had other units been met in each part."""
    part_u = np.zeros(len(lead_u), np.intp)
    part_u[items.unit_codes()] = items.part_codes()
    n_p = np.bincount(part_u)
    gap_u = lead_u - (np.bincount(part_u, lead_u) / n_p)[part_u]
    freedom = len(lead_u) - len(n_p)
    return math.sqrt(len(lead_u) / freedom * float(gap_u @ gap_u)) if freedom > 0 else 0.0


def _lead_limits(
    value: float, se: float, items: Items, metric: Metric, level: float
) -> tuple[float, float]:
    """Student's limits of a sum of leads; where no unit leads, what so many may have missed."""
    from scipy.special import stdtrit  # slow to load, and most reports need none

    n_units = count_units(items)
    freedom = n_units - (int(items.part_codes().max()) + 1)
    least, most = _bounds(metric)
    half = float(stdtrit(freedom, (1 + level) / 2)) * se if freedom > 0 else most - least
    if se == 0:
        half = wilson(0, n_units, level).high
    return max(value - half, least), min(value + half, most)


def _bounds(metric: Metric) -> tuple[float, float]:
    least, most = getattr(metric, "bounds", (-math.inf, math.inf))
    return least - most, most - least


def _visible(se: float, n_units: int, metric: Metric) -> float:
    if se > 1e-15:
        return min(detectable_mean(se, n_units), _bounds(metric)[1])
    return detectable_share(0, n_units) if n_units > 1 else math.inf
