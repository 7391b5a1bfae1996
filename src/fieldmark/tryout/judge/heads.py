"""Linear heads (nearest class mean, ridge, zero-shot): how do features become scores of labels, and
how well does that work on units that were never seen?

A head is a linear map of features, whatever was fitted: it is saved as arrays, and needs no code to
be loaded. `out_of_unit` gives each photo the scores of a head that saw no photo of its unit.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fieldmark.probes import load_probe
from fieldmark.tryout.judge.confidence import unit_length

KINDS = ("class means", "ridge")
LABEL_NAMES = "label names"
"""of a dual encoder: a label's score is the cosine of the photo and its name, without training"""
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
"""of the ridge's penalty on standardised features"""
SMALL_FIT = 20_000_000
"""values, above which several BLAS threads pay"""
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

    def scores(self, x_nd: np.ndarray) -> np.ndarray:
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


def name_head(text_cd: np.ndarray) -> Head:
    """The head whose scores are cosines with the features of the labels' names."""
    zero_d, zero_c = np.zeros(text_cd.shape[1]), np.zeros(len(text_cd))
    return Head(zero_d, True, np.asarray(text_cd.T, np.float64), zero_c)


def fit_head(kind: str | Head, x_nd: np.ndarray, code_n: np.ndarray, n_labels: int) -> Head:
    """A head of that kind, fitted to photos with label numbers below `n_labels`; a head that needs
    no training stays as it is.
    """
    if isinstance(kind, Head):
        return kind
    fit = _fit_means if kind == "class means" else _fit_ridge
    return fit(x_nd, code_n, n_labels)


def out_of_unit(
    kind: str | Head, x_nd: np.ndarray, code_n: np.ndarray, fold_n: np.ndarray, n_labels: int
) -> np.ndarray:
    """Scores (n × C) of each photo by a head fitted to the other folds."""
    score_nc = np.empty((len(x_nd), n_labels))
    with few_threads(x_nd):
        for fold in np.unique(fold_n):
            is_held = fold_n == fold
            head = fit_head(kind, x_nd[~is_held], code_n[~is_held], n_labels)
            score_nc[is_held] = head.scores(x_nd[is_held])
    return score_nc


def few_threads(x_nd: np.ndarray) -> AbstractContextManager[object]:
    """One BLAS thread where the products are small: several wait for each other longer than they
    compute, on a busy machine a hundred times longer (measured, 2026).
    """
    return _blas().limit(limits=1) if x_nd.size < SMALL_FIT else nullcontext()


@cache
def _blas() -> Any:
    """The BLAS libraries of this process; to look for them takes as long as a fit."""
    import scipy.linalg  # noqa: F401  has a BLAS of its own, which must be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _fit_means(x_nd: np.ndarray, code_n: np.ndarray, n_labels: int) -> Head:
    """SimpleShot with centring and scaling (Wang et al. 2019, arXiv 1911.04623): the nearest class
    mean. -|z - m|²/2 and z·m - |m|²/2 differ by what all labels share.
    """
    mean_d = x_nd.mean(axis=0, dtype=np.float64)
    z_nd = _normalise(np.array(x_nd), mean_d.astype(x_nd.dtype), is_unit_length=True)
    probe = load_probe("simpleshot").fit(z_nd, code_n)
    return _spread(
        mean_d, True, probe.means_.T, -(probe.means_**2).sum(axis=1) / 2, probe, n_labels
    )


def _fit_ridge(x_nd: np.ndarray, code_n: np.ndarray, n_labels: int) -> Head:
    probe = load_probe("ridge", {"alphas": STRENGTHS}).fit(x_nd, code_n)
    zero_d = np.zeros(x_nd.shape[1])
    if probe.one_class_:
        return _spread(zero_d, False, np.zeros((len(zero_d), 1)), np.zeros(1), probe, n_labels)
    model = probe.model_
    return _spread(zero_d, False, model.coef_dc, model.intercept_c, probe, n_labels)


def _spread(
    mean_d: np.ndarray,
    is_unit_length: bool,
    weight_dk: np.ndarray,
    bias_k: np.ndarray,
    probe: Any,
    n_labels: int,
) -> Head:
    """With a column for every label, those the probe did not see included."""
    weight_dc = np.zeros((len(mean_d), n_labels))
    bias_c = np.full(n_labels, -np.inf)
    weight_dc[:, probe.classes_], bias_c[probe.classes_] = weight_dk, bias_k
    return Head(mean_d, is_unit_length, weight_dc, bias_c)


def _normalise(x_nd: np.ndarray, mean_d: np.ndarray, is_unit_length: bool) -> np.ndarray:
    """In place, for there may be many photos."""
    x_nd -= mean_d
    return unit_length(x_nd) if is_unit_length else x_nd
