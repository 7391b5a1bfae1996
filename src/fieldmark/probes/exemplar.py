"""Exemplar SVM: which other image does a classifier trained on this one image alone find?

Re-identification (Malisiewicz, Gupta and Efros, ICCV 2011) as LeopardID uses it: for each query one
`LinearSVC(class_weight="balanced", C=0.1, tol=1e-6)` of that image against all others; the label of
the other image with the highest score is the answer. Here thousands of those SVMs share their work;
the answers are those of the SVMs one by one.

One SVM is half the squared length of the weights (the bias is one of them, on a column of ones, as
in liblinear) plus `cost_one * (1 - f(query))²₊ + cost_rest * Σ (1 + f(other))²₊`. The solver is
primal: preconditioned conjugate gradients on the weights, all SVMs of a block in one matrix
product. In the principal axes of the gallery the share of the active images in the curvature is
close to a diagonal, and the positive image adds one rank to it, so the preconditioner is a division
and one inner product (Sherman-Morrison). Along each direction the objective is piecewise quadratic:
its minimum is found by Newton steps on the numbers already there. An SVM stops when what is still
to gain cannot move any score by more than a small part of the lead of the best image, or by more
than rounding. Memory: two copies of the features, and for 256 queries at a time some of their
scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark.probes._arrays import (
    ProbeDataError,
    ProbeEstimator,
    check_fitted,
    check_positive,
    read_features,
    read_labels,
    read_queries,
    top_two,
)

SUMMARY = "exemplar SVM: one machine per query, the best other image's label; can leave one out"
RECIPE = 'LinearSVC(class_weight="balanced", C=C, tol=1e-6), one per query against all others'
DOUBLE_ROWS = 1_024
"""up to here in float64: small problems are cheap, and their scores then depend on nothing else"""
_BLOCK = 256
_MOST_STEPS = {np.dtype(np.float32): 1_000, np.dtype(np.float64): 4_000}
"""of one SVM. Easy ones take 20; without a common mean, or beside one huge coordinate, some hundred
(measured, 2026). Those that float32 does not settle are solved again in float64."""
_TRUSTED = 0.1
"""of the lead of the best image: how far scores may still move"""
_FLOOR = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-8}
_COARSE = 1e-3
"""no score is told less exactly than this"""


class Exemplar(ProbeEstimator):
    """The label of the gallery image that the query's own linear SVM scores highest.

    At equal scores the first in the gallery. The score of a prediction is that image's decision
    value: above -1 it lies within the margin of the query. SVMs that stop short of their minimum
    are counted in `fit_notes_`.
    """

    def __init__(self, *, C: float = 0.1) -> None:
        self.C = C
        """inverse strength of the penalty, as in scikit-learn's LinearSVC"""

    def check_parameters(self) -> None:
        check_positive("exemplar", "C", self.C)

    def fit(self, X: Any, y: Any) -> Exemplar:
        """Remembers the gallery; SVMs are trained when asked."""
        self.check_parameters()
        self.x_ = read_features(X)
        self.code_, self.classes_ = read_labels(y, len(self.x_))
        self.n_features_in_ = self.x_.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.fit_notes_: list[str] = []
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label of the best gallery image, and its decision value."""
        x_qd = read_queries(self, X)
        best_q, score_q = self._retrieve(x_qd)
        return self.classes_[self.code_[best_q]], score_q

    def predict_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and scores of the training images, each asked of all the others."""
        best_n, score_n = self.retrieve_leave_one_out()
        return self.classes_[self.code_[best_n]], score_n

    def retrieve_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """For each training image the row of the best other image, and its score."""
        check_fitted(self)
        if len(self.x_) < 2:
            raise ProbeDataError("leaving one out of 1 image leaves none: at least two are needed.")
        return self._retrieve(self.x_, np.arange(len(self.x_)))

    def _retrieve(
        self, x_qd: np.ndarray, own_q: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        best_q, score_q, is_open_q = retrieve(self.x_, self.C, x_qd, own_q)
        self.fit_notes_ = []
        if is_open_q.any():
            self.fit_notes_ = [
                f"{is_open_q.sum()} of {len(x_qd)} SVMs stopped short of their minimum: scale the "
                "features (normalise: [l2] or [standardise])"
            ]
        return best_q, score_q


Probe = Exemplar


def retrieve(
    x_nd: np.ndarray, cost: float, x_qd: np.ndarray, own_q: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row of the best image, its score, and which SVMs stopped short of their minimum.

    `own_q`: the query's own row, which is left out.
    """
    best_q, score_q, is_open_q = _retrieve_in(x_nd, cost, x_qd, own_q, is_double=False)
    again = np.flatnonzero(is_open_q)
    if len(again) and len(x_nd) > DOUBLE_ROWS:
        own_again_q = None if own_q is None else own_q[again]
        answers = _retrieve_in(x_nd, cost, x_qd[again], own_again_q, is_double=True)
        best_q[again], score_q[again], is_open_q[again] = answers
    return best_q, score_q, is_open_q


def _retrieve_in(
    x_nd: np.ndarray, cost: float, x_qd: np.ndarray, own_q: np.ndarray | None, is_double: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `retrieve`, in one precision."""
    gallery = _make_gallery(x_nd, cost, own_q is not None, is_double)
    query_qd = (_append_ones(x_qd) @ gallery.axes_dd).astype(gallery.row_nd.dtype)
    best_q, score_q = np.zeros(len(x_qd), np.intp), np.zeros(len(x_qd))
    is_open_q = np.zeros(len(x_qd), bool)
    for start in range(0, len(x_qd), _BLOCK):
        block = slice(start, start + _BLOCK)
        own_block_q = None if own_q is None else own_q[block]
        score_qn, is_open_q[block] = _descend(gallery, query_qd[block], own_block_q)
        best_q[block] = score_qn.argmax(axis=1)
        score_q[block] = score_qn.max(axis=1)
    return best_q, score_q, is_open_q


# --- what all SVMs over one gallery share


@dataclass(frozen=True, slots=True)
class _Gallery:
    row_nd: np.ndarray
    """the images, with a last column of ones, in their principal axes"""
    axes_dd: np.ndarray
    """principal axes of the rows as they are, as columns"""
    power_d: np.ndarray
    """sum of squares of the rows along each axis"""
    cost_one: float
    """of the positive image, as `class_weight="balanced"` has it"""
    cost_rest: float
    """of each of the others"""


def _make_gallery(
    x_nd: np.ndarray, cost: float, is_among: bool, is_double: bool = False
) -> _Gallery:
    """`is_among`: queries are rows of the gallery and leave it when asked."""
    precision = np.float64 if is_double or len(x_nd) <= DOUBLE_ROWS else np.float32
    rows_nd = _append_ones(x_nd)
    # The axes are found in float64, whatever follows: beside a coordinate of thousands (a "massive
    # activation") float32 loses all other axes. The power along an axis is measured on the rows
    # themselves: a small eigenvalue is only known up to the rounding of the largest.
    _, axes_dd = np.linalg.eigh(rows_nd.T @ rows_nd)
    row_nd = rows_nd @ axes_dd
    n_rest = max(len(x_nd) - is_among, 1)
    return _Gallery(
        row_nd=row_nd.astype(precision),
        axes_dd=axes_dd,
        power_d=np.einsum("nd,nd->d", row_nd, row_nd).astype(precision),
        cost_one=cost * (n_rest + 1) / 2,
        cost_rest=cost * (n_rest + 1) / (2 * n_rest),
    )


def _append_ones(x_nd: np.ndarray) -> np.ndarray:
    return np.concatenate([x_nd, np.ones((len(x_nd), 1))], axis=1, dtype=np.float64)


# --- conjugate gradients on a block of SVMs


@dataclass(slots=True)
class _Descent:
    """A block of SVMs, one a row. `over` is 1 + score, minus infinity for the query's own row."""

    query_qd: np.ndarray
    weight_qd: np.ndarray
    over_qn: np.ndarray
    gap_q: np.ndarray
    """1 - score of the positive image"""
    number_q: np.ndarray
    """which SVM of the block this is"""

    def keep(self, is_kept_q: np.ndarray) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name)[is_kept_q])


def _descend(
    gallery: _Gallery, query_qd: np.ndarray, own_q: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (queries × gallery) of every SVM, minus infinity for the query's own row; and which
    SVMs stopped short of their minimum.
    """
    state = _begin(gallery, query_qd, own_q)
    score_qn, is_short_q = np.zeros_like(state.over_qn), np.zeros(len(query_qd), bool)
    most = _MOST_STEPS[score_qn.dtype]
    # How far a score can move for a unit of what is left, at a quarter of the images active.
    scale_d = 1 / (1 + 0.5 * gallery.cost_rest * gallery.power_d)
    reach = math.sqrt(float((gallery.row_nd**2 @ scale_d).max()))
    slope_qd = _slope(gallery, state)
    way_qd = np.zeros_like(slope_qd)
    before_qd, last_q = slope_qd, np.ones_like(state.gap_q)
    for step in range(most):
        fair_qd = _precondition(gallery, state, slope_qd)
        left_q = _dot(fair_qd, slope_qd)
        is_open_q = ~_is_done(state, left_q.clip(0, None) ** 0.5 * reach)
        if step == most - 1:
            is_short_q[state.number_q[is_open_q]] = True
            is_open_q[:] = False
        ended = ~is_open_q
        if ended.any():
            score_qn[state.number_q[ended]], is_off_e = _scores(gallery, state, ended)
            is_short_q[state.number_q[ended]] |= is_off_e
        if not is_open_q.any():
            break
        turn_q = ((left_q - _dot(fair_qd, before_qd)) / last_q).clip(0, None) * (step > 0)
        way_qd = turn_q[:, None] * way_qd - fair_qd
        if not is_open_q.all():
            state.keep(is_open_q)
            way_qd, slope_qd, left_q = way_qd[is_open_q], slope_qd[is_open_q], left_q[is_open_q]
        _walk(gallery, state, way_qd)
        before_qd, last_q = slope_qd, left_q.clip(_tiny(left_q), None)
        slope_qd = _slope(gallery, state)
    return score_qn, is_short_q


def _scores(
    gallery: _Gallery, state: _Descent, ended_q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the SVMs that have ended, and where the sum of all steps has drifted from them."""
    over_qn, score_qn = state.over_qn[ended_q], state.weight_qd[ended_q] @ gallery.row_nd.T
    is_own_qn = np.isneginf(over_qn)
    drift_qn = np.where(is_own_qn, 0, np.abs(score_qn + 1 - np.where(is_own_qn, 0, over_qn)))
    score_qn[is_own_qn] = -np.inf
    return score_qn, ~(drift_qn.max(axis=1) <= _COARSE)


def _begin(gallery: _Gallery, query_qd: np.ndarray, own_q: np.ndarray | None) -> _Descent:
    """The SVMs that would be right if every image were active."""
    n_queries, dtype = len(query_qd), query_qd.dtype
    state = _Descent(
        query_qd,
        np.zeros_like(query_qd),
        np.ones((n_queries, len(gallery.row_nd)), dtype),
        np.ones(n_queries, dtype),
        np.arange(n_queries),
    )
    if own_q is not None:
        state.over_qn[state.number_q, own_q] = -np.inf
    _walk(gallery, state, -_precondition(gallery, state, _slope(gallery, state)))
    return state


def _slope(gallery: _Gallery, state: _Descent) -> np.ndarray:
    pull_qd = state.over_qn.clip(0, None) @ gallery.row_nd
    pull_qd *= 2 * gallery.cost_rest
    pull_qd += state.weight_qd
    pull_qd -= (2 * gallery.cost_one * state.gap_q.clip(0, None))[:, None] * state.query_qd
    return np.asarray(pull_qd)


def _precondition(gallery: _Gallery, state: _Descent, slope_qd: np.ndarray) -> np.ndarray:
    # How much of the gallery is active, by SVM.
    over_qn = state.over_qn
    share_q = np.full(len(over_qn), 1 / over_qn.shape[1], over_qn.dtype)
    share_q *= (over_qn > 0).sum(axis=1)
    share_q1 = share_q[:, None]
    scale_qd = 1 / (1 + (2 * gallery.cost_rest) * share_q1 * gallery.power_d)
    fair_qd = scale_qd * slope_qd
    own_qd = scale_qd * state.query_qd
    weight_q = 1 / (1 / (2 * gallery.cost_one) + _dot(own_qd, state.query_qd))
    fair_qd -= (weight_q * _dot(state.query_qd, fair_qd))[:, None] * own_qd
    return np.asarray(fair_qd)


def _walk(gallery: _Gallery, state: _Descent, way_qd: np.ndarray) -> None:
    """Moves every SVM to the lowest point along its way."""
    move_qn = way_qd @ gallery.row_nd.T
    own_q = _dot(way_qd, state.query_qd)
    length_q, lean_q = _dot(way_qd, way_qd), _dot(state.weight_qd, way_qd)
    far_q = np.zeros_like(own_q)
    over_qn = state.over_qn
    for _ in range(3):
        moved_qn = move_qn * (over_qn > 0)
        pull_q = _dot(moved_qn, over_qn.clip(0, None))
        slope_q = lean_q + far_q * length_q + 2 * gallery.cost_rest * pull_q
        slope_q -= 2 * gallery.cost_one * (state.gap_q - far_q * own_q) * own_q
        curve_q = length_q + 2 * gallery.cost_rest * _dot(moved_qn, moved_qn)
        curve_q += 2 * gallery.cost_one * own_q**2
        step_q = -slope_q / curve_q.clip(_tiny(curve_q), None)
        far_q = far_q + step_q
        over_qn = state.over_qn + far_q[:, None] * move_qn
        if (abs(step_q) <= 0.02 * abs(far_q)).all():
            break
    state.over_qn = over_qn
    state.weight_qd = state.weight_qd + far_q[:, None] * way_qd
    state.gap_q = state.gap_q - far_q * own_q


def _is_done(state: _Descent, doubt_q: np.ndarray) -> np.ndarray:
    floor = _FLOOR[state.over_qn.dtype]
    return np.asarray(doubt_q <= (_TRUSTED * top_two(state.over_qn)[1]).clip(floor, _COARSE))


def _dot(a_qd: np.ndarray, b_qd: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("qd,qd->q", a_qd, b_qd))


def _tiny(x: np.ndarray) -> float:
    return float(np.finfo(x.dtype).tiny)
