"""Primal solver (preconditioned conjugate gradients) for exemplar SVMs that many images hold back.

With features of length one a large part of the gallery is active, and the problem is smooth enough
to descend on: conjugate gradients on the weights themselves, all SVMs of a block in one matrix
product. In the principal axes of the gallery the share of the active images in the curvature is
close to a diagonal, and the positive image adds one rank to it, so the preconditioner is a division
and one inner product (Sherman-Morrison). Along each direction the objective is piecewise quadratic:
its minimum is found by Newton steps on the numbers already there.

An SVM stops when what is still to gain cannot move any score by more than a small part of the
lead of the best image, or by more than rounding. The same code serves numpy arrays and tensors on a
GPU; only the two long products differ (`Rotated`, `GpuRotated`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fieldmark.probes._arrays import Array, beside, float_type, namespace, zeros
from fieldmark.probes.exemplar.bank import Bank, leads

_MOST_STEPS = 400
_TRUSTED = 0.1
"""of the lead of the best image: how far scores may still move"""
_FLOOR: dict[type, float] = {np.float32: 2e-5, np.float64: 1e-8}
_COARSE = 1e-3
"""no score is told less exactly than this"""


class Gallery(Protocol):
    """The gallery in its principal axes, and its products with SVMs (q)."""

    row_nd: Array

    def move(self, way_qd: Array) -> Array:
        """How far each image's score moves along a way (q × n)."""
        ...

    def pull(self, over_qn: Array) -> Array:
        """The images, weighted and added up (q × d)."""
        ...


class Rotated:
    """The gallery in main memory."""

    def __init__(self, bank: Bank) -> None:
        self.row_nd = bank.x_nd @ bank.axes_dd

    def move(self, way_qd: np.ndarray) -> np.ndarray:
        return np.asarray(way_qd @ self.row_nd.T)

    def pull(self, over_qn: np.ndarray) -> np.ndarray:
        return np.asarray(over_qn @ self.row_nd)


class GpuRotated:
    """The gallery on a GPU; long products by half-precision pieces."""

    def __init__(self, bank: Bank) -> None:
        from fieldmark.probes import _product  # needs torch

        self._product = _product
        self.row_nd = (bank.x_nd.double() @ bank.axes_dd.double()).float()
        self._move_dn = _product.split_right(self.row_nd.T)
        self._pull_nd = _product.split_right(self.row_nd)

    def move(self, way_qd: Array) -> Array:
        return self._product.product(self._product.split_left(way_qd), self._move_dn)

    def pull(self, over_qn: Array) -> Array:
        return self._product.product(self._product.split_left(over_qn), self._pull_nd)


@dataclass(slots=True)
class _Descent:
    """A block of SVMs, one a row. `over` is 1 + score, minus infinity for the query's own row."""

    query_qd: Array
    weight_qd: Array
    over_qn: Array
    gap_q: Array
    """1 - score of the positive image"""
    number_q: Array
    """which SVM of the block this is"""

    def keep(self, is_kept_q: Array) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name)[is_kept_q])


def descend(bank: Bank, gallery: Gallery, query_qd: Array, own_q: np.ndarray | None) -> Array:
    """Scores (queries × gallery) of every SVM; minus infinity for the query's own row.

    Queries as in the bank, not rotated.
    """
    state = _begin(bank, gallery, query_qd @ bank.axes_dd, own_q)
    score_qn = zeros((len(query_qd), bank.n), query_qd)
    reach = _reach(bank, gallery.row_nd)
    slope_qd = _slope(bank, gallery, state)
    way_qd = zeros(tuple(slope_qd.shape), slope_qd)
    before_qd, last_q = slope_qd, zeros((len(query_qd),), slope_qd) + 1
    for step in range(_MOST_STEPS):
        fair_qd = _precondition(bank, state, slope_qd)
        left_q = _dot(fair_qd, slope_qd)
        is_open_q = ~_is_done(state, left_q.clip(0, None) ** 0.5 * reach)
        if step == _MOST_STEPS - 1:
            is_open_q[:] = False
        score_qn[state.number_q[~is_open_q]] = state.over_qn[~is_open_q] - 1
        if not is_open_q.any():
            break
        turn_q = ((left_q - _dot(fair_qd, before_qd)) / last_q).clip(0, None) * (step > 0)
        way_qd = turn_q[:, None] * way_qd - fair_qd
        if not is_open_q.all():
            state.keep(is_open_q)
            way_qd, slope_qd, left_q = way_qd[is_open_q], slope_qd[is_open_q], left_q[is_open_q]
        _walk(bank, gallery, state, way_qd)
        before_qd, last_q = slope_qd, left_q.clip(_tiny(left_q), None)
        slope_qd = _slope(bank, gallery, state)
    return score_qn


def _begin(bank: Bank, gallery: Gallery, query_qd: Array, own_q: np.ndarray | None) -> _Descent:
    """The SVMs that would be right if every image were active."""
    n_queries = len(query_qd)
    number_q = beside(np.arange(n_queries), query_qd)
    state = _Descent(
        query_qd,
        zeros(tuple(query_qd.shape), query_qd),
        zeros((n_queries, bank.n), query_qd) + 1,
        zeros((n_queries,), query_qd) + 1,
        number_q,
    )
    if own_q is not None:
        state.over_qn[number_q, beside(own_q, query_qd)] = -np.inf
    _walk(bank, gallery, state, -_precondition(bank, state, _slope(bank, gallery, state)))
    return state


def _slope(bank: Bank, gallery: Gallery, state: _Descent) -> Array:
    pull_qd = gallery.pull(state.over_qn.clip(0, None))
    pull_qd *= 2 * bank.cost_rest
    pull_qd += state.weight_qd
    pull_qd -= (2 * bank.cost_one * state.gap_q.clip(0, None))[:, None] * state.query_qd
    return pull_qd


def _precondition(bank: Bank, state: _Descent, slope_qd: Array) -> Array:
    share_q = _share(state.over_qn)[:, None]
    scale_qd = 1 / (1 + (2 * bank.cost_rest) * share_q * bank.power_d)
    fair_qd = scale_qd * slope_qd
    own_qd = scale_qd * state.query_qd
    weight = 1 / (1 / (2 * bank.cost_one) + _dot(own_qd, state.query_qd))
    fair_qd -= (weight * _dot(state.query_qd, fair_qd))[:, None] * own_qd
    return fair_qd


def _share(over_qn: Array) -> Array:
    """How much of the gallery is active, by SVM."""
    n_active_q = (over_qn > 0).sum(axis=1)
    share_q = zeros((len(over_qn),), over_qn)
    share_q += 1 / over_qn.shape[1]
    share_q *= n_active_q
    return share_q


def _walk(bank: Bank, gallery: Gallery, state: _Descent, way_qd: Array) -> None:
    """Moves every SVM to the lowest point along its way."""
    move_qn = gallery.move(way_qd)
    own_q = _dot(way_qd, state.query_qd)
    length_q, lean_q = _dot(way_qd, way_qd), _dot(state.weight_qd, way_qd)
    far_q = zeros((len(way_qd),), way_qd)
    over_qn = state.over_qn
    for _ in range(3):
        moved_qn = move_qn * (over_qn > 0)
        pull_q = _dot(moved_qn, over_qn.clip(0, None))
        slope_q = lean_q + far_q * length_q + 2 * bank.cost_rest * pull_q
        slope_q -= 2 * bank.cost_one * (state.gap_q - far_q * own_q) * own_q
        curve_q = length_q + 2 * bank.cost_rest * _dot(moved_qn, moved_qn)
        curve_q += 2 * bank.cost_one * own_q**2
        step_q = -slope_q / curve_q.clip(_tiny(curve_q), None)
        far_q = far_q + step_q
        over_qn = state.over_qn + far_q[:, None] * move_qn
        if (abs(step_q) <= 0.02 * abs(far_q)).all():
            break
    state.over_qn = over_qn
    state.weight_qd = state.weight_qd + far_q[:, None] * way_qd
    state.gap_q = state.gap_q - far_q * own_q


def _reach(bank: Bank, row_nd: Array) -> float:
    """How far a score can move for a unit of what is left, at a quarter of the images active."""
    scale_d = 1 / (1 + 0.5 * bank.cost_rest * bank.power_d)
    return math.sqrt(float((row_nd**2 @ scale_d).max()))


def _is_done(state: _Descent, doubt_q: Array) -> Array:
    floor = _FLOOR[float_type(state.over_qn)]
    return doubt_q <= (_TRUSTED * leads(state.over_qn)).clip(floor, _COARSE)


def _dot(a_qd: Array, b_qd: Array) -> Array:
    return namespace(a_qd).einsum("qd,qd->q", a_qd, b_qd)


def _tiny(x: Array) -> float:
    return float(np.finfo(float_type(x)).tiny)
