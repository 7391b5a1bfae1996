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

from fieldmark.probes._arrays import read_asked, read_gallery
from fieldmark.probes._exemplar_ask import Asker
from fieldmark.probes._exemplar_bank import DOUBLE_ROWS
from fieldmark.probes._inputs import ProbeDataError, check_positive
from fieldmark.probes._one_pass import OnePass
from fieldmark.probes._tensor import as_numpy, is_cuda

SUMMARY = "exemplar SVM: one machine per query, the best other image's label; can leave one out"


class Exemplar(OnePass, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The label of the gallery image that the query's own linear SVM scores highest.

    At equal scores the first in the gallery. The score of a prediction is that image's decision
    value: above -1 it lies within the margin of the query. A gallery on a GPU stays there, and the
    machines are trained there.
    """

    takes_tensors = True

    def __init__(self, *, C: float = 0.1) -> None:
        self.C = C

    def check_parameters(self) -> None:
        check_positive("exemplar", "C", self.C)

    def fit(self, X: Any, y: Any) -> Exemplar:
        """Remembers the gallery; machines are trained when asked."""
        self.check_parameters()
        self.x_, self.code_, self.classes_ = read_gallery(X, y)
        self.n_features_in_ = self.x_.shape[1]
        self.one_class_ = len(self.classes_) == 1
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label of the best gallery image, and its decision value."""
        return self._answer(read_asked(self, X))

    def predict_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and scores of the training images, each asked of all the others."""
        best_n, score_n = self.retrieve_leave_one_out()
        return self.classes_[self.code_[best_n]], score_n

    def retrieve_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """For each training image the row of the best other image, and its score."""
        check_is_fitted(self)
        if len(self.x_) < 2:
            raise ProbeDataError("leaving one out of 1 image leaves none: at least two are needed.")
        return self._ask(self.x_, np.arange(len(self.x_)))

    def _answer(self, x_qd: Any) -> tuple[np.ndarray, np.ndarray]:
        best_q, score_q = self._ask(x_qd)
        return self.classes_[self.code_[best_q]], score_q

    def _ask(self, x_qd: Any, own_q: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Row of the best image and its score; `own_q`: the query's own row, which is left out."""
        is_among = own_q is not None
        if is_cuda(self.x_) and len(x_qd) and len(self.x_) > DOUBLE_ROWS:
            from fieldmark.probes._torch_exemplar import answer

            return answer(self.x_, self.C, x_qd, own_q)
        return Asker(as_numpy(self.x_), self.C, is_among).answer(as_numpy(x_qd), own_q)


Probe = Exemplar
