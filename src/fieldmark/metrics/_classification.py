"""Classification metrics: accuracy, macro accuracy, macro F1, exact match.

How often is the one label right: over all items, or evenly over the classes? Classes are those
present in the (weighted) truth. A class that a resample lost is left out of it, never scored 0, and
a class that is only predicted costs the classes it was predicted for.

Weights may be a matrix, one row per resample: then there is one value per row. Counts of classes
are sums over runs of sorted items, so thousands of resamples cost little more than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark.metrics._metric import metric


@metric("accuracy", kind="mean", bounds=(0.0, 1.0), closed_form="right")
def accuracy(target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The share of items whose label is right: `right / items`."""
    target, prediction, weight = read_labels(target, prediction, weight)
    total = weight.sum()
    return float(weight[target == prediction].sum() / total) if total > 0 else float("nan")


@metric("exact match", kind="mean", bounds=(0.0, 1.0), uses="whole", closed_form="right")
def exact_match(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
) -> float:
    """The share of items of which every part (every trait) is right: `all parts right / items`."""
    return accuracy(target, prediction, weight)


@metric("macro accuracy", bounds=(0.0, 1.0), takes_many=True, closed_form="recall")
def macro_accuracy(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
) -> float:
    """Balanced accuracy, the mean over the labels in the truth of recall: `right / items of it`."""
    tally = _count(*read_labels(target, prediction, weight))
    value: float = _mean(tally.hits, tally.size, tally.size)
    return value


@metric("macro F1", bounds=(0.0, 1.0), takes_many=True, closed_form="f1")
def macro_f1(target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The mean over the labels in the truth of F1: `2 × right / (items of it + predicted as it)`.

    As WILDS scores iWildCam.
    """
    tally = _count(*read_labels(target, prediction, weight))
    value: float = _mean(2 * tally.hits, tally.size + tally.predicted, tally.size)
    return value


@dataclass(frozen=True, slots=True)
class _Tally:
    """Weighted counts of each class in the truth; with many resamples, one row for each."""

    size: np.ndarray
    """items of the class"""
    hits: np.ndarray
    """of those, predicted so"""
    predicted: np.ndarray
    """items predicted to be of the class, rightly or not"""


def _count(target: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> _Tally:
    classes, code = np.unique(target, return_inverse=True)
    place = np.searchsorted(classes, prediction)
    is_class = place < len(classes)
    is_class[is_class] = classes[place[is_class]] == prediction[is_class]
    is_right = target == prediction
    return _Tally(
        _sums(weight, code, len(classes)),
        _sums(weight[..., is_right], code[is_right], len(classes)),
        _sums(weight[..., is_class], place[is_class], len(classes)),
    )


def _sums(weight: np.ndarray, code: np.ndarray, n: int) -> np.ndarray:
    """The weights added up by code, along the last axis."""
    if weight.ndim == 1:
        return np.bincount(code, weight, n)
    sums = np.zeros((*weight.shape[:-1], n))
    if len(code):
        order = np.argsort(code, kind="stable")
        first = np.flatnonzero(np.diff(code[order], prepend=-1))
        sums[..., code[order][first]] = np.add.reduceat(weight[..., order], first, axis=-1)
    return sums


def _mean(part_c: np.ndarray, whole_c: np.ndarray, size_c: np.ndarray) -> Any:
    """The mean of part / whole over the classes that are present; NaN without any."""
    is_present = size_c > 0
    share_c = np.divide(part_c, whole_c, out=np.zeros(size_c.shape), where=is_present)
    n_present = np.asarray(is_present.sum(axis=-1), np.float64)
    n_present[n_present == 0] = np.nan
    mean = share_c.sum(axis=-1) / n_present
    return float(mean) if mean.ndim == 0 else mean


# --- what a metric is given ---


def read_labels(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets and predictions as whole numbers, and a weight for each."""
    target, prediction, weight = read_columns(target, prediction, weight)
    if len(target) and (target.dtype.kind not in "iu" or target.min() < 0):
        raise ValueError("targets must be whole numbers from 0 up: -1 stands for no answer.")
    return target, prediction, weight


def read_columns(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of equal length, and a weight for each."""
    target, prediction = np.asarray(target), np.asarray(prediction)
    weight = np.ones(len(target)) if weight is None else np.asarray(weight, np.float64)
    if not target.shape == prediction.shape == weight.shape[-1:] or target.ndim != 1:
        raise ValueError(
            f"target, prediction and weight have the shapes {target.shape}, {prediction.shape}, "
            f"{weight.shape}: expected one value per item in each."
        )
    return target, prediction, weight
