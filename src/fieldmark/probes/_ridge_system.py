"""What does ridge regression on standardised features become for one training set?

With z the standardised row, centred at the weighted mean, the decision value of a class at strength
alpha is `sum_m p_m q_mc / (lambda_m + alpha) + bias_c`, with `p = (x - centre) @ axes`. The numbers
lambda, axes and q do not depend on alpha, so one eigendecomposition serves the whole grid. It is
taken on the smaller side: features, or rows where those are fewer.

Targets are +1 for the class and -1 for the others, as RidgeClassifier's; they are never written
out. Classes without a training row get no column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fieldmark.probes._moments import TrainingSet, balanced_weights

_EPS = float(np.finfo(np.float64).eps)
_NOISE = 1e-13


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
class Scaled:
    """Standardised training set: `second_dd` and `target_dc` are centred sums of products."""

    present_c: np.ndarray
    centre_d: np.ndarray
    scale_d: np.ndarray
    second_dd: np.ndarray
    target_dc: np.ndarray
    bias_c: np.ndarray


def from_moments(train: TrainingSet) -> System:
    """The system on the side of the features."""
    scaled = _scale(train)
    lambda_m, vectors_dm = np.linalg.eigh(scaled.second_dd)
    return System(
        scaled.present_c,
        scaled.centre_d,
        np.maximum(lambda_m, 0.0),
        vectors_dm / scaled.scale_d[:, None],
        vectors_dm.T @ scaled.target_dc,
        scaled.bias_c,
    )


def solve_moments(train: TrainingSet, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Present classes, coefficients (d × c) and intercepts for raw features."""
    scaled = _scale(train)
    second_dd = scaled.second_dd
    second_dd[np.diag_indices_from(second_dd)] += alpha
    factor = cho_factor(second_dd, lower=True, overwrite_a=True, check_finite=False)
    coef_dc = cho_solve(factor, scaled.target_dc, overwrite_b=True, check_finite=False)
    coef_dc /= scaled.scale_d[:, None]
    return scaled.present_c, coef_dc, scaled.bias_c - scaled.centre_d @ coef_dc


def from_rows(x_nd: np.ndarray, code_n: np.ndarray, is_balanced: bool) -> System:
    """The system on the side of the rows, for fewer rows than features."""
    return _eigen(_by_rows(x_nd, code_n, is_balanced))


def solve_rows(
    x_nd: np.ndarray, code_n: np.ndarray, is_balanced: bool, alpha: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `solve_moments`, from fewer rows than features."""
    rows = _by_rows(x_nd, code_n, is_balanced)
    kernel_nn = rows.row_nd @ rows.row_nd.T
    kernel_nn[np.diag_indices_from(kernel_nn)] += alpha
    factor = cho_factor(kernel_nn, lower=True, overwrite_a=True, check_finite=False)
    coef_dc = rows.row_nd.T @ cho_solve(factor, rows.target_nc, check_finite=False)
    coef_dc /= rows.scale_d[:, None]
    return rows.present_c, coef_dc, rows.bias_c - rows.centre_d @ coef_dc


@dataclass(frozen=True, slots=True)
class _Rows:
    """Standardised, centred rows and targets, each times the root of its row's weight."""

    present_c: np.ndarray
    centre_d: np.ndarray
    scale_d: np.ndarray
    row_nd: np.ndarray
    target_nc: np.ndarray
    bias_c: np.ndarray


def _scale(train: TrainingSet) -> Scaled:
    present_c = np.flatnonzero(train.count_c)
    count_c, sum_cd = train.count_c[present_c], train.sum_cd[present_c]
    n_rows = int(count_c.sum())
    mean_d = sum_cd.sum(axis=0) / n_rows
    variance_d = train.square_d / n_rows - mean_d**2
    is_flat_d = train.is_constant_d | is_flat(variance_d, mean_d, train.offset_d, n_rows)
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
    centre_d = train.offset_d + middle_d
    return Scaled(present_c, centre_d, scale_d, second_dd, target_dc, 2 * share_c - 1)


def is_flat(
    variance_d: np.ndarray, mean_d: np.ndarray, offset_d: np.ndarray, n_rows: int
) -> np.ndarray:
    """Spread that is rounding only: scikit-learn's rule, and that of the moments' own rounding."""
    theirs_d = n_rows * _EPS * variance_d + (n_rows * (mean_d + offset_d) * _EPS) ** 2
    return np.asarray(variance_d <= np.maximum(theirs_d, _NOISE * mean_d**2))


def _by_rows(x_nd: np.ndarray, code_n: np.ndarray, is_balanced: bool) -> _Rows:
    x_nd = x_nd.astype(np.float64)
    present_c, column_n, count_c = np.unique(code_n, return_inverse=True, return_counts=True)
    mean_d = x_nd.mean(axis=0)
    is_flat_d = (x_nd.min(axis=0) == x_nd.max(axis=0)) | is_flat(
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
    return _Rows(present_c, centre_d, scale_d, row_nd, target_nc * root_n1, 2 * share_c - 1)


def _eigen(rows: _Rows) -> System:
    lambda_m, vectors_nm = np.linalg.eigh(rows.row_nd @ rows.row_nd.T)
    return System(
        rows.present_c,
        rows.centre_d,
        np.maximum(lambda_m, 0.0),
        rows.row_nd.T @ vectors_nm / rows.scale_d[:, None],
        vectors_nm.T @ rows.target_nc,
        rows.bias_c,
    )
