"""Dual active-set solver for exemplar SVMs that few gallery images hold back.

With features as they come, only some dozen of thousands of images end up as support vectors. So an
SVM starts from the images most like its query and solves a tiny problem among them exactly (block
principal pivoting on the dual; Júdice and Pires 1994). Whoever asks scores all images, one product
for a block of SVMs, and lets in those that should have held it back. Each round raises the dual
objective, so rounds end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmark.probes.exemplar.bank import Bank

N_SEEDS = 96
_SLACK, _MOST_SLACK, _LEAST_SLACK = 0.02, 1e-3, 2e-5
"""by how much of the best image's lead (within bounds) an image left out may reach above -1"""
_MOST_NEW = 64
_PATIENCE = 5
_PIVOT_SLACK = {np.dtype(np.float32): 5e-5, np.dtype(np.float64): 1e-9}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a score will be: `common` (images that most SVMs meet) + `slope` × likeness."""

    common_n: np.ndarray | float = 0.0
    slope: float = 1.0


def likeness(bank: Bank, query_qd: np.ndarray) -> np.ndarray:
    return np.asarray((query_qd - bank.mean_d) @ bank.likeness_nd.T)


def learn_forecast(like_qn: np.ndarray, score_qn: np.ndarray) -> Forecast:
    """From the final scores of a few SVMs; minus infinity where an image was left out.

    Half as many support vectors are missed among the first 96 as by likeness alone.
    """
    is_seen_qn = np.isfinite(score_qn)
    n_seen_n = np.maximum(is_seen_qn.sum(axis=0), 1)
    common_n = np.where(is_seen_qn, score_qn, 0).sum(axis=0) / n_seen_n
    rest_qn = np.where(is_seen_qn, score_qn - common_n, 0)
    power = float((like_qn**2).sum())
    slope = float((rest_qn * like_qn).sum()) / power if power > 0 else 0.0
    return Forecast(common_n.astype(like_qn.dtype), slope) if slope > 0 else Forecast()


def choose_seeds(
    bank: Bank, query_qd: np.ndarray, own_q: np.ndarray | None, forecast: Forecast
) -> np.ndarray:
    """The rows that will score highest, never the query's own; all of them in a small gallery."""
    value_qn = likeness(bank, query_qd)
    value_qn *= forecast.slope
    value_qn += forecast.common_n
    n_rest = bank.n
    if own_q is not None:
        value_qn[np.arange(len(own_q)), own_q] = -np.inf
        n_rest -= 1
    cut = bank.n - min(N_SEEDS, n_rest)
    return np.argpartition(value_qn, cut, axis=1)[:, cut:] if cut else np.argsort(value_qn, axis=1)


def violators(score_n: np.ndarray, held: np.ndarray, lead: float) -> np.ndarray:
    """Rows outside `held` that reach above -1: the furthest, only so many at a time."""
    is_over_n = score_n > -1 + min(max(_SLACK * lead, _LEAST_SLACK), _MOST_SLACK)
    is_over_n[held] = False
    over = np.flatnonzero(is_over_n)
    if len(over) > _MOST_NEW:
        over = over[np.argpartition(-score_n[over], _MOST_NEW)[:_MOST_NEW]]
    return over


class RowBuffer:
    """Room for gathered gallery rows, used again by one SVM after another.

    Fresh memory for each gather cost more than the arithmetic on it.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self._room = [np.empty((N_SEEDS, bank.x_nd.shape[1]), bank.x_nd.dtype) for _ in range(2)]

    def gather(self, rows: np.ndarray, side: int = 0) -> np.ndarray:
        """The rows, until the next gather on the same side (0 or 1)."""
        if len(rows) > len(self._room[side]):
            self._room[side] = np.empty(
                (2 * len(rows), self.bank.x_nd.shape[1]), self.bank.x_nd.dtype
            )
        out = self._room[side][: len(rows)]
        return np.take(self.bank.x_nd, rows, axis=0, out=out, mode="clip")


class ExemplarSVM:
    """One query against a growing list of gallery rows.

    The dual: a non-negative alpha with matrix·alpha ≥ 1, equal where alpha is above zero. Place 0
    is the query, place k + 1 is `rows[k]` with its sign turned.
    """

    def __init__(self, buffer: RowBuffer, query_d: np.ndarray, rows: np.ndarray) -> None:
        self._buffer, self._query_d = buffer, query_d
        self.rows = rows
        self.is_settled = False
        row_kd = buffer.gather(rows)
        self._matrix_mm = np.empty((len(rows) + 1, len(rows) + 1), query_d.dtype)
        self._matrix_mm[0, 0] = query_d @ query_d + 1 / (2 * buffer.bank.cost_one)
        self._matrix_mm[0, 1:] = self._matrix_mm[1:, 0] = -(row_kd @ query_d)
        self._matrix_mm[1:, 1:] = row_kd @ row_kd.T
        self._soften(first=1)
        self._is_in_m = np.ones(len(rows) + 1, bool)

    def let_in(self, rows: np.ndarray) -> None:
        """Takes rows in and sends those away that hold nothing back; they may come again."""
        kept = np.flatnonzero(self._is_in_m)
        self.rows = self.rows[kept[1:] - 1]
        old_kd, new_ld = self._buffer.gather(self.rows, 0), self._buffer.gather(rows, 1)
        m, n_all = len(kept), len(kept) + len(rows)
        grown = np.empty((n_all, n_all), self._matrix_mm.dtype)
        grown[:m, :m] = self._matrix_mm[kept][:, kept]
        grown[m:, 0] = -(new_ld @ self._query_d)
        grown[m:, 1:m] = new_ld @ old_kd.T
        grown[:m, m:] = grown[m:, :m].T
        grown[m:, m:] = new_ld @ new_ld.T
        self._matrix_mm = grown
        self._soften(first=m)
        self.rows = np.concatenate([self.rows, rows])
        self._is_in_m = np.ones(n_all, bool)

    def solve(self, most: int) -> np.ndarray:
        """Weights of the SVM that sees only these rows, with at most so many pivots.

        `is_settled` says whether they are exact.
        """
        alpha_m = self._pivot(most)
        self._is_in_m = alpha_m > 0
        self._is_in_m[0] = True
        active = np.flatnonzero(self._is_in_m[1:])
        alpha_m = alpha_m.astype(self._query_d.dtype)
        pull_d = alpha_m[active + 1] @ self._buffer.gather(self.rows[active])
        return np.asarray(alpha_m[0] * self._query_d - pull_d)

    def _soften(self, first: int) -> None:
        """What the squared hinge adds to the diagonal, from a place on."""
        step = len(self._matrix_mm) + 1
        self._matrix_mm.flat[first * step :: step] += 1 / (2 * self._buffer.bank.cost_rest)

    def _pivot(self, most: int) -> np.ndarray:
        is_in_m = self._is_in_m
        fewest, patience = len(is_in_m) + 1, _PATIENCE
        short = 1 - _PIVOT_SLACK[self._matrix_mm.dtype]
        for _ in range(most):
            alpha_m, factor = self._solve_among(is_in_m)
            is_bad_m = (alpha_m < 0) | ((self._matrix_mm @ alpha_m < short) & ~is_in_m)
            n_bad = int(np.count_nonzero(is_bad_m))
            self.is_settled = n_bad == 0
            if self.is_settled:
                if factor.dtype == np.float32:
                    self._correct(alpha_m, is_in_m, factor)
                break
            patience = _PATIENCE if n_bad < fewest else patience - 1
            fewest = min(fewest, n_bad)
            if patience < 0:  # one at a time cannot cycle
                is_bad_m[: is_bad_m.nonzero()[0][-1]] = False
            is_in_m = is_in_m ^ is_bad_m
        return np.asarray(np.maximum(alpha_m, 0))

    def _solve_among(self, is_in_m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Alpha with matrix·alpha = 1 among the places that are in, and the Cholesky factor."""
        from scipy.linalg import lapack

        part = is_in_m.nonzero()[0]
        # Symmetric, so the transpose is the same matrix in the order LAPACK wants: no copy.
        block = self._matrix_mm[part][:, part].T
        one = np.ones(len(part), block.dtype)
        solve = lapack.sposv if block.dtype == np.float32 else lapack.dposv
        factor, alpha, trouble = solve(block, one, lower=1)
        if trouble:  # beyond single precision
            factor, alpha, _ = lapack.dposv(block.astype(np.float64), one, lower=1)
        alpha_m = np.zeros(len(is_in_m), block.dtype)
        alpha_m[part] = alpha
        return alpha_m, factor

    def _correct(self, alpha_m: np.ndarray, is_in_m: np.ndarray, factor: np.ndarray) -> None:
        """Adds what single precision lost: one more solve for what is left over, in double."""
        from scipy.linalg import lapack

        part = is_in_m.nonzero()[0]
        left = 1 - self._matrix_mm[part].astype(np.float64) @ alpha_m
        alpha_m[part] += lapack.spotrs(factor, left.astype(np.float32), lower=1)[0]
