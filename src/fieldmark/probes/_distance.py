"""Which rows are nearest, exactly?

One matrix product per block of queries gives all distances up to rounding; the rows that rounding
cannot tell from the k nearest are then measured again, pair by pair in float64. So the answer does
not depend on the block, the batch or the precision of the product, and no queries × rows ×
dimensions array is ever made. Euclidean data are centred first: |a - b|² = |a|² - 2ab + |b|² loses
its digits far from the origin.

Large searches look at a few directions first, see `_distance_prune`, and at each pair of rows once
where the queries are the rows, see `_distance_mutual`. On a GPU all pairs are quick enough, see
`_torch_distance`. Memory beyond the input: two to three copies
of the rows and some blocks of `_BLOCK_ENTRIES` values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fieldmark.probes._distance_mutual import Mutual
from fieldmark.probes._distance_prune import Pruned, Search, Whole, is_worth_pruning
from fieldmark.probes._tensor import as_numpy, is_cuda, together

_BLOCK_ENTRIES = 1 << 22
"""entries of the largest temporary: 16 MB in float32"""
_READY_ENTRIES = 1 << 18
"""entries made ready at a time: they stay in the cache"""
_SAMPLE_QUERIES = 32


def nearest(
    query_qd: np.ndarray,
    row_nd: np.ndarray,
    k: int,
    rank_n: np.ndarray,
    metric: str = "euclidean",
    is_self: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (q × k) of the k nearest rows and their distances, nearest first.

    The metric is "euclidean" or "cosine": one minus the cosine, which is 0 for a row of zeros.
    Equal distances go to the lower `rank_n`, then to the lower row. With `is_self` query i is row i
    and is never its own neighbour. Needs 1 <= k <= rows (one less with `is_self`).
    """
    if is_cuda(query_qd) or is_cuda(row_nd):
        return _nearest_there(query_qd, row_nd, k, rank_n, metric, is_self)
    kept_m = _without_spare_copies(row_nd, k + is_self, rank_n)
    kept_md = row_nd if len(kept_m) == len(row_nd) else row_nd[kept_m]
    rank_m = rank_n[kept_m]
    own_q = _positions(kept_m, len(query_qd)) if is_self else np.full(len(query_qd), -1)
    index_qk = np.empty((len(query_qd), k), np.intp)
    distance_qk = np.empty((len(query_qd), k))
    for part, (query_p, row_p) in _candidates(query_qd, kept_md, own_q, k, metric):
        distance_p = _measure(query_qd[part], kept_md, (query_p, row_p), metric)
        order = np.lexsort((row_p, rank_m[row_p], distance_p, query_p))
        first_b = np.searchsorted(query_p, np.arange(len(query_qd[part])))
        chosen = order[first_b[:, None] + np.arange(k)]
        index_qk[part], distance_qk[part] = kept_m[row_p[chosen]], distance_p[chosen]
    return index_qk, distance_qk


def _nearest_there(
    query_qd: Any, row_nd: Any, k: int, rank_n: np.ndarray, metric: str, is_self: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The same where one of the two is on a GPU, if its rows do not tie all pairs."""
    from fieldmark.probes import _torch_distance

    query_qd, row_nd = together(query_qd, row_nd)
    if not len(query_qd) or _torch_distance.has_many_copies(row_nd, k + is_self):
        return nearest(as_numpy(query_qd), as_numpy(row_nd), k, rank_n, metric, is_self)
    return _torch_distance.nearest(query_qd, row_nd, k, rank_n, metric, is_self)


def _candidates(
    query_qd: np.ndarray, row_md: np.ndarray, own_q: np.ndarray, k: int, metric: str
) -> Iterator[tuple[slice, tuple[np.ndarray, np.ndarray]]]:
    """Blocks of queries, and the (query, row) pairs that may be among their nearest."""
    dtype = np.result_type(query_qd.dtype, row_md.dtype, np.float32)
    offset_d = row_md.mean(axis=0, dtype=np.float64) if metric == "euclidean" else None
    ready_md = make_ready(row_md, offset_d, dtype)
    norm_m = _squared_norms(ready_md)
    half_m = norm_m / 2 if metric == "euclidean" else np.zeros(len(row_md))
    whole = Whole(ready_md, half_m.astype(dtype))
    search: Search = whole
    if is_worth_pruning(len(query_qd), ready_md):
        if len(own_q) == len(row_md) and (own_q >= 0).all():
            mutual = Mutual(whole, norm_m, _rounding(ready_md, norm_m), k)
            if mutual.is_telling():
                yield slice(None), mutual.pairs()
                return
        else:
            some = np.linspace(0, len(query_qd) - 1, _SAMPLE_QUERIES).astype(np.intp)
            some_bd = make_ready(query_qd[some], offset_d, dtype)
            pruned = Pruned(whole, norm_m)
            if pruned.is_telling(some_bd, own_q[some], k, _rounding(some_bd, norm_m)):
                search = pruned
    n_block = max(1, search.n_blocks * _BLOCK_ENTRIES // len(row_md))
    for start in range(0, len(query_qd), n_block):
        part = slice(start, start + n_block)
        ready_bd = make_ready(query_qd[part], offset_d, dtype)
        yield part, search.pairs(ready_bd, own_q[part], k, _rounding(ready_bd, norm_m))


def _positions(kept_m: np.ndarray, n_rows: int) -> np.ndarray:
    """Where each row stands among the kept ones, or -1."""
    at_n = np.full(n_rows, -1, np.intp)
    at_n[kept_m] = np.arange(len(kept_m))
    return at_n


def _without_spare_copies(row_nd: np.ndarray, most: int, rank_n: np.ndarray) -> np.ndarray:
    """Rows, ascending, with at most `most` copies of each: a constant feature ties all pairs."""
    row_nd = np.ascontiguousarray(row_nd)
    bits_nd = row_nd.view(np.uint32 if row_nd.dtype.itemsize == 4 else np.uint64)
    _, at_n, count = np.unique(
        bits_nd.sum(axis=1, dtype=np.uint64), return_inverse=True, return_counts=True
    )
    # Copies have the same sum of bits; only the few rows that share one are compared in full.
    alike_a = np.flatnonzero(count[at_n] > most)
    whole = np.dtype((np.void, row_nd.dtype.itemsize * row_nd.shape[1]))
    _, same_a = np.unique(row_nd[alike_a].view(whole).ravel(), return_inverse=True)
    order = np.lexsort((alike_a, rank_n[alike_a], same_a))
    first = np.searchsorted(same_a[order], same_a[order])
    is_spare = np.arange(len(order)) - first >= most
    return np.setdiff1d(np.arange(len(row_nd)), alike_a[order[is_spare]], assume_unique=True)


def make_ready(x_nd: np.ndarray, offset_d: np.ndarray | None, dtype: np.dtype[Any]) -> np.ndarray:
    """Centred rows, or without an offset rows of length one (zeros stay zeros)."""
    ready_nd = np.empty(x_nd.shape, dtype)
    n_block = max(1, _READY_ENTRIES // max(1, x_nd.shape[1]))
    for start in range(0, len(x_nd), n_block):
        part_bd = x_nd[start : start + n_block]
        if offset_d is not None:
            ready_nd[start : start + n_block] = part_bd - offset_d
            continue
        length_b = np.sqrt(_squared_norms(part_bd))
        ready_nd[start : start + n_block] = part_bd / np.where(length_b > 0, length_b, 1)[:, None]
    return ready_nd


def _squared_norms(x_nd: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("nd,nd->n", x_nd, x_nd, dtype=np.float64))


def _rounding(ready_bd: np.ndarray, norm_m: np.ndarray) -> np.ndarray:
    """Twice the most that rounding can move a rough value: d + 8 steps of machine precision."""
    most = norm_m.max()
    steps = (ready_bd.shape[1] + 8) * np.finfo(ready_bd.dtype).eps
    return np.asarray(2 * steps * (np.sqrt(_squared_norms(ready_bd) * most) + most / 2))


def _measure(
    query_bd: np.ndarray, row_md: np.ndarray, pairs: tuple[np.ndarray, np.ndarray], metric: str
) -> np.ndarray:
    """Distances of the pairs in float64."""
    query_p, row_p = pairs
    distance_p = np.empty(len(query_p))
    n_pairs = max(1, _BLOCK_ENTRIES // row_md.shape[1])
    for start in range(0, len(query_p), n_pairs):
        part = slice(start, start + n_pairs)
        ours, theirs = query_bd[query_p[part]].astype(np.float64), row_md[row_p[part]]
        if metric == "euclidean":
            distance_p[part] = np.sqrt(_squared_norms(ours - theirs))
            continue
        length = np.sqrt(_squared_norms(ours) * _squared_norms(theirs))
        product = np.einsum("nd,nd->n", ours, theirs, dtype=np.float64)
        distance_p[part] = 1 - product / np.where(length > 0, length, 1)
    return distance_p
