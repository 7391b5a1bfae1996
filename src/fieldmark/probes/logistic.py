"""Which linear log-odds fit the labels best, when every class counts the same?

Logistic regression with balanced class weights and an L2 penalty (biobench's 2026 probe of KABR):
the minimum scikit-learn's LogisticRegression looks for, found more closely than its default
tolerance asks, in float64, on any device. The problem is convex, so there is one answer and nothing
is drawn (but the held-out rows, where several strengths are given).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from fieldmark.probes._arrays import Array, read_asked, read_rows
from fieldmark.probes._holdout import (
    NOTHING_HELD_OUT,
    check_share,
    hold_out,
    holdout_notes,
    parse_numbers,
)
from fieldmark.probes._inputs import check_choice, check_count, check_positive, read_labels
from fieldmark.probes._logistic_fit import fit_strengths
from fieldmark.probes._network import Shape
from fieldmark.probes._probabilities import Fitted, Probabilities
from fieldmark.probes._scaling import Scaling
from fieldmark.probes._select import ONE_CLASS, SELECT_BY, edge_notes, load_scorer
from fieldmark.probes._tensor import as_numpy

SUMMARY = "logistic regression, classes balanced"


class Logistic(Probabilities, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """L2-penalised logistic regression: softmax over classes, one log-odds for two.

    `C` is scikit-learn's (large: little penalty); of several the best on held-out rows is fitted to
    all rows. `standardise` puts a StandardScaler before. After `fit`: `coef_`, `intercept_` as in
    scikit-learn for the features as they came, `C_`, `cv_score_` (NaN without a search), `n_iter_`,
    `chosen_` (C and its score, where there was a choice) and `fit_notes_` (what a reader should
    know of it). One class only: that class is predicted (`one_class_`). Features may be a tensor on
    an accelerator.

    Memory beyond the features: 70 float64 arrays of `strengths × width × classes`, blocks of rows,
    a float64 copy of the features if that takes less than 512 MB, and for a search a copy of the
    rows that are not held out.
    """

    takes_tensors = True

    def __init__(
        self,
        *,
        C: Any = 1.0,
        class_weight: str | None = "balanced",
        standardise: bool = False,
        tol: float = 1e-9,
        max_iter: int = 5000,
        select_by: str = "macro_f1",
        holdout: float = 0.1,
        seed: int = 42,
    ) -> None:
        self.C = C
        self.class_weight = class_weight
        self.standardise = standardise
        self.tol = tol
        self.max_iter = max_iter
        self.select_by = select_by
        self.holdout = holdout
        self.seed = seed

    def check_parameters(self) -> None:
        parse_numbers("logistic", "C", self.C)
        check_choice("logistic", "class_weight", self.class_weight, (None, "balanced"))
        check_choice("logistic", "standardise", self.standardise, (False, True))
        check_positive("logistic", "tol", self.tol)
        check_count("logistic", "max_iter", self.max_iter, least=1)
        check_choice("logistic", "select_by", self.select_by, SELECT_BY)
        check_share("logistic", "holdout", self.holdout)
        check_count("logistic", "seed", self.seed, least=0)

    def fit(self, X: Any, y: Any) -> Logistic:
        self.check_parameters()
        x_nd = read_rows(X)
        code_n, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.cv_score_ = self.C_ = float("nan")
        self.n_iter_ = 1
        self.chosen_: dict[str, float] = {}
        self.fit_notes_ = [ONE_CLASS] if self.one_class_ else []
        if self.one_class_:
            return self
        self.C_ = self._choose(x_nd, code_n)
        self.model_ = self._fit(x_nd, code_n, [self.C_])
        weight_dc, offset_c = (each[0][0] for each in self.model_.shape.views(self.model_.flat_sp))
        first = 1 if len(self.classes_) == 2 else 0
        self.coef_, self.intercept_ = weight_dc.T[first:].copy(), offset_c[0, first:].copy()
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits, n × C; for two classes n: the second one's log-odds."""
        x_nd = read_asked(self, X)
        if self.one_class_ or not len(x_nd):
            return np.zeros(len(x_nd))
        value_nc = np.concatenate([as_numpy(each)[0] for each in self.model_.logits(x_nd)])
        return np.asarray(value_nc[:, 1] if len(self.classes_) == 2 else value_nc)

    def _choose(self, x_nd: Array, code_n: np.ndarray) -> float:
        strengths = parse_numbers("logistic", "C", self.C)
        rows, held = hold_out(code_n, self.holdout, self.seed)
        if len(strengths) == 1:
            return strengths[0]
        if not len(held):
            self.fit_notes_.append(NOTHING_HELD_OUT)
            self.chosen_ = {"C": strengths[0]}
            return strengths[0]
        tried = self._fit(x_nd[rows], code_n[rows], strengths)
        code_sh = np.concatenate(
            [as_numpy(each.argmax(axis=2)) for each in tried.logits(x_nd[held])], axis=1
        )
        scorer = load_scorer(self.select_by)
        score_s = np.array([scorer(code_n[held], each) for each in code_sh])
        chosen, self.cv_score_ = strengths[int(score_s.argmax())], float(score_s.max())
        self.chosen_ = {"C": chosen, "cv_score": self.cv_score_}
        self.fit_notes_ += holdout_notes(code_n, score_s) + edge_notes("C", strengths, score_s)
        return chosen

    def _fit(self, x_nd: Array, code_n: np.ndarray, strengths: list[float]) -> Fitted:
        is_balanced, limits = self.class_weight == "balanced", (self.tol, self.max_iter)
        found = fit_strengths(x_nd, code_n, strengths, (is_balanced, self.standardise), limits)
        self.n_iter_ = found.n_iterations
        note = f"stopped after {self.max_iter} iterations, short of the minimum"
        if not found.is_converged and note not in self.fit_notes_:
            self.fit_notes_.append(note)
        return Fitted(Shape(x_nd.shape[1], len(self.classes_)), found.flat_sp, Scaling())


Probe = Logistic
