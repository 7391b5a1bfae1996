"""Nearest-neighbour search by inner product, exact and blocked: which rows match a query best?

Two questions. `top_k`: the k best rows of a gallery that may be far larger than memory (millions of
rows in files). `rank_positives`: where the right answers of each query stand among all the wrong
ones, and the same the other way round, from one pass over all products. Rows are taken as they are:
who wants cosines normalises before. What recall or precision follows from counts is for `metrics`.

A score is the product of two rows in float64. A product of blocks in float32 (BLAS) finds what
can matter; only what its rounding cannot decide is computed again. So the answer depends
neither on blocks nor on threads nor on the order of rows, and copies of a row always tie. Rounding
of a float32 product of length d is below d × 2^-24 × |a| |b| (Higham 2002, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fieldmark.errors import DataError

BLOCK_BYTES = 256 << 20
"""about what one search holds beside its input and its answer"""
_TIE = 1e-12
"""scores that differ by less, as a share of the rows' lengths, are equal"""
_TILE = 1 << 22
"""most products computed at a time: 16 MB in float32"""
_ROWS = 8192
"""most gallery rows read at a time"""
_FIRST = 4096
"""gallery rows that give the first k best of a query"""


def top_k(
    query_qd: np.ndarray,
    gallery: np.ndarray | Iterable[np.ndarray],
    k: int,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (int64) and scores (float32) of the k best gallery rows of each query, best first.

    Equal scores go to the lower index. `gallery` is one array (float16 or float32, a memory map
    too) or several that count on; each is read once, in order. With fewer than k rows there are as
    many columns as rows.
    """
    if k < 1:
        raise ValueError(f"k is {k}: at least one row must be asked for.")
    query_qd = _as_finite(query_qd, "query", 0)
    arrays = [gallery] if isinstance(gallery, np.ndarray) else gallery
    best = _Best(query_qd, k)
    n_queries, n_dims = query_qd.shape
    n_rows = min(_ROWS, max(64, block_bytes // (4 * (3 * n_dims + 2 * n_queries + 1))))
    for start, block_bd in _prefetched(_blocks(arrays, n_dims, n_rows, max(_FIRST, 4 * k))):
        best.take(start, block_bd)
    return best.answer()


class _Best:
    """The k best rows of each query among those taken so far, by float64 scores."""

    def __init__(self, query_qd: np.ndarray, k: int) -> None:
        self.query_qd, self.k = query_qd, k
        self.index_qk = np.full((len(query_qd), k), -1, np.int64)
        self.score_qk = np.full((len(query_qd), k), -np.inf)
        self.length_q = _lengths(query_qd)
        self.n_taken = 0

    def take(self, start: int, block_bd: np.ndarray) -> None:
        """Rows from `start` on; later calls bring later rows."""
        self.n_taken += len(block_bd)
        length = float(_lengths(block_bd).max(initial=0.0))
        n_queries = max(1, _TILE // max(1, len(block_bd)))
        for first in range(0, len(self.query_qd), n_queries):
            part = slice(first, first + n_queries)
            query_p, row_p = self._hopeful(part, block_bd, length)
            if len(query_p):
                score_p = _exact(self.query_qd[part], block_bd, query_p, row_p)
                self._merge(first + query_p, start + row_p, score_p)

    def _hopeful(
        self, part: slice, block_bd: np.ndarray, length: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (query of the part, row) that may be among the best."""
        query_ad = self.query_qd[part]
        score_ab = query_ad @ block_bd.T
        slack_a = _rounding(block_bd.shape[1], self.length_q[part] * length)
        floor_a = self.score_qk[part, -1] - slack_a
        if len(block_bd) > self.k and np.isneginf(floor_a).any():
            at = len(block_bd) - self.k
            floor_a = np.maximum(floor_a, np.partition(score_ab, at)[:, at] - 2 * slack_a)
        hit = np.flatnonzero(score_ab >= _below(floor_a)[:, None])
        if len(hit) > score_ab.size // 16 and not np.isneginf(self.score_qk[part, -1]).any():
            # So many cannot be told apart in float32: a float64 product is cheaper than pairs.
            exact_ab = query_ad.astype(np.float64) @ block_bd.T.astype(np.float64)
            floor_a = self.score_qk[part, -1] + _TIE * self.length_q[part] * length
            hit = np.flatnonzero(exact_ab > floor_a[:, None])
        return hit // len(block_bd), hit % len(block_bd)

    def _merge(self, query_p: np.ndarray, index_p: np.ndarray, score_p: np.ndarray) -> None:
        some_s = np.unique(query_p)
        query_p = np.concatenate([np.repeat(some_s, self.k), query_p])
        index_p = np.concatenate([self.index_qk[some_s].ravel(), index_p])
        score_p = np.concatenate([self.score_qk[some_s].ravel(), score_p])
        order = np.lexsort((index_p, -score_p, query_p))
        first_s = np.searchsorted(query_p[order], some_s)
        kept = order[first_s[:, None] + np.arange(self.k)]
        self.index_qk[some_s], self.score_qk[some_s] = index_p[kept], score_p[kept]

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        n = min(self.k, self.n_taken)
        return self.index_qk[:, :n], self.score_qk[:, :n].astype(np.float32)


@dataclass(frozen=True, slots=True)
class CandidateCounts:
    """Of each pair: how many candidates score better than its positive, or the same."""

    better_p: np.ndarray
    """negatives that score better"""
    equal_p: np.ndarray
    """negatives that score the same"""
    better_any_p: np.ndarray
    """candidates that score better, other positives too"""
    equal_any_p: np.ndarray
    """candidates that score the same, other positives too, the pair's own not"""
    best_n: np.ndarray
    """of each row that asks: the candidate with the best score, the lower index of equal ones;
    -1 without candidates"""


@dataclass(frozen=True, slots=True)
class PositiveRanks:
    """Where the positives stand; arrays `_p` follow the given pairs."""

    score_p: np.ndarray
    to_gallery: CandidateCounts
    """each query asks, the gallery rows are candidates"""
    to_query: CandidateCounts
    """each gallery row asks, the queries are candidates"""


def rank_positives(
    query_qd: np.ndarray,
    gallery_gd: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
    *,
    weight_q: np.ndarray | None = None,
    weight_g: np.ndarray | None = None,
) -> PositiveRanks:
    """Counts, both ways, of the candidates at or above the score of each positive pair.

    `pairs` are two arrays: query index, gallery index; rows without a pair are candidates like
    others. A row of weight 3 stands for three equal rows: it counts three times as a candidate, and
    in a pair the other two are equal positives.
    """
    query_qd = _as_finite(query_qd, "query", 0)
    gallery_gd = _as_finite(gallery_gd, "gallery", 0)
    _check_width(gallery_gd, query_qd.shape[1])
    query_p, row_p = (np.asarray(at_p, np.int64) for at_p in pairs)
    if len(np.unique(query_p * max(1, len(gallery_gd)) + row_p)) < len(query_p):
        raise ValueError("a pair of query and gallery row is listed twice: list each once.")
    weight_q = np.ones(len(query_qd)) if weight_q is None else np.asarray(weight_q, np.float64)
    weight_g = np.ones(len(gallery_gd)) if weight_g is None else np.asarray(weight_g, np.float64)
    score_p = _exact(query_qd, gallery_gd, query_p, row_p)
    to_gallery = _Side(query_p, score_p, len(query_qd), weight_g)
    to_query = _Side(row_p, score_p, len(gallery_gd), weight_q)
    length_q, length_g = _lengths(query_qd), _lengths(gallery_gd)
    tie = _TIE * length_q.max(initial=0.0) * length_g.max(initial=0.0)
    order = np.argsort(query_p, kind="stable")
    n_q = n_g = 1 << 10
    for first_q in range(0, len(query_qd), n_q):
        query_ad = query_qd[first_q : first_q + n_q].astype(np.float64)
        low, high = np.searchsorted(query_p[order], (first_q, first_q + n_q))
        own_p = order[low:high]
        for first_g in range(0, len(gallery_gd), n_g):
            row_bd = gallery_gd[first_g : first_g + n_g].astype(np.float64)
            score_ab = query_ad @ row_bd.T
            to_gallery.see_best(first_q, first_g, score_ab, tie)
            to_query.see_best(first_g, first_q, score_ab.T, tie)
            at_p = own_p[(row_p[own_p] >= first_g) & (row_p[own_p] < first_g + n_g)]
            score_ab[query_p[at_p] - first_q, row_p[at_p] - first_g] = -np.inf
            to_gallery.count(first_q, first_g, score_ab, tie)
            to_query.count(first_g, first_q, score_ab.T, tie)
    return PositiveRanks(
        score_p,
        to_gallery.counts(weight_g[row_p], tie),
        to_query.counts(weight_q[query_p], tie),
    )


class _Side:
    """One direction: the rows that ask, their pairs, and what was counted so far."""

    def __init__(
        self, asks_p: np.ndarray, score_p: np.ndarray, n_asking: int, weight_c: np.ndarray
    ) -> None:
        self.asks_p, self.score_p, self.weight_c = asks_p, score_p, weight_c
        self.better_p = np.zeros(len(asks_p), np.int64)
        self.equal_p = np.zeros(len(asks_p), np.int64)
        self.best_n = np.full(n_asking, -1, np.int64)
        self.top_n = np.full(n_asking, -np.inf)
        self.order = np.argsort(asks_p, kind="stable")
        self.start_n = np.searchsorted(asks_p[self.order], np.arange(n_asking + 1))

    def see_best(self, first: int, first_c: int, score_ac: np.ndarray, tie: float) -> None:
        part = slice(first, first + len(score_ac))
        top_a = score_ac.max(axis=1)
        at_a = (score_ac >= (top_a - tie)[:, None]).argmax(axis=1)
        is_new = top_a > self.top_n[part] + tie
        self.best_n[part] = np.where(is_new, first_c + at_a, self.best_n[part])
        self.top_n[part] = np.where(is_new, top_a, self.top_n[part])

    def count(self, first: int, first_c: int, score_ac: np.ndarray, tie: float) -> None:
        weight_c = self.weight_c[first_c : first_c + score_ac.shape[1]]
        start_a = self.start_n[first : first + len(score_ac) + 1]
        n_most = int(np.diff(start_a).max(initial=0))
        for lane in range(n_most):
            has = np.flatnonzero(start_a[:-1] + lane < start_a[1:])
            pair = self.order[start_a[has] + lane]
            mark = self.score_p[pair][:, None]
            better = (score_ac[has] > mark + tie) @ weight_c
            reached = (score_ac[has] >= mark - tie) @ weight_c
            self.better_p[pair] += better.astype(np.int64)
            self.equal_p[pair] += (reached - better).astype(np.int64)

    def counts(self, weight_p: np.ndarray, tie: float) -> CandidateCounts:
        better_p, equal_p = _fellows(self.asks_p, self.score_p, weight_p.astype(np.int64), tie)
        return CandidateCounts(
            self.better_p,
            self.equal_p,
            self.better_p + better_p,
            self.equal_p + equal_p,
            self.best_n,
        )


def _fellows(
    asks_p: np.ndarray, score_p: np.ndarray, weight_p: np.ndarray, tie: float
) -> tuple[np.ndarray, np.ndarray]:
    """Positives of the same row that score better than each pair's, and the same (others only)."""
    order = np.lexsort((-score_p, asks_p))
    asks, score, weight = asks_p[order], score_p[order], weight_p[order]
    is_first = np.diff(asks, prepend=-1) != 0
    is_lower = is_first | (np.abs(np.diff(score, prepend=np.inf)) > tie)
    before = np.cumsum(weight) - weight
    of_group = np.cumsum(is_first) - 1
    of_run = np.cumsum(is_lower) - 1
    in_run = np.bincount(of_run, weight).astype(np.int64)
    better_p, equal_p = np.empty_like(weight), np.empty_like(weight)
    better_p[order] = before[is_lower][of_run] - before[is_first][of_group]
    equal_p[order] = in_run[of_run] - 1
    return better_p, equal_p


def _blocks(
    arrays: Iterable[np.ndarray], n_dims: int, n_rows: int, n_first: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Float32 blocks of the arrays and the number of their first row."""
    start = 0
    for array in arrays:
        _check_width(array, n_dims)
        at = 0
        while at < len(array):
            step = min(n_rows, n_first) if start == 0 else n_rows
            block_bd = _as_finite(array[at : at + step], "gallery", start)
            yield start, block_bd
            at, start = at + len(block_bd), start + len(block_bd)


def _prefetched(blocks: Iterator[tuple[int, np.ndarray]]) -> Iterator[tuple[int, np.ndarray]]:
    """The same blocks; the next is read and converted while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(next, blocks, None)
        while (block := ahead.result()) is not None:
            ahead = reader.submit(next, blocks, None)
            yield block


def _as_finite(x_nd: np.ndarray, name: str, start: int) -> np.ndarray:
    x_nd = np.ascontiguousarray(x_nd, np.float32)
    if x_nd.ndim != 2:
        raise ValueError(f"{name} rows are an array of shape {x_nd.shape}: rows × width expected.")
    with np.errstate(over="ignore", invalid="ignore"):
        total = x_nd.sum(dtype=np.float32)
    if not np.isfinite(total):
        bad = np.flatnonzero(~np.isfinite(x_nd).all(axis=1))
        if len(bad):
            raise DataError(
                f"{name} row {start + bad[0]} holds NaN or infinity: features must be finite "
                "numbers. Embed these items again."
            )
    return x_nd


def _check_width(gallery_gd: np.ndarray, n_dims: int) -> None:
    if gallery_gd.shape[1:] != (n_dims,):
        raise DataError(
            f"gallery rows are of shape {gallery_gd.shape[1:]}, queries of ({n_dims},): "
            "both must come from the same model."
        )


def _lengths(x_nd: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", x_nd, x_nd, dtype=np.float64)))


def _rounding(n_dims: int, length: np.ndarray) -> np.ndarray:
    """The most that a float32 product of rows can be off, whatever the order of its sum."""
    return np.asarray((n_dims + 8) * 2.0**-24 * length)


def _below(value: np.ndarray) -> np.ndarray:
    """In float32, never above the value."""
    return np.nextafter(value.astype(np.float32), np.float32(-np.inf))


def _exact(
    query_qd: np.ndarray, row_nd: np.ndarray, query_p: np.ndarray, row_p: np.ndarray
) -> np.ndarray:
    """Products of the pairs in float64."""
    score_p = np.empty(len(query_p))
    n_pairs = max(1, _TILE // 4 // max(1, row_nd.shape[1]))
    for start in range(0, len(query_p), n_pairs):
        part = slice(start, start + n_pairs)
        left, right = query_qd[query_p[part]], row_nd[row_p[part]]
        score_p[part] = np.einsum("nd,nd->n", left, right, dtype=np.float64)
    return score_p
