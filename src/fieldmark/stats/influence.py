"""Influence values (leave one unit out): what does each item add to the error of a score?

A score is a mean over strata: over all items, over parts, over the classes of macro accuracy. Each
item is compared with what the *other units* of its stratum say, so that frames of one burst do not
vouch for each other. A stratum with one unit (a species with one burst, an individual that is its
own class) has no others: it is compared with the mean of all, and every class is drawn towards that
mean as by `PRIOR` items, because resamples of a class's one image would never differ.

Macro F1 is a ratio of counts: its items' values are its derivatives. Any other metric is computed
without each unit in turn (jackknife).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fieldmark import draws
from fieldmark.stats.items import Items, Metric, estimate, item_values, members, number_rows

PRIOR = 2
"""items of the mean of all classes that every class is given"""
ICC = 0.15
"""correlation of right and wrong in a unit, before any answer is seen"""
BEND = 0.4
"""what is added to the variance of macro F1 where every class has one unit of several items"""
MOST_BLOCKS = 1000
"""units left out in turn for a metric without a closed form; beyond, they are dealt into blocks"""
FEW_BLOCKS = 400
"""the same, where every score is computed by itself"""


class Influence(NamedTuple):
    """Scores of models, and the errors that make up each; one column per item (or unit)."""

    value_mr: np.ndarray
    """models × repeats"""
    residual_mn: np.ndarray
    """what each column adds to the error of its repeat's score, float32"""
    weight_n: np.ndarray
    """the column's share of its repeat's score"""
    mark_mn: np.ndarray
    """equal where two models fare alike: right or wrong, the value, or the answer itself"""
    unit_n: np.ndarray
    repeat_n: np.ndarray
    freedom: float = math.inf
    """degrees of freedom of a mean over classes, each of few units"""


def form_of(metric: Metric) -> str:
    """Which closed form the metric has: "right", "recall", "f1", "mean" of item values, or ""."""
    form = str(getattr(metric, "closed_form", ""))
    if form in ("right", "recall", "f1"):
        return form
    return "mean" if getattr(metric, "kind", "other") == "mean" else ""


def influence(items: Items, answers_mn: np.ndarray, metric: Metric) -> Influence:
    """The influence of every item on the scores of m models that answered the same items."""
    form = form_of(metric)
    if not form:
        return _jackknife(items, answers_mn, metric)
    target, unit_n, repeat_n = np.asarray(items.target), items.unit_codes(), items.repeat_codes()
    if form == "mean":
        values = [item_values(metric, target, answer_n) for answer_n in answers_mn]
        value_mn = np.asarray(values, np.float64)
    else:
        value_mn = (answers_mn == target).astype(np.float32)
    if form == "f1":
        return _f1(items, answers_mn, value_mn)
    strata = read_strata(items, form == "recall" or (form == "right" and is_balanced(items)))
    value_mr, residual_mn = _of_means(strata, value_mn, unit_n)
    weight_n = strata.share[strata.code] / strata.size[strata.code]
    freedom = _class_freedom(strata, unit_n) if form == "recall" else math.inf
    return Influence(value_mr, residual_mn, weight_n, value_mn, unit_n, repeat_n, freedom)


# --- means over strata ---


@dataclass(frozen=True, slots=True)
class Strata:
    """The strata whose means make up a score: repeats, parts in them, and classes in those."""

    code: np.ndarray
    """of each item, 0 up"""
    size: np.ndarray
    """items of each stratum"""
    share: np.ndarray
    """weight of each stratum in the score of its repeat"""
    repeat: np.ndarray
    """of each stratum"""
    prior: int
    """items of the mean of all that each stratum is given"""


def is_balanced(items: Items) -> bool:
    """Are there as many items of every class (two or more of each), and no units within a stratum?

    Then accuracy is macro accuracy: its classes are fixed, and only their items might have been
    others (a stratified sample).
    """
    stratum_n, target = items.strata(), np.asarray(items.target)
    n_cells = len(number_rows(stratum_n, items.unit_codes())[0])
    first_s, code_n = number_rows(stratum_n, target)
    size_s = np.bincount(code_n, minlength=1)
    is_even = bool((size_s == size_s[0]).all()) and size_s[0] > 1
    return is_even and n_cells == len(target) and len(first_s) > len(np.unique(stratum_n))


def read_strata(items: Items, by_class: bool) -> Strata:
    part_n, repeat_n = items.strata(), items.repeat_codes()
    repeat_p = np.zeros(int(part_n.max()) + 1, np.intp)
    repeat_p[part_n] = repeat_n
    share_p = 1 / np.bincount(repeat_p)[repeat_p]
    if not by_class:
        return Strata(part_n, np.bincount(part_n), share_p, repeat_p, 0)
    first_s, code_n = number_rows(part_n, np.asarray(items.target))
    part_s = part_n[first_s]
    share_s = share_p[part_s] / np.bincount(part_s)[part_s]
    return Strata(code_n, np.bincount(code_n), share_s, repeat_p[part_s], PRIOR)


def _of_means(
    strata: Strata, value_mn: np.ndarray, unit_n: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    # A cell is a unit in a stratum. Its residual is its total less what the rest of the stratum
    # leads one to expect of as many items (delete-one-cluster jackknife: Cameron & Miller 2015).
    first_c, cell_n = number_rows(strata.code, unit_n)
    if len(first_c) == len(cell_n):  # each unit once in a stratum: its cell is the item
        first_c = cell_n = np.arange(len(cell_n))
    stratum_c, size_c = strata.code[first_c], np.bincount(cell_n)
    total_mc = value_mn if len(first_c) == len(cell_n) else summed(value_mn, cell_n, len(first_c))
    total_ms = summed(total_mc, stratum_c, len(strata.size))
    n_repeats = int(strata.repeat.max()) + 1
    value_mr = summed(total_ms * (strata.share / strata.size), strata.repeat, n_repeats)
    others_c = strata.size[stratum_c] - size_c
    prior_c = np.where(others_c == 0, PRIOR, strata.prior)
    extra_c = _extra(size_c, others_c + prior_c, stratum_c)
    scale_c = strata.share[stratum_c] / strata.size[stratum_c] / np.sqrt(1 + extra_c)
    part_c = (scale_c / (others_c + prior_c)).astype(np.float32)
    mean_m = value_mr.mean(axis=1, keepdims=True).astype(np.float32)
    expected_mc = total_ms.astype(np.float32)[:, stratum_c]
    expected_mc -= total_mc
    if prior_c.any():
        expected_mc += prior_c.astype(np.float32) * mean_m
    expected_mc *= part_c
    residual_mn = value_mn * scale_c.astype(np.float32)[cell_n]
    residual_mn -= expected_mc if len(first_c) == len(cell_n) else expected_mc[:, cell_n]
    return value_mr, residual_mn.astype(np.float32, copy=False)


def _class_freedom(strata: Strata, unit_n: np.ndarray) -> float:
    """Satterthwaite's degrees of freedom of a sum over classes, in one repeat: a class of two
    bursts has one, however many photos they are.
    """
    first_c, cell_n = number_rows(strata.code, unit_n)
    stratum_c, size_c = strata.code[first_c], np.bincount(cell_n)
    spread_s = np.bincount(stratum_c, size_c * (1 + ICC * (size_c - 1)))
    variance_s = spread_s * (strata.share / strata.size) ** 2
    freedom_s = np.maximum(np.bincount(stratum_c) - 1, 1)
    is_first = strata.repeat == 0
    total, spread = variance_s[is_first].sum(), (variance_s**2 / freedom_s)[is_first].sum()
    return float(total**2 / spread)


def _extra(size_c: np.ndarray, others_c: np.ndarray, stratum_c: np.ndarray) -> np.ndarray:
    """By how much the squared gap of a unit to the others of its stratum exceeds its own variance.

    1 / m with m others like it; unlike units spread as if their items had the correlation `ICC`.
    """
    spread_c = size_c * (1 + ICC * (size_c - 1))
    rest_c = np.bincount(stratum_c, spread_c)[stratum_c] - spread_c
    return np.asarray(rest_c / others_c**2 * size_c**2 / spread_c)


def summed(value_mn: np.ndarray, code_n: np.ndarray, n: int) -> np.ndarray:
    """Sums over the columns of each code (rows × codes, float64)."""
    if n == 1:
        return np.asarray(value_mn.sum(axis=1, keepdims=True, dtype=np.float64))
    return np.stack([np.bincount(code_n, row, n) for row in value_mn])


# --- macro F1 ---


def _f1(items: Items, answers_mn: np.ndarray, right_mn: np.ndarray) -> Influence:
    stratum_n, repeat_n = items.strata(), items.repeat_codes()
    strata = members(stratum_n)
    repeat_s = np.array([repeat_n[member_n[0]] for member_n in strata])
    share_s = 1 / np.bincount(repeat_s)[repeat_s]
    value_ms = np.empty((len(answers_mn), len(strata)))
    residual_mn = np.empty(answers_mn.shape, np.float32)
    weight_n, unit_n = np.empty(answers_mn.shape[1]), items.unit_codes()
    for number, member_n in enumerate(strata):
        classes, own_k = np.unique(np.asarray(items.target)[member_n], return_inverse=True)
        answered_mk = _class_numbers(classes, answers_mn[:, member_n])
        cells = _UnitCells.read(own_k, unit_n[member_n])
        for model, answered_k in enumerate(answered_mk):
            is_right = right_mn[model, member_n] > 0
            value, residual_k = _f1_of(own_k, answered_k, is_right, cells)
            value_ms[model, number] = value
            residual_mn[model, member_n] = share_s[number] * residual_k
        size_c = np.bincount(own_k)
        weight_n[member_n] = share_s[number] / (len(size_c) * size_c[own_k])
    value_mr = summed(value_ms * share_s, repeat_s, int(repeat_s.max()) + 1)
    return Influence(value_mr, residual_mn, weight_n, answers_mn, unit_n, repeat_n)


def _class_numbers(classes: np.ndarray, answers_mn: np.ndarray) -> np.ndarray:
    """The place of every answer among the classes of the truth; one beyond them for any other."""
    n = len(classes)
    least, most = int(min(classes[0], answers_mn.min())), int(max(classes[-1], answers_mn.max()))
    if most - least > 100 * answers_mn.shape[1]:
        place_mn = np.minimum(np.searchsorted(classes, answers_mn), n - 1)
        return np.asarray(np.where(classes[place_mn] == answers_mn, place_mn, n))
    table = np.full(most - least + 1, n, np.int32)
    table[classes - least] = np.arange(n)
    return np.asarray(table[answers_mn - least])


@dataclass(frozen=True, slots=True, eq=False)
class _UnitCells:
    """Cells of class × unit: those of the truth, the same for every model."""

    unit: np.ndarray
    """of each item, 0 up"""
    own: np.ndarray
    """the cell of each item's own class, 0 up"""
    key: np.ndarray
    """class × number of units + unit of each cell, ascending"""
    is_single: np.ndarray
    """of each class, whether one unit makes it"""

    @classmethod
    def read(cls, own_n: np.ndarray, unit_n: np.ndarray) -> _UnitCells | None:
        """None where every item is a unit."""
        if np.bincount(unit_n).max() == 1:
            return None
        _, unit_n = np.unique(unit_n, return_inverse=True)
        n_units = int(unit_n.max()) + 1
        key_c, own_cell_n = np.unique(own_n * n_units + unit_n, return_inverse=True)
        return cls(unit_n, own_cell_n, key_c, np.bincount(key_c // n_units) == 1)

    def with_answers(
        self, answered_n: np.ndarray, is_right: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The class of each cell, with those that only answers have; and the cells answered."""
        n_units = int(self.unit.max()) + 1
        wrong = np.flatnonzero(~is_right)
        key_w = answered_n[wrong].astype(np.int64) * n_units + self.unit[wrong]
        place_w = np.minimum(np.searchsorted(self.key, key_w), len(self.key) - 1)
        is_new = self.key[place_w] != key_w
        new_key, new_w = np.unique(key_w[is_new], return_inverse=True)
        place_w[is_new] = len(self.key) + new_w
        cell_n = self.own.copy()
        cell_n[wrong] = place_w
        return np.concatenate([self.key, new_key]) // n_units, cell_n


def _f1_of(
    own_n: np.ndarray, answered_n: np.ndarray, is_right: np.ndarray, cells: _UnitCells | None
) -> tuple[float, np.ndarray]:
    """Macro F1 and what one item changes in 2 hits / (size + answers), of its own class and of the
    answered one, each at what the other units say; None: every item is a unit."""
    n = int(own_n.max()) + 1
    whole = np.bincount(own_n, minlength=n + 1) + np.bincount(answered_n, minlength=n + 1)
    hits = np.bincount(own_n, is_right, n + 1)
    whole[n] = 1
    share = np.r_[np.full(n, 1 / n), 0.0]
    value = float(share @ (2 * hits / whole))
    if cells is None:
        # A wrong answer adds 1 to the divisor of two classes; a right one adds 1 to the hits of its
        # own class and 2 to the divisor.
        with_wrong = share / whole * (2 * hits + PRIOR * value) / (whole - 1 + PRIOR)
        with_right = (2 * (hits - 1) + PRIOR * value) / np.maximum(whole - 2 + PRIOR, 1)
        gain = 2 * share / whole * (1 - with_right)
        return value, np.where(is_right, gain[own_n], -with_wrong[own_n] - with_wrong[answered_n])
    class_c, answered_n = cells.with_answers(answered_n, is_right)
    own_n, n_cells = cells.own, len(class_c)
    size_c = np.bincount(own_n, minlength=n_cells) + np.bincount(answered_n, minlength=n_cells)
    others_c = np.maximum(whole[class_c] - size_c, 0)
    others_hit_c = hits[class_c] - np.bincount(own_n, is_right, len(class_c))
    f1_c = (2 * others_hit_c + PRIOR * value) / (others_c + PRIOR)
    # F1 bends most where one unit makes a class, which derivatives do not see (simulated).
    bend = 1 + BEND * float(cells.is_single.mean())
    extra_c = _extra(size_c, others_c + PRIOR, class_c)
    share_c = share[class_c] / whole[class_c] * np.sqrt(bend / (1 + extra_c))
    gain_c, loss_c = 2 * share_c * (1 - f1_c), share_c * f1_c
    return value, np.where(is_right, gain_c[own_n], -loss_c[own_n] - loss_c[answered_n])


# --- any other metric ---


def _jackknife(items: Items, answers_mn: np.ndarray, metric: Metric) -> Influence:
    """One column per unit and repeat (per block of units, where they are many)."""
    unit_n, repeat_n = items.unit_codes(), items.repeat_codes()
    n_units, n_repeats = int(unit_n.max()) + 1, int(repeat_n.max()) + 1
    block_u = np.arange(n_units)
    most = MOST_BLOCKS if getattr(metric, "takes_many", False) else FEW_BLOCKS
    if n_units > most:
        random = draws.generator(0, "", "", "jackknife")
        block_u = random.permutation(n_units) % most
    n_blocks = int(block_u.max()) + 1
    block_n = block_u[unit_n]
    value_mr = np.empty((len(answers_mn), n_repeats))
    residual_mrb = np.zeros((len(answers_mn), n_repeats, n_blocks))
    for repeat in range(n_repeats):
        member_n = np.flatnonzero(repeat_n == repeat)
        for model, answer_n in enumerate(answers_mn):
            whole, *without = _left_out(items, member_n, block_n[member_n], answer_n, metric)
            value_mr[model, repeat] = whole
            residual_mrb[model, repeat, np.unique(block_n[member_n])] = whole - np.array(without)
    # Variance of the delete-a-group jackknife, (g - 1) / g · Σ (θ₍ᵢ₎ - mean)² (Shao & Tu 1995).
    centred = residual_mrb - residual_mrb.mean(axis=2, keepdims=True)
    centred *= math.sqrt((n_blocks - 1) / n_blocks) if n_blocks > 1 else 0.0
    salt_n = draws.generator(0, "", "", "marks").random(answers_mn.shape[1])
    mark_mb = np.stack([np.bincount(block_n, salt_n * row, n_blocks) for row in answers_mn])
    return Influence(
        value_mr,
        np.nan_to_num(centred).reshape(len(answers_mn), -1).astype(np.float32),
        np.full(n_repeats * n_blocks, 1 / n_blocks),
        np.tile(mark_mb, n_repeats),
        np.tile(np.arange(n_blocks), n_repeats),
        np.repeat(np.arange(n_repeats), n_blocks),
    )


def _left_out(
    items: Items, member_n: np.ndarray, block_k: np.ndarray, answer_n: np.ndarray, metric: Metric
) -> list[float]:
    """The score of some items, and without each of their blocks in turn."""
    is_kept_bk = np.vstack([np.ones(len(member_n), bool), np.unique(block_k)[:, None] != block_k])
    if getattr(metric, "takes_many", False) and items.score == "pooled":
        target = np.asarray(items.target)[member_n]
        scores: Any = metric(target, answer_n[member_n], is_kept_bk.astype(np.float64))
        return [float(score) for score in scores]
    return [_score(items, member_n[is_kept], answer_n, metric) for is_kept in is_kept_bk]


def _score(items: Items, which: np.ndarray, answer_n: np.ndarray, metric: Metric) -> float:
    part = None if items.part is None else np.asarray(items.part)[which]
    some = Items(np.asarray(items.target)[which], None, part, items.score)
    return estimate(some, answer_n[which], metric)
