"""What may a metric be given?

Weights may be a matrix, one row per resample.
"""

from __future__ import annotations

import numpy as np


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
