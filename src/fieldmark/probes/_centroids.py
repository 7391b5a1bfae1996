"""Which class mean is nearest, for many small training draws from one pool?

Few-shot tasks repeat a draw a hundred times and ask the same test rows each time. Nothing of a test
row need be centred or scaled for that: with mu the mean of a draw and m the mean of a class among
its centred rows of length one, the nearest mean is the largest `(x - mu) m - |x - mu| |m|² / 2`.
That is one float32 matrix product per draw; rows whose lead is within its rounding are measured
again in float64. No tests × classes × dimensions array is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fieldmark.errors import UsageError
from fieldmark.probes._arrays import read_rows
from fieldmark.probes._centroid_singles import Single, best_singles
from fieldmark.probes._distance import nearest
from fieldmark.probes._inputs import ProbeDataError, read_features, read_labels
from fieldmark.probes._normalise import Normaliser
from fieldmark.probes._tensor import as_numpy, is_cuda, together

_ROUNDING = 64 * float(np.finfo(np.float32).eps)
_BLOCK_VALUES = 1 << 21
_UNIT = ("centre", "l2")
_SHARED_TAILS = ((), ("centre",), _UNIT)
_SHARING = 1.2
"""draws that hold a row, from which its products are better computed once"""
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
    pool_nd = read_rows(x_pool)
    code_n, classes = read_labels(y_pool, len(pool_nd))
    test_td = (
        read_rows(x_test) if len(x_test) else read_features(as_numpy(x_test), is_empty_ok=True)
    )
    if test_td.shape[1] != pool_nd.shape[1]:
        raise ProbeDataError(
            f"test features have {test_td.shape[1]} columns, the pool has {pool_nd.shape[1]}."
        )
    draw_rows = [_row_numbers(each, len(pool_nd)) for each in draws]
    # Steps before the first that learns from the draw are the same in every draw.
    steps = Normaliser(normalise).steps
    n_own = next((at for at, step in enumerate(steps) if step != "l2"), len(steps))
    own, tail = Normaliser(steps[:n_own]), steps[n_own:]
    if (is_cuda(pool_nd) or is_cuda(test_td)) and len(test_td) and tail in _SHARED_TAILS:
        return np.asarray(classes[_predict_there(pool_nd, code_n, draw_rows, test_td, steps)])
    pool_nd, test_td = as_numpy(pool_nd), as_numpy(test_td)
    test_td = own.fit(pool_nd).transform(test_td.astype(np.float64))
    answers = np.empty((len(draw_rows), len(test_td)), classes.dtype)
    bank = _TestRows(test_td) if tail in _SHARED_TAILS else None
    alone = _ask_singles(pool_nd, code_n, draw_rows, test_td, own) if tail == _UNIT else {}
    for number, (answer_t, rows) in enumerate(zip(answers, draw_rows, strict=True)):
        if number in alone:
            answer_t[:] = classes[alone[number]]
            continue
        row_rd = pool_nd[rows].astype(np.float64)
        row_rd = own.transform(row_rd) if own.steps else row_rd
        present, at_r = np.unique(code_n[rows], return_inverse=True)
        if bank is not None:
            column_t = bank.ask(row_rd, at_r, is_unit=tail == _UNIT)
        else:
            fitted = Normaliser(tail).fit(row_rd)
            mean_cd = _means(fitted.transform(row_rd), at_r)
            column_t = _measure(fitted.transform(test_td), mean_cd)
        answer_t[:] = classes[present[column_t]]
    return answers


def _predict_there(
    pool_nd: Any,
    code_n: np.ndarray,
    draw_rows: list[np.ndarray],
    test_td: Any,
    steps: Sequence[str],
) -> np.ndarray:
    """Class numbers, where the pool or the test rows are on a GPU."""
    from fieldmark.probes._torch_centroids import RepeatsThere

    pool_nd, test_td = together(pool_nd, test_td)
    there = RepeatsThere(pool_nd, code_n, test_td, has_length=steps[:1] == ("l2",))
    is_centred = "centre" in steps
    return there.predict(draw_rows, is_centred, is_unit=is_centred and steps[-1] == "l2")


def _ask_singles(
    pool_nd: np.ndarray,
    code_n: np.ndarray,
    draw_rows: list[np.ndarray],
    test_td: np.ndarray,
    own: Normaliser,
) -> dict[int, np.ndarray]:
    """Class numbers by draw, for draws of one row a class; none where sharing does not pay."""
    by_class = [rows[np.argsort(code_n[rows], kind="stable")] for rows in draw_rows]
    single = [at for at, rows in enumerate(by_class) if (np.diff(code_n[rows]) > 0).all()]
    n_drawn = sum(len(by_class[at]) for at in single)
    shared_u = np.unique(np.concatenate([by_class[at] for at in single])) if single else ()
    if not len(test_td) or len(shared_u) * _SHARING > n_drawn:
        return {}
    row_ud = pool_nd[shared_u]
    row_ud = own.transform(row_ud.astype(np.float64)) if own.steps else row_ud
    made = {at: _single(row_ud, np.searchsorted(shared_u, by_class[at])) for at in single}
    made = {at: each for at, each in made.items() if (each.length_r > 0).all()}
    if not made:
        return {}
    best_kt = best_singles(row_ud, test_td, list(made.values()))
    return {at: code_n[by_class[at]][best_t] for at, best_t in zip(made, best_kt, strict=True)}


def _single(row_ud: np.ndarray, at_r: np.ndarray) -> Single:
    row_rd = row_ud[at_r].astype(np.float64)
    middle_d = _mean(row_rd)
    row_rd -= middle_d
    return Single(at_r, middle_d, np.sqrt(np.einsum("rd,rd->r", row_rd, row_rd)))


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
        middle_d = _mean(row_rd)
        mean_cd = _means(_moved(row_rd, middle_d, is_unit), at_r)
        half_c = np.einsum("cd,cd->c", mean_cd, mean_cd) / 2
        column_t, lead_t = self._best(self._widen(mean_cd, half_c, middle_d, is_unit))
        longest = np.sqrt(2 * half_c.max())
        reach_t = np.sqrt(self.square_t) + np.linalg.norm(middle_d - self.offset_d) + longest
        unsure = np.flatnonzero(~(lead_t > _ROUNDING * longest * (1 + longest) * reach_t))
        if len(unsure):
            test_ud = _moved(self.test_td[unsure], middle_d, is_unit)
            column_t[unsure] = _measure(test_ud, mean_cd)
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
        n_test, n_classes = len(self.wide_te), len(wide_ce)
        column_t, lead_t = np.zeros(n_test, np.intp), np.full(n_test, np.inf)
        n_block = max(1, _BLOCK_VALUES // n_classes)
        for start in range(0, n_test if n_classes > 1 else 0, n_block):
            part = slice(start, start + n_block)
            value_bc = self.wide_te[part] @ wide_ce.T
            own = np.arange(len(value_bc))
            best_b = value_bc.argmax(axis=1)
            top_b = value_bc[own, best_b]
            value_bc[own, best_b] = -np.inf
            column_t[part], lead_t[part] = best_b, top_b - value_bc.max(axis=1)
        return column_t, lead_t


def _measure(test_ud: np.ndarray, mean_cd: np.ndarray) -> np.ndarray:
    return nearest(test_ud, mean_cd, 1, np.arange(len(mean_cd)))[0][:, 0]


def _means(row_rd: np.ndarray, at_r: np.ndarray) -> np.ndarray:
    count_c = np.bincount(at_r)
    member = sparse.csr_array((np.ones(len(at_r)), (at_r, np.arange(len(at_r)))))
    return np.asarray((member @ row_rd) / count_c[:, None])


def _mean(row_rd: np.ndarray) -> np.ndarray:
    """The mean of each feature; exactly its value where it has but one."""
    is_constant_d = row_rd.min(axis=0) == row_rd.max(axis=0)
    return np.asarray(np.where(is_constant_d, row_rd[0], row_rd.mean(axis=0)))


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
