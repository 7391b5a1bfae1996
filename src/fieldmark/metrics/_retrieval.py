"""Recall at k, reciprocal rank, average precision and nDCG of a search: how early is what is right?

Plain functions of counts and scores, one value per query; no metrics by name. Rows of equal score
have no order of their own: recall and reciprocal rank are the mean over all orders of such rows,
average precision and nDCG treat them as scikit-learn does. So no value depends on the order of
rows, and without ties each is the textbook one.

Of one right answer ("positive") it is enough to know how many wrong ones score better and how many
the same. `n_tied` is the number of positives that share the best positive's score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


def recall_at_k(
    n_better: ArrayLike, n_equal: ArrayLike, k: int, n_tied: ArrayLike = 1
) -> np.ndarray:
    """Chance that a positive is among the first k: `1 - C(e, j) / C(e + t, j)` with `j = k - g`.

    g negatives score better, e the same as the t best positives. With one positive it is
    `(k - g) / (e + 1)`, between 0 and 1; without ties it is 1 where g < k, else 0.
    """
    better, equal, tied = _whole(n_better, n_equal, n_tied)
    missed = np.ones(better.shape)
    # The chance that each of the j places taken from the tied rows holds a negative.
    for rank in range(min(k, int((k - better).max(initial=0)))):
        share = np.maximum(equal - rank, 0) / np.maximum(equal + tied - rank, 1)
        missed *= np.where(rank < k - better, share, 1.0)
    return np.where(tied > 0, 1 - missed, 0.0)


def reciprocal_rank(n_better: ArrayLike, n_equal: ArrayLike, n_tied: ArrayLike = 1) -> np.ndarray:
    """Mean of `1 / rank` of the first positive; without ties `1 / (g + 1)`.

    Over the orders of tied rows the rank is `g + j` with chance `C(e + t - j, t - 1) / C(e + t, t)`
    for j = 1 .. e + 1; with one positive each j has the same. 0 where there is no positive.
    """
    better, equal, tied = _whole(n_better, n_equal, n_tied)
    value = np.where(tied > 0, 1 / (better + 1.0), 0.0)
    is_open = (tied > 0) & (equal > 0)
    cases, at = np.unique(
        np.stack([better[is_open], equal[is_open], tied[is_open]]), axis=1, return_inverse=True
    )
    value[is_open] = np.array([_mean_inverse(*map(int, case)) for case in cases.T])[at.ravel()]
    return value


def _mean_inverse(better: int, equal: int, tied: int) -> float:
    n_before = np.arange(equal + 1)
    # share[j]: negatives among the tied rows that are left after j of them
    share = (equal - n_before) / (equal + tied - n_before)
    later = np.cumprod(np.concatenate([[1.0], share[:-1]]))
    return float((later * (1 - share) / (better + 1 + n_before)).sum())


@dataclass(frozen=True, slots=True)
class FirstPositives:
    """Of each query: the negatives at or above its best positive, and the positives there."""

    n_better: np.ndarray
    n_equal: np.ndarray
    n_tied: np.ndarray
    """0 for a query without positives"""


def first_positives(
    query_p: np.ndarray,
    score_p: np.ndarray,
    better_p: np.ndarray,
    equal_p: np.ndarray,
    n_queries: int,
    weight_p: np.ndarray | None = None,
) -> FirstPositives:
    """What recall and reciprocal rank ask of a query with several positives.

    Pairs are rows of arrays: the query, the score of its positive, the negatives that score better
    and the same; weight 2 stands for two such positives.
    """
    weight_p = np.ones(len(query_p), np.int64) if weight_p is None else weight_p
    top_q = np.full(n_queries, -np.inf)
    np.maximum.at(top_q, query_p, score_p)
    is_top = score_p == top_q[query_p]
    better_q, equal_q = np.zeros((2, n_queries), np.int64)
    better_q[query_p[is_top]] = better_p[is_top]
    equal_q[query_p[is_top]] = equal_p[is_top]
    tied_q = np.bincount(query_p[is_top], weight_p[is_top], n_queries).astype(np.int64)
    return FirstPositives(better_q, equal_q, tied_q)


def average_precisions(
    query_p: np.ndarray,
    score_p: np.ndarray,
    better_p: np.ndarray,
    equal_p: np.ndarray,
    n_queries: int,
    weight_p: np.ndarray | None = None,
) -> np.ndarray:
    """Of each query the mean over its positives of the precision down to their score.

    `precision = a / (a + g + e)` with a positives at or above the score, g negatives above and e at
    it: scikit-learn's `average_precision_score`, for which equal scores are one step. Arguments are
    those of `first_positives`. 0 for a query without positives.
    """
    weight_p = np.ones(len(query_p), np.int64) if weight_p is None else weight_p
    order = np.lexsort((-score_p, query_p))
    query, score, weight = query_p[order], score_p[order], weight_p[order]
    is_first = np.diff(query, prepend=-1) != 0
    is_lower = is_first | (np.diff(score, prepend=np.nan) != 0)
    total = np.cumsum(weight)
    before = (total - weight)[is_first][np.cumsum(is_first) - 1]
    last_of_run = np.append(np.flatnonzero(is_lower)[1:], len(order)) - 1
    n_above = (total[last_of_run][np.cumsum(is_lower) - 1] if len(order) else total) - before
    precision = n_above / (n_above + better_p[order] + equal_p[order])
    gained_q = np.bincount(query, weight * precision, n_queries)
    return np.asarray(gained_q / np.maximum(np.bincount(query, weight, n_queries), 1))


def average_precision_at_k(relevant_k: ArrayLike, score_k: ArrayLike, n_positives: int) -> float:
    """`AP × r / min(P, k)`: AP of k results, r of them relevant, of P relevant ones in all.

    As INQUIRE defines it (Vendrow et al. 2024); AP is scikit-learn's. 0 if no result is relevant.
    """
    relevant, score = _results(relevant_k, score_k, n_positives)
    if not relevant.any():
        return 0.0
    ends = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)
    n_found = np.cumsum(relevant)[ends]
    gained = np.diff(n_found, prepend=0) @ (n_found / (ends + 1))
    return float(gained / min(n_positives, len(relevant)))


def ndcg_at_k(relevant_k: ArrayLike, score_k: ArrayLike, n_positives: int) -> float:
    """DCG of the k results over the DCG of an ideal list: the first `min(P, k)` all relevant.

    `DCG = sum over ranks i of relevant_i / log2(i + 1)`; rows of equal score share the mean of what
    they bring. This is scikit-learn's `ndcg_score` at k of the results followed by the relevant
    rows that were missed, as INQUIRE defines it: these stand after place k, so they only lengthen
    the ideal list. 0 if nothing is relevant.
    """
    relevant, score = _results(relevant_k, score_k, n_positives)
    if not relevant.any():
        return 0.0
    discount = 1 / np.log2(np.arange(len(score)) + 2.0)
    starts = np.flatnonzero(np.diff(score, prepend=np.nan) != 0)
    size = np.diff(np.append(starts, len(score)))
    gain = np.add.reduceat(relevant, starts) / size
    ideal = discount[: min(n_positives, len(score))].sum()
    return float(gain @ np.add.reduceat(discount, starts) / ideal)


def reciprocal_rank_at_k(relevant_k: ArrayLike, score_k: ArrayLike) -> float:
    """`1 / rank` of the first relevant result, the mean over orders of equal scores; 0 if none."""
    relevant, score = _results(relevant_k, score_k)
    if not relevant.any():
        return 0.0
    top = score[relevant].max()
    is_tied = score == top
    n_tied = int(relevant[is_tied].sum())
    return float(reciprocal_rank((score > top).sum(), is_tied.sum() - n_tied, n_tied))


def _results(
    relevant_k: ArrayLike, score_k: ArrayLike, n_positives: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Both by falling score."""
    relevant, score = np.asarray(relevant_k, bool), np.asarray(score_k, np.float64)
    if n_positives is not None and relevant.sum() > n_positives:
        raise ValueError(
            f"{relevant.sum()} results are relevant of {n_positives} relevant rows in all: "
            "no row may be counted twice."
        )
    order = np.argsort(-score, kind="stable")
    return relevant[order], score[order]


def _whole(*counts: ArrayLike) -> tuple[np.ndarray, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(count, np.int64) for count in counts)))
