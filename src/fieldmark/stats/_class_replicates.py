"""What do thousands of resamples give for a mean over classes?

Recall and F1 of a class are ratios of three sums: items of the class, hits, answers. One sparse
product turns the counts of all kinds of units into these sums for every resample.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldmark.stats._influence import form_of, read_classes
from fieldmark.stats._items import Items, Metric
from fieldmark.stats._resample import CellKinds, Resampling, cell_kinds


def replicate_classes(
    items: Items, prediction: np.ndarray, metric: Metric, resampling: Resampling
) -> np.ndarray:
    """Resampled scores of a metric whose closed form is "recall" or "f1"."""
    is_f1 = form_of(metric) == "f1"
    if not is_f1:  # which wrong answer was given does not matter: fewer kinds to draw
        prediction = np.where(prediction == items.target, prediction, -1)
    cells = cell_kinds(items, prediction)
    sums, width = _sums(items, cells)
    found = []
    for count_rk in cells.kinds.resampled(resampling, "interval"):
        # Counts below 2^24 are exact in float32.
        total = sums @ np.ascontiguousarray(count_rk.T, np.float32)
        size, hits, answers = total.reshape(3, -1, width, total.shape[1]).astype(np.float64)
        whole = size + answers if is_f1 else size
        ratio = np.divide((1 + is_f1) * hits, whole, out=np.zeros(size.shape), where=size > 0)
        found.append((ratio.sum(axis=1) / (size > 0).sum(axis=1)).mean(axis=0))
    return np.concatenate(found)


def _sums(items: Items, cells: CellKinds) -> tuple[Any, int]:
    """(sizes, hits, answers of the classes) × kinds of units, and the classes of a part."""
    target, answer = cells.columns.T
    is_mean = items.score == "mean"
    as_items = Items(target, None, cells.part if is_mean else None, items.score)
    classes = read_classes(as_items, int(answer.max()))
    n = len(classes.size)
    answered = classes.answered(answer) - 1
    known = np.flatnonzero((answered >= 0) & (classes.size[answered] > 0))
    right = np.flatnonzero(target == answer)
    row = np.concatenate([classes.target, n + classes.target[right], 2 * n + answered[known]])
    cell = np.concatenate([np.arange(len(target)), right, known])
    per_cell = _ones(row, cell, (3 * n, len(target)))
    per_kind = _ones(
        cells.cell_of_entry, cells.kind_of_entry, (len(target), len(cells.kinds.count))
    )
    n_parts = int(cells.part.max()) + 1 if is_mean else 1
    return (per_cell @ per_kind).tocsr(), n // n_parts


def _ones(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array  # slow to load, and most reports need none

    return csr_array((np.ones(len(row), np.float32), (row, column)), shape=shape)
