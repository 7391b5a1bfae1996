"""Tiers: which models cannot be told apart?

The best model leads tier A; those not distinguishable from it share the tier. The best of the rest
leads tier B, and so on. Inside a tier there is no order. Leaders are chosen by looking, which makes
their lead look larger than it is; so Holm's correction counts all pairs of models, and the chance
that equal models are parted anywhere stays below 1 - level.

One product of the models' values per unit gives the spread of every difference at once; only close
cases are worked out by the test `compare` uses. A metric whose items' values are not known is
scored on resamples that all models share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldmark.stats.bootstrap import DEFAULT, Resampling, replicate_scores
from fieldmark.stats.holm import holm
from fieldmark.stats.influence import form_of, lead_values, score_values
from fieldmark.stats.items import Items, Metric, count_units, estimate
from fieldmark.stats.permutation import ALL_SWAPS, binomial_split, sign_flip, swap_test

FEW_UNITS = 50
"""up to so many units every pair is tested in full"""
PairTest = Callable[[int, np.ndarray], np.ndarray]
"""(leader, others) -> p of each other against the leader"""


@dataclass(frozen=True, slots=True, eq=False)
class Tiers:
    """Letters of the models; every array has one entry per model, in the order given."""

    letters: tuple[str, ...]
    score: np.ndarray
    order: tuple[int, ...]
    """models by score, best first, equal scores as given: for reading, not a ranking in a tier"""
    leaders: tuple[int, ...]
    """the best model of each tier, A first"""
    p_leader: np.ndarray
    """corrected p against the leader of the model's own tier; 1 for leaders"""
    p_best: np.ndarray
    """corrected p against the best model; 1 for itself"""


def tiers(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling = DEFAULT
) -> Tiers:
    """The tiers of m models from their answers (models × items) to the same items."""
    answers_mn = np.asarray(answers_mn)
    n_models = len(answers_mn)
    if not n_models:
        raise ValueError("no models to compare.")
    if answers_mn.shape[1:] != np.shape(items.target):
        raise ValueError(
            f"answers have the shape {answers_mn.shape}, target {np.shape(items.target)}: "
            "expected models × items."
        )
    if not len(items.target):
        nothing = np.full(n_models, math.nan)
        ones, everyone = np.ones(n_models), tuple(range(n_models))
        return Tiers(("A",) * n_models, nothing, everyone, (0,), ones, ones)
    score_m, p_values = _pair_test(items, answers_mn, metric, resampling)
    sign = 1.0 if getattr(metric, "direction", "up") == "up" else -1.0
    order = np.argsort(-sign * score_m, kind="stable")
    return _assign_tiers(score_m, order, p_values, 1 - resampling.level)


def tier_letter(number: int) -> str:
    """A to Z for 0 to 25, then AA, AB, ...

    >>> [tier_letter(number) for number in (0, 25, 26, 701, 702)]
    ['A', 'Z', 'AA', 'ZZ', 'AAA']
    """
    before, place = divmod(number, 26)
    return (tier_letter(before - 1) if before else "") + chr(ord("A") + place)


def _assign_tiers(
    score_m: np.ndarray, order: np.ndarray, p_values: PairTest, alarm: float
) -> Tiers:
    n_models = len(score_m)
    n_tests = max(1, n_models * (n_models - 1) // 2)
    letter_m = [""] * n_models
    leaders: list[int] = []
    p_leader, p_best = np.ones(n_models), np.ones(n_models)
    rest = order
    while len(rest):
        leader, others = int(rest[0]), rest[1:]
        p = holm(p_values(leader, others), n_tests) if len(others) else np.ones(0)
        if not leaders:
            p_best[others] = p
        is_tied = p > alarm
        p_leader[others[is_tied]] = p[is_tied]
        for model in (leader, *others[is_tied]):
            letter_m[model] = tier_letter(len(leaders))
        leaders.append(leader)
        rest = others[~is_tied]
    return Tiers(tuple(letter_m), score_m, tuple(order.tolist()), tuple(leaders), p_leader, p_best)


def _pair_test(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling
) -> tuple[np.ndarray, PairTest]:
    """The scores, and the test for this metric and so many units."""
    scores = score_values(items, answers_mn, metric)
    if scores is None:
        return _resampling_test(items, answers_mn, metric, resampling)
    score_m, value_mu = scores
    n = len(items.target)
    if form_of(metric) == "right" and items.score == "pooled" and value_mu.shape[1] == n:
        return score_m, _mcnemar_test(np.rint(value_mu * n))

    def full(leader: int, other: int) -> float:
        if form_of(metric) != "f1":
            return sign_flip(value_mu[leader].astype(np.float64) - value_mu[other])
        pair = answers_mn[leader], answers_mn[other]
        if value_mu.shape[1] <= ALL_SWAPS:
            return swap_test(items, *pair, metric, resampling)
        return sign_flip(np.bincount(items.unit_codes(), lead_values(items, *pair, metric)))

    is_exact = form_of(metric) != "f1"
    return score_m, _lead_test(score_m, value_mu, full, 1 - resampling.level, is_exact)


def _mcnemar_test(right_mn: np.ndarray) -> PairTest:
    """Exact McNemar tests from how many items two models both have right."""
    both_mm = (right_mn @ right_mn.T).astype(np.float64)
    hits_m = np.diag(both_mm)

    def p_values(leader: int, others: np.ndarray) -> np.ndarray:
        both = both_mm[leader, others]
        return binomial_split(hits_m[leader] - both, hits_m[others] - both)

    return p_values


def _lead_test(
    score_m: np.ndarray,
    value_mu: np.ndarray,
    full: Callable[[int, int], float],
    alarm: float,
    is_exact: bool,
) -> PairTest:
    """Clear cases by the spread of the units' values, close ones in full.

    Random signs have lighter tails than the normal law: to the fourth order by far^4 / 12 times the
    largest unit's part of the variance.
    """
    from scipy.special import ndtr  # slow to load, and most reports need none

    gram_mm, n_units = value_mu @ value_mu.T, value_mu.shape[1]
    square_m, peak = np.diag(gram_mm), float(value_mu.max() - value_mu.min())
    factor, extra, most = (1.3, 0.1, 30.0) if is_exact else (3.0, 0.3, 1.0)

    def p_values(leader: int, others: np.ndarray) -> np.ndarray:
        spread = square_m[leader] + square_m[others] - 2 * gram_mm[leader, others]
        spread = np.maximum(spread, 1e-30)
        gap = score_m[leader] - score_m[others]
        far = np.abs(gap) / np.sqrt(spread)
        p = np.where(gap == 0, 1.0, 2 * ndtr(-far))
        loose = extra + factor * far**4 / 12 * np.minimum(1, peak**2 / spread)
        loose = np.minimum(loose + 2000 / n_units, most + 8000 / n_units)
        is_close = _is_close(p, loose, len(score_m), alarm) | (n_units <= FEW_UNITS)
        for place in np.flatnonzero(is_close):
            p[place] = full(leader, int(others[place]))
        return p

    return p_values


def _is_close(p: np.ndarray, loose: np.ndarray, n_models: int, alarm: float) -> np.ndarray:
    """Where the quick p does not decide: it is seldom too small, and may be too large by exp(loose)
    (simulated on flat and long-tailed classes)."""
    corrected = p * (n_models * (n_models - 1) / 2)
    return np.asarray(
        (corrected > 0.6 * alarm) & (corrected < alarm * np.exp(np.minimum(loose, 30.0))) & (p < 1)
    )


def _resampling_test(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling
) -> tuple[np.ndarray, PairTest]:
    score_m = np.array([estimate(items, answer_n, metric) for answer_n in answers_mn])
    n_units = count_units(items)
    if n_units <= FEW_UNITS:
        return score_m, lambda leader, others: np.array(
            [
                swap_test(items, answers_mn[leader], answers_mn[other], metric, resampling)
                for other in others
            ]
        )
    from scipy.special import stdtr

    spread_mm = np.cov(replicate_scores(items, answers_mn, metric, resampling), rowvar=False)

    def p_values(leader: int, others: np.ndarray) -> np.ndarray:
        own = np.diag(spread_mm)
        variance = own[leader] + own[others] - 2 * spread_mm[leader, others]
        gap = np.abs(score_m[leader] - score_m[others])
        far = gap / np.sqrt(np.maximum(variance, 1e-30))
        return np.asarray(np.where(gap == 0, 1.0, 2 * stdtr(n_units - 1, -far)))

    return score_m, p_values
