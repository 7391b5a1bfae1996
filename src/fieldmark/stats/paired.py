"""Paired comparison (McNemar, paired t): do two models differ, on the same units?

Right or wrong of independent items: the exact McNemar test, and Bonett and Price's interval.
Anything else: Student's t of the difference, from the covariance of the two models' errors. Two
units more on which they differ, one for each side, are added to the variance as Bonett and Price
add them; there are no more degrees of freedom than that. Fewer than six units on which two models
differ never part them: five coins that all fall the same way are nothing rare. Few even units whose
differences are graded are what Student's t was made for: there it stands alone. Where p is above
5 % the interval holds 0, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fieldmark.stats.covariance import Errors, errors
from fieldmark.stats.interval import student, wilson
from fieldmark.stats.items import LEVEL, Items, Metric
from fieldmark.stats.power import ADDED_UNITS, UnitSpread, detectable
from fieldmark.stats.rare_classes import hidden_from_pair, may_hide

FEWEST_EVEN, MOST_EVEN = 5, 60
"""units for which Student's t alone is tried; beyond, two units more change nothing"""
LEAST_EVEN = 0.9
"""effective units, and discordant ones, as a share of all, where t alone holds"""
LEAST_GRADES = 3
"""sizes of differences: units that are right or wrong altogether have one, and need a sign test"""


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
    """"mcnemar" or "t" """
    method: str
    """how difference, interval and p were found, in words"""
    n: int
    n_units: int
    """independent units among the n items"""
    n_discordant: int
    """units on which the two models do not fare alike"""
    n_repeats: int
    """trainings, or rounds of answers, that the difference is a mean of"""
    se: float
    """standard error of the difference"""
    se_draws: float
    """the part of it that other training draws would bring; 0 with one training"""
    freedom: float
    """degrees of freedom of the standard error"""
    detectable: float
    """the smallest difference these items would show 4 times in 5; infinite where none"""
    direction: str
    """"up": more is better; or "down" """
    level: float = LEVEL
    is_graded: bool = False
    """few even units with graded differences: Student's t alone, nothing added"""

    @property
    def lead(self) -> float:
        """The difference turned so that above 0 means a is better."""
        return self.difference if self.direction == "up" else -self.difference

    @property
    def is_clear(self) -> bool:
        """Whether the units tell the two apart."""
        return self.p <= 1 - LEVEL

    @property
    def spread(self) -> UnitSpread:
        """How the two models differ from unit to unit, for planning."""
        return UnitSpread.measured(
            self.se,
            self.freedom,
            self.n_units,
            self.n_discordant,
            self.difference,
            (self.se_draws, self.n_repeats),
            self.is_graded,
        )


def compare(items: Items, a: np.ndarray, b: np.ndarray, metric: Metric) -> Comparison:
    """How much higher model a's predictions score than model b's, and how sure that is."""
    if not len(items.target):
        nan, direction = math.nan, getattr(metric, "direction", "up")
        counts = (0, 0, 0, 0)
        return Comparison(
            nan, nan, nan, 1.0, "t", "no items", *counts, nan, 0.0, 0.0, math.inf, direction
        )
    return compare_pair(errors(items, np.stack([a, b]), metric), 0, 1)


def compare_pair(scores: Errors, a: int, b: int) -> Comparison:
    """Two of the models whose scores these are."""
    return compare_many(scores, a, [b])[0]


def compare_many(scores: Errors, a: int, others: Sequence[int]) -> list[Comparison]:
    """One model minus each of the others: the same numbers as pair by pair, sooner."""
    other_k = np.asarray(others, np.intp)
    pairs = compare_with(scores, a, other_k)
    draws_k = np.zeros(len(other_k))
    for source in scores.sources:
        if source.is_of_draws:
            draws_k += source.pair_mm[a, other_k]
    limits = (pairs.difference, pairs.low, pairs.high, pairs.p)
    columns = (*limits, pairs.se, pairs.freedom, pairs.n_discordant, draws_k, pairs.is_graded)
    numbers_kc = np.stack(columns, axis=1).tolist()
    return [_comparison(scores, numbers) for numbers in numbers_kc]


def _comparison(scores: Errors, numbers: Sequence[float]) -> Comparison:
    difference, low, high, p, se, freedom, n_discordant, draws, is_graded = numbers
    smallest = detectable(
        se, freedom, scores.n_units, int(n_discordant), difference, bool(is_graded)
    )
    is_split = scores.right_mn is not None
    return Comparison(
        difference=difference,
        low=low,
        high=high,
        p=p,
        test="mcnemar" if is_split else "t",
        method=_SPLIT if is_split else _STUDENT if scores.n_repeats == 1 else _NESTED,
        n=scores.n,
        n_units=scores.n_units,
        n_discordant=int(n_discordant),
        n_repeats=scores.n_repeats,
        se=se,
        se_draws=math.sqrt(draws),
        freedom=freedom,
        detectable=smallest if smallest <= scores.bounds[1] - scores.bounds[0] else math.inf,
        direction="up" if scores.is_up else "down",
        is_graded=bool(is_graded),
    )


_SPLIT = "exact McNemar test, Bonett and Price's interval"
_STUDENT = "paired t over units"
_NESTED = "paired t over units and training draws"


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """One model against k others; every array has one entry per other."""

    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    se: np.ndarray
    freedom: np.ndarray
    n_discordant: np.ndarray
    is_graded: np.ndarray


def compare_with(scores: Errors, model: int, others: np.ndarray) -> Differences:
    """A model minus each of the others."""
    difference_k = scores.value_m[model] - scores.value_m[others]
    if scores.right_mn is not None:
        return _by_split(scores, model, others)
    n_k = scores.n_discordant(model, others)
    is_graded_k = _is_graded(scores, model, others, n_k)
    # Two discordant units more, one for each side: variance × (1 + 2 / n) (Bonett and Price 2012).
    added_k = np.where(is_graded_k, 0, ADDED_UNITS) / np.maximum(n_k, 1)
    se_k = np.sqrt(scores.pair_mm[model, others] * (1 + added_k))
    freedom_k = np.clip(scores.pair_freedom_mm[model, others], 1.0, n_k + 2)
    p_k = _student_p(difference_k, se_k, freedom_k)
    # The least p that so many units can have: as many coins all falling the same way.
    least_k = np.where(n_k > 0, 2.0 ** (1 - np.minimum(n_k, 60.0)), 1.0)
    p_k = np.maximum(p_k, np.where(is_graded_k, 0.0, least_k))
    # Where no unit differed: Wilson's limit for an event that n units never showed.
    unseen = wilson(0, scores.n_units).high
    half_k = np.array([student(freedom) for freedom in freedom_k]) * se_k
    half_k = np.where(se_k > 1e-12, half_k, unseen)
    pairs = _pairs(scores, difference_k, half_k, p_k, (se_k, freedom_k, n_k, is_graded_k))
    return _with_rare_classes(scores, model, others, pairs)


def _is_graded(scores: Errors, model: int, others: np.ndarray, n_k: np.ndarray) -> np.ndarray:
    """Are the units few and even, and do they differ by more than one or two amounts?"""
    is_graded_k, n = np.zeros(len(others), bool), scores.n_units
    units, *draws = scores.sources
    if draws or scores.class_k is not None or scores.unit_u is None:
        return is_graded_k
    if not FEWEST_EVEN <= n <= MOST_EVEN or units.freedom + 1 < LEAST_EVEN * n:
        return is_graded_k
    for k in np.flatnonzero(n_k >= LEAST_EVEN * n).tolist():
        gap_u = scores.residual_mu[model] - scores.residual_mu[others[k]]
        gap_u = gap_u + (scores.value_m[model] - scores.value_m[others[k]]) / n
        is_graded_k[k] = len(np.unique(np.round(np.abs(gap_u) * n, 4))) >= LEAST_GRADES
    return is_graded_k


def _student_p(difference_k: np.ndarray, se_k: np.ndarray, freedom_k: np.ndarray) -> np.ndarray:
    from scipy.special import stdtr  # slow to load, and most reports need none

    far_k = np.abs(difference_k) / np.maximum(se_k, 1e-15)
    p_k = np.minimum(1.0, 2 * stdtr(freedom_k, -far_k))
    return np.asarray(np.where(np.abs(difference_k) < 1e-12, 1.0, p_k))


def _pairs(
    scores: Errors,
    difference_k: np.ndarray,
    half_k: np.ndarray,
    p_k: np.ndarray,
    rest: tuple[np.ndarray, ...],
    centre_k: np.ndarray | None = None,
) -> Differences:
    """With limits that hold 0 where p says so, within the bounds of a difference."""
    centre_k = difference_k if centre_k is None else centre_k
    least, most = scores.bounds
    reach = most - least if np.isfinite(most - least) else np.inf
    low_k = np.minimum(np.maximum(centre_k - half_k, -reach), difference_k)
    high_k = np.maximum(np.minimum(centre_k + half_k, reach), difference_k)
    is_open = p_k > 1 - LEVEL
    low_k = np.where(is_open, np.minimum(low_k, 0.0), low_k)
    high_k = np.where(is_open, np.maximum(high_k, 0.0), high_k)
    return Differences(difference_k, low_k, high_k, p_k, *rest)


def _with_rare_classes(
    scores: Errors, model: int, others: np.ndarray, pairs: Differences
) -> Differences:
    """Limits no closer than what classes in which both fared alike may hide; 0 stays where p puts
    it."""
    if scores.class_k is None:
        return pairs
    low_k, high_k = pairs.low.copy(), pairs.high.copy()
    units_c = np.bincount(scores.class_k[0])
    most = may_hide(units_c, len(units_c))
    half_k = np.minimum(high_k - pairs.difference, pairs.difference - low_k)
    for k in np.flatnonzero(half_k < most):
        is_apart_u = scores.marks[0][model] != scores.marks[0][others[k]]
        difference, hidden = pairs.difference[k], hidden_from_pair(scores.class_k, is_apart_u)
        is_open = pairs.p[k] > 1 - LEVEL
        if is_open or difference < 0:
            low_k[k] = min(low_k[k], difference - hidden)
        if is_open or difference > 0:
            high_k[k] = max(high_k[k], difference + hidden)
    return replace(pairs, low=low_k, high=high_k)


def _by_split(scores: Errors, model: int, others: np.ndarray) -> Differences:
    """Bonett and Price 2012: one item added to each side on which only one model is right."""
    from scipy.special import bdtr  # slow to load, and most reports need none

    right_mn = np.asarray(scores.right_mn)
    n = right_mn.shape[1]
    both_k = (right_mn[others] @ right_mn[model]).astype(np.float64)
    a_k = np.rint(right_mn[model].sum(dtype=np.float64) - both_k)
    b_k = np.rint(right_mn[others].sum(axis=1, dtype=np.float64) - both_k)
    n_k = (a_k + b_k).astype(np.int64)
    # Exact McNemar: of the items that part the two, a and b fall like tosses of a coin.
    p_k = np.minimum(1.0, 2 * bdtr(np.minimum(a_k, b_k).astype(np.int64), n_k, 0.5))
    first_k, second_k = (a_k + 1) / (n + 2), (b_k + 1) / (n + 2)
    centre_k = first_k - second_k
    se_k = np.sqrt((first_k + second_k - centre_k**2) / (n + 2))
    freedom_k = np.full(len(others), float(n - 1))
    half_k = student(1e9) * se_k
    difference_k = (a_k - b_k) / n
    rest = (se_k, freedom_k, n_k, np.zeros(len(others), bool))
    return _pairs(scores, difference_k, half_k, p_k, rest, centre_k)


def holm(p: ArrayLike) -> np.ndarray:
    """P values corrected for multiple testing (Holm 1979), in the order they came: the chance of
    even one false alarm is held.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p_k = np.asarray(p, np.float64)
    if p_k.ndim != 1 or not ((p_k >= 0) & (p_k <= 1)).all():
        raise ValueError(f"p is {p_k}: expected one row of numbers from 0 to 1.")
    # Step down: the k-th smallest p times the tests that are left, never below the one before.
    order = np.argsort(p_k, kind="stable")
    corrected = np.empty(len(p_k))
    stepped = np.minimum(p_k[order] * (len(p_k) - np.arange(len(p_k))), 1.0)
    corrected[order] = np.maximum.accumulate(stepped) if len(p_k) else stepped
    return corrected
