"""Which linear least-squares classifier, and how strongly held back?

Standardise, then a ridge classifier; the strength comes from a full grid judged by stratified
folds. (Halving searches start from so few rows of a many-class set that they choose on noise.) The
answers equal scikit-learn's GridSearchCV(StandardScaler + RidgeClassifier) in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from fieldmark.probes._alphas import parse_alphas
from fieldmark.probes._arrays import read_asked, read_rows
from fieldmark.probes._decision import Decisions
from fieldmark.probes._folds import describe_folds, stratified, usable_folds
from fieldmark.probes._inputs import check_choice, check_count, read_labels
from fieldmark.probes._ridge_model import LinearModel
from fieldmark.probes._ridge_path import ridge_path
from fieldmark.probes._ridge_scorers import SCORERS
from fieldmark.probes._tensor import as_numpy, is_cuda

SUMMARY = "ridge classifier, strength from a cross-validated grid"


class Ridge(Decisions, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A ridge classifier whose strength was chosen on held-out rows.

    After `fit`: `alpha_` is the strength chosen (the first listed among equals), `cv_score_` its
    held-out score (NaN without a search), `search_note_` what the search could not do. Where
    nothing can be held out, the listed strength nearest to 1 is taken. One class only: that class
    is predicted (`one_class_`).

    Features may be a mapped float32 file: they are read in blocks and never copied whole (unless
    they have more columns than rows). Beyond them a fit needs about `8 × (folds + 3) × classes ×
    width` bytes for class sums and coefficients and some 200 MB for blocks: 0.7 GB for 10,000
    classes of width 768, whatever the number of rows. Features on a GPU stay there.
    """

    takes_tensors = True

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
        check_choice("ridge", "select_by", self.select_by, tuple(SCORERS))
        check_choice("ridge", "class_weight", self.class_weight, (None, "balanced"))

    def fit(self, X: Any, y: Any) -> Ridge:
        self.check_parameters()
        x_nd = read_rows(X)
        code_n, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.search_note_, self.alpha_, self.cv_score_ = "", float("nan"), float("nan")
        if self.one_class_:
            self.search_note_ = "one class only: nothing to learn"
            return self
        alphas, folds = parse_alphas(self.alphas), usable_folds(self.folds, code_n)
        if len(alphas) > 1:
            self.search_note_ = describe_folds(self.folds, folds)
        is_search = len(alphas) > 1 and folds >= 2
        splits = stratified(folds, code_n) if is_search else []
        path = _path(x_nd, code_n, self.class_weight == "balanced", splits)
        self.alpha_ = min(alphas, key=lambda alpha: abs(math.log(alpha)))
        if is_search:
            scorer = SCORERS[self.select_by]
            score_a = path.scores(alphas, scorer, self.n_jobs).mean(axis=1)
            self.alpha_, self.cv_score_ = alphas[int(score_a.argmax())], float(score_a.max())
        self.model_: LinearModel = path.model(self.alpha_)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The label with the highest decision value."""
        code_n = self._codes(read_asked(self, X))
        return np.asarray(self.classes_[code_n])

    def predict_score(self, X: Any) -> np.ndarray:
        """The lead of the predicted label's decision value over the best other label's.

        0 throughout when one class only was seen.
        """
        x_nd = read_asked(self, X)
        return np.zeros(len(x_nd)) if self.one_class_ else self.model_.lead(x_nd)


def _path(x_nd: Any, code_n: np.ndarray, is_balanced: bool, splits: Any) -> Any:
    """Sums over the rows, where the rows are; a few rows on a GPU are brought home."""
    if is_cuda(x_nd) and len(x_nd) > x_nd.shape[1]:
        from fieldmark.probes._torch_ridge import RidgePathThere

        return RidgePathThere(x_nd, code_n, is_balanced, splits)
    return ridge_path(as_numpy(x_nd), code_n, is_balanced, splits)


Probe = Ridge
