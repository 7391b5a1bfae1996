"""Which strength is best on held-out rows, and what is the classifier at that strength?

The answers are those of scikit-learn's GridSearchCV over StandardScaler + RidgeClassifier, without
its fits: see `_moments`, `_ridge_system`, `_ridge_predict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fieldmark.probes._moments import Moments, measure
from fieldmark.probes._ridge_model import LinearModel
from fieldmark.probes._ridge_predict import predict_path
from fieldmark.probes._ridge_system import (
    System,
    from_moments,
    from_rows,
    solve_moments,
    solve_rows,
)
from fieldmark.probes._select import Scorer

Splits = Sequence[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, slots=True)
class RidgePath:
    """Training rows, their sums, and everything that follows from them for any strength."""

    x_nd: np.ndarray
    code_n: np.ndarray
    is_balanced: bool
    splits: Splits
    moments: Moments | None
    """None where rows are fewer than features: the rows themselves are the smaller side"""

    def system(self, fold: int) -> System:
        """Decision values learnt without the rows held out in that fold."""
        if self.moments is not None:
            return from_moments(self.moments.without(fold))
        train = self.splits[fold][0]
        return from_rows(self.x_nd[train], self.code_n[train], self.is_balanced)

    def scores(self, alphas: list[float], scorer: Scorer, n_jobs: int = 1) -> np.ndarray:
        """Held-out score by strength and fold; `n_jobs` folds at a time, each with its memory."""

        def score_fold(fold: int) -> list[float]:
            held = self.splits[fold][1]
            predicted_an = predict_path(self.x_nd, held, self.system(fold), alphas)
            return [scorer(self.code_n[held], predicted_n) for predicted_n in predicted_an]

        if n_jobs == 1:
            return np.array([score_fold(fold) for fold in range(len(self.splits))]).T
        with ThreadPoolExecutor(n_jobs if n_jobs > 0 else None) as pool:
            return np.array(list(pool.map(score_fold, range(len(self.splits))))).T

    def model(self, alpha: float) -> LinearModel:
        """The classifier learnt from all rows."""
        if self.moments is not None:
            return LinearModel(*solve_moments(self.moments.without(), alpha))
        return LinearModel(*solve_rows(self.x_nd, self.code_n, self.is_balanced, alpha))


def ridge_path(
    x_nd: np.ndarray, code_n: np.ndarray, is_balanced: bool, splits: Splits = ()
) -> RidgePath:
    """Sums over the rows; `splits` are (training, held-out) rows, every row held out once."""
    moments = None
    if len(x_nd) > x_nd.shape[1]:
        fold_n = np.zeros(len(x_nd), np.intp)
        for fold, (_, held) in enumerate(splits):
            fold_n[held] = fold
        moments = measure(x_nd, code_n, fold_n, is_balanced)
    return RidgePath(x_nd, code_n, is_balanced, splits, moments)
