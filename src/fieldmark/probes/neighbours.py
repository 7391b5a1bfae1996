"""k nearest neighbours (k-NN), exact: whose label do the nearest training images carry?

For new images, or for each training image among all the others (leave one out). Distances on raw
features follow the length of the vectors; the cosine, or the `l2` step before, takes that away.

The search (`nearest`): one matrix product per block of queries gives all distances up to rounding;
the rows that rounding cannot tell from the k nearest are then measured again, pair by pair in
float64. So the answer does not depend on the block, the batch or the precision of the product, and
no queries × rows × dimensions array is ever made. Euclidean data are centred first: |a - b|² =
|a|² - 2ab + |b|² loses its digits far from the origin. Memory beyond the input: two to three copies
of the rows and some blocks of `_BLOCK_ENTRIES` values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fieldmark.probes._arrays import (
    ProbeDataError,
    ProbeEstimator,
    check_choice,
    check_count,
    check_fitted,
    read_features,
    read_labels,
    read_queries,
)

SUMMARY = "k nearest neighbours, exact; can leave one out"
RECIPE = (
    'KNeighborsClassifier(n_neighbors=k, metric=metric, algorithm="brute") with `ties: first`, or '
    "with k = 1; `ties: nearest` gives other answers for 17 to 25 % of photos at k = 5 (measured)"
)
TIES = ("nearest", "first")
_BLOCK_VOTES = 1 << 22
_BLOCK_ENTRIES = 1 << 22
"""entries of the largest temporary: 16 MB in float32"""
_READY_ENTRIES = 1 << 18
"""entries made ready at a time: they stay in the cache"""


class Neighbours(ProbeEstimator):
    """Each of the k nearest images has one vote; `ties` says which class wins if votes are equal.

    Images at equal distance come in the order of their class, so predictions do not depend on the
    order of the training rows. `k` above the number of images means all of them. The score of a
    prediction is minus the distance to the nearest image of the predicted class (cosine distance:
    one minus the cosine).
    """

    def __init__(self, *, k: int = 1, metric: str = "euclidean", ties: str = "nearest") -> None:
        self.k = k
        """number of nearest images that vote"""
        self.metric = metric
        """distance: `euclidean` or `cosine` (one minus the cosine)"""
        self.ties = ties
        """who wins a tie of votes: `nearest` (the class of the nearest image) or `first` (the class
        that sorts first, as in scikit-learn)"""

    def check_parameters(self) -> None:
        check_count("neighbours", "k", self.k, least=1)
        check_choice("neighbours", "metric", self.metric, ("euclidean", "cosine"))
        check_choice("neighbours", "ties", self.ties, TIES)

    def fit(self, X: Any, y: Any) -> Neighbours:
        self.check_parameters()
        self.x_ = read_features(X)
        self.code_, self.classes_ = read_labels(y, len(self.x_))
        self.n_features_in_ = self.x_.shape[1]
        self.one_class_ = len(self.classes_) == 1
        n_images = len(self.x_)
        note = f"k = {self.k} with {n_images} training images: all of them vote"
        self.fit_notes_ = [note] if self.k > n_images else []
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label that wins the vote, and how sure it is; see the class."""
        return self._answer(read_queries(self, X))

    def predict_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and scores of the training images, each asked of all the others."""
        check_fitted(self)
        if len(self.x_) < 2:
            raise ProbeDataError("leaving one out of 1 image leaves none: at least two are needed.")
        return self._answer(self.x_, is_self=True)

    def _answer(self, x_qd: np.ndarray, is_self: bool = False) -> tuple[np.ndarray, np.ndarray]:
        k = min(self.k, len(self.x_) - is_self)
        index_qk, distance_qk = nearest(x_qd, self.x_, k, self.code_, self.metric, is_self)
        code_qk = self.code_[index_qk]
        first_q = _winners(code_qk, self.ties)
        row_q = np.arange(len(code_qk))
        return self.classes_[code_qk[row_q, first_q]], -distance_qk[row_q, first_q]


Probe = Neighbours


def _winners(code_qk: np.ndarray, ties: str) -> np.ndarray:
    """Position of the nearest neighbour of the class with the most votes."""
    n_queries, k = code_qk.shape
    first_q = np.empty(n_queries, np.intp)
    n_block = max(1, _BLOCK_VOTES // (k * k))
    for start in range(0, n_queries, n_block):
        block = code_qk[start : start + n_block]
        vote_qk = (block[:, :, None] == block[:, None, :]).sum(axis=2)
        if ties == "first":  # a vote weighs more than any place in the order of classes
            vote_qk = vote_qk * (int(code_qk.max()) + 1) - block
        first_q[start : start + n_block] = vote_qk.argmax(axis=1)
    return first_q


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
    kept_m = _without_spare_copies(row_nd, k + is_self, rank_n)
    kept_md = row_nd if len(kept_m) == len(row_nd) else row_nd[kept_m]
    rank_m = rank_n[kept_m]
    own_q = np.full(len(query_qd), -1, np.intp)
    if is_self:
        own_q[kept_m] = np.arange(len(kept_m))
    index_qk = np.empty((len(query_qd), k), np.intp)
    distance_qk = np.empty((len(query_qd), k))
    for part, (query_p, row_p) in _candidates(query_qd, kept_md, own_q, k, metric):
        distance_p = _measure(query_qd[part], kept_md, (query_p, row_p), metric)
        order = np.lexsort((row_p, rank_m[row_p], distance_p, query_p))
        first_b = np.searchsorted(query_p, np.arange(len(query_qd[part])))
        chosen = order[first_b[:, None] + np.arange(k)]
        index_qk[part], distance_qk[part] = kept_m[row_p[chosen]], distance_p[chosen]
    return index_qk, distance_qk


def _candidates(
    query_qd: np.ndarray, row_md: np.ndarray, own_q: np.ndarray, k: int, metric: str
) -> Iterator[tuple[slice, tuple[np.ndarray, np.ndarray]]]:
    """Blocks of queries, and the (query, row) pairs that may be among their nearest.

    The nearest rows b of a query a have the largest `gain = a b - |b|² / 2` (cosine: `a b` of rows
    of length one).
    """
    dtype = np.result_type(query_qd.dtype, row_md.dtype, np.float32)
    offset_d = row_md.mean(axis=0, dtype=np.float64) if metric == "euclidean" else None
    ready_md = _make_ready(row_md, offset_d, dtype)
    norm_m = _squared_norms(ready_md)
    half_m = (norm_m / 2 if metric == "euclidean" else np.zeros(len(row_md))).astype(dtype)
    n_block = max(1, _BLOCK_ENTRIES // len(row_md))
    for start in range(0, len(query_qd), n_block):
        part = slice(start, start + n_block)
        ready_bd = _make_ready(query_qd[part], offset_d, dtype)
        gain_bm = ready_bd @ ready_md.T
        gain_bm -= half_m
        has_own = np.flatnonzero(own_q[part] >= 0)
        gain_bm[has_own, own_q[part][has_own]] = -np.inf
        kth_b = gain_bm.max(axis=1) if k == 1 else np.partition(gain_bm, -k, axis=1)[:, -k]
        # A floor rounded up to the type of the gains would lose the pair that stands on it.
        with np.errstate(under="ignore"):
            floor_b = (kth_b - _rounding(ready_bd, norm_m)).astype(dtype)
            floor_b = np.nextafter(floor_b, -np.inf, dtype=dtype)
        pair_p = np.flatnonzero((gain_bm >= floor_b[:, None]).ravel())
        yield part, (pair_p // len(row_md), pair_p % len(row_md))


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
    first_at = np.searchsorted(same_a[order], same_a[order])
    is_spare = np.arange(len(order)) - first_at >= most
    return np.setdiff1d(np.arange(len(row_nd)), alike_a[order[is_spare]], assume_unique=True)


def _make_ready(x_nd: np.ndarray, offset_d: np.ndarray | None, dtype: np.dtype[Any]) -> np.ndarray:
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
    """Twice the most that rounding can move a gain: d + 8 steps of machine precision."""
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
