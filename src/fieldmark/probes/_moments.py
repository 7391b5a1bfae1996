"""Which sums over the rows does least squares need?

One pass in blocks gives, for each fold, counts and sums by class, second moments and ranges; a
training set is the sum of its folds, never a total minus a rest, so nothing cancels. Products are
taken in float64 about a sample mean. Balanced class weights differ a little from one training set
to the next (by one row in a class): the second moments carry the weights of all rows, and the small
difference is summed for each training set, in float32 products where rows are many.

Memory beyond the features: `folds × classes × width` float64 for the class sums, `2 × folds ×
width²` for the second moments and a few blocks of `BLOCK_ROWS` rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsyrk, ssyrk

BLOCK_ROWS = 4096
_SAMPLE_ROWS = 2048
_SAME = 1e-12
"""weights that differ by a smaller share are equal"""
_MANY = 16
"""rows for each feature, from which second moments are well enough conditioned for float32"""


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
        kept = [each for each in range(len(self.count_fc)) if each != fold]
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


def measure(x_nd: np.ndarray, code_n: np.ndarray, fold_n: np.ndarray, is_balanced: bool) -> Moments:
    """One pass over the rows; `fold_n` says in which fold each row is held out."""
    n_folds, n_classes, width = int(fold_n.max()) + 1, int(code_n.max()) + 1, x_nd.shape[1]
    offset_d = x_nd[:: max(1, len(x_nd) // _SAMPLE_ROWS)].mean(axis=0, dtype=np.float64)
    count_fc = np.bincount(fold_n * n_classes + code_n, minlength=n_folds * n_classes)
    count_fc = count_fc.reshape(n_folds, n_classes)
    found = Moments(
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
        _add_block(found, part_bd, code_b, fold_b)
        if is_balanced:
            _add_extra(found, part_bd.astype(extra_dtype), code_b, fold_b)
            part_bd *= np.sqrt(weight_c[code_b])[:, None]
        for fold, rows in _slices(fold_b):
            dsyrk(1.0, part_bd[rows].T, beta=1.0, c=found.second_fdd[fold].T, overwrite_c=1)
    for second_dd in (*found.second_fdd, *found.extra_fdd):
        second_dd += np.tril(second_dd, -1).T
    return found


def _blocks(fold_n: np.ndarray) -> Iterator[np.ndarray]:
    """Neighbouring rows, within a block by fold: files are read in order, folds are slices."""
    for start in range(0, len(fold_n), BLOCK_ROWS):
        part = fold_n[start : start + BLOCK_ROWS]
        yield start + np.argsort(part, kind="stable")


def _add_block(found: Moments, part_bd: np.ndarray, code_b: np.ndarray, fold_b: np.ndarray) -> None:
    n_classes = found.count_fc.shape[1]
    cell, at_b = np.unique(fold_b * n_classes + code_b, return_inverse=True)
    member = (np.ones(len(code_b)), (at_b, np.arange(len(code_b))))
    sums = sparse.csr_array(member, shape=(len(cell), len(code_b))) @ part_bd
    found.sum_fcd[cell // n_classes, cell % n_classes] += sums
    for fold, rows in _slices(fold_b):
        found.square_fd[fold] += np.einsum("nd,nd->d", part_bd[rows], part_bd[rows])
        np.minimum(found.low_fd[fold], part_bd[rows].min(axis=0), out=found.low_fd[fold])
        np.maximum(found.high_fd[fold], part_bd[rows].max(axis=0), out=found.high_fd[fold])


def _add_extra(found: Moments, part_bd: np.ndarray, code_b: np.ndarray, fold_b: np.ndarray) -> None:
    """Outer products times (weight in the training set - weight among all rows)."""
    total_c = found.count_fc.sum(axis=0)
    whole_c = balanced_weights(total_c)
    products = dsyrk if part_bd.dtype == np.float64 else ssyrk
    for fold, held_c in enumerate(found.count_fc):
        extra_c = balanced_weights(total_c - held_c) / whole_c - 1
        extra_b = np.where(fold_b == fold, 0.0, (extra_c * whole_c)[code_b])
        extra_b[np.abs(extra_c[code_b]) < _SAME] = 0.0
        for sign in (1, -1):
            rows = np.flatnonzero(sign * extra_b > 0)
            root_r1 = np.sqrt(np.abs(extra_b[rows])).astype(part_bd.dtype)[:, None]
            if len(rows):
                scaled_rd = part_bd[rows] * root_r1
                found.extra_fdd[fold].T[...] += products(float(sign), scaled_rd.T)


def _slices(fold_b: np.ndarray) -> list[tuple[int, slice]]:
    """(fold, its rows) in a block sorted by fold."""
    folds, first = np.unique(fold_b, return_index=True)
    ends = [*first[1:], len(fold_b)]
    return [
        (int(fold), slice(int(start), int(end)))
        for fold, start, end in zip(folds, first, ends, strict=True)
    ]


def _total(parts: np.ndarray, kept: list[int]) -> np.ndarray:
    """Sum over the kept folds without a copy of them all."""
    total = np.array(parts[kept[0]])
    for each in kept[1:]:
        total += parts[each]
    return total
