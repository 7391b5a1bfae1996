"""Ranks of positives, for recall and precision of a search: how many wrong answers come before?

Where the right answers of each query stand among all the wrong ones, and the same the other way
round, from one pass over all products of two sets of rows, in memory that does not grow with their
product. What recall or precision follows from the counts is for `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from fieldmark.embed.search.nearest import (
    MANY,
    TIE,
    as_finite,
    check_width,
    exact_scores,
    lengths,
    places,
    prefetched,
    round_down,
    rounding_error,
)

_TILE_SHAPE = 1024, 2048
"""queries and gallery rows of one tile of all products"""
_MANY_MARKS = 16
"""a line with more positives is sorted"""


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
    in a pair the other two are equal positives. Memory beside the input is some tens of MB.
    """
    query_qd = as_finite(query_qd, "query", 0)
    gallery_gd = as_finite(gallery_gd, "gallery", 0)
    check_width(gallery_gd, query_qd.shape[1])
    query_p, row_p = (np.asarray(at_p, np.int64) for at_p in pairs)
    if len(np.unique(query_p * max(1, len(gallery_gd)) + row_p)) < len(query_p):
        raise ValueError("a pair of query and gallery row is listed twice: list each once.")
    weight_q = np.ones(len(query_qd), np.int64) if weight_q is None else np.asarray(weight_q)
    weight_g = np.ones(len(gallery_gd), np.int64) if weight_g is None else np.asarray(weight_g)
    score_p = exact_scores(query_qd, gallery_gd, query_p, row_p)
    sides = (
        _Side(0, query_p, score_p, len(query_qd), weight_g),
        _Side(1, row_p, score_p, len(gallery_gd), weight_q),
    )
    most = lengths(query_qd).max(initial=0.0) * lengths(gallery_gd).max(initial=0.0)
    for tile in prefetched(_tiles(query_qd, gallery_gd, most)):
        for side in sides:
            side.see_best(tile)
        at_p = sides[0].pairs_of(tile)
        row_a, row_b = query_p[at_p] - tile.first[0], row_p[at_p] - tile.first[1]
        is_here = (row_b >= 0) & (row_b < tile.score_ab.shape[1])
        tile.hide(row_a[is_here], row_b[is_here])
        for side in sides:
            side.count(tile)
    return PositiveRanks(
        score_p,
        sides[0].counts(weight_g[row_p], TIE * most),
        sides[1].counts(weight_q[query_p], TIE * most),
    )


def _tiles(query_qd: np.ndarray, gallery_gd: np.ndarray, most: float) -> Iterator[_Tile]:
    """All scores, a tile at a time; a tile holds until the next but one is made."""
    n_q, n_g = _TILE_SHAPE
    slack = float(rounding_error(query_qd.shape[1], np.asarray(most)))
    spaces = cycle(np.empty((2, n_q * n_g), np.float32))
    for first_q in range(0, len(query_qd), n_q):
        query_ad = query_qd[first_q : first_q + n_q]
        for first_g in range(0, len(gallery_gd), n_g):
            row_bd = gallery_gd[first_g : first_g + n_g]
            score_ab = next(spaces)[: len(query_ad) * len(row_bd)].reshape(
                len(query_ad), len(row_bd)
            )
            np.matmul(query_ad, row_bd.T, out=score_ab)
            yield _Tile((first_q, first_g), query_ad, row_bd, score_ab, slack, TIE * most)


@dataclass(slots=True)
class _Tile:
    """Scores of some queries (axis 0) and some gallery rows (axis 1)."""

    first: tuple[int, int]
    query_ad: np.ndarray
    row_bd: np.ndarray
    score_ab: np.ndarray
    """in float32; -inf for pairs that are hidden"""
    slack: float
    """the most that a float32 score is off"""
    tie: float
    exact_ab: np.ndarray | None = None
    """in float64, once asked for"""

    def hide(self, row_a: np.ndarray, row_b: np.ndarray) -> None:
        self.score_ab[row_a, row_b] = -np.inf
        self.exact_ab = None

    def lines(self, axis: int) -> np.ndarray:
        """Scores with the axis first."""
        return self.score_ab if axis == 0 else self.score_ab.T

    def exact_lines(self, axis: int) -> np.ndarray:
        """The same in float64: cheaper than by pairs where float32 leaves many open."""
        if self.exact_ab is None:
            self.exact_ab = self.query_ad.astype(np.float64) @ self.row_bd.T.astype(np.float64)
            self.exact_ab[np.isneginf(self.score_ab)] = -np.inf
        return self.exact_ab if axis == 0 else self.exact_ab.T

    def exact_pairs(self, axis: int, line_h: np.ndarray, other_h: np.ndarray) -> np.ndarray:
        """In float64, of pairs (place on the axis, place on the other)."""
        row_a, row_b = (line_h, other_h) if axis == 0 else (other_h, line_h)
        return exact_scores(self.query_ad, self.row_bd, row_a, row_b)


class _Side:
    """One direction: the rows that ask (lines of a tile), their pairs, and the counts so far."""

    def __init__(
        self,
        axis: int,
        asks_p: np.ndarray,
        score_p: np.ndarray,
        n_asking: int,
        weight_c: np.ndarray,
    ) -> None:
        self.axis, self.asks_p, self.score_p, self.weight_c = axis, asks_p, score_p, weight_c
        self.better_p = np.zeros(len(asks_p), np.int64)
        self.equal_p = np.zeros(len(asks_p), np.int64)
        self.best_n = np.full(n_asking, -1, np.int64)
        self.top_n = np.full(n_asking, -np.inf)
        self.order = np.argsort(asks_p, kind="stable")
        self.start_n = np.searchsorted(asks_p[self.order], np.arange(n_asking + 1))

    def pairs_of(self, tile: _Tile) -> np.ndarray:
        """Pairs whose asking row is in the tile, line by line."""
        begin = tile.first[self.axis]
        last = begin + tile.score_ab.shape[self.axis]
        return self.order[self.start_n[begin] : self.start_n[last]]

    def see_best(self, tile: _Tile) -> None:
        """Keeps the best candidate of each line; tiles come by rising candidates."""
        begin, score_lc = tile.first[self.axis], tile.lines(self.axis)
        top_l = score_lc.max(axis=1).astype(np.float64)
        floor_l = np.maximum(
            top_l - 2 * tile.slack, self.top_n[begin : begin + len(top_l)] - tile.slack
        )
        line_s = np.flatnonzero(top_l >= floor_l)
        if len(line_s) < len(top_l):
            score_lc = score_lc[line_s]
        hit_sc = score_lc >= round_down(floor_l[line_s])[:, None]
        if np.count_nonzero(hit_sc) > len(line_s) + hit_sc.size // MANY:
            exact_sc = tile.exact_lines(self.axis)[line_s]
            best_s = (exact_sc >= exact_sc.max(axis=1, keepdims=True) - tile.tie).argmax(axis=1)
            score_s = exact_sc[np.arange(len(line_s)), best_s]
        else:
            at_h, other_h = places(hit_sc)
            score_h = tile.exact_pairs(self.axis, line_s[at_h], other_h)
            order = np.lexsort((other_h, -score_h, at_h))
            best_h = order[np.searchsorted(at_h[order], np.arange(len(line_s)))]
            best_s, score_s = other_h[best_h], score_h[best_h]
        asks_s = begin + line_s
        is_new = score_s > self.top_n[asks_s] + tile.tie
        self.best_n[asks_s[is_new]] = tile.first[1 - self.axis] + best_s[is_new]
        self.top_n[asks_s[is_new]] = score_s[is_new]

    def count(self, tile: _Tile) -> None:
        """Adds the candidates of the tile that are better than each pair's, or equal."""
        pair_m = self.pairs_of(tile)
        if not len(pair_m):
            return
        line_m = self.asks_p[pair_m] - tile.first[self.axis]
        score_lc, first_c = tile.lines(self.axis), tile.first[1 - self.axis]
        weight_c = self.weight_c[first_c : first_c + score_lc.shape[1]]
        low_m, high_m = _band(self.score_p[pair_m], tile.slack + tile.tie)
        better_m = _weight_over(score_lc, line_m, high_m, weight_c)
        reached_m = _weight_over(score_lc, line_m, low_m, weight_c)
        self.better_p[pair_m] += better_m
        is_open = reached_m != better_m
        if is_open.any():
            is_many = (reached_m - better_m).sum() > score_lc.size // MANY
            self._decide_exactly(tile, pair_m[is_open], line_m[is_open], weight_c, is_many)

    def _decide_exactly(
        self,
        tile: _Tile,
        pair_m: np.ndarray,
        line_m: np.ndarray,
        weight_c: np.ndarray,
        is_many: bool,
    ) -> None:
        """Decides in float64 about candidates too close to a pair for float32."""
        score_lc = tile.exact_lines(self.axis) if is_many else tile.lines(self.axis)
        n_pairs = max(1, score_lc.size // len(weight_c))
        for start in range(0, len(pair_m), n_pairs):
            pair, line = pair_m[start : start + n_pairs], line_m[start : start + n_pairs]
            low, high = _band(self.score_p[pair], tile.slack + tile.tie)
            near_mc = score_lc[line]
            at_h, other_h = places((near_mc > low[:, None]) & (near_mc <= high[:, None]))
            score_h = (
                near_mc[at_h, other_h]
                if is_many
                else tile.exact_pairs(self.axis, line[at_h], other_h)
            )
            gap_h, weight_h = score_h - self.score_p[pair][at_h], weight_c[other_h]
            for total_p, is_so in (
                (self.better_p, gap_h > tile.tie),
                (self.equal_p, np.abs(gap_h) <= tile.tie),
            ):
                counted = np.bincount(at_h[is_so], weight_h[is_so], len(pair))
                total_p[pair] += counted.astype(np.int64)

    def counts(self, weight_p: np.ndarray, tie: float) -> CandidateCounts:
        better_p, equal_p = _fellows(self.asks_p, self.score_p, weight_p, tie)
        return CandidateCounts(
            self.better_p,
            self.equal_p,
            self.better_p + better_p,
            self.equal_p + equal_p,
            self.best_n,
        )


def _weight_over(
    score_lc: np.ndarray, line_m: np.ndarray, mark_m: np.ndarray, weight_c: np.ndarray
) -> np.ndarray:
    """Weight of the candidates above each mark; marks stand by line, a line may have several."""
    start_m = np.searchsorted(line_m, line_m)
    n_marks_m = np.searchsorted(line_m, line_m, side="right") - start_m
    lane_m = np.where(n_marks_m > _MANY_MARKS, -1, np.arange(len(line_m)) - start_m)
    over_m = np.empty(len(line_m), np.int64)
    for lane in range(int(lane_m.max(initial=-1)) + 1):
        of = np.flatnonzero(lane_m == lane)
        if 4 * len(of) > len(score_lc):
            mark_l = np.full(len(score_lc), np.inf, np.float32)
            mark_l[line_m[of]] = mark_m[of]
            over_m[of] = _weight_of(score_lc > mark_l[:, None], weight_c)[line_m[of]]
        else:
            over_m[of] = _weight_of(score_lc[line_m[of]] > mark_m[of][:, None], weight_c)
    for line in np.unique(line_m[lane_m < 0]):
        of = np.flatnonzero(line_m == line)
        order = np.argsort(score_lc[line])
        below = np.concatenate([[0], np.cumsum(weight_c[order])])
        over_m[of] = below[-1] - below[np.searchsorted(score_lc[line][order], mark_m[of], "right")]
    return over_m


def _weight_of(is_so_lc: np.ndarray, weight_c: np.ndarray) -> np.ndarray:
    """`is_so_lc @ weight_c`, ten times as fast where weights are 1: bytes are added as words."""
    odd = np.flatnonzero(weight_c != 1)
    extra_l = is_so_lc[:, odd].astype(np.float64) @ (weight_c[odd] - 1.0)
    total_l: np.ndarray = extra_l.astype(np.int64)
    if is_so_lc.flags.c_contiguous:
        width = is_so_lc.shape[1] // 1024 * 1024
        word_lw = np.ascontiguousarray(is_so_lc[:, :width]).view(np.uint64)
        byte_sum = word_lw.reshape(len(word_lw), width // 1024, 128).sum(axis=2).view(np.uint8)
        total_l += byte_sum.reshape(len(word_lw), -1).sum(axis=1, dtype=np.int64)
        total_l += is_so_lc[:, width:].sum(axis=1, dtype=np.int64)
        return total_l
    for start in range(0, is_so_lc.shape[1], 255):
        byte_cl = is_so_lc[:, start : start + 255].T.view(np.uint8)
        total_l += np.add.reduce(byte_cl, axis=0, dtype=np.uint8)
    return total_l


def _band(score: np.ndarray, wide: float) -> tuple[np.ndarray, np.ndarray]:
    """Float32 bounds (above the first, up to the second) of what may equal the score."""
    return round_down(score - wide), -round_down(-score - wide)


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
