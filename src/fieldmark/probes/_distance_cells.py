"""Which rows are probably near, at little cost?

Rows fall into cells around a few hundred centres, and each row looks at its own cell and the ones
beside it. What is found is a guess: it sets a floor under the gain of the true neighbours, and the
better the guess, the fewer pairs are left to look at. It need not be right.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

_CELL_ROWS = 200
_CELLS_SEEN = 8
_BLOCK_ROWS = 4096


def likely_near(
    first_mr: np.ndarray, lift_mr: np.ndarray, row_mr: np.ndarray, k: int
) -> np.ndarray:
    """Indices (m × k) of rows with a large `lift @ row`, never the row itself; -1 for none.

    `first_mr` are the coordinates by which rows fall into cells.
    """
    guess_mk = np.full((len(first_mr), k), -1, np.intp)
    for mine, rows in _cells(first_mr):
        gain_ar = lift_mr[mine] @ row_mr[rows].T
        own = np.arange(len(mine))
        gain_ar[own, own] = -np.inf
        n_found = min(k, len(rows) - 1)
        if n_found == 1:
            guess_mk[mine, 0] = rows[gain_ar.argmax(axis=1)]
        elif n_found > 1:
            best_ak = np.argpartition(gain_ar, -n_found, axis=1)[:, -n_found:]
            guess_mk[mine, :n_found] = rows[best_ak]
    return guess_mk


def _cells(first_mr: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows of a cell, rows of it and of the cells beside it, its own first)."""
    centre_er, cell_m = _centres(first_mr)
    order = np.argsort(cell_m, kind="stable")
    member = np.split(order, np.searchsorted(cell_m[order], np.arange(1, len(centre_er))))
    closeness_ee = centre_er @ centre_er.T - _half_squares(centre_er)
    np.fill_diagonal(closeness_ee, np.inf)
    beside_es = np.argsort(-closeness_ee, axis=1, kind="stable")[:, :_CELLS_SEEN]
    for mine, beside in zip(member, beside_es, strict=True):
        if len(mine):
            yield mine, np.concatenate([member[each] for each in beside])


def _centres(first_mr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centres after one step of k-means, and the nearest centre of each row."""
    n_rows = len(first_mr)
    n_cells = max(1, n_rows // _CELL_ROWS)
    centre_er = first_mr[np.linspace(0, n_rows - 1, n_cells).astype(np.intp)]
    cell_m = _nearest_centre(first_mr, centre_er)
    count_e = np.bincount(cell_m, minlength=n_cells)
    member = (np.ones(n_rows, first_mr.dtype), (cell_m, np.arange(n_rows)))
    sum_er = sparse.csr_array(member, shape=(n_cells, n_rows)) @ first_mr
    is_used_e1 = (count_e > 0)[:, None]
    mean_er = sum_er / np.maximum(count_e, 1)[:, None]
    centre_er = np.where(is_used_e1, mean_er, centre_er).astype(first_mr.dtype)
    return centre_er, _nearest_centre(first_mr, centre_er)


def _nearest_centre(first_mr: np.ndarray, centre_er: np.ndarray) -> np.ndarray:
    half_e = _half_squares(centre_er)
    return np.concatenate(
        [
            (first_mr[start : start + _BLOCK_ROWS] @ centre_er.T - half_e).argmax(axis=1)
            for start in range(0, len(first_mr), _BLOCK_ROWS)
        ]
    )


def _half_squares(centre_er: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("er,er->e", centre_er, centre_er) / 2)
