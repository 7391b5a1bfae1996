"""Which sums over the rows does least squares need?

One pass in blocks gives, for each fold, counts and sums by class, second moments and ranges; a
training set is the sum of its folds, never a total minus a rest, so nothing cancels. Products are
taken in float64 about a sample mean. Class weights change with the training set, so a weighted
second moment is summed for each of them.

Memory beyond the features: `folds × classes × width` float64 for the class sums, `(folds + 1) ×
width²` for the second moments and a few blocks of `BLOCK_ROWS` rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsyrk

BLOCK_ROWS = 4096
_SAMPLE_ROWS = 2048
_WHOLE = -1
"""the training set that leaves nothing out"""


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
    """plain: of each fold's rows; balanced: of each training set, the whole one last"""
    is_balanced: bool

    def without(self, fold: int = _WHOLE) -> TrainingSet:
        """The rows of every other fold; by default all rows."""
        kept = [each for each in range(len(self.count_fc)) if each != fold]
        count_c = self.count_fc[kept].sum(axis=0)
        low_d, high_d = self.low_fd[kept].min(axis=0), self.high_fd[kept].max(axis=0)
        return TrainingSet(
            offset_d=self.offset_d,
            count_c=count_c,
            sum_cd=_total(self.sum_fcd, kept),
            square_d=self.square_fd[kept].sum(axis=0),
            is_constant_d=low_d == high_d,
            weight_c=balanced_weights(count_c) if self.is_balanced else np.ones(len(count_c)),
            second_dd=self.second_fdd[fold] if self.is_balanced else _total(self.second_fdd, kept),
        )


def balanced_weights(count_c: np.ndarray) -> np.ndarray:
    """scikit-learn's "balanced" weight of each class that has rows, 0 for the others."""
    n_present = np.count_nonzero(count_c)
    return np.where(count_c > 0, count_c.sum() / (n_present * np.maximum(count_c, 1)), 0.0)


def measure(
    x_nd: np.ndarray, code_n: np.ndarray, fold_n: np.ndarray, is_balanced: bool
) -> Moments:
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
        second_fdd=np.zeros((n_folds + is_balanced, width, width)),
        is_balanced=is_balanced,
    )
    roots = _root_weights(count_fc) if is_balanced else None
    for rows_b in _blocks(fold_n):
        part_bd = x_nd[rows_b] - offset_d
        _add_block(found, part_bd, code_n[rows_b], fold_n[rows_b])
        if roots is None:
            _add_second(found, part_bd, fold_n[rows_b])
        else:
            _add_weighted(found, part_bd, roots[:, code_n[rows_b]], fold_n[rows_b])
    for second_dd in found.second_fdd:
        second_dd += np.tril(second_dd, -1).T
    return found


def _root_weights(count_fc: np.ndarray) -> np.ndarray:
    """Root of the balanced weight by training set (the whole one last) and class."""
    total_c = count_fc.sum(axis=0)
    sets = [balanced_weights(total_c - held_c) for held_c in count_fc]
    return np.sqrt([*sets, balanced_weights(total_c)])


def _blocks(fold_n: np.ndarray) -> Iterator[np.ndarray]:
    """Neighbouring rows, within a block by fold: files are read in order, folds are slices."""
    for start in range(0, len(fold_n), BLOCK_ROWS):
        part = fold_n[start : start + BLOCK_ROWS]
        yield start + np.argsort(part, kind="stable")


def _add_block(
    found: Moments, part_bd: np.ndarray, code_b: np.ndarray, fold_b: np.ndarray
) -> None:
    n_classes = found.count_fc.shape[1]
    cell, at_b = np.unique(fold_b * n_classes + code_b, return_inverse=True)
    member = (np.ones(len(code_b)), (at_b, np.arange(len(code_b))))
    sums = sparse.csr_array(member, shape=(len(cell), len(code_b))) @ part_bd
    found.sum_fcd[cell // n_classes, cell % n_classes] += sums
    for fold, rows in _slices(fold_b):
        found.square_fd[fold] += np.einsum("nd,nd->d", part_bd[rows], part_bd[rows])
        np.minimum(found.low_fd[fold], part_bd[rows].min(axis=0), out=found.low_fd[fold])
        np.maximum(found.high_fd[fold], part_bd[rows].max(axis=0), out=found.high_fd[fold])


def _add_second(found: Moments, part_bd: np.ndarray, fold_b: np.ndarray) -> None:
    for fold, rows in _slices(fold_b):
        _add_products(found.second_fdd[fold], part_bd[rows])


def _add_weighted(
    found: Moments, part_bd: np.ndarray, root_sb: np.ndarray, fold_b: np.ndarray
) -> None:
    scaled_bd = np.empty_like(part_bd)
    held = dict(_slices(fold_b))
    for index, root_b in enumerate(root_sb):
        rest = held.get(index, slice(0, 0))
        n_kept = len(fold_b) - (rest.stop - rest.start)
        np.multiply(part_bd[: rest.start], root_b[: rest.start, None], out=scaled_bd[: rest.start])
        after = slice(rest.start, n_kept)
        np.multiply(part_bd[rest.stop :], root_b[rest.stop :, None], out=scaled_bd[after])
        _add_products(found.second_fdd[index], scaled_bd[:n_kept])


def _add_products(second_dd: np.ndarray, part_bd: np.ndarray) -> None:
    """Adds the lower triangle of the products in place (BLAS sees the transposes)."""
    if len(part_bd):
        dsyrk(1.0, part_bd.T, beta=1.0, c=second_dd.T, overwrite_c=1)


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
    total = parts[kept[0]].copy()
    for each in kept[1:]:
        total += parts[each]
    return total
