"""Which support vector machine separates the classes, and who chose its settings?

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
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from fieldmark.errors import UsageError
from fieldmark.probes._decision import DOUBLE, Decisions
from fieldmark.probes._folds import describe_folds, stratified, usable_folds
from fieldmark.probes._inputs import (
    check_choice,
    check_count,
    check_positive,
    read_training,
)
from fieldmark.probes._kernel_jit import has_numba
from fieldmark.probes._kernel_search import (
    KERNELS,
    LEAST_FITS,
    MOST_ROWS,
    candidates,
    distributions,
    score_candidates,
)

SUMMARY = "support vector machine: random search over kernels, or one plain machine"
_log = logging.getLogger(__name__)


class SupportVectors(Decisions, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An SVM with searched or given settings.

    After `fit`: `search_note_` says what the search could not do ("" when it ran as asked),
    `best_params_` what it chose, `cv_score_` the held-out accuracy of that choice (NaN without a
    search). One class only: that class is predicted (`one_class_`).
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
        self.search = search  # how many settings to try; 0 = the plain machine of the next three
        self.folds = folds
        self.kernel = kernel
        self.C = C
        self.solver = solver
        self.seed = seed
        self.n_jobs = n_jobs

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
        x_nd, code_n, self.classes_ = read_training(X, y, DOUBLE)
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.search_note_, self.cv_score_ = "", float("nan")
        self.best_params_: dict[str, Any] = {}
        if self.one_class_:
            self.search_note_ = "one class only: nothing to learn"
            return self
        folds = usable_folds(self.folds, code_n)
        if self.search:
            self.search_note_ = describe_folds(self.folds, folds)
        if self.search and folds >= 2:
            self._fit_search(x_nd, code_n, folds)
        else:
            self.model_ = self._plain().fit(x_nd, code_n)
        return self

    def _plain(self) -> Any:
        if self.solver == "liblinear":
            return LinearSVC(C=self.C, tol=1e-5, dual=False)
        return SVC(kernel=self.kernel, C=self.C)

    def _fit_search(self, x_nd: np.ndarray, code_n: np.ndarray, folds: int) -> None:
        splits = stratified(folds, code_n)
        is_worth_it = self.search * folds >= LEAST_FITS and len(x_nd) <= MOST_ROWS
        if not (is_worth_it and has_numba()):
            if is_worth_it:
                _log.info("numba is not installed: scikit-learn searches, tens of times slower")
            self._fit_slowly(x_nd, code_n, splits)
            return
        tried = candidates(self.search, self.seed)
        # The first maximum of the unrounded mean, as in scikit-learn: rounding changes the winner.
        mean_s = np.average(score_candidates(x_nd, code_n, splits, tried), axis=1)
        best = int(mean_s.argmax())
        self.cv_score_, self.best_params_ = float(mean_s[best]), dict(tried[best])
        self.model_ = make_pipeline(StandardScaler(), SVC(**tried[best])).fit(x_nd, code_n)

    def _fit_slowly(
        self, x_nd: np.ndarray, code_n: np.ndarray, splits: list[tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """The recipe itself: for few fits, for many rows, and where numba is not installed."""
        found = RandomizedSearchCV(
            make_pipeline(StandardScaler(), SVC()),
            {f"svc__{name}": values for name, values in distributions().items()},
            n_iter=self.search,
            cv=splits,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        ).fit(x_nd, code_n)
        self.model_, self.cv_score_ = found.best_estimator_, float(found.best_score_)
        self.best_params_ = {
            name.removeprefix("svc__"): value for name, value in found.best_params_.items()
        }


Probe = SupportVectors
