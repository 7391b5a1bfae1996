"""Which pairs of rows can be among each other's nearest?

Where every row is asked of all the others, `gain - |a|² / 2 = a b - |b|² / 2 - |a|² / 2` is the
same for (a, b) and (b, a), so half the pairs suffice. Each row has a floor that its true neighbours
reach (see `_distance_cells`). Rows stand in the order of their floors, lowest first: a pair that
matters to the later of its two rows then passes the floor of the earlier one, and one comparison
serves both.

A pair is looked at in three steps, each a bound on the next (Cauchy-Schwarz, see
`_distance_prune`): the first principal directions for all pairs, some more for those left, all of
them for the few left then. Memory beyond the rows: two copies of them, and pairs kept.
"""

from __future__ import annotations

import numpy as np

from fieldmark.probes._distance_cells import likely_near
from fieldmark.probes._distance_prune import COMB, Whole, principal_axes, rest_length

_SHARE_OF_WIDTH = 8
_EXTRA = 3
"""coordinates beside the directions: with them the product has a round width"""
_TILE_ROWS, _TILE_COLUMNS = 512, 2048
"""a tile that stays in the cache until it has been compared"""
_MOST_KEPT = 1 << 22
TELLING = 0.05
"""largest share of pairs left after the first look for which three looks are quicker than one"""
_SAMPLE_ROWS = 32

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""earlier row, later row, and (a bound on) the gain minus half the earlier row's square"""


class Mutual:
    """A search of all rows for the k nearest of each."""

    def __init__(self, whole: Whole, norm_m: np.ndarray, slack_m: np.ndarray, k: int) -> None:
        ready_md, dtype = whole.ready_md, whole.ready_md.dtype
        n_more = max(1, ready_md.shape[1] // _SHARE_OF_WIDTH)
        n_first = max(1, n_more - _EXTRA)
        axes_dr = principal_axes(ready_md, n_first + n_more)
        first_mr, more_mr = ready_md @ axes_dr[:, :n_first], ready_md @ axes_dr[:, n_first:]
        rest_m = rest_length(norm_m, first_mr)
        floor_m = _floors(whole, first_mr, rest_m, k) - whole.half_m
        low = np.finfo(dtype).min / 2
        self.order_m = np.argsort(floor_m - slack_m, kind="stable")
        by = self.order_m
        self.k = k
        self.slack_m, self.half_m = slack_m[by], whole.half_m[by].astype(np.float64)
        self.floor_m = np.maximum(floor_m[by], low)
        # The floors rise while pairs come in; the order, and so the cut, rests on the first ones.
        cut_m = (self.floor_m - self.slack_m).astype(dtype)
        self.cut_m = np.nextafter(cut_m, 2 * low, dtype=dtype)
        self.ready_md = ready_md[by]
        self.left_mr = _columns(first_mr[by], rest_m[by], -self.half_m, np.ones(len(by)))
        self.right_mr = _columns(first_mr[by], rest_m[by], np.ones(len(by)), -self.half_m)
        self.rest_m = self.left_mr[:, n_first]
        more_left_m = rest_length(rest_m.astype(np.float64) ** 2, more_mr, norm_m)
        self.more_mr = _columns(more_mr[by], more_left_m[by])

    def is_telling(self) -> bool:
        """Whether few enough rows are left for some of them."""
        some = np.linspace(0, len(self.order_m) - 1, _SAMPLE_ROWS).astype(np.intp)
        bound_sm = self.left_mr[some] @ self.right_mr.T
        return float(np.mean(bound_sm >= self.cut_m[some][:, None])) <= TELLING

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(query, row) pairs that may be among the nearest, by query."""
        kept: list[Pairs] = []
        for start in range(0, len(self.order_m), _TILE_ROWS):
            kept += self._look_closer(self._strip(start))
            if sum(len(each[0]) for each in kept) > _MOST_KEPT:
                kept = [self._tightened(kept)]
        query_p, row_p, _ = self._tightened(kept)
        query_p, row_p = self.order_m[query_p], self.order_m[row_p]
        by_query = np.argsort(query_p, kind="stable")
        return query_p[by_query], row_p[by_query]

    def _strip(self, start: int) -> Pairs:
        """Pairs of some rows and all later ones whose first bound reaches the floor."""
        left_br = self.left_mr[start : start + _TILE_ROWS]
        cut_b = self.cut_m[start : start + _TILE_ROWS]
        found: list[Pairs] = []
        space = np.empty(len(left_br) * _TILE_COLUMNS, left_br.dtype)
        for column in range(start, len(self.right_mr), _TILE_COLUMNS):
            right_cr = self.right_mr[column : column + _TILE_COLUMNS]
            bound_bc = space[: len(left_br) * len(right_cr)].reshape(len(left_br), -1)
            np.matmul(left_br, right_cr.T, out=bound_bc)
            if column == start:
                bound_bc[np.tril_indices(len(left_br), 0, len(right_cr))] = -np.inf
            query_p, at_p, bound_p = _reaching(bound_bc, cut_b)
            found.append((query_p, column + at_p, bound_p))
        query_p, row_p, bound_p = (np.concatenate(each) for each in zip(*found, strict=True))
        by_query = np.argsort(query_p, kind="stable")
        return start + query_p[by_query], row_p[by_query], bound_p[by_query]

    def _look_closer(self, pairs: Pairs) -> list[Pairs]:
        """The pairs that matter to the earlier row, and those that matter to the later one."""
        query_p, row_p, bound_p = pairs
        bound_p = bound_p + _products(self.more_mr, query_p, row_p)
        bound_p -= self.rest_m[query_p] * self.rest_m[row_p]
        is_left_p = bound_p >= self.cut_m[query_p]
        query_p, row_p = query_p[is_left_p], row_p[is_left_p]
        gain_p = _products(self.ready_md, query_p, row_p).astype(np.float64)
        gain_p -= self.half_m[query_p] + self.half_m[row_p]
        if self.k == 1:
            for each in (query_p, row_p):
                np.maximum.at(self.floor_m, each, gain_p)
        kept = []
        for one, other in ((query_p, row_p), (row_p, query_p)):
            is_kept_p = gain_p >= self.floor_m[one] - self.slack_m[one]
            kept.append((one[is_kept_p], other[is_kept_p], gain_p[is_kept_p]))
        return kept

    def _tightened(self, kept: list[Pairs]) -> Pairs:
        """Those still within reach of the k-th best of what each row has."""
        one_p, other_p, gain_p = (np.concatenate(each) for each in zip(*kept, strict=True))
        order = np.lexsort((-gain_p, one_p))
        one_p, other_p, gain_p = one_p[order], other_p[order], gain_p[order]
        kth_m = np.searchsorted(one_p, np.arange(len(self.order_m))) + self.k - 1
        has_k_m = kth_m < len(one_p)
        has_k_m[has_k_m] = one_p[kth_m[has_k_m]] == np.flatnonzero(has_k_m)
        np.maximum.at(self.floor_m, np.flatnonzero(has_k_m), gain_p[kth_m[has_k_m]])
        is_kept_p = gain_p >= self.floor_m[one_p] - self.slack_m[one_p]
        return one_p[is_kept_p], other_p[is_kept_p], gain_p[is_kept_p]


def _floors(whole: Whole, first_mr: np.ndarray, rest_m: np.ndarray, k: int) -> np.ndarray:
    """A gain that k rows reach, for each row; minus infinity where too few were found."""
    ones_m = np.ones(len(rest_m))
    lift_mr = _columns(first_mr, rest_m, ones_m)
    row_mr = _columns(first_mr, rest_m, -whole.half_m)
    guess_mk = likely_near(first_mr, lift_mr, row_mr, k)
    floor_m = np.full(len(rest_m), np.inf)
    for rows_m in guess_mk.T:
        for start in range(0, len(rows_m), _TILE_COLUMNS):
            part = slice(start, start + _TILE_COLUMNS)
            row_bd = whole.ready_md[rows_m[part]]
            gain_b = np.einsum("bd,bd->b", row_bd, whole.ready_md[part])
            gain_b = np.where(rows_m[part] >= 0, gain_b - whole.half_m[rows_m[part]], -np.inf)
            np.minimum(floor_m[part], gain_b, out=floor_m[part])
    return floor_m


def _columns(first_mr: np.ndarray, *more: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [first_mr, *(each[:, None] for each in more)], axis=1, dtype=first_mr.dtype
    )


def _reaching(bound_bc: np.ndarray, cut_b: np.ndarray) -> Pairs:
    """Positions and values of the entries that reach their row's cut."""
    n_teeth = COMB if bound_bc.shape[1] % COMB == 0 else 1
    bound_bts = bound_bc.reshape(len(bound_bc), n_teeth, -1)
    n_combs = bound_bts.shape[2]
    at_h = np.flatnonzero((bound_bts.max(axis=1) >= cut_b[:, None]).ravel())
    query_h, comb_h = np.divmod(at_h, n_combs)
    bound_ht = bound_bts[query_h, :, comb_h]
    at_p = np.flatnonzero((bound_ht >= cut_b[query_h][:, None]).ravel())
    hit_p, tooth_p = np.divmod(at_p, n_teeth)
    return query_h[hit_p], tooth_p * n_combs + comb_h[hit_p], bound_ht.ravel()[at_p]


def _products(x_md: np.ndarray, query_p: np.ndarray, row_p: np.ndarray) -> np.ndarray:
    """Inner products of pairs that stand by query."""
    queries, first = np.unique(query_p, return_index=True)
    product_p = np.empty(len(query_p), x_md.dtype)
    for query, start, end in zip(queries, first, [*first[1:], len(query_p)], strict=True):
        product_p[start:end] = x_md.take(row_p[start:end], axis=0) @ x_md[query]
    return product_p
