"""Exact scores: the product of two rows in float64, at the price of float32.

What the searches of this package share. A product of blocks in float32 (BLAS) finds what can
matter, and only what its rounding cannot decide is computed again, pair by pair. So an answer
depends neither on blocks nor on threads nor on the order of rows, and copies of a row always tie.
Rounding of a float32 product of length d is below d × 2^-24 × |a| |b| (Higham 2002, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from fieldmark.errors import DataError

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
            f"{name} row {start + bad[0]} holds NaN or infinity: features must be finite "
            "numbers. Embed these items again."
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
