"""How few strengths must be scored so that all the others follow?

1 / (lambda + alpha) is so smooth in alpha that the whole grid is, nearly, linear combinations of a
few of its own members: pivoted QR on the alpha × lambda table, weighted by how much each direction
carries, names them. What the combination misses is known exactly, direction by direction, so by
Cauchy-Schwarz the error of a decision value is bounded for every row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from fieldmark.probes._ridge_system import System

TOLERANCE = 3e-3
"""largest miss of a combination, as a share of the spread of decision values"""
_ROUNDING = 32 * float(np.finfo(np.float32).eps)
"""generous for sums of up to some thousand products: seen are errors below 2 eps"""


@dataclass(frozen=True, slots=True)
class Bound:
    """Half-widths `root(p² @ table_ma) * size_a` of decision values of a row p, by strength."""

    table_ma: np.ndarray
    size_a: np.ndarray

    def of(self, square_bm: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(square_bm @ self.table_ma) * self.size_a)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Which strengths are scored (k), and how each of the others (a) follows from them."""

    index_k: np.ndarray
    coef_ak: np.ndarray
    nearest_a: np.ndarray
    """position in `index_k` of the node whose decision values are most alike"""
    miss: Bound
    """error of the combination, and of rounding"""
    change: Bound
    """difference to the nearest node, and rounding"""


def choose_nodes(system: System, alphas: np.ndarray, p_rms_m: np.ndarray) -> Nodes:
    """Nodes for rows whose projections have the given root mean squares."""
    filter_am = 1 / (system.lambda_m + alphas[:, None])
    spread_m = np.sqrt(np.mean(system.q_mc**2, axis=1))
    weight_m = p_rms_m * spread_m
    table_am = filter_am * weight_m
    length_a = np.linalg.norm(table_am, axis=1)
    table_am /= np.where(length_a > 0, length_a, 1.0)[:, None]
    index_k = _pivots(table_am)
    coef_ak = np.linalg.lstsq(table_am[index_k].T, table_am.T, rcond=None)[0].T
    length_a = np.where(length_a > 0, length_a, 1.0)
    coef_ak *= length_a[:, None] / length_a[index_k]
    coef_ak[index_k] = np.eye(len(index_k))
    apart_ak = np.linalg.norm(table_am[:, None] - table_am[index_k], axis=2)
    nearest_a = apart_ak.argmin(axis=1)
    nearest_a[index_k] = np.arange(len(index_k))
    reach = _reach(system.q_mc, spread_m)
    rounding_am = _ROUNDING * (np.abs(coef_ak) @ filter_am[index_k])
    miss_am = np.abs(filter_am - coef_ak @ filter_am[index_k]) + rounding_am
    change_am = np.abs(filter_am - filter_am[index_k][nearest_a])
    change_am += _ROUNDING * filter_am[index_k][nearest_a]
    return Nodes(
        index_k,
        coef_ak.astype(np.float32),
        nearest_a,
        _bound(miss_am * spread_m, reach),
        _bound(change_am * spread_m, reach),
    )


def _pivots(table_am: np.ndarray) -> np.ndarray:
    """Rows that span the table to the tolerance, most telling first."""
    triangle, order = qr(table_am.T, mode="r", pivoting=True, check_finite=False)
    left_a = np.abs(np.diag(triangle))
    n_nodes = max(1, int(np.count_nonzero(left_a > TOLERANCE)))
    return np.asarray(order[:n_nodes])


def _reach(q_mc: np.ndarray, spread_m: np.ndarray) -> float:
    """The longest q in units of the spread, twice: two classes are compared."""
    scaled_mc = q_mc / np.where(spread_m > 0, spread_m, 1.0)[:, None]
    return 2 * float(np.sqrt(np.einsum("mc,mc->c", scaled_mc, scaled_mc).max()))


def _bound(error_am: np.ndarray, reach: float) -> Bound:
    largest_a = error_am.max(axis=1)
    share_am = error_am / np.where(largest_a > 0, largest_a, 1.0)[:, None]
    table_ma = np.ascontiguousarray((share_am**2).T, dtype=np.float32)
    return Bound(table_ma, (largest_a * reach).astype(np.float32))
