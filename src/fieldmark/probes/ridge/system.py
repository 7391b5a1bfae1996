"""Ridge regression in closed form: the sums over the rows, and what follows for any strength.

One pass in blocks gives, for each fold, counts and sums by class, second moments and ranges; a
training set is the sum of its folds, never a total minus a rest, so nothing cancels. Products are
taken in float64 about a sample mean. Balanced class weights differ a little from one training set
to the next (by one row in a class): the second moments carry the weights of all rows, and the small
difference is summed for each training set, in float32 products where rows are many.

With z the standardised row, centred at the weighted mean, the decision value of a class at strength
alpha is `sum_m p_m q_mc / (lambda_m + alpha) + bias_c`, with `p = (x - centre) @ axes`. The numbers
lambda, axes and q do not depend on alpha, so one eigendecomposition serves the whole grid. It is
taken on the smaller side: features, or rows where those are fewer. Targets are +1 for the class and
-1 for the others, as RidgeClassifier's; they are never written out. Classes without a training row
get no column.

Memory beyond the features: `folds × classes × width` float64 for the class sums, `2 × folds ×
width²` for the second moments and a few blocks of `BLOCK_ROWS` rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk, ssyrk

from fieldmark.probes._arrays import SomeRows, top_two

BLOCK_ROWS = 4096
_SAMPLE_ROWS = 2048
_SAME = 1e-12
"""weights that differ by a smaller share are equal"""
_MANY = 16
"""rows for each feature, from which second moments are well enough conditioned for float32"""
_BLOCK_VALUES = 1 << 21
_EPS = float(np.finfo(np.float64).eps)
_NOISE = 1e-13


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Decision values `x @ coef_dc + intercept_c`, in float64.

    Rows go through in blocks, so predicting many rows of many classes needs no rows × classes
    array.
    """

    present_c: np.ndarray
    """class number of each column"""
    coef_dc: np.ndarray
    intercept_c: np.ndarray

    def decision_function(self, x_nd: np.ndarray) -> np.ndarray:
        """n × C, or for two classes n: the second one's."""
        value_nc = np.concatenate(list(self._blocks(x_nd)))
        return np.asarray(value_nc[:, 1] if len(self.present_c) == 2 else value_nc)

    def decide(self, x_nd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class numbers of the winners (a tie goes to the first) and their leads over the next.

        For two classes the lead is the size of the one value.
        """
        columns, leads = [], []
        for value_bc in self._blocks(x_nd):
            column_b, lead_b = top_two(value_bc)
            columns.append(column_b)
            leads.append(np.abs(value_bc[:, 1]) if len(self.present_c) == 2 else lead_b)
        return self.present_c[np.concatenate(columns)], np.concatenate(leads)

    def _blocks(self, x_nd: np.ndarray) -> Iterator[np.ndarray]:
        n_block = max(64, _BLOCK_VALUES // (len(self.intercept_c) + x_nd.shape[1]))
        for start in range(0, max(1, len(x_nd)), n_block):
            part_bd = x_nd[start : start + n_block].astype(np.float64, copy=False)
            value_bc = part_bd @ self.coef_dc
            value_bc += self.intercept_c
            yield value_bc


# --- sums over the rows


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Moments of one training set about `offset_d`; classes without a row have count 0."""

    offset_d: np.ndarray
    count_c: np.ndarray
    sum_cd: np.ndarray
    square_d: np.ndarray
    is_constant_d: np.ndarray
    weight_c: np.ndarray
    """weight of each row of a class"""
    second_dd: np.ndarray
    """weighted sum of outer products"""


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums by fold (f), class (c) and feature (d)."""

    offset_d: np.ndarray
    count_fc: np.ndarray
    sum_fcd: np.ndarray
    square_fd: np.ndarray
    low_fd: np.ndarray
    high_fd: np.ndarray
    second_fdd: np.ndarray
    """of each fold's rows, with the weights of the set of all rows"""
    extra_fdd: np.ndarray
    """what the other weights of the training set without a fold add; none unless balanced"""
    is_balanced: bool

    def without(self, fold: int = -1) -> TrainingSet:
        """The rows of every other fold; by default all rows."""
        kept = [other for other in range(len(self.count_fc)) if other != fold]
        count_c = self.count_fc[kept].sum(axis=0)
        second_dd = _total(self.second_fdd, kept)
        if self.is_balanced and fold >= 0:
            second_dd += self.extra_fdd[fold]
        low_d, high_d = self.low_fd[kept].min(axis=0), self.high_fd[kept].max(axis=0)
        return TrainingSet(
            offset_d=self.offset_d,
            count_c=count_c,
            sum_cd=_total(self.sum_fcd, kept),
            square_d=self.square_fd[kept].sum(axis=0),
            is_constant_d=low_d == high_d,
            weight_c=balanced_weights(count_c) if self.is_balanced else np.ones(len(count_c)),
            second_dd=second_dd,
        )


def balanced_weights(count_c: np.ndarray) -> np.ndarray:
    """scikit-learn's "balanced" weight of each class that has rows, 0 for the others."""
    n_present = np.count_nonzero(count_c)
    return np.where(count_c > 0, count_c.sum() / (n_present * np.maximum(count_c, 1)), 0.0)


def measure(
    x_nd: np.ndarray | SomeRows, code_n: np.ndarray, fold_n: np.ndarray, is_balanced: bool
) -> Moments:
    """One pass over the rows; `fold_n` says in which fold each row is held out."""
    n_folds, n_classes, width = int(fold_n.max()) + 1, int(code_n.max()) + 1, x_nd.shape[1]
    offset_d = x_nd[:: max(1, len(x_nd) // _SAMPLE_ROWS)].mean(axis=0, dtype=np.float64)
    count_fc = np.bincount(fold_n * n_classes + code_n, minlength=n_folds * n_classes)
    count_fc = count_fc.reshape(n_folds, n_classes)
    moments = Moments(
        offset_d=offset_d,
        count_fc=count_fc,
        sum_fcd=np.zeros((n_folds, n_classes, width)),
        square_fd=np.zeros((n_folds, width)),
        low_fd=np.full((n_folds, width), np.inf),
        high_fd=np.full((n_folds, width), -np.inf),
        second_fdd=np.zeros((n_folds, width, width)),
        extra_fdd=np.zeros((n_folds * is_balanced, width, width)),
        is_balanced=is_balanced,
    )
    weight_c = balanced_weights(count_fc.sum(axis=0))
    extra_dtype = np.float32 if len(x_nd) >= _MANY * width else np.float64
    for rows_b in _blocks(fold_n):
        part_bd, code_b, fold_b = x_nd[rows_b] - offset_d, code_n[rows_b], fold_n[rows_b]
        _add_block(moments, part_bd, code_b, fold_b)
        if is_balanced:
            _add_extra(moments, part_bd.astype(extra_dtype), code_b, fold_b)
            part_bd *= np.sqrt(weight_c[code_b])[:, None]
        for fold, rows in _slices(fold_b):
            dsyrk(1.0, part_bd[rows].T, beta=1.0, c=moments.second_fdd[fold].T, overwrite_c=1)
    for second_dd in (*moments.second_fdd, *moments.extra_fdd):
        second_dd += np.tril(second_dd, -1).T
    return moments


def _blocks(fold_n: np.ndarray) -> Iterator[np.ndarray]:
    """Neighbouring rows, within a block by fold: files are read in order, folds are slices."""
    for start in range(0, len(fold_n), BLOCK_ROWS):
        part = fold_n[start : start + BLOCK_ROWS]
        yield start + np.argsort(part, kind="stable")


def _add_block(
    moments: Moments, part_bd: np.ndarray, code_b: np.ndarray, fold_b: np.ndarray
) -> None:
    n_classes = moments.count_fc.shape[1]
    cell, at_b = np.unique(fold_b * n_classes + code_b, return_inverse=True)
    member = (np.ones(len(code_b)), (at_b, np.arange(len(code_b))))
    sums = sparse.csr_array(member, shape=(len(cell), len(code_b))) @ part_bd
    moments.sum_fcd[cell // n_classes, cell % n_classes] += sums
    for fold, rows in _slices(fold_b):
        moments.square_fd[fold] += np.einsum("nd,nd->d", part_bd[rows], part_bd[rows])
        np.minimum(moments.low_fd[fold], part_bd[rows].min(axis=0), out=moments.low_fd[fold])
        np.maximum(moments.high_fd[fold], part_bd[rows].max(axis=0), out=moments.high_fd[fold])


def _add_extra(
    moments: Moments, part_bd: np.ndarray, code_b: np.ndarray, fold_b: np.ndarray
) -> None:
    """Outer products times (weight in the training set - weight among all rows)."""
    total_c = moments.count_fc.sum(axis=0)
    whole_c = balanced_weights(total_c)
    products = dsyrk if part_bd.dtype == np.float64 else ssyrk
    for fold, held_c in enumerate(moments.count_fc):
        extra_c = balanced_weights(total_c - held_c) / whole_c - 1
        extra_b = np.where(fold_b == fold, 0.0, (extra_c * whole_c)[code_b])
        extra_b[np.abs(extra_c[code_b]) < _SAME] = 0.0
        for sign in (1, -1):
            rows = np.flatnonzero(sign * extra_b > 0)
            root_r1 = np.sqrt(np.abs(extra_b[rows])).astype(part_bd.dtype)[:, None]
            if len(rows):
                scaled_rd = part_bd[rows] * root_r1
                moments.extra_fdd[fold].T[...] += products(float(sign), scaled_rd.T)


def _slices(fold_b: np.ndarray) -> list[tuple[int, slice]]:
    """(fold, its rows) in a block sorted by fold."""
    folds, starts = np.unique(fold_b, return_index=True)
    ends = [*starts[1:], len(fold_b)]
    return [
        (int(fold), slice(int(start), int(end)))
        for fold, start, end in zip(folds, starts, ends, strict=True)
    ]


def _total(parts: np.ndarray, kept: list[int]) -> np.ndarray:
    """Sum over the kept folds without a copy of them all."""
    total = np.array(parts[kept[0]])
    for fold in kept[1:]:
        total += parts[fold]
    return total


# --- the equations of one training set


@dataclass(frozen=True, slots=True)
class System:
    """One training set's decision values for every strength; see the module."""

    present_c: np.ndarray
    """class number of each column"""
    centre_d: np.ndarray
    lambda_m: np.ndarray
    axes_dm: np.ndarray
    q_mc: np.ndarray
    bias_c: np.ndarray


@dataclass(frozen=True, slots=True)
class NormalEquations:
    """Of the standardised features: `second_dd` and `target_dc` are centred sums of products."""

    present_c: np.ndarray
    centre_d: np.ndarray
    scale_d: np.ndarray
    second_dd: np.ndarray
    target_dc: np.ndarray
    bias_c: np.ndarray


def standardise(train: TrainingSet) -> NormalEquations:
    """The sums as if every feature had mean 0 and spread 1."""
    offset_d = train.offset_d
    present_c = np.flatnonzero(train.count_c)
    count_c = train.count_c[present_c].astype(np.float64)
    sum_cd = train.sum_cd[present_c]
    n_rows = int(train.count_c.sum())
    mean_d = sum_cd.sum(axis=0) / n_rows
    variance_d = train.square_d / n_rows - mean_d**2
    is_flat_d = train.is_constant_d | _is_flat(variance_d, mean_d, offset_d, n_rows)
    scale_d = np.sqrt(np.where(is_flat_d, 1.0, variance_d))
    mass_c = train.weight_c[present_c] * count_c
    share_c, mean_cd = mass_c / mass_c.sum(), sum_cd / count_c[:, None]
    middle_d = share_c @ mean_cd
    second_dd = train.second_dd - mass_c.sum() * np.outer(middle_d, middle_d)
    target_dc = (2 * mass_c) * (mean_cd - middle_d).T
    usable_d = np.where(is_flat_d, 0.0, 1 / scale_d)
    second_dd *= usable_d[:, None]
    second_dd *= usable_d
    target_dc *= usable_d[:, None]
    centre_d = offset_d + middle_d
    return NormalEquations(present_c, centre_d, scale_d, second_dd, target_dc, 2 * share_c - 1)


def system_of_moments(train: TrainingSet) -> System:
    """The system on the side of the features."""
    equations = standardise(train)
    lambda_m, vectors_dm = np.linalg.eigh(equations.second_dd)
    return System(
        equations.present_c,
        equations.centre_d,
        np.maximum(lambda_m, 0.0),
        vectors_dm / equations.scale_d[:, None],
        vectors_dm.T @ equations.target_dc,
        equations.bias_c,
    )


def solve_moments(train: TrainingSet, alpha: float) -> LinearModel:
    """The classifier at one strength, for features as they came."""
    equations = standardise(train)
    coef_dc = _solve_shifted(equations.second_dd, alpha, equations.target_dc)
    coef_dc /= equations.scale_d[:, None]
    intercept_c = equations.bias_c - equations.centre_d @ coef_dc
    return LinearModel(equations.present_c, coef_dc, intercept_c)


@dataclass(frozen=True, slots=True)
class _WeightedRows:
    """Standardised, centred rows and targets, each times the root of its row's weight."""

    present_c: np.ndarray
    centre_d: np.ndarray
    scale_d: np.ndarray
    row_nd: np.ndarray
    target_nc: np.ndarray
    bias_c: np.ndarray


def system_of_rows(x_nd: np.ndarray, code_n: np.ndarray, is_balanced: bool) -> System:
    """The system on the side of the rows, for fewer rows than features."""
    rows = _weigh_rows(x_nd, code_n, is_balanced)
    lambda_m, vectors_nm = np.linalg.eigh(rows.row_nd @ rows.row_nd.T)
    return System(
        rows.present_c,
        rows.centre_d,
        np.maximum(lambda_m, 0.0),
        rows.row_nd.T @ vectors_nm / rows.scale_d[:, None],
        vectors_nm.T @ rows.target_nc,
        rows.bias_c,
    )


def solve_rows(
    x_nd: np.ndarray, code_n: np.ndarray, is_balanced: bool, alpha: float
) -> LinearModel:
    """As `solve_moments`, from fewer rows than features.

    X'(XX' + alpha)⁻¹ y = (X'X + alpha)⁻¹ X'y, and the left side is the smaller system.
    """
    rows = _weigh_rows(x_nd, code_n, is_balanced)
    coef_dc = rows.row_nd.T @ _solve_shifted(rows.row_nd @ rows.row_nd.T, alpha, rows.target_nc)
    coef_dc /= rows.scale_d[:, None]
    return LinearModel(rows.present_c, coef_dc, rows.bias_c - rows.centre_d @ coef_dc)


def _solve_shifted(matrix: np.ndarray, alpha: float, target: np.ndarray) -> np.ndarray:
    """(matrix + alpha)⁻¹ target by Cholesky; the matrix is used up."""
    matrix[np.diag_indices_from(matrix)] += alpha
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, target, check_finite=False))


def _is_flat(
    variance_d: np.ndarray, mean_d: np.ndarray, offset_d: np.ndarray, n_rows: int
) -> np.ndarray:
    """Spread that is rounding only: scikit-learn's rule, and that of the moments' own rounding."""
    theirs_d = n_rows * _EPS * variance_d + (n_rows * (mean_d + offset_d) * _EPS) ** 2
    return np.asarray(variance_d <= np.maximum(theirs_d, _NOISE * mean_d**2))


def _weigh_rows(x_nd: np.ndarray, code_n: np.ndarray, is_balanced: bool) -> _WeightedRows:
    x_nd = x_nd.astype(np.float64)
    present_c, column_n, count_c = np.unique(code_n, return_inverse=True, return_counts=True)
    mean_d = x_nd.mean(axis=0)
    is_flat_d = (x_nd.min(axis=0) == x_nd.max(axis=0)) | _is_flat(
        x_nd.var(axis=0), np.zeros_like(mean_d), mean_d, len(x_nd)
    )
    scale_d = np.where(is_flat_d, 1.0, x_nd.std(axis=0))
    weight_c = balanced_weights(count_c) if is_balanced else np.ones(len(count_c))
    share_c = weight_c * count_c / (weight_c * count_c).sum()
    weight_n = weight_c[column_n]
    centre_d = weight_n @ x_nd / weight_n.sum()
    root_n1 = np.sqrt(weight_n)[:, None]
    row_nd = np.where(is_flat_d, 0.0, (x_nd - centre_d) / scale_d) * root_n1
    target_nc = np.tile(-2 * share_c, (len(x_nd), 1))
    target_nc[np.arange(len(x_nd)), column_n] += 2
    return _WeightedRows(present_c, centre_d, scale_d, row_nd, target_nc * root_n1, 2 * share_c - 1)
