"""Random search over kernel SVMs: which does best on held-out rows, when all share inner products?

The same candidates, folds and scores as scikit-learn's `RandomizedSearchCV` over
`make_pipeline(StandardScaler(), SVC())`. Every kernel in the search is a function of the inner
products and lengths of the standardised rows, so one matrix per fold serves all candidates, and
each SVM is solved by compiled code. Memory: four matrices of training rows × rows in float64.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from fieldmark.probes._select import Splits

Parameters = dict[str, Any]

KERNELS = ("rbf", "linear", "sigmoid", "poly")
MOST_ROWS = 4_000
"""above it the matrices outgrow any cache and libsvm's shrinking pays"""
LEAST_FITS = 200
"""below it scikit-learn is done before compiled code is loaded"""


@cache
def has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def distributions() -> dict[str, Any]:
    """What settings are drawn from."""
    from scipy.stats import loguniform

    return {"C": loguniform(1e-3, 1e1), "gamma": loguniform(1e-4, 1e-3), "kernel": list(KERNELS)}


@lru_cache(maxsize=16)
def candidates(n: int, seed: int) -> tuple[Parameters, ...]:
    """The settings scikit-learn's own search would try; kept, since every task asks for them."""
    from sklearn.model_selection import ParameterSampler

    return tuple(ParameterSampler(distributions(), n, random_state=seed))


def judge_candidates(
    x_nd: np.ndarray, code_n: np.ndarray, folds: Splits, settings: Sequence[Parameters]
) -> np.ndarray:
    """Is each row right while it is held out? Settings × rows."""
    right_sn = np.zeros((len(settings), len(x_nd)), bool)
    for train, held in folds:
        right_sn[:, held] = _judge_fold(_read_fold(x_nd, code_n, train, held), settings)
    return right_sn


def fold_scores(right_sn: np.ndarray, folds: Splits) -> np.ndarray:
    """Held-out accuracy, settings × folds."""
    return np.stack([right_sn[:, held].mean(axis=1) for _, held in folds], axis=1)


@dataclass(frozen=True, slots=True)
class _FoldProducts:
    inner_mn: np.ndarray
    """inner products of the training rows (sorted by class) with those and the held-out rows"""
    square_mn: np.ndarray
    """squared distances of the same"""
    start_c: np.ndarray
    """where each class begins among the training rows, and their end"""
    code_q: np.ndarray
    """which of the training classes each held-out row is; -1: none of them"""


def _read_fold(
    x_nd: np.ndarray, code_n: np.ndarray, train: np.ndarray, held: np.ndarray
) -> _FoldProducts:
    from sklearn.preprocessing import StandardScaler

    train = train[np.argsort(code_n[train], kind="stable")]
    present, start = np.unique(code_n[train], return_index=True)
    scaler = StandardScaler().fit(x_nd[train])
    z_nd = scaler.transform(x_nd[np.concatenate([train, held])])
    m = len(train)
    inner_mn = z_nd[:m] @ z_nd.T
    length_n = np.einsum("nd,nd->n", z_nd, z_nd)
    length_n[:m] = inner_mn.diagonal()  # so that a row's distance to itself is exactly zero
    square_mn = np.maximum(length_n[:m, None] + length_n[None, :] - 2 * inner_mn, 0)
    number_of = np.full(int(code_n.max()) + 1, -1)
    number_of[present] = np.arange(len(present))
    return _FoldProducts(inner_mn, square_mn, np.append(start, m), number_of[code_n[held]])


def _judge_fold(fold: _FoldProducts, settings: Sequence[Parameters]) -> np.ndarray:
    from fieldmark.probes.svm.smo import judge

    kernel_mn = np.empty_like(fold.inner_mn)
    right_sq = np.zeros((len(settings), len(fold.code_q)), bool)
    shared: tuple[int, float] | None = None
    # From the largest C down: where no multiplier of a linear machine ever reached its C, all
    # machines with a C above what was reached are the same one.
    for number in sorted(range(len(settings)), key=lambda at: -settings[at]["C"]):
        kernel, cost = settings[number]["kernel"], float(settings[number]["C"])
        if kernel == "linear" and shared is not None and cost > shared[1]:
            right_sq[number] = right_sq[shared[0]]
            continue
        _write_kernel(kernel, fold, float(settings[number]["gamma"]), kernel_mn)
        right_sq[number], largest = judge(kernel_mn, fold.start_c, cost, fold.code_q)
        if kernel == "linear":
            shared = number, largest
    return right_sq


def _write_kernel(kernel: str, fold: _FoldProducts, gamma: float, out: np.ndarray) -> None:
    """The kernel matrix, in place; as in scikit-learn with coef0 = 0 and degree 3."""
    if kernel == "linear":
        out[:] = fold.inner_mn
    elif kernel == "rbf":
        np.multiply(fold.square_mn, -gamma, out=out)
        np.exp(out, out=out)
    elif kernel == "sigmoid":
        np.multiply(fold.inner_mn, gamma, out=out)
        np.tanh(out, out=out)
    else:
        scaled_mn = fold.inner_mn * gamma
        np.multiply(scaled_mn, scaled_mn, out=out)
        np.multiply(out, scaled_mn, out=out)
