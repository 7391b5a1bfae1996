"""Which few gallery images hold back an exemplar machine, and what is its answer?

For features as they come, only some dozen of thousands of images end up as support vectors. So each
query starts from the images most like it, solves a tiny problem among them exactly (block principal
pivoting on the dual; Júdice and Pires 1994), scores all images by one product shared by a block of
queries, and takes in those that should have held it back. Every round raises the dual objective, so
rounds end.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from fieldmark.probes._exemplar_bank import Bank

N_SEEDS = 96
_SLACK = 1e-4
"""by how much an image left out may reach above -1"""
_MOST_NEW = 64
_MOST_ROUNDS = 50


def seeds(bank: Bank, query_qd: np.ndarray, own_q: np.ndarray | None) -> np.ndarray:
    """The rows most like each query, never the query's own."""
    if bank.n <= N_SEEDS:
        return np.broadcast_to(np.arange(bank.n), (len(query_qd), bank.n))
    like_qn = query_qd @ bank.likeness_nd.T
    if own_q is not None:
        like_qn[np.arange(len(own_q)), own_q] = -np.inf
    return np.argpartition(like_qn, bank.n - N_SEEDS, axis=1)[:, bank.n - N_SEEDS :]


def solve_among(
    bank: Bank, query_d: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the machine that sees only `rows`, and which of them are support vectors."""
    signed_md = np.concatenate([query_d[None], -bank.x_nd[rows]])
    matrix_mm = (signed_md @ signed_md.T).astype(np.float64)
    matrix_mm.flat[:: len(matrix_mm) + 1] += 1 / (2 * bank.cost_rest)
    matrix_mm[0, 0] += 1 / (2 * bank.cost_one) - 1 / (2 * bank.cost_rest)
    alpha_m = _pivot(matrix_mm)
    weight_d = alpha_m.astype(signed_md.dtype) @ signed_md
    return weight_d, alpha_m[1:] > 0


def violators(score_n: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Rows outside `held` that reach above -1, the furthest first, only so many at a time."""
    is_over_n = score_n > -1 + _SLACK
    is_over_n[held] = False
    over = np.flatnonzero(is_over_n)
    if len(over) > _MOST_NEW:
        over = over[np.argpartition(-score_n[over], _MOST_NEW)[:_MOST_NEW]]
    return over


def _pivot(matrix_mm: np.ndarray) -> np.ndarray:
    """The non-negative alpha with matrix·alpha ≥ 1, equal where alpha is above zero."""
    m = len(matrix_mm)
    is_in_m = np.ones(m, bool)
    fewest, patience = m + 1, 5
    for _ in range(20 * m):
        alpha_m = _solve_part(matrix_mm, is_in_m)
        short_m = matrix_mm @ alpha_m < 1 - 1e-9
        is_bad_m = np.where(is_in_m, alpha_m < 0, short_m)
        n_bad = int(is_bad_m.sum())
        if n_bad == 0:
            break
        if n_bad < fewest:
            fewest, patience = n_bad, 5
        elif patience:
            patience -= 1
        else:  # one at a time cannot cycle
            is_bad_m[: np.flatnonzero(is_bad_m)[-1]] = False
        is_in_m ^= is_bad_m
    return np.maximum(alpha_m, 0.0)


def _solve_part(matrix_mm: np.ndarray, is_in_m: np.ndarray) -> np.ndarray:
    part = np.flatnonzero(is_in_m)
    # Symmetric, so the transpose is the same matrix in the order LAPACK wants: no copy.
    block = matrix_mm[np.ix_(part, part)].T
    alpha_m = np.zeros(len(matrix_mm))
    _, alpha, info = lapack.dposv(block, np.ones(len(part)), lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError(f"a machine's matrix is not positive definite at {info}")
    alpha_m[part] = alpha
    return alpha_m
