"""Covariance of scores' errors (cluster-robust, random effects): how sure are many scores at once?

Two things could have been others: the units that were tested and, where a model was fitted several
times, the training draws. Each is a source of error; both are crossed. From the covariance of the
models' errors follow every interval, difference, tier and rank, so these cannot disagree.

Units: the squares of their summed influences (cluster-robust, CR2). A score that few units spoil
says little about how alike the items of a unit are; so the design effect of each score (what units
do to its variance) is drawn towards that of a correlation of `ICC`, which counts for `ICC_UNITS`
units more, and Student's t has as many degrees of freedom (a moderated variance; Smyth 2004).
Draws: the spread of the repeats' scores. What chance in single answers adds to it is in both, and
is taken out of the units'.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fieldmark.stats.ceiling import ALIKE, ICC_UNITS, UnitCounts
from fieldmark.stats.influence import ICC, Influence, form_of, influence, is_balanced, summed
from fieldmark.stats.items import Items, Metric, members, number_rows
from fieldmark.stats.rare_classes import (
    class_units,
    hidden_in_rare_classes,
    no_interval,
    rarer_answers,
)

ROLES = 0.5
"""correlation of what a photo adds as an example and as a test (simulated)"""
MOST_TRAINED = 0.5
"""share of the items that a draw leaves out, beyond which they were not all trained on"""


@dataclass(frozen=True, slots=True, eq=False)
class ErrorSource:
    """One source of error of m scores."""

    own_m: np.ndarray
    """variance of each score"""
    own_freedom_m: np.ndarray
    cov_mm: np.ndarray
    freedom: float
    """degrees of freedom of a difference: effective units, or draws, less one"""
    is_of_draws: bool = False

    @property
    def pair_mm(self) -> np.ndarray:
        """Variance of each difference of two scores."""
        diagonal_m = np.diag(self.cov_mm)
        spread_mm = diagonal_m[:, None] + diagonal_m[None] - 2 * self.cov_mm
        return np.asarray(np.maximum(spread_mm, 0.0))

    def scaled(self, factor: float) -> ErrorSource:
        return replace(self, own_m=factor * self.own_m, cov_mm=factor * self.cov_mm)

    def taken(self, at: np.ndarray) -> ErrorSource:
        return replace(
            self,
            own_m=self.own_m[at],
            own_freedom_m=self.own_freedom_m[at],
            cov_mm=self.cov_mm[np.ix_(at, at)],
        )


@dataclass(frozen=True, eq=False)
class Errors:
    """Scores of m models on the same items, with all that is known of their errors."""

    value_m: np.ndarray
    """mean over repeats"""
    sources: tuple[ErrorSource, ...]
    """independent of each other; their variances add up"""
    n: int
    """items"""
    n_units: int
    n_repeats: int
    n_effective: float
    """independent items that would weigh as much, if those of a unit are as alike as expected"""
    bounds: tuple[float, float]
    is_up: bool
    residual_mu: np.ndarray
    """summed influences of each unit, float32"""
    unit_u: np.ndarray | None
    """who the units are, to find them again in another task; None: not known"""
    marks: tuple[np.ndarray, ...]
    """models × units, one array per task or photo set: equal where two models fare alike"""
    largest: float = np.inf
    """the most that one unit can add to a difference; infinite where that is not known"""
    right_mn: np.ndarray | None = None
    """right or wrong, where all items are units of their own and count alike"""
    is_stratified: bool = False
    """an accuracy over as many items of every class: less uncertain than a share of all items"""
    slack_m2: np.ndarray | None = None
    """how much lower and higher a mean over classes may be for what its rarest classes hide"""
    class_k: tuple[np.ndarray, np.ndarray] | None = None
    """class and unit of all that go together, where the score is a mean over classes"""
    counts: UnitCounts | None = None
    """right and wrong answers in units, where the score is a share of them"""
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
        return _freedom([(s.own_m, s.own_freedom_m) for s in self.sources])

    @cached_property
    def pair_freedom_mm(self) -> np.ndarray:
        return _freedom([(s.pair_mm, np.full(s.cov_mm.shape, s.freedom)) for s in self.sources])

    def n_discordant(self, model: int, others: np.ndarray, enough: float = np.inf) -> np.ndarray:
        """Units on which a model and each of the others do not fare alike; with `enough`, tasks
        are counted until all have so many.
        """
        n_k = np.zeros(len(others), np.int64)
        for mark in self.marks:
            n_k += (mark[others] != mark[model]).sum(axis=1)
            if (n_k >= enough).all():
                break
        return n_k

    def taken(self, which: Sequence[int]) -> Errors:
        """Of some of the models only."""
        at = np.asarray(which, np.intp)
        is_first = bool((at == np.arange(len(at))).all())
        some = slice(len(at)) if is_first else at  # no copy of what is large
        return replace(
            self,
            value_m=self.value_m[some],
            sources=tuple(source.taken(at) for source in self.sources),
            residual_mu=self.residual_mu[some],
            marks=tuple(mark[some] for mark in self.marks),
            right_mn=None if self.right_mn is None else self.right_mn[some],
            slack_m2=None if self.slack_m2 is None else self.slack_m2[some],
            counts=None if self.counts is None else self.counts.taken(at),
        )


def _freedom(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Degrees of freedom of a sum of variances: the harmonic mean of theirs, weighted by variance.

    Satterthwaite's formula weights by squares and is too bold with a handful of draws (simulated).
    """
    total = np.asarray(sum(variance for variance, _ in parts))
    spread = np.asarray(sum(variance / np.maximum(freedom, 1e-9) for variance, freedom in parts))
    least = np.min([freedom for _, freedom in parts], axis=0)
    return np.asarray(np.divide(total, spread, out=least, where=spread > 0))


def errors(
    items: Items, answers_mn: np.ndarray, metric: Metric, once_m: np.ndarray | None = None
) -> Errors:
    """The errors of m models' scores from their answers (models × items) to the same items.

    `once_m`: which models were trained once, while others were several times and their one training
    stands for all; they are given the luck of the others' draws.
    """
    answers_mn = np.asarray(answers_mn)
    is_fitting = answers_mn.ndim == 2 and answers_mn.shape[1:] == np.shape(items.target)
    if not is_fitting or not answers_mn.size:
        raise ValueError(
            f"answers have the shape {answers_mn.shape}, target {np.shape(items.target)}: "
            "expected models × items."
        )
    items, answers_mn = _without_copies(items, answers_mn)
    parts = influence(items, answers_mn, metric)
    form, n_repeats, value_m = form_of(metric), parts.value_mr.shape[1], parts.value_mr.mean(axis=1)
    bounds = getattr(metric, "bounds", (-np.inf, np.inf))
    unit_n, n_units = items.unit_codes(), int(items.unit_codes().max()) + 1
    right_mn = gain_mn = _rights(items, answers_mn, form, parts)
    if gain_mn is None and form == "mean" and np.isfinite(bounds[1] - bounds[0]):
        gain_mn = (parts.mark_mn - bounds[0]) / (bounds[1] - bounds[0])
    sources, residual_mu = _sources(parts, n_repeats, gain_mn)
    if n_repeats > 1:
        draws, factor = _with_once(sources[1], n_repeats, once_m), _both_roles(parts)
        sources = (sources[0].scaled(factor), draws.scaled(factor))
    if (uses := getattr(metric, "uses", "")) in ("kinds", "score"):
        units = sources[0]
        if uses == "score":
            rare = max(rarer_answers(items) - 1.0, 1.0)
            own_freedom_m = np.full(len(answers_mn), rare)
            units = replace(units, own_freedom_m=own_freedom_m, freedom=min(units.freedom, rare))
        else:
            units = _with_unseen(units, value_m, residual_mu, bounds)
        sources = (units, *sources[1:])
    is_alone = n_units == len(unit_n) and n_repeats == 1
    is_share = form in ("right", "mean") and items.score == "pooled"
    by_class = form in ("recall", "f1")
    has_names = items.unit is not None and residual_mu.shape[1] == n_units
    heaviest = float(np.bincount(parts.unit_n, parts.weight_n).max()) / n_repeats
    n_alike = n_repeats / np.sqrt(parts.weight_n @ parts.weight_n)
    # A repeat asks about the same items again.
    n_items = int(np.bincount(items.repeat_codes()).max())
    return Errors(
        value_m=np.clip(value_m, *bounds),
        sources=sources,
        n=n_items,
        n_units=n_units,
        n_repeats=n_repeats,
        n_effective=float(n_alike**2) / _expected_effect(parts),
        bounds=bounds,
        is_up=getattr(metric, "direction", "up") == "up",
        residual_mu=residual_mu,
        unit_u=np.asarray(items.unit)[number_rows(unit_n)[0]] if has_names else None,
        marks=(_marks(parts),),
        largest=heaviest if form in ("right", "recall") else np.inf,
        right_mn=right_mn if is_alone and is_share else None,
        is_stratified=form == "right" and is_balanced(items),
        slack_m2=hidden_in_rare_classes(items, right_mn)
        if by_class and right_mn is not None
        else None,
        class_k=class_units(items) if by_class else None,
        counts=_counts(parts, right_mn, residual_mu) if form != "f1" else None,
        why=no_interval(items, metric),
    )


def _without_copies(items: Items, answers_mn: np.ndarray) -> tuple[Items, np.ndarray]:
    """One repeat, where all of them asked the same and every model answered alike: a deterministic
    model trained on all images again is no second draw, and says nothing of how draws differ.
    """
    if items.unit is None:
        return items, answers_mn
    repeats = members(items.repeat_codes())
    if len(repeats) < 2 or len({len(items_of) for items_of in repeats}) > 1:
        return items, answers_mn
    at_rn = np.stack(repeats)
    rows = [*answers_mn, items.target, items.unit_codes(), items.part_codes()]
    if not all((row[at_rn] == row[at_rn[0]]).all() for row in map(np.asarray, rows)):
        return items, answers_mn
    first = at_rn[0]
    part = None if items.part is None else np.asarray(items.part)[first]
    once = Items(items.target[first], np.asarray(items.unit)[first], part, items.score)
    return once, answers_mn[:, first]


def _rights(items: Items, answers_mn: np.ndarray, form: str, parts: Influence) -> np.ndarray | None:
    """Right or wrong (1 or 0) of every item; None where answers are worth more or less."""
    is_binary = form == "mean" and np.isin(parts.mark_mn, (0, 1)).all()
    if is_binary or form in ("right", "recall"):
        return parts.mark_mn
    return (answers_mn == np.asarray(items.target)).astype(np.float32) if form == "f1" else None


def _with_unseen(
    units: ErrorSource, value_m: np.ndarray, residual_mu: np.ndarray, bounds: tuple[float, float]
) -> ErrorSource:
    """With half of what one more unit, as heavy as the heaviest and at the worst, would add.

    One poisonous mushroom weighs as much as fifty others: where none happened to be missed, the
    residuals know nothing of what a miss costs. A unit of weight w at either end of the scale has
    a residual of w times the distance of the score from that end. A difference gets a quarter.
    """
    to_low_m, to_high_m = value_m - bounds[0], bounds[1] - value_m
    weight_m = np.maximum(
        residual_mu.max(axis=1) / np.maximum(to_high_m, 1e-9),
        -residual_mu.min(axis=1) / np.maximum(to_low_m, 1e-9),
    )
    more_m = (np.minimum(weight_m, 1.0) * (bounds[1] - bounds[0])) ** 2 / 2
    return replace(units, own_m=units.own_m + more_m, cov_mm=units.cov_mm + np.diag(more_m / 4))


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
    parts: Influence, n_repeats: int, gain_mn: np.ndarray | None
) -> tuple[tuple[ErrorSource, ...], np.ndarray]:
    """The units and, with repeats, the draws; and each unit's summed influence."""
    n_units = int(parts.unit_n.max()) + 1
    by_unit = [
        _by_unit(parts, np.flatnonzero(parts.repeat_n == repeat), n_units)
        for repeat in range(n_repeats)
    ]
    residual_mu = by_unit[0] if n_repeats == 1 else np.mean(by_unit, axis=0)
    share_u = np.bincount(parts.unit_n, parts.weight_n, n_units) / n_repeats
    # The variance of items that weigh unlike rests on the heavy ones (1.5: simulated).
    rests_u = share_u if n_units < len(parts.unit_n) else share_u**1.5
    freedom = max(float(_n_effective(rests_u[None])[0]) - 1, 0.0)
    if n_units < len(parts.unit_n):
        freedom = min(freedom, parts.freedom)
    robust_mm = _gram(residual_mu)
    own_m, own_freedom_m = np.diag(robust_mm).copy(), np.full(len(robust_mm), freedom)
    if n_units < len(parts.unit_n):
        own_m, own_freedom_m = _moderated(parts, own_m, gain_mn)
    units = ErrorSource(own_m, own_freedom_m, robust_mm, freedom)
    if n_repeats == 1:
        return (units,), residual_mu
    chance_mm = (sum(map(_gram, by_unit)) - n_repeats * _gram(residual_mu)) / (
        n_repeats * (n_repeats - 1)
    )
    own_m = np.maximum(units.own_m - np.diag(chance_mm), 0.0)
    units = replace(units, own_m=own_m, cov_mm=units.cov_mm - chance_mm)
    return (units, _draw_source(parts.value_mr)), residual_mu


def _by_unit(parts: Influence, of_repeat: np.ndarray, n_units: int) -> np.ndarray:
    """Summed influences (models × units, float32) of some columns."""
    unit_k = parts.unit_n[of_repeat]
    if len(unit_k) == n_units:
        residual_mu = np.empty((len(parts.residual_mn), n_units), np.float32)
        residual_mu[:, unit_k] = parts.residual_mn[:, of_repeat]
        return residual_mu
    rows = [np.bincount(unit_k, row[of_repeat], n_units) for row in parts.residual_mn]
    return np.asarray(rows, np.float32)


def _moderated(
    parts: Influence, robust_m: np.ndarray, gain_mn: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The variances with design effects drawn towards the one expected, and their freedom."""
    n_repeats = parts.value_mr.shape[1]
    alone_m = np.einsum("mn,mn->m", parts.residual_mn, parts.residual_mn) / n_repeats**2
    share_u = np.bincount(parts.unit_n, parts.weight_n)
    n_m = np.full(len(robust_m), _n_effective(share_u[None])[0])
    if gain_mn is not None:
        good_mu = summed(gain_mn * parts.weight_n, parts.unit_n, len(share_u))
        n_m = np.minimum(_n_effective(good_mu), _n_effective(share_u - good_mu))
    effect_m = np.divide(robust_m, alone_m, out=np.ones(len(robust_m)), where=alone_m > 0)
    expected = ICC_UNITS * _expected_effect(parts)
    effect_m = (n_m * np.maximum(effect_m, 1.0) + expected) / (n_m + ICC_UNITS)
    return alone_m * effect_m, n_m + ICC_UNITS


def _counts(
    parts: Influence, right_mn: np.ndarray | None, residual_mu: np.ndarray
) -> UnitCounts | None:
    """None where answers are worth more or less, draws differ, or every item is a unit."""
    if right_mn is None or parts.value_mr.shape[1] > 1 or len(residual_mu.T) == len(parts.unit_n):
        return None
    share_u = np.bincount(parts.unit_n, parts.weight_n)
    if len(share_u) < 2:
        return None
    good_mu = summed(right_mn * parts.weight_n, parts.unit_n, len(share_u))
    sides = (share_u - good_mu, good_mu)
    squared = float(parts.weight_n @ parts.weight_n)
    return UnitCounts(
        mass_m2=np.stack([side_mu.sum(axis=1) for side_mu in sides], axis=1),
        square_m2=np.stack([np.einsum("mu,mu->m", side, side) for side in sides], axis=1),
        robust_m=np.einsum("mu,mu->m", residual_mu, residual_mu),
        alone_m=np.einsum("mn,mn->m", parts.residual_mn, parts.residual_mn),
        n_effective=float(_n_effective(share_u[None])[0]),
        n_units=len(share_u),
        item=squared / float(parts.weight_n.sum()),
        n_exact=1 / (squared * _expected_effect(parts, ALIKE)),
        expected=_expected_effect(parts),
    )


def _expected_effect(parts: Influence, icc: float = ICC) -> float:
    """The design effect of a correlation of `icc` in every unit."""
    share_u = np.bincount(parts.unit_n, parts.weight_n)
    alike = float(share_u @ share_u) / float(parts.weight_n @ parts.weight_n)
    return 1 + icc * (alike - 1)


def _n_effective(part_mu: np.ndarray) -> np.ndarray:
    """As many units as these would be, were they even."""
    square_m = np.einsum("mu,mu->m", part_mu, part_mu)
    return np.asarray(part_mu.sum(axis=1) ** 2 / np.maximum(square_m, 1e-30))


def _draw_source(value_mr: np.ndarray) -> ErrorSource:
    """Draws as a sample: the covariance of the repeats' scores, of their mean."""
    n = value_mr.shape[1]
    gap_mr = value_mr - value_mr.mean(axis=1, keepdims=True)
    cov_mm = gap_mr @ gap_mr.T / (n * (n - 1))
    own_m, own_freedom_m = np.diag(cov_mm).copy(), np.full(len(cov_mm), n - 1.0)
    return ErrorSource(own_m, own_freedom_m, cov_mm, n - 1.0, is_of_draws=True)


def _with_once(draws: ErrorSource, n: int, once_m: np.ndarray | None) -> ErrorSource:
    """Models trained once have the luck of one draw, as large as that of the others' draws."""
    if once_m is None or not once_m.any() or once_m.all():
        return draws
    luck = n * float(draws.own_m[~once_m].mean())
    cov_mm = np.where(once_m[:, None] | once_m, 0.0, draws.cov_mm) + np.diag(once_m * luck)
    return replace(draws, own_m=np.where(once_m, luck, draws.own_m), cov_mm=cov_mm)


def _both_roles(parts: Influence) -> float:
    """What to multiply variances with where the rest of a pool is tested, else 1.

    A photo that trains in one draw is tested in the others, and a typical one is both easy and a
    good example. With R draws that each train on a share f of the pool, what photos add in the two
    roles correlates by `ROLES` √(R f), and 2 √(units × draws) is at most the sum of both.
    """
    n_repeats, n_units = parts.value_mr.shape[1], int(parts.unit_n.max()) + 1
    is_tested_ru = np.zeros((n_repeats, n_units), bool)
    is_tested_ru[parts.repeat_n, parts.unit_n] = True
    trained = 1 - float(is_tested_ru.mean())
    return 1.0 if trained > MOST_TRAINED else float(1 + ROLES * np.sqrt(n_repeats * trained))


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
    residuals, marks = [], []
    for group in dict.fromkeys(photos):
        group_tasks = [
            task for task, task_photos in zip(tasks, photos, strict=True) if task_photos == group
        ]
        sum_mu, mark = _in_one(group_tasks)
        residual_mu = weight * sum_mu
        robust_mm = _gram(residual_mu)
        loose = float(np.median([_inflation(task) for task in group_tasks]))
        own_freedom_m = np.min([task.sources[0].own_freedom_m for task in group_tasks], axis=0)
        freedom = min(task.sources[0].freedom for task in group_tasks)
        sources.append(ErrorSource(loose * np.diag(robust_mm), own_freedom_m, robust_mm, freedom))
        residuals.append(residual_mu)
        marks += mark
    return Errors(
        value_m=np.mean([task.value_m for task in tasks], axis=0),
        sources=tuple(sources),
        n=sum(task.n for task in tasks),
        n_units=sum(len(residual_mu.T) for residual_mu in residuals),
        n_repeats=min(task.n_repeats for task in tasks),
        n_effective=1 / sum(weight**2 / task.n_effective for task in tasks),
        bounds=tasks[0].bounds,
        is_up=tasks[0].is_up,
        residual_mu=np.hstack(residuals),
        unit_u=None,
        marks=tuple(marks),
        largest=weight * sum(task.largest for task in tasks),
    )


def _inflation(task: Errors) -> float:
    """How much larger than the robust estimate the variance was taken, in the middle of models."""
    own_m, robust_m = task.sources[0].own_m, np.diag(task.sources[0].cov_mm)
    ratio_m = np.divide(own_m, robust_m, out=np.ones(len(robust_m)), where=robust_m > 0)
    return float(np.median(ratio_m))


def _in_one(tasks: Sequence[Errors]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Influences of units summed over tasks on the same photos (models × units), and their marks:
    equal where two models fare alike on a unit in all of these tasks.
    """
    units_of_tasks = [task.unit_u for task in tasks if task.unit_u is not None]
    if len(tasks) == 1 or len(units_of_tasks) < len(tasks):
        marks = [mark for task in tasks for mark in task.marks]
        return np.hstack([task.residual_mu for task in tasks]), marks
    units, code = np.unique(np.concatenate(units_of_tasks), return_inverse=True)
    shape = len(tasks[0].value_m), len(units)
    residual_mu, mark_mu = np.zeros(shape, np.float32), np.zeros(shape)
    salt_t = np.random.default_rng(0).integers(1, 1 << 20, len(tasks))
    start = 0
    for task, salt in zip(tasks, salt_t.tolist(), strict=True):
        column_u = code[start : start + task.residual_mu.shape[1]]
        residual_mu[:, column_u] += task.residual_mu
        mark_mu[:, column_u] += salt * task.marks[0]
        start += len(column_u)
    return residual_mu, [mark_mu]
