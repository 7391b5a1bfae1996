"""Exemplar SVM: which other image does a classifier trained on this one image alone find?

Re-identification (Malisiewicz, Gupta and Efros, ICCV 2011) as LeopardID uses it: for each query one
`LinearSVC(class_weight="balanced", C=0.1, tol=1e-6)` of that image against all others; the label of
the other image with the highest score is the answer. Here thousands of those SVMs share their work;
the answers are those of the SVMs one by one.

Two ways to the same SVM: few active images (`dual`) or many (`newton`). A small pilot among the
gallery's own images decides which way queries start; one that turns out to have many active images
changes over. Nothing depends on which queries are asked together. Memory: the bank, and for 256
queries at a time their scores and small matrices (about 0.1 MB each). On a GPU all SVMs descend
together, whether few images are active or many: products are cheap there, and the small, irregular
problems of `dual` are not.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from fieldmark.probes._arrays import (
    Estimator,
    ProbeDataError,
    as_numpy,
    beside,
    check_fitted,
    check_positive,
    is_cuda,
    read_asked,
    read_labels,
    read_rows,
)
from fieldmark.probes.exemplar.bank import (
    DOUBLE_ROWS,
    Bank,
    append_ones,
    leads,
    make_bank,
    make_gpu_bank,
)
from fieldmark.probes.exemplar.dual import (
    N_SEEDS,
    ExemplarSVM,
    Forecast,
    RowBuffer,
    choose_seeds,
    learn_forecast,
    likeness,
    violators,
)
from fieldmark.probes.exemplar.newton import GpuRotated, Rotated, descend

SUMMARY = "exemplar SVM: one machine per query, the best other image's label; can leave one out"
RECIPE = 'LinearSVC(class_weight="balanced", C=C, tol=1e-6), one per query against all others'
_BLOCK = 256
_PILOTS = 16
_PILOT_ROUNDS = 2
_MOST_ROUNDS = 30
_QUICK_PIVOTS = 2
"""in the first round, which only finds out who matters: it need not be exact"""
_MOST_PIVOTS = 200
_BLOCK_ENTRIES = 1 << 26
"""scores at a time on a GPU"""


class Exemplar(Estimator):
    """The label of the gallery image that the query's own linear SVM scores highest.

    At equal scores the first in the gallery. The score of a prediction is that image's decision
    value: above -1 it lies within the margin of the query. A gallery on a GPU stays there, and the
    SVMs are trained there.
    """

    takes_tensors = True

    def __init__(self, *, C: float = 0.1) -> None:
        self.C = C
        """inverse strength of the penalty, as in scikit-learn's LinearSVC"""

    def check_parameters(self) -> None:
        check_positive("exemplar", "C", self.C)

    def fit(self, X: Any, y: Any) -> Exemplar:
        """Remembers the gallery; SVMs are trained when asked."""
        self.check_parameters()
        x_nd = read_rows(X)
        self.x_ = x_nd if is_cuda(x_nd) else as_numpy(x_nd)
        self.code_, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = self.x_.shape[1]
        self.one_class_ = len(self.classes_) == 1
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label of the best gallery image, and its decision value."""
        best_q, score_q = self._ask(read_asked(self, X))
        return self.classes_[self.code_[best_q]], score_q

    def predict_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and scores of the training images, each asked of all the others."""
        best_n, score_n = self.retrieve_leave_one_out()
        return self.classes_[self.code_[best_n]], score_n

    def retrieve_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """For each training image the row of the best other image, and its score."""
        check_fitted(self)
        if len(self.x_) < 2:
            raise ProbeDataError("leaving one out of 1 image leaves none: at least two are needed.")
        return self._ask(self.x_, np.arange(len(self.x_)))

    def _ask(self, x_qd: Any, own_q: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Row of the best image and its score; `own_q`: the query's own row, which is left out."""
        is_among = own_q is not None
        if is_cuda(self.x_) and len(x_qd) and len(self.x_) > DOUBLE_ROWS:
            return _retrieve_on_gpu(self.x_, self.C, x_qd, own_q)
        return Retriever(as_numpy(self.x_), self.C, is_among).answer(as_numpy(x_qd), own_q)


Probe = Exemplar


class Retriever:
    """Exemplar SVMs over one gallery; `is_among` as in `make_bank`."""

    def __init__(self, x_nd: np.ndarray, cost: float, is_among: bool) -> None:
        self._bank: Bank = make_bank(x_nd, cost, is_among)
        self._many = max(self._bank.x_nd.shape[1] // 3, 64)

    def answer(
        self, x_qd: np.ndarray, own_q: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row of the best image and its score; `own_q`: the query's row, which is left out."""
        best_q, score_q = np.zeros(len(x_qd), np.intp), np.zeros(len(x_qd))
        query_qd = append_ones(x_qd.astype(self._bank.x_nd.dtype))
        for start in range(0, len(x_qd), _BLOCK):
            block = slice(start, start + _BLOCK)
            score_qn = self._score(query_qd[block], None if own_q is None else own_q[block])
            best_q[block] = score_qn.argmax(axis=1)
            score_q[block] = score_qn.max(axis=1)
        return best_q, score_q

    @cached_property
    def _rotated(self) -> Rotated:
        return Rotated(self._bank)

    @cached_property
    def _has_many(self) -> bool:
        """Are usually many images active? Asked of a few, evenly spread over the gallery."""
        own_q, query_qd = self._pilots
        score_qn, _ = self._work(query_qd, own_q, Forecast(), _PILOT_ROUNDS)
        return bool(np.median((score_qn > -1).sum(axis=1)) > self._many)

    @cached_property
    def _forecast(self) -> Forecast:
        own_q, query_qd = self._pilots
        if self._bank.n <= 2 * N_SEEDS:
            return Forecast()
        score_qn, _ = self._work(query_qd, own_q, Forecast(), _MOST_ROUNDS)
        return learn_forecast(likeness(self._bank, query_qd), score_qn)

    @cached_property
    def _pilots(self) -> tuple[np.ndarray, np.ndarray]:
        own_q = np.linspace(0, self._bank.n - 1, min(_PILOTS, self._bank.n)).astype(np.intp)
        return own_q, self._bank.x_nd[own_q]

    def _score(self, query_qd: np.ndarray, own_q: np.ndarray | None) -> np.ndarray:
        if self._has_many:
            return np.asarray(descend(self._bank, self._rotated, query_qd, own_q))
        score_qn, left = self._work(query_qd, own_q, self._forecast, _MOST_ROUNDS)
        if len(left):
            own = None if own_q is None else own_q[left]
            score_qn[left] = descend(self._bank, self._rotated, query_qd[left], own)
        return score_qn

    def _work(
        self, query_qd: np.ndarray, own_q: np.ndarray | None, forecast: Forecast, rounds: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores by growing lists of support vectors, and the queries for which it did not end."""
        seed_qk = choose_seeds(self._bank, query_qd, own_q, forecast)
        buffer = RowBuffer(self._bank)
        svms = [
            ExemplarSVM(buffer, query_d, rows)
            for query_d, rows in zip(query_qd, seed_qk, strict=True)
        ]
        score_qn = np.empty((len(query_qd), self._bank.n), query_qd.dtype)
        left, given_up = np.arange(len(query_qd)), list[int]()
        for turn in range(rounds):
            is_quick = turn == 0 and self._bank.n > N_SEEDS
            most = _QUICK_PIVOTS if is_quick else _MOST_PIVOTS
            weight_ld = np.stack([svms[at].solve(most) for at in left])
            score_ln = weight_ld @ self._bank.x_nd.T
            if own_q is not None:
                score_ln[np.arange(len(left)), own_q[left]] = -np.inf
            score_qn[left] = score_ln
            is_many = (score_ln > -1).sum(axis=1) > (
                3 * self._many if turn > _PILOT_ROUNDS else np.inf
            )
            given_up += left[is_many].tolist()
            is_open = [
                not many and _grow(svms[at], score_n, lead)
                for at, many, score_n, lead in zip(
                    left, is_many, score_ln, leads(score_ln), strict=True
                )
            ]
            left = left[is_open]
            if not len(left):
                break
        return score_qn, np.array([*given_up, *left], np.intp)


def _grow(svm: ExemplarSVM, score_n: np.ndarray, lead: float) -> bool:
    """Whether the SVM has to be solved again, and with whom."""
    new = violators(score_n, svm.rows, lead)
    if len(new):
        svm.let_in(new)
    return len(new) > 0 or not svm.is_settled


def _retrieve_on_gpu(
    x_nd: Any, cost: float, x_qd: Any, own_q: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """As `Retriever.answer`, for a gallery on a GPU."""
    bank = make_gpu_bank(x_nd, cost, own_q is not None)
    gallery = GpuRotated(bank)
    query_qd = append_ones((x_qd if is_cuda(x_qd) else beside(x_qd, x_nd)).float())
    n_block = max(1, _BLOCK_ENTRIES // bank.n)
    best, scores = [], []
    for start in range(0, len(query_qd), n_block):
        part = slice(start, start + n_block)
        score_qn = descend(bank, gallery, query_qd[part], None if own_q is None else own_q[part])
        score_q, best_q = score_qn.max(dim=1)
        best.append(as_numpy(best_q))
        scores.append(as_numpy(score_q))
    return np.concatenate(best), np.concatenate(scores).astype(np.float64)
