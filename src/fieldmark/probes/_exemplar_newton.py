"""What are the weights of exemplar machines that hundreds or thousands of images hold back?

With features of length one a large part of the gallery is active, and the problem is smooth enough
to descend on: conjugate gradients on the weights themselves, all machines of a block in one matrix
product. In the principal axes of the gallery the share of the active images in the curvature is
close to a diagonal, and the positive image adds one rank to it, so the preconditioner is a division
and one inner product (Sherman-Morrison). Along each direction the objective is piecewise quadratic:
its minimum is found by Newton steps on the numbers already there.

A machine stops when what is still to gain cannot move any score by more than a small part of the
lead of the best image, or by more than rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmark.probes._exemplar_bank import Bank, leads

_MOST_STEPS = 400
_TRUSTED = 0.1
"""of the lead of the best image: how far scores may still move"""
_FLOOR = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-8}
_COARSE = 1e-3
"""no score is told less exactly than this"""


@dataclass(slots=True)
class _State:
    """A block of machines; rows are machines. `over` is 1 + score, minus infinity for the own."""

    query_qd: np.ndarray
    weight_qd: np.ndarray
    over_qn: np.ndarray
    gap_q: np.ndarray
    """1 - score of the positive image"""
    number_q: np.ndarray
    """which machine of the block this is"""

    def keep(self, is_kept_q: np.ndarray) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name)[is_kept_q])


def rotate(bank: Bank) -> np.ndarray:
    """The gallery in its principal axes."""
    return np.asarray(bank.x_nd @ bank.axes_dd)


def descend(
    bank: Bank, row_nd: np.ndarray, query_qd: np.ndarray, own_q: np.ndarray | None
) -> np.ndarray:
    """Scores (queries × gallery) of every machine; minus infinity for the query's own row.

    `row_nd` is `rotate(bank)`; queries as in the bank, not rotated.
    """
    state = _begin(bank, row_nd, query_qd @ bank.axes_dd, own_q)
    score_qn = np.empty((len(query_qd), bank.n), row_nd.dtype)
    reach = _reach(bank, row_nd)
    slope_qd = _slope(bank, row_nd, state)
    way_qd = np.zeros_like(slope_qd)
    before_qd, last_q = slope_qd, np.ones(len(query_qd), slope_qd.dtype)
    for step in range(_MOST_STEPS):
        fair_qd = _precondition(bank, state, slope_qd)
        left_q = _dot(fair_qd, slope_qd)
        is_open_q = ~_is_done(state, np.sqrt(np.maximum(left_q, 0)) * reach)
        if step == _MOST_STEPS - 1:
            is_open_q[:] = False
        score_qn[state.number_q[~is_open_q]] = state.over_qn[~is_open_q] - 1
        if not is_open_q.any():
            break
        turn_q = np.maximum((left_q - _dot(fair_qd, before_qd)) / last_q, 0) if step else last_q * 0
        way_qd = turn_q[:, None] * way_qd - fair_qd
        if not is_open_q.all():
            state.keep(is_open_q)
            way_qd, slope_qd, left_q = way_qd[is_open_q], slope_qd[is_open_q], left_q[is_open_q]
        _walk(bank, row_nd, state, way_qd)
        before_qd, last_q = slope_qd, np.maximum(left_q, np.finfo(left_q.dtype).tiny)
        slope_qd = _slope(bank, row_nd, state)
    return score_qn


def _begin(
    bank: Bank, row_nd: np.ndarray, query_qd: np.ndarray, own_q: np.ndarray | None
) -> _State:
    """The machines that would be right if every image were active."""
    n_queries = len(query_qd)
    state = _State(
        query_qd,
        np.zeros_like(query_qd),
        np.ones((n_queries, bank.n), row_nd.dtype),
        np.ones(n_queries, row_nd.dtype),
        np.arange(n_queries),
    )
    if own_q is not None:
        state.over_qn[np.arange(n_queries), own_q] = -np.inf
    _walk(bank, row_nd, state, -_precondition(bank, state, _slope(bank, row_nd, state)))
    return state


def _slope(bank: Bank, row_nd: np.ndarray, state: _State) -> np.ndarray:
    pull_qd = np.maximum(state.over_qn, 0) @ row_nd
    pull_qd *= 2 * bank.cost_rest
    pull_qd += state.weight_qd
    pull_qd -= (2 * bank.cost_one * np.maximum(state.gap_q, 0))[:, None] * state.query_qd
    return np.asarray(pull_qd)


def _precondition(bank: Bank, state: _State, slope_qd: np.ndarray) -> np.ndarray:
    dtype = slope_qd.dtype
    share_q = (state.over_qn > 0).mean(axis=1).astype(dtype)
    scale_qd = 1 / (1 + (2 * bank.cost_rest * share_q)[:, None] * bank.power_d.astype(dtype))
    fair_qd = scale_qd * slope_qd
    own_qd = scale_qd * state.query_qd
    weight = 1 / (1 / (2 * bank.cost_one) + _dot(own_qd, state.query_qd))
    fair_qd -= (weight * _dot(state.query_qd, fair_qd))[:, None] * own_qd
    return np.asarray(fair_qd)


def _walk(bank: Bank, row_nd: np.ndarray, state: _State, way_qd: np.ndarray) -> None:
    """Moves every machine to the lowest point along its way."""
    move_qn = way_qd @ row_nd.T
    own_q = _dot(way_qd, state.query_qd)
    length_q, lean_q = _dot(way_qd, way_qd), _dot(state.weight_qd, way_qd)
    far_q = np.zeros_like(length_q)
    over_qn = state.over_qn
    for _ in range(3):
        moved_qn = np.where(over_qn > 0, move_qn, 0)
        pull_q = _dot(moved_qn, np.maximum(over_qn, 0))
        slope_q = lean_q + far_q * length_q + 2 * bank.cost_rest * pull_q
        slope_q -= 2 * bank.cost_one * (state.gap_q - far_q * own_q) * own_q
        curve_q = length_q + 2 * bank.cost_rest * _dot(moved_qn, moved_qn)
        curve_q += 2 * bank.cost_one * own_q**2
        step_q = -slope_q / np.maximum(curve_q, np.finfo(curve_q.dtype).tiny)
        far_q = far_q + step_q
        over_qn = state.over_qn + far_q[:, None] * move_qn
        if (np.abs(step_q) <= 0.02 * np.abs(far_q)).all():
            break
    state.over_qn = over_qn
    state.weight_qd = state.weight_qd + far_q[:, None] * way_qd
    state.gap_q = state.gap_q - far_q * own_q


def _reach(bank: Bank, row_nd: np.ndarray) -> float:
    """How far a score can move for a unit of what is left, at a quarter of the images active."""
    scale_d = 1 / (1 + 0.5 * bank.cost_rest * bank.power_d)
    return float(np.sqrt((row_nd**2 @ scale_d.astype(row_nd.dtype)).max()))


def _is_done(state: _State, doubt_q: np.ndarray) -> np.ndarray:
    floor = _FLOOR[state.over_qn.dtype]
    allowed_q = np.clip(_TRUSTED * leads(state.over_qn), floor, _COARSE)
    return np.asarray(doubt_q <= allowed_q)


def _dot(a_qd: np.ndarray, b_qd: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("qd,qd->q", a_qd, b_qd))
