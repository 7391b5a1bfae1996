"""How often is the one label right: over all items, or evenly over the classes?

Classes are those present in the (weighted) truth. A class that a resample lost is left out of it,
never scored 0, and a class that is only predicted costs the classes it was predicted for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmark.metrics._registry import metric


@metric("accuracy", kind="mean", bounds=(0.0, 1.0))
def accuracy(target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The share of items whose label is right."""
    target, prediction, weight = _read(target, prediction, weight)
    total = weight.sum()
    return float(weight[target == prediction].sum() / total) if total > 0 else float("nan")


@metric("macro accuracy", bounds=(0.0, 1.0))
def macro_accuracy(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
) -> float:
    """The mean over classes of the share of their items that is right (balanced accuracy)."""
    tally = _count(*_read(target, prediction, weight))
    return _mean(tally.hits / tally.size)


@metric("macro F1", bounds=(0.0, 1.0))
def macro_f1(target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The mean over classes of F1, as WILDS scores iWildCam: over the labels in the truth."""
    tally = _count(*_read(target, prediction, weight))
    return _mean(2 * tally.hits / (tally.size + tally.predicted))


@dataclass(frozen=True, slots=True)
class _Tally:
    """Weighted counts of each class that is present."""

    size: np.ndarray
    """items of the class"""
    hits: np.ndarray
    """of those, predicted so"""
    predicted: np.ndarray
    """items predicted to be of the class, rightly or not"""


def _count(target: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> _Tally:
    classes, code = np.unique(target, return_inverse=True)
    n_classes = len(classes)
    size = np.bincount(code, weight, n_classes)
    is_right = target == prediction
    hits = np.bincount(code[is_right], weight[is_right], n_classes)
    place = np.searchsorted(classes, prediction)
    is_class = place < n_classes
    is_class[is_class] = classes[place[is_class]] == prediction[is_class]
    predicted = np.bincount(place[is_class], weight[is_class], n_classes)
    is_present = size > 0
    return _Tally(size[is_present], hits[is_present], predicted[is_present])


def _read(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    target, prediction = np.asarray(target), np.asarray(prediction)
    weight = np.ones(len(target)) if weight is None else np.asarray(weight, np.float64)
    if not target.shape == prediction.shape == weight.shape or target.ndim != 1:
        raise ValueError(
            f"target, prediction and weight have the shapes {target.shape}, {prediction.shape}, "
            f"{weight.shape}: expected one value per item in each."
        )
    if len(target) and (target.dtype.kind not in "iu" or target.min() < 0):
        raise ValueError("targets must be whole numbers from 0 up: -1 stands for no answer.")
    return target, prediction, weight


def _mean(value_c: np.ndarray) -> float:
    return float(value_c.mean()) if len(value_c) else float("nan")
