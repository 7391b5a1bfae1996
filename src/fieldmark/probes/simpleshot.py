"""Nearest class mean (SimpleShot; Wang et al. 2019, arXiv 1911.04623): which mean is nearest?

One mean per class, euclidean distance. Centring and unit length, which the paper recommends, are
normalisation steps and done outside.

Few-shot tasks repeat a draw a hundred times and ask the same test rows each time
(`predict_repeats`). Nothing of a test row need be centred or scaled for that: with mu the mean of a
draw and m the mean of a class among its centred rows of length one, the nearest mean is the largest
`(x - mu) m - |x - mu| |m|² / 2`. That is one float32 matrix product per draw; rows whose lead is
within its rounding are measured again in float64. No tests × classes × dimensions array is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldmark.errors import UsageError
from fieldmark.probes._arrays import (
    ProbeDataError,
    ProbeEstimator,
    read_features,
    read_labels,
    read_queries,
    top_two,
)
from fieldmark.probes._normalise import Normaliser
from fieldmark.probes.neighbours import nearest

SUMMARY = "nearest class mean (SimpleShot)"
RECIPE = "NearestCentroid()"
_BLOCK_ROWS = 4096
_BLOCK_VALUES = 1 << 21
_ROUNDING = 64 * float(np.finfo(np.float32).eps)
_UNIT = ("centre", "l2")
_SHARED_TAILS = ((), ("centre",), _UNIT)
"""steps after which the formula of the module holds"""
_ONES_AND_LENGTH = 2


def predict_repeats(
    x_pool: Any,
    y_pool: Any,
    draws: Sequence[Any],
    x_test: Any,
    normalise: Sequence[str] = ("centre", "l2"),
) -> np.ndarray:
    """Labels (draws × test rows) of the nearest class mean, each draw being row numbers of a pool.

    Equal to normalising with the steps, fitted on the draw's rows, and nearest class means, all in
    float64; a tie goes to the class that sorts first. A class without a row in a draw is not
    predicted there. Memory beyond the input: a float32 and a float64 copy of the test rows and of
    one draw's rows, and 8 MB of decision values.

    >>> x = [[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.2]]
    >>> predict_repeats(x, ["a", "a", "b", "b"], [[0, 2], [1, 3]], [[0.2, 2.0]]).tolist()
    [['a'], ['a']]
    """
    pool_nd = read_features(x_pool)
    code_n, classes = read_labels(y_pool, len(pool_nd))
    test_td = read_features(x_test, is_empty_ok=True)
    if test_td.shape[1] != pool_nd.shape[1]:
        raise ProbeDataError(
            f"test features have {test_td.shape[1]} columns, the pool has {pool_nd.shape[1]}."
        )
    draw_rows = [_row_numbers(draw, len(pool_nd)) for draw in draws]
    # Steps before the first that learns from the draw are the same in every draw.
    steps = Normaliser(normalise).steps
    n_own = next((at for at, step in enumerate(steps) if step != "l2"), len(steps))
    of_model, tail = Normaliser(steps[:n_own]), steps[n_own:]
    test_td = of_model.fit(pool_nd).transform(test_td.astype(np.float64))
    answers = np.empty((len(draw_rows), len(test_td)), classes.dtype)
    bank = _TestRows(test_td) if tail in _SHARED_TAILS else None
    for answer_t, rows in zip(answers, draw_rows, strict=True):
        row_rd = of_model.transform(pool_nd[rows].astype(np.float64))
        present, at_r = np.unique(code_n[rows], return_inverse=True)
        if bank is not None:
            column_t = bank.ask(row_rd, at_r, is_unit=tail == _UNIT)
        else:
            fitted = Normaliser(tail).fit(row_rd)
            column_t = _nearest_mean(
                fitted.transform(test_td), _class_means(fitted.transform(row_rd), at_r)
            )
        answer_t[:] = classes[present[column_t]]
    return answers


class SimpleShot(ProbeEstimator):
    """Nearest class mean; a tie goes to the class that sorts first.

    The score of a prediction is half the difference of squared distances between the runner-up and
    the winner: 0 on the border, and 0 everywhere when only one class was seen (`one_class_`).
    """

    predict_repeats = staticmethod(predict_repeats)

    def fit(self, X: Any, y: Any) -> SimpleShot:
        x_nd = read_features(X)
        code_n, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.means_ = _class_means(x_nd, code_n, x_nd.mean(axis=0, dtype=np.float64))
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label of the nearest mean, and how sure it is; see the class."""
        x_nd = read_queries(self, X)
        n_means = len(self.means_)
        index_nk, distance_nk = nearest(x_nd, self.means_, min(2, n_means), np.arange(n_means))
        score_n = np.zeros(len(x_nd))
        if not self.one_class_:
            score_n = np.diff(distance_nk**2, axis=1)[:, 0] / 2
        return np.asarray(self.classes_[index_nk[:, 0]]), score_n

    def decision_function(self, X: Any) -> np.ndarray:
        """Minus half the squared distance to each mean (n × C), or second minus first class (n)."""
        x_nd = read_queries(self, X)
        offset_d = self.means_.mean(axis=0)
        mean_cd, x_nd = self.means_ - offset_d, x_nd - offset_d
        # -|x - m|² / 2 = x m - |m|² / 2 - |x|² / 2
        half_c, half_n = (np.einsum("rd,rd->r", rows, rows) / 2 for rows in (mean_cd, x_nd))
        score_nc = x_nd @ mean_cd.T - half_c - half_n[:, None]
        return np.asarray(score_nc[:, 1] - score_nc[:, 0] if len(mean_cd) == 2 else score_nc)


Probe = SimpleShot


class _TestRows:
    """Test rows, as they are and about their mean, ready for one product per draw."""

    def __init__(self, test_td: np.ndarray) -> None:
        self.test_td = test_td
        self.offset_d = test_td.mean(axis=0) if len(test_td) else np.zeros(test_td.shape[1])
        self.wide_te = np.ones((len(test_td), test_td.shape[1] + _ONES_AND_LENGTH), np.float32)
        self.wide_te[:, :-_ONES_AND_LENGTH] = test_td - self.offset_d
        near_td = self.wide_te[:, :-_ONES_AND_LENGTH]
        self.square_t = np.einsum("td,td->t", near_td, near_td, dtype=np.float64)

    def ask(self, row_rd: np.ndarray, at_r: np.ndarray, is_unit: bool) -> np.ndarray:
        """The column of the nearest mean for each test row."""
        is_constant_d = row_rd.min(axis=0) == row_rd.max(axis=0)
        # Exactly the value where a feature has but one: rounding would grow to length one.
        middle_d = np.where(is_constant_d, row_rd[0], row_rd.mean(axis=0))
        mean_cd = _class_means(_moved(row_rd, middle_d, is_unit), at_r)
        half_c = np.einsum("cd,cd->c", mean_cd, mean_cd) / 2
        column_t, lead_t = self._best(self._widen(mean_cd, half_c, middle_d, is_unit))
        # The largest |x - mu| + |m| that a product can have bounds its rounding; a smaller lead is
        # measured again.
        longest = np.sqrt(2 * half_c.max())
        reach_t = np.sqrt(self.square_t) + np.linalg.norm(middle_d - self.offset_d) + longest
        unsure = np.flatnonzero(~(lead_t > _ROUNDING * longest * (1 + longest) * reach_t))
        if len(unsure):
            column_t[unsure] = _nearest_mean(
                _moved(self.test_td[unsure], middle_d, is_unit), mean_cd
            )
        return column_t

    def _widen(
        self, mean_cd: np.ndarray, half_c: np.ndarray, middle_d: np.ndarray, is_unit: bool
    ) -> np.ndarray:
        """Class means with the terms that are multiplied by 1 and by |x - mu|."""
        middle_d = middle_d - self.offset_d
        wide_ce = np.zeros((len(mean_cd), self.wide_te.shape[1]), np.float32)
        wide_ce[:, :-_ONES_AND_LENGTH] = mean_cd
        wide_ce[:, -2] = -(mean_cd @ middle_d)
        if not is_unit:
            wide_ce[:, -2] -= half_c
        elif np.ptp(half_c) > 0:  # one row a class: all means have length one
            along_t = self.wide_te[:, :-_ONES_AND_LENGTH] @ middle_d.astype(np.float32)
            square_t = self.square_t - 2 * along_t + middle_d @ middle_d
            self.wide_te[:, -1] = np.sqrt(np.maximum(square_t, 0.0))
            wide_ce[:, -1] = -half_c
        return wide_ce

    def _best(self, wide_ce: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best column of each test row and its lead over the next."""
        n_test, n_classes = len(self.wide_te), len(wide_ce)
        column_t, lead_t = np.zeros(n_test, np.intp), np.full(n_test, np.inf)
        n_block = max(1, _BLOCK_VALUES // n_classes)
        for start in range(0, n_test if n_classes > 1 else 0, n_block):
            part = slice(start, start + n_block)
            column_t[part], lead_t[part] = top_two(self.wide_te[part] @ wide_ce.T)
        return column_t, lead_t


def _nearest_mean(test_ud: np.ndarray, mean_cd: np.ndarray) -> np.ndarray:
    return nearest(test_ud, mean_cd, 1, np.arange(len(mean_cd)))[0][:, 0]


def _class_means(
    x_nd: np.ndarray, code_n: np.ndarray, offset_d: np.ndarray | float = 0.0
) -> np.ndarray:
    """Means in float64, by a sparse product over blocks of rows about an offset."""
    from scipy import sparse

    count_c = np.bincount(code_n)
    sum_cd = np.zeros((len(count_c), x_nd.shape[1]))
    for start in range(0, len(x_nd), _BLOCK_ROWS):
        codes = code_n[start : start + _BLOCK_ROWS]
        member = (np.ones(len(codes)), (codes, np.arange(len(codes))))
        member_cb = sparse.csr_array(member, shape=(len(count_c), len(codes)))
        sum_cd += member_cb @ (x_nd[start : start + _BLOCK_ROWS] - offset_d)
    return np.asarray(sum_cd / count_c[:, None] + offset_d)


def _moved(row_rd: np.ndarray, middle_d: np.ndarray, is_unit: bool) -> np.ndarray:
    """Rows about the mean, of length one if asked (a row that is the mean stays zero)."""
    moved_rd = row_rd - middle_d
    if is_unit:
        length_r = np.sqrt(np.einsum("rd,rd->r", moved_rd, moved_rd))
        moved_rd /= np.where(length_r > 0, length_r, 1.0)[:, None]
    return np.asarray(moved_rd)


def _row_numbers(draw: Any, n_rows: int) -> np.ndarray:
    rows = np.asarray(draw)
    if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu":
        raise UsageError(f"a draw is {draw!r}: expected a list of row numbers, at least one.")
    if rows.min() < 0 or rows.max() >= n_rows:
        raise UsageError(f"a draw names row {rows.max()}: the pool has rows 0 to {n_rows - 1}.")
    return rows
