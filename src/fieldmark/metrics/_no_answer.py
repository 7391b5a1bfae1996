"""No answer (refusal, abstention): what is an item worth that was asked and not answered?

As much as a wrong answer, by every metric: who refuses what is hard must not gain by it. Scores,
intervals, comparisons, tiers, plots and page all take the answers that stand in for none from here.
"""

from __future__ import annotations

import math

import numpy as np

from fieldmark.metrics._metric import Metric

NO_LABEL = -1
"""equals no target"""


def wrong_answers(target: np.ndarray, metric: Metric) -> np.ndarray:
    """A wrong answer to each item, in the form the metric takes.

    Of labels one that no class has, of certainties a sure no for a yes and the other way round, of
    values the worst there can be; NaN where a value has no bound: such items can only be left out.

    >>> from fieldmark.metrics import load_metric
    >>> target = np.array([1, 0])
    >>> [wrong_answers(target, load_metric(m)).tolist() for m in ("macro_f1", "average_precision")]
    [[-1, -1], [-1.0, 1.0]]
    """
    target = np.asarray(target)
    if metric.uses == "score":
        return np.where(target > 0, -1.0, 1.0)
    if metric.uses == "value":
        worst = metric.bounds[0 if metric.direction == "up" else 1]
        return np.full(len(target), worst if math.isfinite(worst) else math.nan)
    return np.full(len(target), 0 if metric.uses == "whole" else NO_LABEL)


def fill_values(value: np.ndarray, is_silent: np.ndarray, metric: Metric) -> np.ndarray:
    """Values of items (NaN: none), with a wrong answer's where an item was asked and is silent."""
    worst = wrong_answers(np.zeros(1), metric)[0]
    return np.asarray(np.where(is_silent & np.isnan(value), worst, value))
