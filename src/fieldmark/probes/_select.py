"""Model selection: which of several settings is best on held-out rows, and what is told of it?

The score is the metric of that name, so that `select_by: macro_f1` and `metric: macro_f1` are one
formula. What a reader should know of a search (a choice at the edge of its grid, classes that some
folds lack) is told in sentences, which a probe keeps as `fit_notes_`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fieldmark.metrics import load_metric

SELECT_BY = ("accuracy", "macro_accuracy", "macro_f1")
ONE_CLASS = "one class only: nothing to learn"
LEAST_GRID = 3
"""values of a grid, below which every choice is at an edge"""

Scorer = Callable[[np.ndarray, np.ndarray], float]


def load_scorer(select_by: str) -> Scorer:
    """The score of (true, predicted) class numbers."""
    return load_metric(select_by)


def edge_notes(name: str, grid: Sequence[float], score: np.ndarray) -> list[str]:
    """Says that the best value is the smallest or the largest of its grid, if it is.

    Not where the next value does as well: then nothing says that one beyond the edge is better.

    >>> edge_notes("alpha", [1, 10, 100], np.array([0.5, 0.6, 0.7]))
    ['alpha = 100 is the largest of its grid: a larger one may be better']
    """
    best = grid[int(score.argmax())]
    value, first = np.unique(grid, return_index=True)
    score = score[first]
    if len(value) < LEAST_GRID:
        return []
    if best == value[-1] and score[-1] > score[-2]:
        return [f"{name} = {best:g} is the largest of its grid: a larger one may be better"]
    if best == value[0] and score[0] > score[1]:
        return [f"{name} = {best:g} is the smallest of its grid: a smaller one may be better"]
    return []


def rare_notes(code_n: np.ndarray, least: int, what: str) -> list[str]:
    """Says how many classes have fewer rows than a search needs of each, and what comes of it."""
    count_c = np.bincount(code_n)
    n_rare = int((count_c < least).sum())
    if not n_rare:
        return []
    have = "has" if n_rare == 1 else "have"
    few = "one image" if least == 2 else f"fewer than {least} images"
    return [f"{n_rare} of {len(count_c)} classes {have} {few}: {what}"]
