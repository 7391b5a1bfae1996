"""Which pairs can be among the nearest at all?

The nearest rows of a query have the largest `gain = a b - |b|² / 2`. `Whole` computes it for all
pairs. `Pruned` looks at the first principal directions only: with the length of what is left as one
more coordinate the inner product can but grow (Cauchy-Schwarz), so a row whose gain is too small
there need not be looked at in full. Any orthonormal directions make a true bound; principal ones
make a sharp one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

_MANY_PRODUCTS = 10**11
_LEAST_WIDTH = 192
_SHARE_OF_WIDTH = 6
COMB = 8
"""rows that share one maximum, so that most of a block is read once only"""
_SAMPLE_ROWS = 8192
TELLING = 0.01
"""largest share of rows left to look at for which two looks are quicker than one"""


class Search(Protocol):
    """Finds the (query, row) pairs that may be among the k nearest, by query."""

    n_blocks: int
    """how many usual blocks to take at a time"""

    def pairs(
        self, ready_bd: np.ndarray, own_b: np.ndarray, k: int, slack_b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`own_b`: the row that is the query itself, or -1; `slack_b`: twice the rounding."""
        ...


class Whole:
    """Every pair in full."""

    n_blocks = 1

    def __init__(self, ready_md: np.ndarray, half_m: np.ndarray) -> None:
        self.ready_md, self.half_m = ready_md, half_m

    def pairs(
        self, ready_bd: np.ndarray, own_b: np.ndarray, k: int, slack_b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        gain_bm = ready_bd @ self.ready_md.T
        gain_bm -= self.half_m
        _leave_out(gain_bm, own_b)
        return _at_least(gain_bm, _kth_largest(gain_bm, k) - slack_b)


class Pruned:
    """The first directions for every pair, all of them for the pairs left."""

    n_blocks = 2  # thin products are slow for few queries

    def __init__(self, whole: Whole, norm_m: np.ndarray) -> None:
        self.whole = whole
        self.axes_dr = principal_axes(whole.ready_md, whole.ready_md.shape[1] // _SHARE_OF_WIDTH)
        # The last coordinate meets a 1 in the query and so takes |b|² / 2 away.
        short_mr = self._shorten(whole.ready_md, norm_m, -whole.half_m)
        n_spare = -len(short_mr) % COMB
        spare_sr = np.zeros((n_spare, short_mr.shape[1]), short_mr.dtype)
        spare_sr[:, -1] = -np.inf
        self.short_mr = np.concatenate([short_mr, spare_sr])
        self._bound_bm = np.empty((0, len(self.short_mr)), short_mr.dtype)

    def is_telling(
        self, ready_bd: np.ndarray, own_b: np.ndarray, k: int, slack_b: np.ndarray
    ) -> bool:
        """Whether few enough rows are left for these queries."""
        query_p, _ = self._left(ready_bd, own_b, k, slack_b)
        return len(query_p) <= TELLING * len(ready_bd) * len(self.short_mr)

    def pairs(
        self, ready_bd: np.ndarray, own_b: np.ndarray, k: int, slack_b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        query_p, row_p = self._left(ready_bd, own_b, k, slack_b)
        ends = np.searchsorted(query_p, np.arange(len(ready_bd) + 1))
        is_kept_p = np.empty(len(query_p), bool)
        for query, query_d in enumerate(ready_bd):
            part = slice(ends[query], ends[query + 1])
            rows = row_p[part]
            gain_p = self.whole.ready_md.take(rows, axis=0) @ query_d
            gain_p -= self.whole.half_m[rows]
            best = gain_p.max() if k == 1 else np.partition(gain_p, -k)[-k]
            is_kept_p[part] = gain_p >= best - slack_b[query]
        return query_p[is_kept_p], row_p[is_kept_p]

    def _left(
        self, ready_bd: np.ndarray, own_b: np.ndarray, k: int, slack_b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs whose bound reaches the k-th best gain of the k rows that look best."""
        norm_b = np.einsum("bd,bd->b", ready_bd, ready_bd, dtype=np.float64)
        short_br = self._shorten(ready_bd, norm_b, np.ones(len(ready_bd)))
        bound_bm = self._space(len(ready_bd))
        np.matmul(short_br, self.short_mr.T, out=bound_bm)
        _leave_out(bound_bm, own_b)
        bound_bcs = bound_bm.reshape(len(bound_bm), COMB, -1)
        top_bs = bound_bcs.max(axis=1)
        if k == 1:
            best_b = top_bs.argmax(axis=1)
            tooth_b = bound_bcs[np.arange(len(best_b)), :, best_b].argmax(axis=1)
            guess_bk = (tooth_b * top_bs.shape[1] + best_b)[:, None]
        else:
            guess_bk = np.argpartition(bound_bm, -k, axis=1)[:, -k:]
        floor_b = np.full(len(ready_bd), np.inf)
        for rows_b in guess_bk.T:
            product_b = np.einsum("bd,bd->b", self.whole.ready_md[rows_b], ready_bd)
            np.minimum(floor_b, product_b - self.whole.half_m[rows_b], out=floor_b)
        query_h, comb_h = _at_least(top_bs, floor_b - slack_b)
        at_p, tooth_p = _at_least(bound_bcs[query_h, :, comb_h], (floor_b - slack_b)[query_h])
        return query_h[at_p], tooth_p * top_bs.shape[1] + comb_h[at_p]

    def _space(self, n_queries: int) -> np.ndarray:
        """Room for a block, the same each time: fresh pages cost as much as the product."""
        if len(self._bound_bm) < n_queries:
            self._bound_bm = np.empty((n_queries, len(self.short_mr)), self.short_mr.dtype)
        return self._bound_bm[:n_queries]

    def _shorten(self, ready_nd: np.ndarray, norm_n: np.ndarray, last_n: np.ndarray) -> np.ndarray:
        first_nr = ready_nd @ self.axes_dr
        tail_n2 = np.stack([rest_length(norm_n, first_nr), last_n], axis=1).astype(ready_nd.dtype)
        return np.concatenate([first_nr, tail_n2], axis=1)


def principal_axes(ready_md: np.ndarray, n_first: int) -> np.ndarray:
    """Directions as columns, the one that carries most first; from a sample of the rows."""
    some_sd = ready_md[:: max(1, len(ready_md) // _SAMPLE_ROWS)]
    _, vectors_dd = np.linalg.eigh(some_sd.T @ some_sd)
    return np.ascontiguousarray(vectors_dd[:, ::-1][:, :n_first])


def rest_length(
    norm_n: np.ndarray, first_nr: np.ndarray, whole_n: np.ndarray | None = None
) -> np.ndarray:
    """Length of what is left of rows with these squares; `whole_n`: squares of the whole rows."""
    square_n = np.einsum("nr,nr->n", first_nr, first_nr, dtype=np.float64)
    # Rounding must not make what is left too short, or the bound would not be one.
    spare_n = 64 * np.finfo(first_nr.dtype).eps * (norm_n if whole_n is None else whole_n)
    return np.asarray(np.sqrt(np.maximum(norm_n - square_n, 0.0) + spare_n))


def is_worth_pruning(n_queries: int, ready_md: np.ndarray) -> bool:
    """Whether the search is large enough to pay for finding the directions."""
    is_wide = ready_md.shape[1] >= _LEAST_WIDTH
    return is_wide and n_queries * ready_md.size >= _MANY_PRODUCTS


def _leave_out(gain_bm: np.ndarray, own_b: np.ndarray) -> None:
    has_own = np.flatnonzero(own_b >= 0)
    gain_bm[has_own, own_b[has_own]] = -np.inf


def _kth_largest(gain_bm: np.ndarray, k: int) -> np.ndarray:
    if k == 1:
        return np.asarray(gain_bm.max(axis=1))
    return np.asarray(np.partition(gain_bm, -k, axis=1)[:, -k])


def _at_least(gain_bm: np.ndarray, floor_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # A floor rounded up to the type of the gains would lose the pair that stands on it.
    with np.errstate(under="ignore"):
        floor_b = np.nextafter(floor_b.astype(gain_bm.dtype), -np.inf, dtype=gain_bm.dtype)
    at_p = np.flatnonzero((gain_bm >= floor_b[:, None]).ravel())
    return np.asarray(at_p // gain_bm.shape[1]), np.asarray(at_p % gain_bm.shape[1])
