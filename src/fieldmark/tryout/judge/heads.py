"""Linear heads (nearest class mean, ridge, zero-shot): how do features become scores of labels, and
how well does that work on units that were never seen?

A head is a linear map of features, whatever was fitted: it is saved as arrays, and needs no code to
be loaded. `out_of_unit` gives each photo the scores of a head that saw no photo of its unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmark.probes import SomeRows, fitting_threads, load_probe
from fieldmark.tryout.judge.confidence import unit_length

KINDS = CLASS_MEANS, RIDGE = "class means", "ridge"
LABEL_NAMES = "label names"
"""of a dual encoder: a label's score is the cosine of the photo and its name, without training"""
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
"""of the ridge's penalty on standardised features"""
_BLOCK = 1024
"""photos scored at a time"""
_MIN_RIDGE = 6
"""photos a label, on average, below which a ridge is not tried: it cannot choose its strength"""


@dataclass(frozen=True, slots=True)
class Head:
    """score of a label = normalised features · weight + bias."""

    mean_d: np.ndarray
    is_unit_length: bool
    """are centred features scaled to length 1?"""
    weight_dc: np.ndarray
    bias_c: np.ndarray
    """-inf for a label that was not trained"""

    def scores(self, x_nd: np.ndarray | SomeRows) -> np.ndarray:
        """n × C, float64."""
        score_nc = np.empty((len(x_nd), len(self.bias_c)))
        for start in range(0, len(x_nd), _BLOCK):
            rows = slice(start, start + _BLOCK)
            z_bd = _normalise(np.array(x_nd[rows], np.float64), self.mean_d, self.is_unit_length)
            score_nc[rows] = z_bd @ self.weight_dc + self.bias_c
        return score_nc


def kinds_for(n_photos: int, n_labels: int) -> tuple[str, ...]:
    """The heads that suit so many photos of so many labels."""
    return KINDS if n_photos >= _MIN_RIDGE * n_labels else KINDS[:1]


def fit_head(
    kind: str | Head, x_nd: np.ndarray | SomeRows, code_n: np.ndarray, n_labels: int
) -> Head:
    """A head of that kind, fitted to photos with label numbers below `n_labels`; a head that needs
    no training stays as it is.
    """
    if isinstance(kind, Head):
        return kind
    fit = _fit_means if kind == CLASS_MEANS else _fit_ridge
    return fit(x_nd, code_n, n_labels)


def out_of_unit(
    kind: str | Head,
    x_nd: np.ndarray,
    code_n: np.ndarray,
    fold_n: np.ndarray,
    n_labels: int,
    may_train: np.ndarray | bool = True,
) -> np.ndarray:
    """Scores (n × C) of each photo by a head fitted to what may be trained of the other folds."""
    score_nc = np.empty((len(x_nd), n_labels))
    with fitting_threads(x_nd.size):
        for fold in np.unique(fold_n):
            is_held = fold_n == fold
            trained, held = np.flatnonzero(~is_held & may_train), np.flatnonzero(is_held)
            head = fit_head(kind, SomeRows(x_nd, trained), code_n[trained], n_labels)
            score_nc[held] = head.scores(SomeRows(x_nd, held))
    return score_nc


def _fit_means(x_nd: np.ndarray | SomeRows, code_n: np.ndarray, n_labels: int) -> Head:
    """SimpleShot with centring and scaling (Wang et al. 2019, arXiv 1911.04623): the nearest class
    mean. -|z - m|²/2 and z·m - |m|²/2 differ by what all labels share.
    """
    from scipy import sparse

    blocks = [slice(start, start + _BLOCK) for start in range(0, len(x_nd), _BLOCK)]
    mean_d = sum(x_nd[rows].sum(axis=0, dtype=np.float64) for rows in blocks) / len(x_nd)
    sum_cd, n_c = np.zeros((n_labels, len(mean_d))), np.bincount(code_n, minlength=n_labels)
    for rows in blocks:
        z_bd = _normalise(np.array(x_nd[rows], np.float64), mean_d, is_unit_length=True)
        member = (np.ones(len(z_bd)), (code_n[rows], np.arange(len(z_bd))))
        sum_cd += sparse.csr_array(member, shape=(n_labels, len(z_bd))) @ z_bd
    mean_cd = sum_cd / np.maximum(n_c, 1)[:, None]
    bias_c = np.where(n_c > 0, -(mean_cd**2).sum(axis=1) / 2, -np.inf)
    return Head(mean_d, True, mean_cd.T, bias_c)


def _fit_ridge(x_nd: np.ndarray | SomeRows, code_n: np.ndarray, n_labels: int) -> Head:
    probe, dim = load_probe("ridge", {"alphas": STRENGTHS}).fit(x_nd, code_n), x_nd.shape[1]
    weight_dc, bias_c = np.zeros((dim, n_labels)), np.full(n_labels, -np.inf)
    bias_c[probe.classes_] = 0.0
    if not probe.one_class_:
        weight_dc[:, probe.classes_] = probe.model_.coef_dc
        bias_c[probe.classes_] = probe.model_.intercept_c
    return Head(np.zeros(dim), False, weight_dc, bias_c)


def _normalise(x_nd: np.ndarray, mean_d: np.ndarray, is_unit_length: bool) -> np.ndarray:
    """In place, for there may be many photos."""
    x_nd -= mean_d
    return unit_length(x_nd) if is_unit_length else x_nd
