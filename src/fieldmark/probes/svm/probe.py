"""Support vector machine (SVM), its settings given or from a random search.

Two recipes. `search=100`: standardise, then 100 random settings of an SVC, judged by stratified
5-fold accuracy (NeWT and Ages as biobench and BioCLIP 2 state them). `search=0`: one plain machine
on the features as they come, by libsvm (`SVC`) or by liblinear (`LinearSVC` as the NeWT authors
used it). How many images there are never switches from one to the other, except that a search needs
images to hold out.

The search runs in compiled code where numba is installed (`pip install 'fieldmark[fast]'`), with
the same answers tens of times sooner; without it, scikit-learn searches.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldmark.errors import UsageError
from fieldmark.probes._arrays import (
    ProbeEstimator,
    check_choice,
    check_count,
    check_positive,
    read_features,
    read_labels,
    read_queries,
)
from fieldmark.probes._select import (
    ONE_CLASS,
    Splits,
    edge_notes,
    fold_notes,
    stratified,
    usable_folds,
)
from fieldmark.probes.svm.search import (
    KERNELS,
    LEAST_FITS,
    MOST_ROWS,
    candidates,
    distributions,
    has_numba,
    score_candidates,
)

SUMMARY = "support vector machine: random search over kernels, or one plain machine"
RECIPE = (
    "RandomizedSearchCV(make_pipeline(StandardScaler(), SVC()), n_iter=search, cv=folds); "
    "search 0: SVC(kernel=kernel, C=C) or LinearSVC(C=C, tol=1e-5, dual=False)"
)
# Double precision: with the small strengths of the usual grids float32 moves whole predictions.
DOUBLE = (np.float64,)
PAIRS = "ovo"
"""one decision value a pair of classes, from which follow votes, labels and scores"""
_log = logging.getLogger(__name__)


class SupportVectors(ProbeEstimator):
    """An SVM with searched or given settings.

    After `fit`: `best_params_` is what the search chose, `cv_score_` the held-out accuracy of that
    choice (NaN without a search), `chosen_` all of it, and `fit_notes_` what a reader should know
    of it. One class only: that class is predicted (`one_class_`). The score of a prediction is the
    lead of its decision value over the best other label's: below 0 where libsvm settled a tie of
    votes against its decision values, and 0 throughout when one class only was seen.
    """

    def __init__(
        self,
        *,
        search: int = 100,
        folds: int = 5,
        kernel: str = "linear",
        C: float = 1.0,
        solver: str = "libsvm",
        seed: int = 42,
        n_jobs: int = 1,
    ) -> None:
        self.search = search
        """random settings to try; 0 = one plain SVM with `kernel`, `C` and `solver`"""
        self.folds = folds
        """of the stratified cross-validation that chooses"""
        self.kernel = kernel
        """of the plain SVM: `rbf`, `linear`, `sigmoid` or `poly`"""
        self.C = C
        """of the plain SVM: inverse strength of the penalty"""
        self.solver = solver
        """of the plain SVM: `libsvm` (SVC) or `liblinear` (LinearSVC, linear only)"""
        self.seed = seed
        """of the settings that are tried"""
        self.n_jobs = n_jobs
        """processes of scikit-learn's search, where it is used; they change no answer"""

    def check_parameters(self) -> None:
        check_count("svm", "search", self.search, least=0)
        check_count("svm", "folds", self.folds, least=2)
        check_choice("svm", "kernel", self.kernel, KERNELS)
        check_positive("svm", "C", self.C)
        check_choice("svm", "solver", self.solver, ("libsvm", "liblinear"))
        check_count("svm", "seed", self.seed, least=0)
        if self.solver == "liblinear" and self.kernel != "linear":
            raise UsageError(
                f"probe 'svm': solver 'liblinear' has no {self.kernel!r} kernel: "
                "use solver 'libsvm'."
            )

    def fit(self, X: Any, y: Any) -> SupportVectors:
        self.check_parameters()
        x_nd = read_features(X, DOUBLE)
        code_n, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.cv_score_ = float("nan")
        self.best_params_: dict[str, Any] = {}
        self.chosen_: dict[str, Any] = {}
        self.fit_notes_ = [ONE_CLASS] if self.one_class_ else []
        if self.one_class_:
            return self
        folds = usable_folds(self.folds, code_n)
        if self.search:
            self.fit_notes_ = fold_notes(self.folds, folds, code_n)
        if self.search and folds >= 2:
            self._fit_search(x_nd, code_n, stratified(folds, code_n))
        else:
            self._fit_plain(x_nd, code_n)
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label on whose side each row lies, and its lead; see the class."""
        value, code_n = self._decide(read_queries(self, X, DOUBLE))
        score_n = np.abs(value) if value.ndim == 1 else _lead(value, code_n)
        return np.asarray(self.classes_[code_n]), score_n

    def decision_function(self, X: Any) -> np.ndarray:
        """scikit-learn's decision values: n for two classes (or one), n × C for more."""
        return self._decide(read_queries(self, X, DOUBLE))[0]

    def _decide(self, x_nd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Decision values, and the class numbers that the machine itself predicts from them."""
        if self.one_class_ or not len(x_nd):
            return np.zeros(len(x_nd)), np.zeros(len(x_nd), np.intp)
        value = np.asarray(self.model_.decision_function(x_nd))
        is_liblinear = type(self.model_).__name__ == "LinearSVC"
        if value.ndim == 1:  # 0 is the first class's in liblinear and the second's in libsvm
            return value, np.asarray(value > 0 if is_liblinear else value >= 0, np.intp)
        return (value, value.argmax(axis=1)) if is_liblinear else _vote(value, len(self.classes_))

    def _fit_plain(self, x_nd: np.ndarray, code_n: np.ndarray) -> None:
        from sklearn.svm import SVC, LinearSVC

        if self.solver == "libsvm":
            machine = SVC(kernel=self.kernel, C=self.C, decision_function_shape=PAIRS)
            self.model_: Any = machine.fit(x_nd, code_n)
            return
        self.model_ = LinearSVC(C=self.C, tol=1e-5, dual=False).fit(x_nd, code_n)
        if self.model_.n_iter_ >= self.model_.max_iter:
            self.fit_notes_.append(
                f"stopped after {self.model_.max_iter} iterations, short of the minimum"
            )

    def _fit_search(self, x_nd: np.ndarray, code_n: np.ndarray, splits: Splits) -> None:
        is_worth_it = self.search * len(splits) >= LEAST_FITS and len(x_nd) <= MOST_ROWS
        if not (is_worth_it and has_numba()):
            if is_worth_it:
                _log.info("numba is not installed: scikit-learn searches, tens of times slower")
            self._fit_slowly(x_nd, code_n, splits)
            return
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        tried = candidates(self.search, self.seed)
        # The first maximum of the unrounded mean, as in scikit-learn: rounding changes the winner.
        mean_s = np.average(score_candidates(x_nd, code_n, splits, tried), axis=1)
        self._keep(tried, mean_s)
        machine = SVC(**self.best_params_, decision_function_shape=PAIRS)
        self.model_ = make_pipeline(StandardScaler(), machine).fit(x_nd, code_n)

    def _fit_slowly(self, x_nd: np.ndarray, code_n: np.ndarray, splits: Splits) -> None:
        """The recipe itself: for few fits, for many rows, and where numba is not installed."""
        from sklearn.model_selection import RandomizedSearchCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        search = RandomizedSearchCV(
            make_pipeline(StandardScaler(), SVC(decision_function_shape=PAIRS)),
            {f"svc__{name}": values for name, values in distributions().items()},
            n_iter=self.search,
            cv=splits,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        ).fit(x_nd, code_n)
        self.model_ = search.best_estimator_
        tried = [
            {name.removeprefix("svc__"): value for name, value in settings.items()}
            for settings in search.cv_results_["params"]
        ]
        self._keep(tried, search.cv_results_["mean_test_score"])

    def _keep(self, tried: Sequence[dict[str, Any]], mean_s: np.ndarray) -> None:
        """Remembers the best setting, the first among equals."""
        best = int(mean_s.argmax())
        self.cv_score_, self.best_params_ = float(mean_s[best]), dict(tried[best])
        kernel = self.best_params_["kernel"]
        numbers = ["C"] if kernel == "linear" else ["C", "gamma"]
        chosen = {name: float(self.best_params_[name]) for name in numbers}
        self.chosen_ = {"kernel": kernel, **chosen, "cv_score": self.cv_score_}
        for name in numbers:
            self.fit_notes_ += edge_notes(name, [settings[name] for settings in tried], mean_s)


def _vote(pair_np: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's values (n × C) and libsvm's winners from one value a pair of classes.

    A value is the pair's votes and, as a fraction, its confidences; libsvm counts votes alone, and
    the first class wins a tie. A pair's value of exactly 0 is the first class's vote to the one
    and the second's to the other.
    """
    vote_nc = np.zeros((len(pair_np), n_classes))
    sum_nc, win_nc = vote_nc.copy(), vote_nc.copy()
    for pair_n, first, second in zip(pair_np.T, *np.triu_indices(n_classes, 1), strict=True):
        sum_nc[:, first] += pair_n
        sum_nc[:, second] -= pair_n
        vote_nc[:, first] += pair_n >= 0
        vote_nc[:, second] += pair_n < 0
        win_nc[:, first] += pair_n > 0
        win_nc[:, second] += pair_n <= 0
    return vote_nc + sum_nc / (3 * (np.abs(sum_nc) + 1)), win_nc.argmax(axis=1)


def _lead(value_nc: np.ndarray, code_n: np.ndarray) -> np.ndarray:
    rows = np.arange(len(value_nc))
    others_nc = value_nc.copy()
    others_nc[rows, code_n] = -np.inf
    return np.asarray(value_nc[rows, code_n] - others_nc.max(axis=1))


Probe = SupportVectors
