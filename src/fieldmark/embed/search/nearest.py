"""Nearest-neighbour search by inner product, exact and blocked: which rows match a query best?

For galleries far larger than memory: millions of rows in files, each read once. Rows are taken as
they are: who wants cosines normalises before.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fieldmark.embed.search.scores import (
    MANY,
    TIE,
    as_finite,
    check_width,
    exact_scores,
    lengths,
    longest,
    places,
    prefetched,
    round_down,
    rounding_error,
)

BLOCK_BYTES = 256 << 20
"""about what one search holds beside its input and its answer"""
_TILE = 1 << 22
"""most products computed at a time: 16 MB in float32"""
_ROWS = 8192
"""most gallery rows read at a time"""
AHEAD = 4
"""blocks that a file is read ahead"""
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
    query_qd = as_finite(query_qd, "query", 0)
    arrays: Iterable[np.ndarray] = gallery
    if isinstance(gallery, np.ndarray):
        arrays, k = [gallery], min(k, max(1, len(gallery)))
    best = _Best(query_qd, k)
    n_queries, n_dims = query_qd.shape
    n_rows = min(_ROWS, max(64, block_bytes // (4 * (3 * n_dims + 2 * n_queries + 1))))
    for start, block_bd in prefetched(_blocks(arrays, n_dims, n_rows, max(_FIRST, 4 * k))):
        best.take(start, block_bd)
    return best.answer()


class _Best:
    """The k best rows of each query among those taken so far, by float64 scores."""

    def __init__(self, query_qd: np.ndarray, k: int) -> None:
        self.query_qd, self.k = query_qd, k
        self.index_qk = np.full((len(query_qd), k), -1, np.int64)
        self.score_qk = np.full((len(query_qd), k), -np.inf)
        self.length_q = lengths(query_qd)
        self.n_taken = 0
        self.space = np.empty(_TILE, np.float32)

    def take(self, start: int, block_bd: np.ndarray) -> None:
        """Rows from `start` on; later calls bring later rows."""
        self.n_taken += len(block_bd)
        length = longest(block_bd)
        n_queries = max(1, _TILE // max(1, len(block_bd)))
        for first in range(0, len(self.query_qd), n_queries):
            part = slice(first, first + n_queries)
            query_p, row_p = self._hopeful(part, block_bd, length)
            if len(query_p):
                score_p = exact_scores(self.query_qd[part], block_bd, query_p, row_p)
                self._merge(first + query_p, start + row_p, score_p)

    def _hopeful(
        self, part: slice, block_bd: np.ndarray, length: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (query of the part, row) that may be among the best."""
        query_ad = self.query_qd[part]
        n_scores = len(query_ad) * len(block_bd)
        score_ab = self.space[:n_scores].reshape(len(query_ad), len(block_bd))
        np.matmul(query_ad, block_bd.T, out=score_ab)
        slack_a = rounding_error(block_bd.shape[1], self.length_q[part] * length)
        floor_a = self.score_qk[part, -1] - slack_a
        if len(block_bd) > self.k and np.isneginf(floor_a).any():
            at = len(block_bd) - self.k
            floor_a = np.maximum(floor_a, np.partition(score_ab, at)[:, at] - 2 * slack_a)
        is_hit = score_ab >= round_down(floor_a)[:, None]
        if (
            np.count_nonzero(is_hit) > score_ab.size // MANY
            and not np.isneginf(self.score_qk[part, -1]).any()
        ):
            # So many cannot be told apart in float32: a float64 product is cheaper than pairs.
            exact_ab = query_ad.astype(np.float64) @ block_bd.T.astype(np.float64)
            floor_a = self.score_qk[part, -1] + TIE * self.length_q[part] * length
            is_hit = exact_ab > floor_a[:, None]
        return places(is_hit)

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


def _blocks(
    arrays: Iterable[np.ndarray], n_dims: int, n_rows: int, n_first: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Float32 blocks of the arrays and the number of their first row."""
    start = 0
    for array in arrays:
        check_width(array, n_dims)
        at = 0
        while at < len(array):
            step = min(n_rows, n_first) if start == 0 else n_rows
            _advise(array, at + step, AHEAD * n_rows, "MADV_WILLNEED")
            block_bd = as_finite(array[at : at + step], "gallery", start)
            _advise(array, at, len(block_bd), "MADV_DONTNEED")
            yield start, block_bd
            at, start = at + len(block_bd), start + len(block_bd)


def _advise(array: np.ndarray, first: int, n_rows: int, advice: str) -> None:
    """Tells the system that rows of a file come next, or are done with: the disk reads while the
    processor multiplies, and pages that were used do not count as this process' memory.
    """
    if not isinstance(array, np.memmap) or array.mode != "r" or not array.flags.c_contiguous:
        return
    file: Any = getattr(array, "_mmap", None)
    if not hasattr(file, "madvise") or first >= len(array):
        return
    inset = array.offset % mmap.ALLOCATIONGRANULARITY
    start = inset + first * array.strides[0]
    stop = inset + min(first + n_rows, len(array)) * array.strides[0]
    page = start - start % mmap.PAGESIZE
    if stop <= len(file):
        file.madvise(getattr(mmap, advice), page, stop - page)
