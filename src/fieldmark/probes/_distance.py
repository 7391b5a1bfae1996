"""Which rows are nearest, exactly?

One matrix product per block of queries gives all distances up to rounding; the rows that rounding
cannot tell from the k nearest are then measured again from plain differences in float64. So the
answer does not depend on the block, the batch or the precision of the product, and no queries ×
rows × dimensions array is ever made. Data are centred first: |a - b|² = |a|² - 2ab + |b|² loses its
digits far from the origin.
"""

from __future__ import annotations

import numpy as np

_BLOCK_ENTRIES = 1 << 22
"""entries of the largest temporary: 16 MB in float32"""


def nearest(
    query_qd: np.ndarray,
    row_nd: np.ndarray,
    k: int,
    rank_n: np.ndarray,
    is_self: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (q × k) of the k nearest rows and their euclidean distances, nearest first.

    Equal distances go to the lower `rank_n`, then to the lower row. With `is_self` query i is row i
    and is never its own neighbour. Needs 1 <= k <= rows (one less with `is_self`).
    """
    kept_m = _without_spare_copies(row_nd, k + is_self, rank_n)
    kept_md, rank_m = row_nd[kept_m], rank_n[kept_m]
    offset_d = kept_md.mean(axis=0, dtype=np.float64)
    dtype = np.result_type(query_qd.dtype, row_nd.dtype, np.float32)
    centred_md = (kept_md - offset_d).astype(dtype, copy=False)
    norm_m = _squared_norms(centred_md)
    n_block = max(1, _BLOCK_ENTRIES // len(kept_m))
    index_qk = np.empty((len(query_qd), k), np.intp)
    distance_qk = np.empty((len(query_qd), k))
    for start in range(0, len(query_qd), n_block):
        part = slice(start, start + n_block)
        centred_bd = (query_qd[part] - offset_d).astype(dtype, copy=False)
        rough_bm = norm_m.astype(dtype) - 2 * (centred_bd @ centred_md.T)
        if is_self:
            own, at = np.nonzero(kept_m == np.arange(start, start + len(centred_bd))[:, None])
            rough_bm[own, at] = np.inf
        slack_b = _rounding(_squared_norms(centred_bd), norm_m, centred_md)
        near = _within(rough_bm, k, slack_b)
        index_qk[part], distance_qk[part] = _measure(query_qd[part], kept_md, k, rank_m, near)
    return kept_m[index_qk], distance_qk


def unit_rows(x_nd: np.ndarray, zero_axis: int) -> np.ndarray:
    """Rows of length one, so that |a - b|² / 2 is the cosine distance; two spare dimensions follow.

    A zero row has the cosine 0 with everything, also with another zero row. It becomes a unit
    vector along spare dimension `zero_axis`: 0 for training rows, 1 for queries.
    """
    long_nd = x_nd.astype(np.float64)
    length_n = np.sqrt(_squared_norms(long_nd))
    is_zero_n = length_n == 0
    unit_nd = np.zeros((x_nd.shape[0], x_nd.shape[1] + 2), x_nd.dtype)
    unit_nd[:, :-2] = long_nd / np.where(is_zero_n, 1, length_n)[:, None]
    unit_nd[is_zero_n, x_nd.shape[1] + zero_axis] = 1
    return unit_nd


def _without_spare_copies(row_nd: np.ndarray, most: int, rank_n: np.ndarray) -> np.ndarray:
    """Rows, ascending, with at most `most` copies of each: a constant feature ties all pairs."""
    whole = np.dtype((np.void, row_nd.dtype.itemsize * row_nd.shape[1]))
    _, same_n = np.unique(np.ascontiguousarray(row_nd).view(whole).ravel(), return_inverse=True)
    order = np.lexsort((np.arange(len(row_nd)), rank_n, same_n))
    first = np.searchsorted(same_n[order], same_n[order])
    return np.sort(order[np.arange(len(order)) - first < most])


def _squared_norms(x_nd: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("nd,nd->n", x_nd, x_nd, dtype=np.float64))


def _rounding(norm_b: np.ndarray, norm_m: np.ndarray, centred_md: np.ndarray) -> np.ndarray:
    """Twice the most that rounding can move a rough distance: d + 8 steps of machine precision."""
    most = norm_m.max()
    steps = (centred_md.shape[1] + 8) * np.finfo(centred_md.dtype).eps
    return np.asarray(2 * steps * (2 * np.sqrt(norm_b * most) + most))


def _within(rough_bm: np.ndarray, k: int, slack_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(query, row) pairs that may be among the k nearest, by query."""
    kth_b = np.partition(rough_bm, k - 1, axis=1)[:, k - 1]
    queries, rows = np.nonzero(rough_bm <= (kth_b + slack_b)[:, None])
    return queries, rows


def _measure(
    query_qd: np.ndarray,
    row_nd: np.ndarray,
    k: int,
    rank_n: np.ndarray,
    near: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    queries, rows = near
    squared = np.empty(len(queries))
    n_pairs = max(1, _BLOCK_ENTRIES // max(1, row_nd.shape[1]))
    for start in range(0, len(queries), n_pairs):
        part = slice(start, start + n_pairs)
        squared[part] = _squared_norms(
            query_qd[queries[part]].astype(np.float64) - row_nd[rows[part]]
        )
    order = np.lexsort((rows, rank_n[rows], squared, queries))
    first = np.searchsorted(queries, np.arange(len(query_qd)))
    chosen = order[first[:, None] + np.arange(k)]
    return rows[chosen], np.sqrt(squared[chosen])
