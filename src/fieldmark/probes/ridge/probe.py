"""Ridge classifier: linear least squares with an L2 penalty, its strength from a full grid.

Standardise, then a ridge classifier; the strength is judged by stratified folds. (Halving searches
start from so few rows of a many-class set that they choose on noise.) The answers equal
scikit-learn's GridSearchCV(StandardScaler + RidgeClassifier) in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmark.probes._arrays import (
    ProbeEstimator,
    SomeRows,
    check_choice,
    check_count,
    read_features,
    read_labels,
    read_queries,
)
from fieldmark.probes._select import (
    ONE_CLASS,
    SELECT_BY,
    edge_notes,
    fold_notes,
    load_scorer,
    parse_alphas,
    read_units,
    stratified,
    unit_classes,
    usable_folds,
)

if TYPE_CHECKING:
    from fieldmark.probes.ridge.system import LinearModel

SUMMARY = "ridge classifier, strength from a cross-validated grid"
RECIPE = "GridSearchCV(make_pipeline(StandardScaler(), RidgeClassifier()), alphas, cv=folds)"


class Ridge(ProbeEstimator):
    """A ridge classifier whose strength was chosen on held-out rows.

    After `fit`: `alpha_` is the strength chosen (the first listed among equals), `cv_score_` its
    held-out score (NaN without a search), `chosen_` both of them where there was a choice, `tried_`
    all strengths with their scores, and `fit_notes_` what a reader should know of it. Where nothing
    can be held out, the listed strength nearest to 1 is taken. One class only: that class is
    predicted (`one_class_`). The score of a prediction is the lead of its decision value over the
    best other label's (for two classes the size of the one value), 0 throughout when one class only
    was seen.

    Features may be a mapped float32 file, or `SomeRows` of one: they are read in blocks and never
    copied whole (unless they have more columns than rows). Beyond them a fit needs about
    `8 × (folds + 3) × classes × width` bytes for class sums and coefficients and some 200 MB for
    blocks: 0.7 GB for 10,000 classes of width 768, whatever the number of rows.
    """

    list_parameters = ("alphas",)

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
        """penalties to try: a number, a power `2^-3`, a range `2^-15 .. 2^10`, or a list of them"""
        self.folds = folds
        """number of folds in the cross-validation that chooses"""
        self.select_by = select_by
        """what the search maximises: `accuracy`, `macro_accuracy` or `macro_f1`"""
        self.class_weight = class_weight
        """`balanced` (each class counts the same) or none"""
        self.n_jobs = n_jobs
        """number of folds to search at the same time, in threads; changes no answer"""

    def check_parameters(self) -> None:
        parse_alphas(self.alphas)
        check_count("ridge", "folds", self.folds, least=2)
        check_choice("ridge", "select_by", self.select_by, SELECT_BY)
        check_choice("ridge", "class_weight", self.class_weight, (None, "balanced"))

    def fit(self, X: Any, y: Any, groups: Any = None) -> Ridge:
        self.check_parameters()
        x_nd = X if isinstance(X, SomeRows) else read_features(X)
        code_n, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.alpha_ = self.cv_score_ = float("nan")
        self.chosen_: dict[str, float] = {}
        self.tried_: dict[str, list[float]] = {}
        self.fit_notes_ = [ONE_CLASS] if self.one_class_ else []
        if self.one_class_:
            return self
        alphas, unit_n = parse_alphas(self.alphas), read_units(groups, len(x_nd))
        code_u = unit_classes(code_n, unit_n)
        folds = usable_folds(self.folds, code_u)
        is_search = len(alphas) > 1 and folds >= 2
        splits = stratified(folds, code_n, unit_n) if is_search else []
        from fieldmark.probes.ridge.path import ridge_path

        path = ridge_path(x_nd, code_n, self.class_weight == "balanced", splits)
        self.alpha_ = min(alphas, key=lambda alpha: abs(math.log(alpha)))
        if len(alphas) > 1:
            self.fit_notes_ = fold_notes(self.folds, folds, code_u)
            self.chosen_ = {"alpha": self.alpha_}
        if is_search:
            score_a = path.scores(alphas, load_scorer(self.select_by), self.n_jobs).mean(axis=1)
            self.alpha_, self.cv_score_ = alphas[int(score_a.argmax())], float(score_a.max())
            self.chosen_ = {"alpha": self.alpha_, "cv_score": self.cv_score_}
            self.tried_ = {"alpha": alphas, "score": score_a.tolist()}
            self.fit_notes_ += edge_notes("alpha", alphas, score_a)
        self.model_: LinearModel = path.model(self.alpha_)
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label with the highest decision value, and its lead; see the class."""
        x_nd = read_queries(self, X)
        code_n, lead_n = np.zeros(len(x_nd), np.intp), np.zeros(len(x_nd))
        if not self.one_class_:
            code_n, lead_n = self.model_.decide(x_nd)
        return np.asarray(self.classes_[code_n]), lead_n

    def decision_function(self, X: Any) -> np.ndarray:
        """scikit-learn's decision values: n for two classes (or one), n × C for more."""
        x_nd = read_queries(self, X)
        if self.one_class_:
            return np.zeros(len(x_nd))
        return self.model_.decision_function(x_nd)


Probe = Ridge
