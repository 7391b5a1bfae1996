"""Which few gallery images hold back an exemplar machine, and what are its weights?

With features as they come, only some dozen of thousands of images end up as support vectors. So a
machine starts from the images most like its query and solves a tiny problem among them exactly
(block principal pivoting on the dual; Júdice and Pires 1994). Whoever asks scores all images, one
product for a block of machines, and lets in those that should have held it back. Each round raises
the dual objective, so rounds end.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from fieldmark.probes._exemplar_bank import Bank

N_SEEDS = 128
_SLACK = 1e-4
"""by how much an image left out may reach above -1"""
_MOST_NEW = 64
_PATIENCE = 5


def choose_seeds(bank: Bank, query_qd: np.ndarray, own_q: np.ndarray | None) -> np.ndarray:
    """The rows most like each query, never the query's own; all of them in a small gallery."""
    like_qn = (query_qd - bank.mean_d) @ bank.likeness_nd.T
    n_rest = bank.n
    if own_q is not None:
        like_qn[np.arange(len(own_q)), own_q] = -np.inf
        n_rest -= 1
    cut = bank.n - min(N_SEEDS, n_rest)
    return np.argpartition(like_qn, cut, axis=1)[:, cut:] if cut else np.argsort(like_qn, axis=1)


def violators(score_n: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Rows outside `held` that reach above -1: the furthest, only so many at a time."""
    is_over_n = score_n > -1 + _SLACK
    is_over_n[held] = False
    over = np.flatnonzero(is_over_n)
    if len(over) > _MOST_NEW:
        over = over[np.argpartition(-score_n[over], _MOST_NEW)[:_MOST_NEW]]
    return over


class Machine:
    """One query against a growing list of gallery rows.

    `signed` holds the query and, with their signs turned, the rows; the dual is then to find a
    non-negative alpha with matrix·alpha ≥ 1, equal where alpha is above zero.
    """

    def __init__(self, bank: Bank, query_d: np.ndarray, rows: np.ndarray) -> None:
        self._bank = bank
        self.rows = rows
        self._signed_md = np.concatenate([query_d[None], -bank.x_nd[rows]])
        self._matrix_mm = (self._signed_md @ self._signed_md.T).astype(np.float64)
        self._matrix_mm.flat[:: len(self._matrix_mm) + 1] += 1 / (2 * bank.cost_rest)
        self._matrix_mm[0, 0] += 1 / (2 * bank.cost_one) - 1 / (2 * bank.cost_rest)
        self._is_in_m = np.ones(len(rows) + 1, bool)

    def let_in(self, rows: np.ndarray) -> None:
        new_kd = -self._bank.x_nd[rows]
        m, k = len(self._matrix_mm), len(rows)
        grown = np.empty((m + k, m + k))
        grown[:m, :m] = self._matrix_mm
        grown[m:, :m] = new_kd @ self._signed_md.T
        grown[:m, m:] = grown[m:, :m].T
        grown[m:, m:] = new_kd @ new_kd.T
        grown.flat[m * (m + k + 1) :: m + k + 1] += 1 / (2 * self._bank.cost_rest)
        self._matrix_mm = grown
        self._signed_md = np.concatenate([self._signed_md, new_kd])
        self.rows = np.concatenate([self.rows, rows])
        self._is_in_m = np.concatenate([self._is_in_m, np.ones(k, bool)])

    def solve(self) -> np.ndarray:
        """Weights of the machine that sees only these rows."""
        alpha_m = self._pivot()
        self._is_in_m = alpha_m > 0
        return np.asarray(alpha_m.astype(self._signed_md.dtype) @ self._signed_md)

    def _pivot(self) -> np.ndarray:
        is_in_m = self._is_in_m
        fewest, patience = len(is_in_m) + 1, _PATIENCE
        while True:
            alpha_m = self._solve_among(is_in_m)
            is_short_m = self._matrix_mm @ alpha_m < 1 - 1e-9
            is_bad_m = np.where(is_in_m, alpha_m < 0, is_short_m)
            n_bad = int(is_bad_m.sum())
            if not n_bad:
                return alpha_m
            patience = _PATIENCE if n_bad < fewest else patience - 1
            fewest = min(fewest, n_bad)
            if patience < 0:  # one at a time cannot cycle
                is_bad_m[: np.flatnonzero(is_bad_m)[-1]] = False
            is_in_m = is_in_m ^ is_bad_m

    def _solve_among(self, is_in_m: np.ndarray) -> np.ndarray:
        part = np.flatnonzero(is_in_m)
        # Symmetric, so the transpose is the same matrix in the order LAPACK wants: no copy.
        block = self._matrix_mm[np.ix_(part, part)].T
        _, alpha, _ = lapack.dposv(block, np.ones(len(part)), lower=1, overwrite_a=1)
        alpha_m = np.zeros(len(is_in_m))
        alpha_m[part] = alpha
        return alpha_m
