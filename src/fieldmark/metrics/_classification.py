"""Classification metrics: accuracy, macro F1, average precision, calibration, open-set loss.

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
    """The share of photos whose label is right: `right / photos`."""
    target, prediction, weight = read_labels(target, prediction, weight)
    total = weight.sum()
    return float(weight[target == prediction].sum() / total) if total > 0 else float("nan")


@metric("exact match", kind="mean", bounds=(0.0, 1.0), uses="whole", closed_form="right")
def exact_match(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
) -> float:
    """The share of photos with every part (every trait) right: `all parts right / photos`."""
    return accuracy(target, prediction, weight)


@metric("macro accuracy", bounds=(0.0, 1.0), takes_many=True, closed_form="recall")
def macro_accuracy(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
) -> float:
    """Balanced accuracy, the mean of recall over the true labels: `right / photos of it`."""
    tally = _count(*read_labels(target, prediction, weight))
    value: float = _mean(tally.hits, tally.size, tally.size)
    return value


@metric("macro F1", bounds=(0.0, 1.0), takes_many=True, closed_form="f1")
def macro_f1(target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The mean over the labels in the truth of F1: `2 × right / (photos of it + predicted as it)`.

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
    index = np.searchsorted(classes, prediction)
    is_class = index < len(classes)
    is_class[is_class] = classes[index[is_class]] == prediction[is_class]
    is_right = target == prediction
    return _Tally(
        _sums(weight, code, len(classes)),
        _sums(weight[..., is_right], code[is_right], len(classes)),
        _sums(weight[..., is_class], index[is_class], len(classes)),
    )


def _sums(weight: np.ndarray, code: np.ndarray, n: int) -> np.ndarray:
    """The weights added up by code, along the last axis."""
    if weight.ndim == 1:
        return np.bincount(code, weight, n)
    sums = np.zeros((*weight.shape[:-1], n))
    if len(code):
        order = np.argsort(code, kind="stable")
        start = np.flatnonzero(np.diff(code[order], prepend=-1))
        sums[..., code[order][start]] = np.add.reduceat(weight[..., order], start, axis=-1)
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
        raise ValueError("targets must be whole numbers from 0 up: -1 means no answer.")
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


# --- Average precision: do the items that are so come before those that are not?
#
# Computed from signed certainties, so that two models that give the same yes and no can differ.
# Weights may be a matrix, one row per resample: then there is one value per row.


@metric("average precision", bounds=(0.0, 1.0), takes_many=True, uses="score")
def average_precision(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
) -> Any:
    """Area under precision and recall: `sum over k of (recall_k - recall_k-1) × precision_k`.

    Items come by falling certainty, those of equal certainty together. As scikit-learn's: no
    interpolation, and 0 where no photo is a yes. NaN without any photo.
    """
    target, score, weight = read_columns(target, prediction, weight)
    if np.isnan(score).any():
        raise ValueError(f"{int(np.isnan(score).sum())} of {len(score)} scores are NaN.")
    order = np.argsort(-score, kind="stable")
    weight, is_so = weight[..., order], target[order] > 0
    any_n = np.asarray(weight.sum(axis=-1) > 0)
    if not is_so.any():
        value = np.zeros(any_n.shape)
    else:
        # Only steps where something that is so is found add to the area.
        step_n = np.cumsum(np.diff(score[order], prepend=np.nan) != 0)
        so = np.flatnonzero(is_so)
        start = np.flatnonzero(np.diff(step_n[so], prepend=-1))
        last = np.searchsorted(step_n, step_n[so[start]], side="right") - 1
        gained = np.add.reduceat(weight[..., so], start, axis=-1)
        # The mean of precision over what was gained at each step; 0 where nothing was
        taken = np.cumsum(weight, axis=-1)[..., last]
        precision = np.cumsum(gained, axis=-1)
        total = precision[..., -1].copy()
        precision /= np.where(taken > 0, taken, 1.0)
        area = np.einsum("...k,...k->...", precision, gained)
        value = np.asarray(area / np.where(total > 0, total, 1.0))
    value = np.where(any_n, value, np.nan)
    return float(value) if value.ndim == 0 else value


# --- Open-set user loss: what do wrong answers cost someone who eats the mushroom?
#
# The user-focused loss of FungiCLEF 2023 (https://www.imageclef.org/FungiCLEF2023): a species
# that training does not know, taken for a known one, costs 10, a known one taken for unknown 0.1,
# one known species for another 1; on top of it, a poisonous one not told to be poisonous costs
# 100, and any other told to be poisonous 1. "unknown" counts as not poisonous on both sides. The
# sum is divided by the most these items could have cost, so that it lies between 0 and 1.


POISONOUS, UNKNOWN = "poisonous", "unknown"
NEW_AS_KNOWN, KNOWN_AS_NEW, WRONG = 10.0, 0.1, 1.0
POISON_MISSED, POISON_FEARED = 100.0, 1.0


@metric("user loss", direction="down", bounds=(0.0, 1.0), takes_many=True, uses="kinds")
def user_loss(
    target: np.ndarray,
    prediction: np.ndarray,
    weight: np.ndarray | None = None,
    *,
    kind: np.ndarray,
) -> Any:
    """FungiCLEF 2023's cost of wrong answers: `cost / the most these photos could have cost`.

    An unknown species taken for a known one costs 10, a known one for unknown 0.1, one known for
    another 1; besides, a poisonous one not told to be poisonous 100, any other told to be so 1.
    """
    target, prediction, weight = read_labels(target, prediction, weight)
    total = np.asarray(weight @ _worst(kind[target]))
    cost = weight @ _costs(target, prediction, kind)
    value = np.divide(cost, total, out=np.full(total.shape, np.nan), where=total > 0)
    return float(value) if value.ndim == 0 else value


def _costs(target: np.ndarray, prediction: np.ndarray, kind_c: np.ndarray) -> np.ndarray:
    said_n = np.where(prediction >= 0, kind_c[prediction], "")
    is_new, is_poison = kind_c[target] == UNKNOWN, kind_c[target] == POISONOUS
    said_new, said_poison = said_n == UNKNOWN, said_n == POISONOUS
    wrong = np.where(is_new, NEW_AS_KNOWN, np.where(said_new, KNOWN_AS_NEW, WRONG))
    cost = np.where((target == prediction) | (is_new & said_new), 0.0, wrong)
    cost += np.where(is_poison & ~said_poison, POISON_MISSED, 0.0)
    return np.asarray(cost + np.where(~is_poison & said_poison, POISON_FEARED, 0.0))


def _worst(kind_n: np.ndarray) -> np.ndarray:
    """The most that an item can cost."""
    mistaken = np.where(kind_n == UNKNOWN, NEW_AS_KNOWN, WRONG)
    return np.asarray(mistaken + np.where(kind_n == POISONOUS, POISON_MISSED, POISON_FEARED))


# --- Calibration (expected calibration error, log loss): are answers right as often as they say?
#
# Expected calibration error (Guo et al. 2017): the answers in 15 bins of certainty, all as wide;
# in each the gap between the mean certainty and the share that is right, weighted by its answers.
# Log loss: the mean of `-log p` of the truth, in nats. No metrics by name: both need more than an
# answer.


N_BINS = 15
_LEAST = float(np.finfo(np.float64).eps)
"""as in scikit-learn's `log_loss`: a probability of 0 costs 36, not infinity"""


def calibration(
    sure_n: np.ndarray, is_right_n: np.ndarray, truth_n: np.ndarray
) -> dict[str, float]:
    """`ece` and `nll` of answers with these certainties and these probabilities of the truth.

    >>> calibration(np.array([0.75, 0.75]), np.array([True, False]), np.array([0.75, 0.25]))["ece"]
    0.25
    """
    bin_n = np.minimum((sure_n * N_BINS).astype(np.intp), N_BINS - 1)
    gap_b = np.bincount(bin_n, is_right_n - sure_n, N_BINS)
    return {
        "ece": float(np.abs(gap_b).sum() / len(sure_n)),
        "nll": float(-np.log(np.clip(truth_n, _LEAST, 1)).mean()),
    }
