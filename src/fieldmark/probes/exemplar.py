"""Which other image does a machine trained on this one image alone find?

Re-identification by exemplar SVM (Malisiewicz, Gupta and Efros, ICCV 2011), as LeopardID uses it:
for each query one `LinearSVC(class_weight="balanced", C=0.1, tol=1e-6)` of that image against all
others; the label of the other image with the highest score is the answer. Here thousands of those
machines share their work; the answers are those of the machines one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fieldmark.probes._exemplar_ask import Asker
from fieldmark.probes._inputs import (
    ProbeDataError,
    check_positive,
    read_queries,
    read_training,
)

SUMMARY = "exemplar SVM: one machine per query, the best other image's label; can leave one out"


class Exemplar(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The label of the gallery image that the query's own linear SVM scores highest.

    At equal scores the first in the gallery. The score of a prediction is that image's decision
    value: above -1 it lies within the margin of the query.
    """

    def __init__(self, *, C: float = 0.1) -> None:
        self.C = C

    def check_parameters(self) -> None:
        check_positive("exemplar", "C", self.C)

    def fit(self, X: Any, y: Any) -> Exemplar:
        """Remembers the gallery; machines are trained when asked."""
        self.check_parameters()
        self.x_, self.code_, self.classes_ = read_training(X, y)
        self.n_features_in_ = self.x_.shape[1]
        self.one_class_ = len(self.classes_) == 1
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The label of the best gallery image."""
        return self._answer(read_queries(self, X))[0]

    def predict_score(self, X: Any) -> np.ndarray:
        """Decision value of the best gallery image."""
        return self._answer(read_queries(self, X))[1]

    def predict_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and scores of the training images, each asked of all the others."""
        best_n, score_n = self.retrieve_leave_one_out()
        return self.classes_[self.code_[best_n]], score_n

    def retrieve_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """For each training image the row of the best other image, and its score."""
        check_is_fitted(self)
        if len(self.x_) < 2:
            raise ProbeDataError("leaving one out of 1 image leaves none: at least two are needed.")
        asker = Asker(self.x_, self.C, is_among=True)
        return asker.answer(self.x_, np.arange(len(self.x_)))

    def _answer(self, x_qd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        best_q, score_q = Asker(self.x_, self.C, is_among=False).answer(x_qd)
        return self.classes_[self.code_[best_q]], score_q


Probe = Exemplar
