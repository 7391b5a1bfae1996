"""Logistic regression, L2-penalised, classes balanced: which linear log-odds fit the labels best?

biobench's 2026 probe of KABR, DINOv2's linear evaluation: L-BFGS over a range of strengths, each
from where the last one ended (`_gradient/lbfgs.py`), on the GPU where the features are. It stops at
the minimum; scikit-learn's default settings stop up to 19 % of the predictions away (measured on
photos, 2026). The problem is convex, so there is one answer and nothing is drawn (but the held-out
rows, where several strengths are given).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldmark.probes._arrays import (
    Array,
    as_numpy,
    beside,
    check_choice,
    check_count,
    check_positive,
    check_share,
    read_asked,
    read_labels,
    read_rows,
)
from fieldmark.probes._gradient.lbfgs import fit_strengths
from fieldmark.probes._gradient.probe import (
    GradientProbe,
    Networks,
    Setting,
    Targets,
    column_moments,
)
from fieldmark.probes._select import SELECT_BY, load_scorer, parse_numbers, read_units

SUMMARY = "logistic regression, classes balanced"
RECIPE = 'LogisticRegression(C=C, class_weight="balanced"), run to the minimum'


class Logistic(GradientProbe):
    """L2-penalised logistic regression: softmax over classes, one log-odds for two.

    `C` is scikit-learn's (large: little penalty); of several the best on held-out rows is fitted to
    all rows. `standardise` puts a StandardScaler before. After `fit`: `coef_`, `intercept_` as in
    scikit-learn for the features as they came, `C_`, `cv_score_` (NaN without a search), `n_iter_`,
    `chosen_` (C and its score, where there was a choice) and `fit_notes_` (what a reader should
    know of it). One class only: that class is predicted (`one_class_`). Fitted in float64, on a
    copy of the features, where they are: on a GPU if they are a tensor there.
    """

    name = "logistic"
    list_parameters = ("C",)

    def __init__(
        self,
        *,
        C: Any = 1.0,
        class_weight: str | None = "balanced",
        standardise: bool = False,
        tol: float = 1e-4,
        max_iter: int = 5000,
        select_by: str = "macro_f1",
        holdout: float = 0.1,
        seed: int = 42,
    ) -> None:
        self.C = C
        """inverse strength of the penalty: a number, or a list to choose from on held-out images"""
        self.class_weight = class_weight
        """`balanced` (each class counts the same) or none"""
        self.standardise = standardise
        """scale each feature to mean 0 and spread 1 on the training images"""
        self.tol = tol
        """stop when the log-odds of training images would move by less than about this"""
        self.max_iter = max_iter
        """most L-BFGS steps; a fit that needs more says so"""
        self.select_by = select_by
        """what the search maximises: `accuracy`, `macro_accuracy` or `macro_f1`"""
        self.holdout = holdout
        """share of each class to hold out for the search"""
        self.seed = seed
        """seed of the choice of held-out images"""

    def check_parameters(self) -> None:
        parse_numbers("logistic", "C", self.C)
        check_choice("logistic", "class_weight", self.class_weight, (None, "balanced"))
        check_choice("logistic", "standardise", self.standardise, (False, True))
        check_positive("logistic", "tol", self.tol)
        check_count("logistic", "max_iter", self.max_iter, least=1)
        check_choice("logistic", "select_by", self.select_by, SELECT_BY)
        check_share("logistic", "holdout", self.holdout)
        check_count("logistic", "seed", self.seed, least=0)

    def fit(self, X: Any, y: Any, groups: Any = None) -> Logistic:
        self.check_parameters()
        x_nd = read_rows(X)
        code_n, classes = read_labels(y, len(x_nd))
        targets = Targets(code_n, classes, read_units(groups, len(x_nd)))
        self._begin(x_nd, targets)
        self.C_, self.n_iter_ = float("nan"), 1
        if self.one_class_:
            return self
        scorer = load_scorer(self.select_by)

        def score(settings: list[Setting], rows: np.ndarray, held: np.ndarray) -> list[float]:
            strengths = [setting["C"] for setting in settings]
            x_hd, scores = x_nd[beside(held, x_nd)], []
            for model in self._fit(x_nd[beside(rows, x_nd)], code_n[rows], strengths):
                prob_hc = np.concatenate([as_numpy(prob) for prob in model.probabilities(x_hd)])
                scores.append(targets.score(held, prob_hc, scorer))
            return scores

        strengths = parse_numbers("logistic", "C", self.C)
        self.C_ = self._choose([{"C": strength} for strength in strengths], targets, score)["C"]
        [self.model_] = self._fit(x_nd, code_n, [self.C_])
        [(weight_dc, offset_c)] = self.model_.layers[0]
        skipped = 1 if len(self.classes_) == 2 else 0
        self.coef_, self.intercept_ = weight_dc.T[skipped:].copy(), offset_c[skipped:].copy()
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits, n × C; for two classes n: the second one's log-odds."""
        x_nd = read_asked(self, X)
        if self.one_class_ or not len(x_nd):
            return np.zeros(len(x_nd))
        value_nc = np.concatenate([as_numpy(logit_bc) for [logit_bc] in self.model_.logits(x_nd)])
        return np.asarray(value_nc[:, 1] if len(self.classes_) == 2 else value_nc)

    def _fit(self, x_nd: Array, code_n: np.ndarray, strengths: list[float]) -> list[Networks]:
        """One linear layer a strength, for the features as they came.

        Two columns for two classes. Every class has a row: `hold_out` keeps one of each.
        """
        count_c = np.bincount(code_n)
        balance_c = len(code_n) / (len(count_c) * count_c)
        weight_n = balance_c[code_n] if self.class_weight else np.ones(len(code_n))
        scale_d = np.ones(x_nd.shape[1])
        if self.standardise:
            _, scale_d = column_moments(x_nd, np.arange(len(x_nd)))
        scaled_nd = x_nd / beside(scale_d, x_nd) if self.standardise else x_nd
        networks = []
        for fit in fit_strengths(scaled_nd, code_n, weight_n, strengths, self.tol, self.max_iter):
            self.n_iter_ = max(fit.n_iter, 1)
            note = f"stopped after {self.max_iter} iterations, short of the minimum"
            if not fit.is_converged and note not in self.fit_notes_:
                self.fit_notes_.append(note)
            weight_dk, offset_k = fit.weight_dk / scale_d[:, None], fit.offset_k
            if len(count_c) == 2:
                weight_dk = np.concatenate([0 * weight_dk, weight_dk], axis=1)
                offset_k = np.append(0.0, offset_k)
            networks.append(Networks([[(weight_dk, offset_k)]]))
        return networks


Probe = Logistic
