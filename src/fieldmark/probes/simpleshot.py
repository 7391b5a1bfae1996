"""Which class mean is nearest?

SimpleShot (Wang et al. 2019, arXiv 1911.04623): one mean per class, euclidean distance. Centring
and unit length, which its paper recommends, are normalisation steps and done outside. Many draws
from one pool, asked of the same test rows, are quicker together: `predict_repeats`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

from fieldmark.probes._arrays import read_asked, read_rows
from fieldmark.probes._centroids import predict_repeats
from fieldmark.probes._distance import nearest
from fieldmark.probes._inputs import read_labels, read_queries
from fieldmark.probes._one_pass import OnePass
from fieldmark.probes._tensor import as_numpy, is_cuda

__all__ = ["SUMMARY", "Probe", "SimpleShot", "predict_repeats"]

SUMMARY = "nearest class mean (SimpleShot)"
_BLOCK_ROWS = 4096


class SimpleShot(OnePass, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Nearest class mean; a tie goes to the class that sorts first.

    The score of a prediction is half the difference of squared distances between the runner-up and
    the winner: 0 on the border, and 0 everywhere when only one class was seen (`one_class_`).
    """

    takes_tensors = True
    predict_repeats = staticmethod(predict_repeats)

    def fit(self, X: Any, y: Any) -> SimpleShot:
        x_nd = read_rows(X)
        code_n, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.means_ = _class_means(x_nd, code_n, len(self.classes_))
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label of the nearest mean, and how sure it is; see the class."""
        x_nd = read_asked(self, X)
        x_nd = x_nd if is_cuda(x_nd) else as_numpy(x_nd)
        n_means = len(self.means_)
        index_nk, distance_nk = nearest(x_nd, self.means_, min(2, n_means), np.arange(n_means))
        score_n = np.zeros(len(x_nd))
        if not self.one_class_:
            score_n = np.diff(distance_nk**2, axis=1)[:, 0] / 2
        return np.asarray(self.classes_[index_nk[:, 0]]), score_n

    def decision_function(self, X: Any) -> np.ndarray:
        """Minus half the squared distance to each mean (n × C), or second minus first class (n)."""
        x_nd = read_queries(self, X)
        offset_d = self.means_.mean(axis=0)
        mean_cd, x_nd = self.means_ - offset_d, x_nd - offset_d
        half_c, half_n = (np.einsum("rd,rd->r", each, each) / 2 for each in (mean_cd, x_nd))
        score_nc = x_nd @ mean_cd.T - half_c - half_n[:, None]
        return np.asarray(score_nc[:, 1] - score_nc[:, 0] if len(mean_cd) == 2 else score_nc)


def _class_means(x_nd: Any, code_n: np.ndarray, n_classes: int) -> np.ndarray:
    """Means in float64, by a sparse product over blocks of rows."""
    if is_cuda(x_nd):
        from fieldmark.probes._torch_centroids import class_means

        return class_means(x_nd, code_n, n_classes)
    x_nd = as_numpy(x_nd)
    offset_d = x_nd.mean(axis=0, dtype=np.float64)
    sum_cd = np.zeros((n_classes, x_nd.shape[1]))
    for start in range(0, len(x_nd), _BLOCK_ROWS):
        codes = code_n[start : start + _BLOCK_ROWS]
        member = (np.ones(len(codes)), (codes, np.arange(len(codes))))
        member_cb = sparse.csr_array(member, shape=(n_classes, len(codes)))
        sum_cd += member_cb @ (x_nd[start : start + _BLOCK_ROWS] - offset_d)
    return np.asarray(sum_cd / np.bincount(code_n, minlength=n_classes)[:, None] + offset_d)


Probe = SimpleShot
