"""Logistic regression, L2-penalised, classes balanced: which linear log-odds fit the labels best?

biobench's 2026 probe of KABR, by scikit-learn's LogisticRegression. Its Newton solver (conjugate
gradients) finds the minimum to the last digits where the default solver, lbfgs, stops up to 6 % of
the predictions away (measured on photos, 2026). The problem is convex, so there is one answer and
nothing is drawn (but the held-out rows, where several strengths are given).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fieldmark.probes._arrays import (
    check_choice,
    check_count,
    check_positive,
    check_share,
    read_features,
    read_labels,
    read_queries,
)
from fieldmark.probes._gradient import GradientProbe, Networks, Setting, Targets, column_moments
from fieldmark.probes._select import SELECT_BY, load_scorer, parse_numbers

SUMMARY = "logistic regression, classes balanced"
RECIPE = 'LogisticRegression(C=C, class_weight="balanced", solver="newton-cg")'
_GRADIENT = 0.01
"""scikit-learn's tolerance is on the gradient: along flat directions the minimum is further away"""


class Logistic(GradientProbe):
    """L2-penalised logistic regression: softmax over classes, one log-odds for two.

    `C` is scikit-learn's (large: little penalty); of several the best on held-out rows is fitted to
    all rows. `standardise` puts a StandardScaler before. After `fit`: `coef_`, `intercept_` as in
    scikit-learn for the features as they came, `C_`, `cv_score_` (NaN without a search), `n_iter_`,
    `chosen_` (C and its score, where there was a choice) and `fit_notes_` (what a reader should
    know of it). One class only: that class is predicted (`one_class_`). Fitted in float64, on a
    copy of the features.
    """

    name = "logistic"
    takes_tensors = False
    list_parameters = ("C",)

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
        """inverse strength of the penalty: a number or a list; of several the best on held-out rows
        is taken"""
        self.class_weight = class_weight
        """`balanced` (each class counts the same) or none"""
        self.standardise = standardise
        """mean 0 and spread 1 of each column first, fitted on the training rows"""
        self.tol = tol
        """how near to the minimum: the gradient may be at most 0.01 × this"""
        self.max_iter = max_iter
        """Newton steps at most; a fit that needs more says so"""
        self.select_by = select_by
        """what the search maximises: `accuracy`, `macro_accuracy` or `macro_f1`"""
        self.holdout = holdout
        """share of each class that is held out for the search"""
        self.seed = seed
        """of the held-out rows"""

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
        x_nd = read_features(X)
        code_n, classes = read_labels(y, len(x_nd))
        targets = Targets(code_n, classes)
        self._begin(x_nd, targets)
        self.C_, self.n_iter_ = float("nan"), 1
        if self.one_class_:
            return self
        scorer = load_scorer(self.select_by)

        def score(settings: list[Setting], rows: np.ndarray, held: np.ndarray) -> list[float]:
            models = [self._fit(x_nd[rows], code_n[rows], setting["C"]) for setting in settings]
            prob_shc = [np.concatenate(list(model.probabilities(x_nd[held]))) for model in models]
            return [targets.score(held, prob_hc, scorer) for prob_hc in prob_shc]

        strengths = parse_numbers("logistic", "C", self.C)
        self.C_ = self._choose([{"C": strength} for strength in strengths], targets, score)["C"]
        self.model_ = self._fit(x_nd, code_n, self.C_)
        [(weight_dc, offset_c)] = self.model_.layers[0]
        first = 1 if len(self.classes_) == 2 else 0
        self.coef_, self.intercept_ = weight_dc.T[first:].copy(), offset_c[first:].copy()
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits, n × C; for two classes n: the second one's log-odds."""
        x_nd = read_queries(self, X)
        if self.one_class_ or not len(x_nd):
            return np.zeros(len(x_nd))
        value_nc = np.concatenate([logit_bc for [logit_bc] in self.model_.logits(x_nd)])
        return np.asarray(value_nc[:, 1] if len(self.classes_) == 2 else value_nc)

    def _fit(self, x_nd: np.ndarray, code_n: np.ndarray, C: float) -> Networks:
        """One linear layer for the features as they came; two columns for two classes."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        # The offset is free, so centring changes no minimum; far from zero it helps the solver.
        mean_d, spread_d = column_moments(x_nd, np.arange(len(x_nd)))
        scale_d = spread_d if self.standardise else np.ones_like(spread_d)
        solver = LogisticRegression(
            C=C,
            class_weight=self.class_weight,
            solver="newton-cg",
            tol=_GRADIENT * self.tol,
            max_iter=self.max_iter,
        )
        with warnings.catch_warnings():
            # Told in `fit_notes_`; a line search that fails has reached the rounding of float64.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "Line Search failed")
            solver.fit((x_nd - mean_d) / scale_d, code_n)
        self.n_iter_ = int(solver.n_iter_.max())
        note = f"stopped after {self.max_iter} iterations, short of the minimum"
        if self.n_iter_ >= self.max_iter and note not in self.fit_notes_:
            self.fit_notes_.append(note)
        weight_dk = solver.coef_.T / scale_d[:, None]
        offset_k = solver.intercept_ - mean_d @ weight_dk
        if len(solver.classes_) == 2:
            weight_dk = np.concatenate([0 * weight_dk, weight_dk], axis=1)
            offset_k = np.append(0.0, offset_k)
        return Networks([[(weight_dk, offset_k)]])


Probe = Logistic
