"""Which linear least-squares classifier, and how strongly held back?

Standardise, then scikit-learn's RidgeClassifier; the strength comes from a full grid judged by
stratified folds. (Halving searches start from so few rows of a many-class set that they choose on
noise.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fieldmark.probes._alphas import parse_alphas
from fieldmark.probes._decision import DOUBLE, Decisions
from fieldmark.probes._folds import describe_folds, stratified, usable_folds
from fieldmark.probes._inputs import (
    check_choice,
    check_count,
    read_training,
)

SUMMARY = "ridge classifier, strength from a cross-validated grid"


class Ridge(Decisions, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A ridge classifier whose strength was chosen on held-out rows.

    After `fit`: `alpha_` is the strength chosen (the first listed among equals), `cv_score_` its
    held-out score (NaN without a search), `search_note_` what the search could not do. Where
    nothing can be held out, the listed strength nearest to 1 is taken. One class only: that class
    is predicted (`one_class_`).
    """

    def __init__(
        self,
        *,
        alphas: Any = "2^-15 .. 2^10",
        folds: int = 5,
        select_by: str = "accuracy",
        class_weight: str | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.alphas = alphas
        self.folds = folds
        self.select_by = select_by
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def check_parameters(self) -> None:
        parse_alphas(self.alphas)
        check_count("ridge", "folds", self.folds, least=2)
        check_choice("ridge", "select_by", self.select_by, tuple(_SCORERS))
        check_choice("ridge", "class_weight", self.class_weight, (None, "balanced"))

    def fit(self, X: Any, y: Any) -> Ridge:
        self.check_parameters()
        x_nd, code_n, self.classes_ = read_training(X, y, DOUBLE)
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.search_note_, self.alpha_, self.cv_score_ = "", float("nan"), float("nan")
        if self.one_class_:
            self.search_note_ = "one class only: nothing to learn"
            return self
        alphas, folds = parse_alphas(self.alphas), usable_folds(self.folds, code_n)
        if len(alphas) > 1:
            self.search_note_ = describe_folds(self.folds, folds)
        if len(alphas) > 1 and folds >= 2:
            self._fit_search(x_nd, code_n, alphas, folds)
        else:
            self.alpha_ = min(alphas, key=lambda alpha: abs(math.log(alpha)))
            self.model_ = self._pipeline(self.alpha_).fit(x_nd, code_n)
        return self

    def _pipeline(self, alpha: float) -> Any:
        return make_pipeline(
            StandardScaler(), RidgeClassifier(alpha=alpha, class_weight=self.class_weight)
        )

    def _fit_search(
        self, x_nd: np.ndarray, code_n: np.ndarray, alphas: list[float], folds: int
    ) -> None:
        found = GridSearchCV(
            self._pipeline(1.0),
            {"ridgeclassifier__alpha": alphas},
            scoring=_SCORERS[self.select_by],
            cv=stratified(folds, code_n),
            n_jobs=self.n_jobs,
        ).fit(x_nd, code_n)
        self.model_, self.cv_score_ = found.best_estimator_, float(found.best_score_)
        self.alpha_ = float(found.best_params_["ridgeclassifier__alpha"])


def _macro_accuracy(target: np.ndarray, prediction: np.ndarray) -> float:
    # scikit-learn's balanced accuracy warns of every class that is predicted but not in the fold.
    _, code_n = np.unique(target, return_inverse=True)
    hits = np.bincount(code_n, weights=target == prediction)
    return float(np.mean(hits / np.bincount(code_n)))


_SCORERS = {
    "accuracy": "accuracy",
    "macro_accuracy": make_scorer(_macro_accuracy),
    "macro_f1": "f1_macro",
}

Probe = Ridge
