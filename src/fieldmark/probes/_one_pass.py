"""How do labels and how sure they are come out of one pass over the rows?

A probe does its work in `predict_with_score`; `predict` and `predict_score` are views of it.
Whoever wants both asks once: going through the rows a second time would double the cost of a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class OnePass(ABC):
    """`predict` and `predict_score` of a probe that has `predict_with_score`."""

    @abstractmethod
    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labels, and how sure each is."""

    def predict(self, X: Any) -> np.ndarray:
        """The label of each row."""
        return self.predict_with_score(X)[0]

    def predict_score(self, X: Any) -> np.ndarray:
        """How sure each prediction is; the class says in which unit."""
        return self.predict_with_score(X)[1]
