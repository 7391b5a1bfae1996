"""Whose label do the nearest training images carry?

Exact k nearest neighbours, for new images or for each training image among all the others.
Distances on raw features follow the length of the vectors; the cosine, or the `l2` step before,
takes that away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fieldmark.probes._arrays import read_asked, read_gallery
from fieldmark.probes._distance import nearest
from fieldmark.probes._inputs import ProbeDataError, check_choice, check_count
from fieldmark.probes._one_pass import OnePass
from fieldmark.probes._tensor import as_numpy, is_cuda

SUMMARY = "k nearest neighbours, exact; can leave one out"
_BLOCK_VOTES = 1 << 22


class Neighbours(OnePass, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Each of the k nearest images has one vote; the nearest image settles a tie of classes.

    Images at equal distance come in the order of their class, so predictions do not depend on the
    order of the training rows. `k` above the number of images means all of them. The score of a
    prediction is minus the distance to the nearest image of the predicted class (cosine distance:
    one minus the cosine). Features on a GPU stay there, and so do the searches.
    """

    takes_tensors = True

    def __init__(self, *, k: int = 1, metric: str = "euclidean") -> None:
        self.k = k
        self.metric = metric

    def check_parameters(self) -> None:
        check_count("neighbours", "k", self.k, least=1)
        check_choice("neighbours", "metric", self.metric, ("euclidean", "cosine"))

    def fit(self, X: Any, y: Any) -> Neighbours:
        self.check_parameters()
        self.x_, self.code_, self.classes_ = read_gallery(X, y)
        self.n_features_in_ = self.x_.shape[1]
        self.one_class_ = len(self.classes_) == 1
        n_images = len(self.x_)
        told = f"k = {self.k} with {n_images} training images: all of them vote"
        self.fit_notes_ = [told] if self.k > n_images else []
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label that wins the vote, and how sure it is; see the class."""
        return self._answer(read_asked(self, X))

    def predict_leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and scores of the training images, each asked of all the others."""
        check_is_fitted(self)
        if len(self.x_) < 2:
            raise ProbeDataError("leaving one out of 1 image leaves none: at least two are needed.")
        return self._answer(self.x_, is_self=True)

    def _answer(self, x_qd: Any, is_self: bool = False) -> tuple[np.ndarray, np.ndarray]:
        x_qd = x_qd if is_cuda(self.x_) else as_numpy(x_qd)
        k = min(self.k, len(self.x_) - is_self)
        index_qk, distance_qk = nearest(x_qd, self.x_, k, self.code_, self.metric, is_self)
        code_qk = self.code_[index_qk]
        first_q = _winners(code_qk)
        own = np.arange(len(code_qk))
        return self.classes_[code_qk[own, first_q]], -distance_qk[own, first_q]


def _winners(code_qk: np.ndarray) -> np.ndarray:
    """Position of the nearest neighbour whose class has the most votes."""
    n_queries, k = code_qk.shape
    first_q = np.empty(n_queries, np.intp)
    n_block = max(1, _BLOCK_VOTES // (k * k))
    for start in range(0, n_queries, n_block):
        block = code_qk[start : start + n_block]
        vote_qk = (block[:, :, None] == block[:, None, :]).sum(axis=2)
        first_q[start : start + n_block] = vote_qk.argmax(axis=1)
    return first_q


Probe = Neighbours
