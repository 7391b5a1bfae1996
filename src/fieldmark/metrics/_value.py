"""Mean of values: how good is a run whose items were valued one by one before?

Tasks in lmms-eval's form give every document a value of their own. What is left to do is the mean
of these values; it is no metric that a task could name.
"""

from __future__ import annotations

import math

import numpy as np

from fieldmark.metrics._classification import read_columns
from fieldmark.metrics._registry import Direction, Metric, metric


def document_value(
    name: str, direction: Direction = "up", bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Metric:
    """The mean of the values of that name, which stand in place of predictions.

    >>> mean = document_value("acc")
    >>> mean(np.zeros(2, int), np.array([0.0, 1.0])), mean.uses, mean.title
    (0.5, 'value', 'acc')
    """

    @metric(name, direction=direction, kind="mean", bounds=bounds, uses="value")
    def mean_value(
        target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
    ) -> float:
        _, value, weight = read_columns(target, prediction, weight)
        total = weight.sum()
        return float(weight @ value / total) if total > 0 else float("nan")

    return mean_value
