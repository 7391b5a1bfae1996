"""Regularisation path of ridge: the held-out score of every strength, without a fit for each.

The answers are those of scikit-learn's GridSearchCV over StandardScaler + RidgeClassifier. Small
problems are scored in float64, strength by strength. Larger ones are scored in float32 at a few
nodes: 1 / (lambda + alpha) is so smooth in alpha that the whole grid is, nearly, linear
combinations of a few of its own members. Pivoted QR on the alpha × lambda table, weighted by how
much each direction carries, names them. What the combination misses is known exactly, direction by
direction, so by Cauchy-Schwarz the error of a decision value is bounded for every row. A row keeps
a winner whose lead exceeds the bound on everything left out, and the rest are scored again in
float64, among the classes that the bound leaves in question. So the answers are those of float64.

Memory beyond the features: about `_BLOCK_BYTES` for decision values, and the system twice
(float64, float32): 12 bytes × width × (width + classes).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr

from fieldmark.probes._arrays import SomeRows, top_two
from fieldmark.probes._select import Scorer, Splits
from fieldmark.probes.ridge.system import (
    LinearModel,
    Moments,
    System,
    measure,
    solve_moments,
    solve_rows,
    system_of_moments,
    system_of_rows,
)

TOLERANCE = 3e-3
"""largest miss of a combination, as a share of the spread of decision values"""
_ROUNDING = 32 * float(np.finfo(np.float32).eps)
"""generous for sums of up to some thousand products: seen are errors below 2 eps"""
_SMALL = 1 << 28
"""products up to which float64 throughout is quicker than finding nodes"""
_BLOCK_BYTES = 1 << 26
_MOST_ROWS = 1024
_SAMPLE_ROWS = 256
_PAIR_COST = 8
"""how much dearer a product is pair by pair than in one large matrix product"""


@dataclass(frozen=True, slots=True)
class RidgePath:
    """Training rows, their sums, and everything that follows from them for any strength."""

    x_nd: np.ndarray | SomeRows
    code_n: np.ndarray
    is_balanced: bool
    splits: Splits
    moments: Moments | None
    """None where rows are fewer than features: the rows themselves are the smaller side"""

    def system(self, fold: int) -> System:
        """Decision values learnt without the rows held out in that fold."""
        if self.moments is not None:
            return system_of_moments(self.moments.without(fold))
        train = self.splits[fold][0]
        return system_of_rows(self.x_nd[train], self.code_n[train], self.is_balanced)

    def scores(self, alphas: list[float], scorer: Scorer, n_jobs: int = 1) -> np.ndarray:
        """Held-out score by strength and fold; `n_jobs` folds at a time, each with its memory."""

        def score_fold(fold: int) -> list[float]:
            held = self.splits[fold][1]
            predicted_an = predict_path(self.x_nd, held, self.system(fold), alphas)
            return [scorer(self.code_n[held], predicted_n) for predicted_n in predicted_an]

        if n_jobs == 1:
            return np.array([score_fold(fold) for fold in range(len(self.splits))]).T
        with ThreadPoolExecutor(n_jobs if n_jobs > 0 else None) as pool:
            return np.array(list(pool.map(score_fold, range(len(self.splits))))).T

    def model(self, alpha: float) -> LinearModel:
        """The classifier learnt from all rows."""
        if self.moments is not None:
            return solve_moments(self.moments.without(), alpha)
        return solve_rows(np.asarray(self.x_nd), self.code_n, self.is_balanced, alpha)


def ridge_path(
    x_nd: np.ndarray | SomeRows, code_n: np.ndarray, is_balanced: bool, splits: Splits = ()
) -> RidgePath:
    """Sums over the rows; `splits` are (training, held-out) rows, every row held out once."""
    moments = None
    if len(x_nd) > x_nd.shape[1]:
        fold_n = np.zeros(len(x_nd), np.intp)
        for fold, (_, held) in enumerate(splits):
            fold_n[held] = fold
        moments = measure(x_nd, code_n, fold_n, is_balanced)
    return RidgePath(x_nd, code_n, is_balanced, splits, moments)


# --- which class wins for each row at each strength


def predict_path(
    x_nd: np.ndarray | SomeRows, rows: np.ndarray, system: System, alphas: list[float]
) -> np.ndarray:
    """Winning class numbers (strengths × rows); a tie goes to the first class."""
    strength_a = np.asarray(alphas)
    n_products = len(alphas) * len(rows) * system.q_mc.size
    if n_products <= _SMALL:
        starts = range(0, max(1, len(rows)), _MOST_ROWS)
        blocks = (x_nd[rows[start : start + _MOST_ROWS]] for start in starts)
        column_an = np.concatenate([_plain(x_bd, system, strength_a) for x_bd in blocks], axis=1)
    else:
        column_an = _by_nodes(x_nd, rows, system, strength_a)
    return np.asarray(system.present_c[column_an])


def _plain(x_bd: np.ndarray, system: System, alphas: np.ndarray) -> np.ndarray:
    p_bm = (x_bd - system.centre_d) @ system.axes_dm
    return np.stack(
        [
            (p_bm / (system.lambda_m + alpha) @ system.q_mc + system.bias_c).argmax(axis=1)
            for alpha in alphas
        ]
    )


@dataclass(frozen=True, slots=True)
class _Float32System:
    """The system in float32, its q about the mean over classes."""

    axes_dm: np.ndarray
    q_mc: np.ndarray
    bias_c: np.ndarray
    filter_km: np.ndarray
    nodes: Nodes


def _by_nodes(
    x_nd: np.ndarray | SomeRows, rows: np.ndarray, system: System, alphas: np.ndarray
) -> np.ndarray:
    # No comparison of classes needs the mean over them, and bounds are tighter without it.
    centred = replace(system, q_mc=system.q_mc - system.q_mc.mean(axis=1, keepdims=True))
    sample_bd = x_nd[rows[:: max(1, len(rows) // _SAMPLE_ROWS)]] - system.centre_d
    p_rms_m = np.sqrt(np.mean((sample_bd @ system.axes_dm) ** 2, axis=0))
    nodes = choose_nodes(centred, alphas, p_rms_m)
    single = _Float32System(
        system.axes_dm.astype(np.float32),
        centred.q_mc.astype(np.float32),
        system.bias_c.astype(np.float32),
        (1 / (system.lambda_m + alphas[nodes.index_k, None])).astype(np.float32),
        nodes,
    )
    n_values = system.q_mc.shape[1] * (len(nodes.index_k) + 2)
    n_block = int(np.clip(_BLOCK_BYTES // (4 * n_values), 64, _MOST_ROWS))
    column_an = np.empty((len(alphas), len(rows)), np.intp)
    for start in range(0, len(rows), n_block):
        part = slice(start, start + n_block)
        column_an[:, part] = _block(x_nd[rows[part]], centred, single, alphas)
    return column_an


def _block(
    x_bd: np.ndarray, system: System, single: _Float32System, alphas: np.ndarray
) -> np.ndarray:
    moved_bd = x_bd - system.centre_d
    p_bm = moved_bd.astype(np.float32) @ single.axes_dm
    value_kbc = np.stack([p_bm * filter_m for filter_m in single.filter_km]) @ single.q_mc
    square_bm = p_bm**2
    change_ba = single.nodes.change.of(square_bm)
    miss_ba = single.nodes.miss.of(square_bm)
    tops = [top_two(value_bc + single.bias_c) for value_bc in value_kbc]
    column_ab = np.empty((len(alphas), len(x_bd)), np.intp)
    open_rows: list[tuple[int, np.ndarray, np.ndarray]] = []
    for index, node in enumerate(single.nodes.nearest_a):
        column_ab[index], lead_b = tops[node]
        unsure = np.flatnonzero(~(lead_b > change_ba[:, index]))
        if not len(unsure):
            continue
        value_uc = _combine(single.nodes.coef_ak[index], value_kbc, unsure)
        value_uc += single.bias_c
        column_ab[index, unsure], lead_u = top_two(value_uc)
        left = ~(lead_u > miss_ba[unsure, index])
        if left.any():
            floor_l = value_uc[left].max(axis=1) - miss_ba[unsure[left], index]
            open_rows.append((index, unsure[left], value_uc[left] >= floor_l[:, None]))
    _rescore_open(column_ab, open_rows, moved_bd, system, alphas)
    return column_ab


def _combine(coef_k: np.ndarray, value_kbc: np.ndarray, rows_u: np.ndarray) -> np.ndarray:
    """Decision values of some rows; gathering them pays off when they are few."""
    n_nodes, n_rows, n_classes = value_kbc.shape
    if 2 * len(rows_u) < n_rows:
        value_kbc, rows_u = value_kbc[:, rows_u], np.arange(len(rows_u))
    combined_bc = (coef_k @ value_kbc.reshape(n_nodes, -1)).reshape(-1, n_classes)
    is_every = len(rows_u) == len(combined_bc)
    return np.asarray(combined_bc if is_every else combined_bc[rows_u])


def _rescore_open(
    column_ab: np.ndarray,
    open_rows: list[tuple[int, np.ndarray, np.ndarray]],
    moved_bd: np.ndarray,
    system: System,
    alphas: np.ndarray,
) -> None:
    """Scores in float64 what is still open: (strength, rows, which classes may win)."""
    if not open_rows:
        return
    some_s = np.unique(np.concatenate([rows for _, rows, _ in open_rows]))
    p_sm = moved_bd[some_s] @ system.axes_dm
    for index, rows, may_win_uc in open_rows:
        p_um = p_sm[np.searchsorted(some_s, rows)] / (system.lambda_m + alphas[index])
        if np.count_nonzero(may_win_uc) * _PAIR_COST > may_win_uc.size:
            column_ab[index, rows] = (p_um @ system.q_mc + system.bias_c).argmax(axis=1)
            continue
        at_p, class_p = np.nonzero(may_win_uc)
        value_uc = np.full(may_win_uc.shape, -np.inf)
        value_p = np.einsum("pm,pm->p", p_um[at_p], system.q_mc.T[class_p])
        value_uc[at_p, class_p] = value_p + system.bias_c[class_p]
        column_ab[index, rows] = value_uc.argmax(axis=1)


# --- how few strengths must be scored so that all the others follow


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
    # Rows that span the table to the tolerance, most telling first.
    triangle, order = qr(table_am.T, mode="r", pivoting=True, check_finite=False)
    left_a = np.abs(np.diag(triangle))
    n_nodes = max(1, int(np.count_nonzero(left_a > TOLERANCE)))
    index_k = np.asarray(order[:n_nodes])
    coef_ak = np.linalg.lstsq(table_am[index_k].T, table_am.T, rcond=None)[0].T
    length_a = np.where(length_a > 0, length_a, 1.0)
    coef_ak *= length_a[:, None] / length_a[index_k]
    coef_ak[index_k] = np.eye(len(index_k))
    apart_ak = np.linalg.norm(table_am[:, None] - table_am[index_k], axis=2)
    nearest_a = apart_ak.argmin(axis=1)
    nearest_a[index_k] = np.arange(len(index_k))
    # The longest q in units of the spread, twice: two classes are compared.
    scaled_mc = system.q_mc / np.where(spread_m > 0, spread_m, 1.0)[:, None]
    reach = 2 * float(np.sqrt(np.einsum("mc,mc->c", scaled_mc, scaled_mc).max()))
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


def _bound(error_am: np.ndarray, reach: float) -> Bound:
    largest_a = error_am.max(axis=1)
    share_am = error_am / np.where(largest_a > 0, largest_a, 1.0)[:, None]
    table_ma = np.ascontiguousarray((share_am**2).T, dtype=np.float32)
    return Bound(table_ma, (largest_a * reach).astype(np.float32))
