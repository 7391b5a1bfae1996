"""Baseline (majority class, ZeroR): what is the best answer that does not look at the image?

The commonest label of the part, always: the best constant answer by accuracy and by macro F1, and
as good as any other by macro accuracy. Where models say how sure they are, the same certainty for
all: its average precision is the share of yes. What it scores is chance level.
"""

from __future__ import annotations

import math

import numpy as np

from fieldmark.metrics._metric import Metric


def blind_answers(
    target: np.ndarray, metric: Metric, part: np.ndarray | None = None
) -> np.ndarray | None:
    """The answer to each item, in the form the metric takes; None where nobody knows the best one.

    >>> from fieldmark.metrics import load_metric
    >>> blind_answers(np.array([2, 2, 0]), load_metric("accuracy"))
    array([2, 2, 2])
    """
    target = np.asarray(target)
    if metric.uses == "score":
        return np.zeros(len(target))
    if metric.uses != "prediction" or not metric.closed_form or not len(target):
        return None
    labels, label_n = np.unique(target, return_inverse=True)
    part = np.zeros(len(target), np.intp) if part is None else np.asarray(part)
    parts, part_n = np.unique(part, return_inverse=True)
    count_pc = np.zeros((len(parts), len(labels)), np.intp)
    np.add.at(count_pc, (part_n, label_n), 1)
    return np.asarray(labels[count_pc.argmax(axis=1)][part_n])


# --- No answer (refusal, abstention): what is an item worth that was asked and not answered?
#
# As much as a wrong answer, by every metric: who refuses what is hard must not gain by it.
# Scores, intervals, comparisons, tiers, plots and page all take the answers that stand in for
# none from here.


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
