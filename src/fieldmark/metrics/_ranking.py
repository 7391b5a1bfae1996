"""Average precision: do the items that are so come before those that are not?

Computed from signed certainties, so that two models that give the same yes and no can differ.
Weights may be a matrix, one row per resample: then there is one value per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldmark.metrics._classification import read_columns
from fieldmark.metrics._metric import metric


@metric("average precision", bounds=(0.0, 1.0), takes_many=True, uses="score")
def average_precision(
    target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
) -> Any:
    """Area under precision and recall: `sum over k of (recall_k - recall_k-1) × precision_k`.

    Items come by falling certainty, those of equal certainty together. As scikit-learn's: no
    interpolation, and 0 where no item is a yes. NaN without any item.
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
        first = np.flatnonzero(np.diff(step_n[so], prepend=-1))
        last = np.searchsorted(step_n, step_n[so[first]], side="right") - 1
        gained = np.add.reduceat(weight[..., so], first, axis=-1)
        value = _area(gained, np.cumsum(weight, axis=-1)[..., last])
    value = np.where(any_n, value, np.nan)
    return float(value) if value.ndim == 0 else value


def _area(gained: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """The mean of precision over what was gained at each step; 0 where nothing was."""
    precision = np.cumsum(gained, axis=-1)
    total = precision[..., -1].copy()
    precision /= np.where(taken > 0, taken, 1.0)
    area = np.einsum("...k,...k->...", precision, gained)
    return np.asarray(area / np.where(total > 0, total, 1.0))
