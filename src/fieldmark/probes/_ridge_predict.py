"""Which class wins for each row at each strength?

Small problems are scored in float64, strength by strength. Larger ones are scored in float32 at a
few nodes; a row keeps a winner whose lead exceeds the bound on everything left out, and the rest
are scored again in float64, among the classes that the bound leaves in question. So the answers are
those of float64 throughout.

Memory beyond the features: about `_BLOCK_BYTES` for decision values, and the system twice
(float64, float32): 12 bytes × width × (width + classes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmark.probes._ridge_model import top_two
from fieldmark.probes._ridge_nodes import Nodes, choose_nodes
from fieldmark.probes._ridge_system import System

_SMALL = 1 << 28
"""products up to which float64 throughout is quicker than finding nodes"""
_BLOCK_BYTES = 1 << 26
_MOST_ROWS = 1024
_SAMPLE_ROWS = 256
_PAIR_COST = 8
"""how much dearer a product is pair by pair than in one large matrix product"""


def predict_path(
    x_nd: np.ndarray, rows: np.ndarray, system: System, alphas: list[float]
) -> np.ndarray:
    """Winning class numbers (strengths × rows); a tie goes to the first class."""
    strength_a = np.asarray(alphas)
    n_products = len(alphas) * len(rows) * system.q_mc.size
    if n_products <= _SMALL:
        column_an = _plain(x_nd[rows], system, strength_a)
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
class _Single:
    """The system in float32, its q about the mean over classes: no comparison needs that mean."""

    axes_dm: np.ndarray
    q_mc: np.ndarray
    bias_c: np.ndarray
    filter_km: np.ndarray
    nodes: Nodes


def _by_nodes(x_nd: np.ndarray, rows: np.ndarray, system: System, alphas: np.ndarray) -> np.ndarray:
    centred = System(
        system.present_c,
        system.centre_d,
        system.lambda_m,
        system.axes_dm,
        system.q_mc - system.q_mc.mean(axis=1, keepdims=True),
        system.bias_c,
    )
    sample_bd = x_nd[rows[:: max(1, len(rows) // _SAMPLE_ROWS)]] - system.centre_d
    p_rms_m = np.sqrt(np.mean((sample_bd @ system.axes_dm) ** 2, axis=0))
    nodes = choose_nodes(centred, alphas, p_rms_m)
    single = _Single(
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


def _block(x_bd: np.ndarray, system: System, single: _Single, alphas: np.ndarray) -> np.ndarray:
    moved_bd = x_bd - system.centre_d
    p_bm = moved_bd.astype(np.float32) @ single.axes_dm
    value_kbc = np.stack([p_bm * each_m for each_m in single.filter_km]) @ single.q_mc
    square_bm = p_bm**2
    change_ba = single.nodes.change.of(square_bm)
    miss_ba = single.nodes.miss.of(square_bm)
    tops = [top_two(each_bc + single.bias_c) for each_bc in value_kbc]
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
    _settle(column_ab, open_rows, moved_bd, system, alphas)
    return column_ab


def _combine(coef_k: np.ndarray, value_kbc: np.ndarray, rows_u: np.ndarray) -> np.ndarray:
    """Decision values of some rows; gathering them pays off when they are few."""
    n_nodes, n_rows, n_classes = value_kbc.shape
    if 2 * len(rows_u) < n_rows:
        value_kbc, rows_u = value_kbc[:, rows_u], np.arange(len(rows_u))
    combined_bc = (coef_k @ value_kbc.reshape(n_nodes, -1)).reshape(-1, n_classes)
    is_every = len(rows_u) == len(combined_bc)
    return np.asarray(combined_bc if is_every else combined_bc[rows_u])


def _settle(
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
