"""Baseline (majority class, ZeroR): what is the best answer that does not look at the image?

The commonest label of the part, always: the best constant answer by accuracy and by macro F1, and
as good as any other by macro accuracy. Where models say how sure they are, the same certainty for
all: its average precision is the share of yes. What it scores is chance level.
"""

from __future__ import annotations

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
