"""Nearest-neighbour search by inner product, exact and blocked: which rows match a query best?

For galleries far larger than memory: millions of rows in files, each read once. Rows are taken as
they are: who wants cosines normalises before.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from fieldmark.errors import DataError

# --- Exact scores: the product of two rows in float64, at the price of float32.
# What the searches of this package share. A product of blocks in float32 (BLAS) finds what can
# matter, and only what its rounding cannot decide is computed again, pair by pair. So an answer
# depends neither on blocks nor on threads nor on the order of rows, and copies of a row always
# tie. Rounding of a float32 product of length d is below d × 2^-24 × |a| |b| (Higham 2002, section
# 3.1).

Block = TypeVar("Block")
TIE = 1e-12
"""scores that differ by less, as a share of the rows' lengths, are equal"""
MANY = 64
"""where more than one in so many scores stays open, all of them are computed in float64"""
_HALF_LIMIT = 65536.0
"""all finite float16 numbers are below"""
_PAIR_ENTRIES = 1 << 20
"""entries of the rows of pairs computed at a time"""


def as_finite(x_nd: np.ndarray, name: str, start: int) -> np.ndarray:
    """The rows in float32; refuses what is not finite."""
    x_nd = np.asarray(x_nd)
    if x_nd.ndim != 2:
        raise ValueError(f"{name} rows are an array of shape {x_nd.shape}: rows × width expected.")
    is_half = x_nd.dtype == np.float16
    x_nd = _from_half(x_nd) if is_half else np.ascontiguousarray(x_nd, np.float32)
    limit = _HALF_LIMIT if is_half else np.inf
    if not max(x_nd.max(initial=0), -x_nd.min(initial=0)) < limit:
        bad = np.flatnonzero(~(np.abs(x_nd) < limit).all(axis=1))
        raise DataError(
            f"{name} row {start + bad[0]} contains NaN or infinity: features must be finite "
            "numbers. Embed these images again."
        )
    return x_nd


def _from_half(x_nd: np.ndarray) -> np.ndarray:
    """Float16 as float32, several times as fast as a cast; infinity and NaN reach `_HALF_LIMIT`.

    Both types are sign, exponent, fraction. Moved to their places in 32 bits, the exponent is 112
    too small (its offset is 127, not 15): one exact product with 2^112 mends it.
    """
    bits_nd = np.ascontiguousarray(x_nd).view(np.int16).astype(np.int32)
    bits_nd <<= 13
    bits_nd &= np.int32(-0x70000001)  # the sign was spread over the three bits after it
    value_nd = bits_nd.view(np.float32)
    value_nd *= np.float32(2.0**112)
    return value_nd


def check_width(gallery_gd: np.ndarray, n_dims: int) -> None:
    if gallery_gd.shape[1:] != (n_dims,):
        raise DataError(
            f"gallery rows are of shape {gallery_gd.shape[1:]}, queries of ({n_dims},): "
            "both must come from the same model."
        )


def lengths(x_nd: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", x_nd, x_nd, dtype=np.float64)))


def longest(x_nd: np.ndarray) -> float:
    """At least the length of the longest row, hardly more; five times as fast as `lengths`."""
    with np.errstate(over="ignore"):
        squared = np.einsum("nd,nd->n", x_nd, x_nd).max(initial=0.0)
    if not np.isfinite(squared):
        return float(lengths(x_nd).max())
    return float(np.sqrt(squared * 1.001)) + 1e-15


def rounding_error(n_dims: int, length: np.ndarray) -> np.ndarray:
    """The most that a float32 product of rows can be off, whatever the order of its sum."""
    return np.asarray((n_dims + 8) * 2.0**-24 * length)


def round_down(value: np.ndarray) -> np.ndarray:
    """In float32, never above the value."""
    return np.nextafter(value.astype(np.float32), np.float32(-np.inf))


def places(is_so_ab: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`np.nonzero`, in the order of memory: several times as fast."""
    if is_so_ab.flags.c_contiguous:
        at_a, at_b = np.divmod(np.flatnonzero(is_so_ab), max(1, is_so_ab.shape[1]))
        return at_a, at_b
    return places(is_so_ab.T)[::-1]


def exact_scores(
    query_qd: np.ndarray, row_nd: np.ndarray, query_p: np.ndarray, row_p: np.ndarray
) -> np.ndarray:
    """Products of the pairs in float64."""
    score_p = np.empty(len(query_p))
    n_pairs = max(1, _PAIR_ENTRIES // max(1, row_nd.shape[1]))
    for start in range(0, len(query_p), n_pairs):
        part = slice(start, start + n_pairs)
        left, right = query_qd[query_p[part]], row_nd[row_p[part]]
        score_p[part] = np.einsum("nd,nd->n", left, right, dtype=np.float64)
    return score_p


def prefetched(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same blocks; the next is made in a thread while one is worked on."""
    with ThreadPoolExecutor(1) as maker:
        ahead = maker.submit(next, blocks, None)
        while (block := ahead.result()) is not None:
            ahead = maker.submit(next, blocks, None)
            yield block


# --- the search


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
        for start_query in range(0, len(self.query_qd), n_queries):
            part = slice(start_query, start_query + n_queries)
            query_p, row_p = self._hopeful(part, block_bd, length)
            if len(query_p):
                score_p = exact_scores(self.query_qd[part], block_bd, query_p, row_p)
                self._merge(start_query + query_p, start + row_p, score_p)

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


def _advise(array: np.ndarray, start_row: int, n_rows: int, advice: str) -> None:
    """Tells the system that rows of a file come next, or are done with: the disk reads while the
    processor multiplies, and pages that were used do not count as this process' memory.
    """
    if not isinstance(array, np.memmap) or array.mode != "r" or not array.flags.c_contiguous:
        return
    file: Any = getattr(array, "_mmap", None)
    if not hasattr(file, "madvise") or start_row >= len(array):
        return
    inset = array.offset % mmap.ALLOCATIONGRANULARITY
    start = inset + start_row * array.strides[0]
    stop = inset + min(start_row + n_rows, len(array)) * array.strides[0]
    page = start - start % mmap.PAGESIZE
    if stop <= len(file):
        file.madvise(getattr(mmap, advice), page, stop - page)
