"""Support vector machine (SVM), its settings given or from a random search.

`search=0`: one plain machine on the features as they come, by libsvm (`SVC`) or by liblinear
(`LinearSVC` as the NeWT authors used it). `search=100`: standardise, then 100 random settings of an
SVC, judged by stratified 5-fold accuracy (NeWT and Ages as biobench and BioCLIP 2 state them).
Below `least` images there is no search, as in small-data-metrics: with few images most settings
tie, and the first drawn of them is often far worse than the plain machine.

For the same reason a search's winner replaces the plain machine only if it beats it by a standard
error of the held-out images (`choose="plain_first"`, a paired test of the two). That is never more
than a point below the better of the two (`benchmarks/few_shot_svm.py`: from 2 to 100 images);
`choose="best"` is the published search, whose first maximum wins.

The search runs in compiled code where numba is installed (`pip install 'fieldmark[fast]'`), with
the same answers tens of times sooner; without it, scikit-learn searches.
"""

from __future__ import annotations

import logging
import math
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
    read_units,
    stratified,
    unit_classes,
    usable_folds,
)
from fieldmark.probes.svm.search import (
    KERNELS,
    LEAST_FITS,
    MOST_ROWS,
    candidates,
    distributions,
    fold_scores,
    has_numba,
    judge_candidates,
)

SUMMARY = "support vector machine: random search over kernels, or one plain machine"
RECIPE = (
    "choose best: RandomizedSearchCV(make_pipeline(StandardScaler(), SVC()), n_iter=search, "
    "cv=folds); plain_first: the same where its winner beats the plain machine, as told below; "
    "search 0 or fewer than `least` images: SVC(kernel=kernel, C=C) or "
    "LinearSVC(C=C, tol=1e-5, dual=False)"
)
# Double precision: with the small strengths of the usual grids float32 moves whole predictions.
DOUBLE = (np.float64,)
PAIRS = "ovo"
"""one decision value a pair of classes, from which follow votes, labels and scores"""
CHOICES = ("plain_first", "best")
_log = logging.getLogger(__name__)


class SupportVectors(ProbeEstimator):
    """An SVM with searched or given settings.

    After `fit`: `best_params_` is what the search chose, `cv_score_` the held-out accuracy of that
    choice (NaN without a search), `chosen_` all of it, `tried_` every setting with its held-out
    accuracy (to four digits), and `fit_notes_` what a reader should know of it. One class only:
    that class is predicted (`one_class_`). The score of a prediction is the lead of its decision
    value over the best other label's: below 0 where libsvm settled a tie of votes against its
    decision values, and 0 throughout when one class only was seen.
    """

    def __init__(
        self,
        *,
        search: int = 100,
        folds: int = 5,
        least: int = 10,
        choose: str = "plain_first",
        kernel: str = "linear",
        C: float = 1.0,
        solver: str = "libsvm",
        seed: int = 42,
        n_jobs: int = 1,
    ) -> None:
        self.search = search
        """number of random settings to try; 0: one plain SVM with `kernel`, `C` and `solver`"""
        self.folds = folds
        """number of folds in the cross-validation that chooses"""
        self.least = least
        """with fewer images than this, nothing is searched: one plain SVM"""
        self.choose = choose
        """`plain_first`: the plain SVM, unless the best setting searched beats it by a standard
        error of the held-out images; `best`: the best setting searched, the first among equals
        """
        self.kernel = kernel
        """kernel of the plain SVM: `rbf`, `linear`, `sigmoid` or `poly`"""
        self.C = C
        """inverse strength of the plain SVM's penalty"""
        self.solver = solver
        """solver of the plain SVM: `libsvm` (SVC) or `liblinear` (LinearSVC, linear only)"""
        self.seed = seed
        """seed of the settings to try"""
        self.n_jobs = n_jobs
        """processes of scikit-learn's search, where it is used; they change no answer"""

    def check_parameters(self) -> None:
        check_count("svm", "search", self.search, least=0)
        check_count("svm", "folds", self.folds, least=2)
        check_count("svm", "least", self.least, least=0)
        check_choice("svm", "choose", self.choose, CHOICES)
        check_choice("svm", "kernel", self.kernel, KERNELS)
        check_positive("svm", "C", self.C)
        check_choice("svm", "solver", self.solver, ("libsvm", "liblinear"))
        check_count("svm", "seed", self.seed, least=0)
        if self.solver == "liblinear" and self.kernel != "linear":
            raise UsageError(
                f"probe 'svm': solver 'liblinear' has no {self.kernel!r} kernel: "
                "use solver 'libsvm'."
            )

    def fit(self, X: Any, y: Any, groups: Any = None) -> SupportVectors:
        self.check_parameters()
        x_nd = read_features(X, DOUBLE)
        code_n, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.cv_score_ = float("nan")
        self.best_params_: dict[str, Any] = {}
        self.chosen_: dict[str, Any] = {}
        self.tried_: dict[str, list[Any]] = {}
        self.fit_notes_ = [ONE_CLASS] if self.one_class_ else []
        if self.one_class_:
            return self
        unit_n = read_units(groups, len(x_nd))
        code_u = unit_classes(code_n, unit_n)
        folds = usable_folds(self.folds, code_u)
        if self.search and len(x_nd) < self.least:
            self.fit_notes_ = [f"fewer than {self.least} images: no search, one plain SVM"]
        elif self.search:
            self.fit_notes_ = fold_notes(self.folds, folds, code_u)
            if folds >= 2:
                self._fit_search(x_nd, code_n, stratified(folds, code_n, unit_n))
                return self
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

    def _plain(self) -> Any:
        from sklearn.svm import SVC, LinearSVC

        if self.solver == "libsvm":
            return SVC(kernel=self.kernel, C=self.C, decision_function_shape=PAIRS)
        return LinearSVC(C=self.C, tol=1e-5, dual=False)

    def _fit_plain(self, x_nd: np.ndarray, code_n: np.ndarray) -> None:
        self.model_: Any = self._plain().fit(x_nd, code_n)
        if self.solver == "liblinear" and self.model_.n_iter_ >= self.model_.max_iter:
            self.fit_notes_.append(
                f"stopped after {self.model_.max_iter} iterations, short of the minimum"
            )

    def _fit_search(self, x_nd: np.ndarray, code_n: np.ndarray, splits: Splits) -> None:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        is_worth_it = self.search * len(splits) >= LEAST_FITS and len(x_nd) <= MOST_ROWS
        if is_worth_it and not has_numba():
            _log.info("numba is not installed: scikit-learn searches, tens of times slower")
        tried = candidates(self.search, self.seed)
        right_sn: np.ndarray | None = None
        if is_worth_it and has_numba():
            right_sn = judge_candidates(x_nd, code_n, splits, tried)
            # The first maximum of the unrounded mean, as in scikit-learn: rounding changes it.
            mean_s = np.average(fold_scores(right_sn, splits), axis=1)
        else:
            mean_s = self._search_slowly(x_nd, code_n, splits)
        best = int(mean_s.argmax())
        self.tried_ = {
            "kernel": [settings["kernel"] for settings in tried],
            **{name: [float(f"{one[name]:.4g}") for one in tried] for name in ("C", "gamma")},
            "score": np.round(mean_s, 4).tolist(),
        }
        winner = make_pipeline(StandardScaler(), SVC(**tried[best], decision_function_shape=PAIRS))
        if self.choose == "plain_first":
            plain_n = _held_out(self._plain(), x_nd, code_n, splits)
            rival_n = (
                _held_out(winner, x_nd, code_n, splits) if right_sn is None else right_sn[best]
            )
            if not beats(rival_n, plain_n):
                # Remembers that the plain machine stays, and by how little the search beat it.
                self.cv_score_ = float(plain_n.mean())
                plain = {"kernel": self.kernel, "C": float(self.C), "cv_score": self.cv_score_}
                self.chosen_ = {"machine": "plain", **plain}
                self.fit_notes_.append(
                    f"plain SVM: the best of {self.search} settings is right on "
                    f"{int(rival_n.sum())} of {len(rival_n)} held-out images, "
                    f"the plain one on {int(plain_n.sum())}"
                )
                self._fit_plain(x_nd, code_n)
                return
        self._keep(tried, mean_s)
        self.model_ = winner.fit(x_nd, code_n)

    def _search_slowly(self, x_nd: np.ndarray, code_n: np.ndarray, splits: Splits) -> np.ndarray:
        """The recipe itself: for few fits, for many rows, and where numba is not installed."""
        from sklearn.model_selection import RandomizedSearchCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        search = RandomizedSearchCV(
            make_pipeline(StandardScaler(), SVC()),
            {f"svc__{name}": values for name, values in distributions().items()},
            n_iter=self.search,
            cv=splits,
            random_state=self.seed,
            n_jobs=self.n_jobs,
            refit=False,
        ).fit(x_nd, code_n)
        return np.asarray(search.cv_results_["mean_test_score"])

    def _keep(self, tried: Sequence[dict[str, Any]], mean_s: np.ndarray) -> None:
        """Remembers the best setting, the first among equals."""
        best = int(mean_s.argmax())
        self.cv_score_, self.best_params_ = float(mean_s[best]), dict(tried[best])
        kernel = self.best_params_["kernel"]
        numbers = ["C"] if kernel == "linear" else ["C", "gamma"]
        chosen = {name: float(self.best_params_[name]) for name in numbers}
        self.chosen_ = {"machine": "search", "kernel": kernel, **chosen, "cv_score": self.cv_score_}
        for name in numbers:
            self.fit_notes_ += edge_notes(name, [settings[name] for settings in tried], mean_s)


def beats(rival_n: np.ndarray, plain_n: np.ndarray) -> bool:
    """Is the rival right more often, by a standard error of the paired difference or more?

    As in McNemar's test only images count that one of the two gets right: under equal machines
    the difference of the two counts has the square root of their sum as its standard error.

    >>> beats(np.array([1, 1, 1, 0], bool), np.array([0, 1, 1, 0], bool))
    True
    """
    gained, lost = int((rival_n & ~plain_n).sum()), int((plain_n & ~rival_n).sum())
    return gained > lost and gained - lost >= math.sqrt(gained + lost)


def _held_out(machine: Any, x_nd: np.ndarray, code_n: np.ndarray, splits: Splits) -> np.ndarray:
    """Is each row right while it is held out?"""
    right_n = np.zeros(len(x_nd), bool)
    for train, held in splits:
        if len(np.unique(code_n[train])) > 1:
            answer_q = machine.fit(x_nd[train], code_n[train]).predict(x_nd[held])
            right_n[held] = answer_q == code_n[held]
    return right_n


def _vote(pair_np: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's values (n × C) and libsvm's winners from one value a pair of classes.

    A value is the pair's votes and, as a fraction, its confidences; libsvm counts votes alone, and
    the first class wins a tie. A pair's value of exactly 0 is the first class's vote to the one
    and the second's to the other.
    """
    vote_nc = np.zeros((len(pair_np), n_classes))
    sum_nc, win_nc = vote_nc.copy(), vote_nc.copy()
    for pair_n, class_a, class_b in zip(pair_np.T, *np.triu_indices(n_classes, 1), strict=True):
        sum_nc[:, class_a] += pair_n
        sum_nc[:, class_b] -= pair_n
        vote_nc[:, class_a] += pair_n >= 0
        vote_nc[:, class_b] += pair_n < 0
        win_nc[:, class_a] += pair_n > 0
        win_nc[:, class_b] += pair_n <= 0
    return vote_nc + sum_nc / (3 * (np.abs(sum_nc) + 1)), win_nc.argmax(axis=1)


def _lead(value_nc: np.ndarray, code_n: np.ndarray) -> np.ndarray:
    rows = np.arange(len(value_nc))
    others_nc = value_nc.copy()
    others_nc[rows, code_n] = -np.inf
    return np.asarray(value_nc[rows, code_n] - others_nc.max(axis=1))


Probe = SupportVectors
