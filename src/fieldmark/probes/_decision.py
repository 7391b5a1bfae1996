"""How do a fitted scikit-learn model's decision values become labels and scores?"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldmark.probes._inputs import read_queries

# Double precision: with the small strengths of the usual grids float32 moves whole predictions.
DOUBLE = (np.float64,)


class Decisions:
    """Predictions of a probe with `model_` (fitted on class numbers), `classes_`, `one_class_`."""

    model_: Any
    classes_: np.ndarray
    one_class_: bool

    def predict(self, X: Any) -> np.ndarray:
        """The label on whose side each row lies."""
        code_n = self._codes(read_queries(self, X, DOUBLE))
        return np.asarray(self.classes_[code_n])

    def predict_score(self, X: Any) -> np.ndarray:
        """The lead of the predicted label's decision value over the best other label's.

        0 throughout when one class only was seen. Below 0 where the model settled a tie of votes
        against its decision values.
        """
        x_nd = read_queries(self, X, DOUBLE)
        value = self._values(x_nd)
        return np.abs(value) if value.ndim == 1 else _lead(value, self._codes(x_nd))

    def decision_function(self, X: Any) -> np.ndarray:
        """scikit-learn's decision values: n for two classes (or one), n × C for more."""
        return self._values(read_queries(self, X, DOUBLE))

    def _codes(self, x_nd: np.ndarray) -> np.ndarray:
        if self.one_class_ or not len(x_nd):
            return np.zeros(len(x_nd), np.intp)
        return np.asarray(self.model_.predict(x_nd))

    def _values(self, x_nd: np.ndarray) -> np.ndarray:
        if self.one_class_ or not len(x_nd):
            return np.zeros(len(x_nd))
        return np.asarray(self.model_.decision_function(x_nd))


def _lead(value_nc: np.ndarray, code_n: np.ndarray) -> np.ndarray:
    rows = np.arange(len(value_nc))
    others_nc = value_nc.copy()
    others_nc[rows, code_n] = -np.inf
    return np.asarray(value_nc[rows, code_n] - others_nc.max(axis=1))
