"""Covariance of scores' errors (cluster-robust, random effects): how sure are many scores at once?

Two things could have been others: the units that were tested and, where a model was fitted several
times, the training draws. Each is a source of error; both are crossed. From the covariance of the
models' errors follow every interval, difference, tier and rank, so these cannot disagree.

Units: the squares of their summed influences (cluster-robust, CR2). With uneven units this
estimate is often too small, because one large unit may happen to be right throughout; so it is not
taken below the one that gives all units the same correlation of their items (exchangeable).
Draws: the spread of the repeats' scores. What chance in single answers adds to it is in both, and
is taken out of the units'.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fieldmark.stats.influence import Influence, form_of, influence
from fieldmark.stats.items import Items, Metric
from fieldmark.stats.thin_classes import hidden_in_rare_classes, no_interval


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One source of error of m scores."""

    own_m: np.ndarray
    """variance of each score; not below the diagonal of the covariance"""
    cov_mm: np.ndarray
    freedom: float
    """degrees of freedom: effective units, or draws, less one"""
    is_of_draws: bool = False

    @property
    def pair_mm(self) -> np.ndarray:
        """Variance of each difference of two scores."""
        diagonal_m = np.diag(self.cov_mm)
        spread_mm = diagonal_m[:, None] + diagonal_m[None] - 2 * self.cov_mm
        return np.asarray(np.maximum(spread_mm, 0.0))

    def scaled(self, factor: float) -> Source:
        return replace(self, own_m=factor * self.own_m, cov_mm=factor * self.cov_mm)

    def taken(self, at: np.ndarray) -> Source:
        return replace(self, own_m=self.own_m[at], cov_mm=self.cov_mm[np.ix_(at, at)])


@dataclass(frozen=True, eq=False)
class Errors:
    """Scores of m models on the same items, with all that is known of their errors."""

    value_m: np.ndarray
    """mean over repeats"""
    sources: tuple[Source, ...]
    """independent of each other; their variances add up"""
    n: int
    """items"""
    n_units: int
    n_repeats: int
    bounds: tuple[float, float]
    is_up: bool
    residual_mu: np.ndarray
    """summed influences of each unit, float32"""
    unit_u: np.ndarray | None
    """who the units are, to find them again in another task; None: not known"""
    marks: tuple[np.ndarray, ...]
    """models × units, one array per task: equal where two models fare alike"""
    right_mn: np.ndarray | None = None
    """right or wrong, where all items are units of their own and count alike"""
    slack_m2: np.ndarray | None = None
    """how much lower and higher a mean over classes may be for what its rarest classes hide"""
    why: str = ""
    """why none of these scores has an interval, in words"""

    @cached_property
    def own_m(self) -> np.ndarray:
        """Variance of each score."""
        return np.asarray(sum(source.own_m for source in self.sources))

    @cached_property
    def pair_mm(self) -> np.ndarray:
        """Variance of each difference."""
        return np.asarray(sum(source.pair_mm for source in self.sources))

    @cached_property
    def cov_mm(self) -> np.ndarray:
        return np.asarray(sum(source.cov_mm for source in self.sources))

    @cached_property
    def own_freedom_m(self) -> np.ndarray:
        return _freedom([(s.own_m, s.freedom) for s in self.sources])

    @cached_property
    def pair_freedom_mm(self) -> np.ndarray:
        return _freedom([(s.pair_mm, s.freedom) for s in self.sources])

    def n_discordant(self, model: int, others: np.ndarray) -> np.ndarray:
        """Units on which a model and each of the others do not fare alike."""
        return np.asarray(
            sum((mark[others] != mark[model]).sum(axis=1) for mark in self.marks), np.int64
        )

    def taken(self, which: Sequence[int]) -> Errors:
        """Of some of the models only."""
        at = np.asarray(which, np.intp)
        sources = tuple(source.taken(at) for source in self.sources)
        return Errors(
            self.value_m[at],
            sources,
            self.n,
            self.n_units,
            self.n_repeats,
            self.bounds,
            self.is_up,
            self.residual_mu[at],
            self.unit_u,
            tuple(mark[at] for mark in self.marks),
            None if self.right_mn is None else self.right_mn[at],
            None if self.slack_m2 is None else self.slack_m2[at],
            self.why,
        )


def _freedom(parts: Sequence[tuple[np.ndarray, float]]) -> np.ndarray:
    """Degrees of freedom of a sum of variances: the harmonic mean of theirs, weighted by variance.

    Satterthwaite's formula weights by squares and is too bold with a handful of draws (simulated).
    """
    total = np.asarray(sum(variance for variance, _ in parts))
    spread = np.asarray(sum(variance / max(freedom, 1e-9) for variance, freedom in parts))
    least = np.full(total.shape, min(freedom for _, freedom in parts))
    return np.asarray(np.divide(total, spread, out=least, where=spread > 0))


def errors(items: Items, answers_mn: np.ndarray, metric: Metric) -> Errors:
    """The errors of m models' scores from their answers (models × items) to the same items."""
    answers_mn = np.asarray(answers_mn)
    if answers_mn.ndim != 2 or answers_mn.shape[1:] != np.shape(items.target):
        raise ValueError(
            f"answers have the shape {answers_mn.shape}, target {np.shape(items.target)}: "
            "expected models × items."
        )
    if not answers_mn.size:
        raise ValueError(f"answers have the shape {answers_mn.shape}: expected models and items.")
    parts = influence(items, answers_mn, metric)
    n_repeats = parts.value_mr.shape[1]
    unit_n, n_units = items.unit_codes(), int(items.unit_codes().max()) + 1
    right_mn = _rights(items, answers_mn, metric, parts)
    rare_m = None if right_mn is None else _rare_units(right_mn, unit_n, n_units)
    sources, residual_mu = _sources(parts, n_repeats, rare_m)
    is_alone = n_units == len(unit_n) and n_repeats == 1
    is_share = form_of(metric) in ("right", "mean") and items.score == "pooled"
    by_class = form_of(metric) in ("recall", "f1")
    return Errors(
        value_m=parts.value_mr.mean(axis=1),
        sources=sources,
        n=_count_items(items),
        n_units=n_units,
        n_repeats=n_repeats,
        bounds=getattr(metric, "bounds", (-np.inf, np.inf)),
        is_up=getattr(metric, "direction", "up") == "up",
        residual_mu=residual_mu,
        unit_u=_names(items, n_units) if residual_mu.shape[1] == n_units else None,
        marks=(_marks(parts),),
        right_mn=right_mn if is_alone and is_share else None,
        slack_m2=hidden_in_rare_classes(items, right_mn)
        if by_class and right_mn is not None
        else None,
        why=no_interval(items, metric),
    )


def _rights(
    items: Items, answers_mn: np.ndarray, metric: Metric, parts: Influence
) -> np.ndarray | None:
    """Right or wrong (1 or 0) of every item; None where answers are worth more or less."""
    form = form_of(metric)
    if form == "mean" and np.isin(parts.mark_mn, (0, 1)).all():
        return parts.mark_mn
    if form in ("right", "recall"):
        return parts.mark_mn
    return (answers_mn == np.asarray(items.target)).astype(np.float32) if form == "f1" else None


def _rare_units(right_mn: np.ndarray, unit_n: np.ndarray, n_units: int) -> np.ndarray:
    """Units that hold the rarer of right and wrong, of each model."""
    size_u = np.bincount(unit_n, minlength=n_units)
    if n_units == len(unit_n):
        n_right_m = right_mn.sum(axis=1)
        return np.asarray(np.minimum(n_right_m, n_units - n_right_m))
    right_mu = np.stack([np.bincount(unit_n, row, n_units) for row in right_mn])
    return np.asarray(np.minimum((right_mu > 0).sum(axis=1), (right_mu < size_u).sum(axis=1)))


def _count_items(items: Items) -> int:
    """Items asked about in all repeats together; a repeat asks about the same ones again."""
    return int(np.bincount(items.repeat_codes()).max())


def _names(items: Items, n_units: int) -> np.ndarray | None:
    if items.unit is None:
        return None
    first_u = np.zeros(n_units, np.intp)
    unit_n = items.unit_codes()
    first_u[unit_n[::-1]] = np.arange(len(unit_n))[::-1]
    return np.asarray(items.unit)[first_u]


def _marks(parts: Influence) -> np.ndarray:
    """One number per unit, equal for two models that fare alike on all its items."""
    n_units = int(parts.unit_n.max()) + 1
    if n_units == parts.mark_mn.shape[1]:
        marks = np.empty(parts.mark_mn.shape, parts.mark_mn.dtype)
        marks[:, parts.unit_n] = parts.mark_mn
        return marks
    salt_n = np.random.default_rng(0).integers(1, 1 << 20, len(parts.unit_n)).astype(np.float64)
    return np.stack([np.bincount(parts.unit_n, salt_n * row, n_units) for row in parts.mark_mn])


# --- sources ---


def _sources(
    parts: Influence, n_repeats: int, rare_m: np.ndarray | None
) -> tuple[tuple[Source, ...], np.ndarray]:
    """The units and, with repeats, the draws; and each unit's summed influence."""
    n_units = int(parts.unit_n.max()) + 1
    by_unit = [
        _by_unit(parts, np.flatnonzero(parts.repeat_n == repeat), n_units)
        for repeat in range(n_repeats)
    ]
    residual_mu = by_unit[0] if n_repeats == 1 else np.mean(by_unit, axis=0)
    share_u = np.bincount(parts.unit_n, parts.weight_n, n_units) / n_repeats
    freedom = max(1 / float(share_u @ share_u) - 1, 0.0)
    units = _unit_source(parts, residual_mu, n_repeats, freedom)
    if rare_m is not None and len(share_u) < len(parts.unit_n):
        # The variance of a share that few units make is itself known badly (simulated).
        units = replace(units, own_m=units.own_m * (1 + 1 / np.maximum(rare_m, 1)))
    if n_repeats == 1:
        return (units,), residual_mu
    chance_mm = (sum(map(_gram, by_unit)) - n_repeats * _gram(residual_mu)) / (
        n_repeats * (n_repeats - 1)
    )
    own_m = np.maximum(units.own_m - np.diag(chance_mm), 0.0)
    units = replace(units, own_m=own_m, cov_mm=units.cov_mm - chance_mm)
    return (units, _draw_source(parts.value_mr)), residual_mu


def _by_unit(parts: Influence, mine: np.ndarray, n_units: int) -> np.ndarray:
    """Summed influences (models × units, float32) of some columns."""
    unit_k = parts.unit_n[mine]
    if len(unit_k) == n_units:
        residual_mu = np.empty((len(parts.residual_mn), n_units), np.float32)
        residual_mu[:, unit_k] = parts.residual_mn[:, mine]
        return residual_mu
    rows = [np.bincount(unit_k, row[mine], n_units) for row in parts.residual_mn]
    return np.asarray(rows, np.float32)


def _unit_source(
    parts: Influence, residual_mu: np.ndarray, n_repeats: int, freedom: float
) -> Source:
    robust_mm = _gram(residual_mu)
    own_m = np.diag(robust_mm).copy()
    alike_m = _exchangeable(parts, residual_mu, n_repeats)
    return Source(own_m if alike_m is None else np.maximum(own_m, alike_m), robust_mm, freedom)


def _exchangeable(parts: Influence, residual_mu: np.ndarray, n_repeats: int) -> np.ndarray | None:
    """The variances if all units had the same correlation of their items; None without clusters.

    The products of different items of a unit say how alike they are. The robust estimate weights
    them by the squares of the units' shares; here a unit counts by its items.
    """
    size_u = np.bincount(parts.unit_n)
    if size_u.max() == 1:
        return None
    weight_n, residual_mn = parts.weight_n / n_repeats, parts.residual_mn / n_repeats
    square_u = np.bincount(parts.unit_n, weight_n) ** 2
    room_u = square_u - np.bincount(parts.unit_n, weight_n**2)
    has_room = (size_u > 1) & (room_u > 1e-12 * square_u)
    if not has_room.any():
        return None
    factor_u = np.zeros(len(size_u))
    factor_u[has_room] = size_u[has_room] / room_u[has_room]
    factor_u *= room_u[has_room].sum() / size_u[has_room].sum()
    square_mn = residual_mn**2
    shared_m = residual_mu**2 @ factor_u - square_mn @ factor_u[parts.unit_n]
    return np.asarray(square_mn.sum(axis=1) + np.maximum(shared_m, 0.0))


def _draw_source(value_mr: np.ndarray) -> Source:
    """Draws as a sample: the covariance of the repeats' scores, of their mean."""
    n = value_mr.shape[1]
    gap_mr = value_mr - value_mr.mean(axis=1, keepdims=True)
    cov_mm = gap_mr @ gap_mr.T / (n * (n - 1))
    return Source(np.diag(cov_mm).copy(), cov_mm, n - 1.0, is_of_draws=True)


def _gram(residual_mu: np.ndarray) -> np.ndarray:
    return np.asarray(residual_mu @ residual_mu.T, np.float64)


# --- several tasks ---


def join(tasks: Sequence[Errors], photos: Sequence[Hashable]) -> Errors:
    """The mean over tasks, each weighted alike, of the same models' scores.

    `photos`: which tasks ask about the same photos; a unit of theirs is one unit in all of them.
    """
    if len(tasks) == 1:
        return tasks[0]
    weight = 1 / len(tasks)
    sources = [
        draw.scaled(weight**2) for task in tasks for draw in task.sources if draw.is_of_draws
    ]
    residuals = []
    for group in dict.fromkeys(photos):
        mine = [task for task, own in zip(tasks, photos, strict=True) if own == group]
        residual_mu = weight * _in_one(mine)
        robust_mm = _gram(residual_mu)
        loose = float(np.median([_inflation(task) for task in mine]))
        freedom = min(task.sources[0].freedom for task in mine)
        sources.append(Source(loose * np.diag(robust_mm), robust_mm, freedom))
        residuals.append(residual_mu)
    return Errors(
        value_m=np.mean([task.value_m for task in tasks], axis=0),
        sources=tuple(sources),
        n=sum(task.n for task in tasks),
        n_units=sum(len(residual_mu.T) for residual_mu in residuals),
        n_repeats=min(task.n_repeats for task in tasks),
        bounds=tasks[0].bounds,
        is_up=tasks[0].is_up,
        residual_mu=np.hstack(residuals),
        unit_u=None,
        marks=tuple(mark for task in tasks for mark in task.marks),
    )


def _inflation(task: Errors) -> float:
    """How much larger than the robust estimate the variance was taken, in the middle of models."""
    robust_m = np.diag(task.sources[0].cov_mm)
    ratio_m = np.divide(
        task.sources[0].own_m, robust_m, out=np.ones(len(robust_m)), where=robust_m > 0
    )
    return float(np.median(ratio_m))


def _in_one(tasks: Sequence[Errors]) -> np.ndarray:
    """Influences of units summed over tasks on the same photos (models × units)."""
    known = [task.unit_u for task in tasks if task.unit_u is not None]
    if len(tasks) == 1 or len(known) < len(tasks):
        return np.hstack([task.residual_mu for task in tasks])
    units, code = np.unique(np.concatenate(known), return_inverse=True)
    residual_mu = np.zeros((len(tasks[0].value_m), len(units)), np.float32)
    start = 0
    for task in tasks:
        mine = code[start : start + task.residual_mu.shape[1]]
        residual_mu[:, mine] += task.residual_mu
        start += len(mine)
    return residual_mu
