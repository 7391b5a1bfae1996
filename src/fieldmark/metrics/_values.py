"""Means of item values: top-k accuracy, accuracy by rank, recall@k, MRR, mAP, nDCG.

What each item was worth is worked out where it is answered, and stored with the answer under the
metric's name; the score is the mean. `_retrieval` has the formulas of ranked lists.
"""

from __future__ import annotations

import math

import numpy as np

from fieldmark.metrics._metric import Direction, Metric, metric
from fieldmark.taxa import RANKS

ANY = (-math.inf, math.inf)


def mean_value(
    name: str,
    title: str = "",
    doc: str = "",
    *,
    direction: Direction = "up",
    bounds: tuple[float, float] = ANY,
) -> Metric:
    """The mean of what items were worth, as a metric whose predictions are these values.

    >>> mean_acc = mean_value("acc")
    >>> mean_acc(np.zeros(2, int), np.array([0.0, 1.0])), mean_acc.uses, mean_acc.title
    (0.5, 'value', 'acc')
    """

    def mean(
        target: np.ndarray,  # noqa: ARG001
        prediction: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> float:
        weight_n = np.ones(len(prediction)) if weight is None else np.asarray(weight, np.float64)
        total = weight_n.sum()
        return float(weight_n @ prediction / total) if total > 0 else math.nan

    mean.__name__ = mean.__qualname__ = name  # as it is stored with an answer, and pickled
    mean.__doc__ = doc
    return metric(title or name, direction=direction, kind="mean", bounds=bounds, uses="value")(
        mean
    )


def _share(name: str, title: str, doc: str) -> Metric:
    return mean_value(name, title, doc, bounds=(0.0, 1.0))


def _top(k: int) -> Metric:
    doc = f"The share of photos whose label is in the top {k}: `rank of the label <= {k}`."
    return _share(f"top{k}_accuracy", f"top-{k} accuracy", doc)


def _at_rank(rank: str) -> Metric:
    doc = (
        f"The share of photos whose {rank} is right, when the probabilities of the classes are "
        f"summed up the taxonomy: `argmax over {rank} of sum of p = {rank} of the truth`. Items "
        "and classes without one are left out."
    )
    return _share(f"{rank}_accuracy", f"accuracy at the rank {rank}", doc)


def _recall(k: int) -> Metric:
    doc = (
        f"The share of queries whose own partner, the one of the same row, is among the {k} best: "
        f"`rank <= {k}`. Ties count by their chance."
    )
    return _share(f"recall_at_{k}", f"recall@{k}", doc)


def _multi_recall(k: int) -> Metric:
    doc = (
        f"The share of queries with a right answer among the {k} best, where all rows that share "
        "the caption or the image are right. Ties count by their chance."
    )
    return _share(f"multi_recall_at_{k}", f"recall@{k}, all positives", doc)


top3_accuracy, top5_accuracy = map(_top, (3, 5))
(
    kingdom_accuracy,
    phylum_accuracy,
    class_accuracy,
    order_accuracy,
    family_accuracy,
    genus_accuracy,
    species_accuracy,
) = map(_at_rank, RANKS)
recall_at_1, recall_at_5, recall_at_10 = map(_recall, (1, 5, 10))
multi_recall_at_1, multi_recall_at_5, multi_recall_at_10 = map(_multi_recall, (1, 5, 10))
mrr = _share(
    "mrr", "mean reciprocal rank", "The mean over queries of `1 / rank of the first right result`."
)
multi_mrr = _share(
    "multi_mrr",
    "mean reciprocal rank, all positives",
    "The mean over queries of `1 / rank of the first right answer`, where all rows that share the "
    "caption or the image are right.",
)
multi_map = _share(
    "multi_map",
    "mean average precision, all positives",
    "The mean over queries of `sum over k of (recall_k - recall_k-1) × precision_k`, where all "
    "rows that share the caption or the image are right.",
)
ap_at_k = _share(
    "ap_at_k",
    "average precision at k",
    "The mean over queries of `average precision of the k results × right ones among them / "
    "min(right ones, k)`; 0 where none is right.",
)
ndcg_at_k = _share(
    "ndcg_at_k",
    "nDCG at k",
    "The mean over queries of `sum of 1 / log2(1 + rank) of right results / the most it can be`.",
)
