"""Exemplar SVMs over one gallery: what do thousands of them share?

One SVM is `LinearSVC(class_weight="balanced")` with a single positive image: half the squared
length of the weights (the bias is one of them, on a column of ones, as in liblinear) plus
`cost_one * (1 - f(query))²₊ + cost_rest * Σ (1 + f(other))²₊`. All SVMs see the same rows and
differ in which one is positive, so the rows, their principal axes and a similarity that foretells
the support vectors are made once. Memory: three copies of the features. A gallery on a GPU stays
there (`make_gpu_bank`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark.probes._arrays import Array, beside, namespace, zeros

DOUBLE_ROWS = 1_024
"""up to here in float64: small problems are cheap, and their scores then depend on nothing else"""
_SHRINK = 0.1
"""of the largest eigenvalue: 128 rows chosen with it hold 93 to 98 % of the support vectors"""


@dataclass(frozen=True, slots=True)
class Bank:
    x_nd: Array
    """the gallery with a last column of ones"""
    mean_d: Array
    likeness_nd: Array
    """their products with a centred query are highest for what will be its support vectors; None on
    a GPU, where nothing starts from a few rows"""
    axes_dd: Array
    """principal axes of the rows as they are, as columns"""
    power_d: Array
    """sum of squares of the rows along each axis"""
    cost_one: float
    cost_rest: float

    @property
    def n(self) -> int:
        return len(self.x_nd)


def make_bank(x_nd: np.ndarray, cost: float, is_among: bool) -> Bank:
    """The shared part; `is_among`: queries are rows of the gallery and leave it when asked."""
    n = len(x_nd)
    precision = np.float64 if n <= DOUBLE_ROWS else np.float32
    rows_nd = append_ones(x_nd.astype(precision))
    product_dd = (rows_nd.T @ rows_nd).astype(np.float64)
    power_d, axes_dd = np.linalg.eigh(product_dd)
    mean_d = rows_nd.mean(axis=0, dtype=np.float64)
    cost_one, cost_rest = _costs(cost, n, is_among)
    return Bank(
        x_nd=rows_nd,
        mean_d=mean_d.astype(precision),
        likeness_nd=_likeness(rows_nd, mean_d, product_dd),
        axes_dd=axes_dd.astype(precision),
        power_d=np.maximum(power_d, 0.0).astype(precision),
        cost_one=cost_one,
        cost_rest=cost_rest,
    )


def _costs(cost: float, n: int, is_among: bool) -> tuple[float, float]:
    """Of the one positive image and of each of the others, as `class_weight="balanced"` has it."""
    n_rest = max(n - is_among, 1)
    return cost * (n_rest + 1) / 2, cost * (n_rest + 1) / (2 * n_rest)


def append_ones(x_nd: Array) -> Array:
    return namespace(x_nd).concatenate([x_nd, zeros((len(x_nd), 1), x_nd) + 1], axis=1)


def leads(score_qn: Array) -> Array:
    """By how much each best image leads the next (infinite if there is one only).

    No sort: this is asked again and again. The array is changed in between and restored.
    """
    own = beside(np.arange(len(score_qn)), score_qn)
    best_q = score_qn.argmax(axis=1)
    top_q = score_qn[own, best_q]
    score_qn[own, best_q] = -np.inf
    lead_q = top_q - namespace(score_qn).amax(score_qn, axis=1)
    score_qn[own, best_q] = top_q
    return lead_q


def _likeness(rows_nd: np.ndarray, mean_d: np.ndarray, product_dd: np.ndarray) -> np.ndarray:
    """Centred rows, whitened with a strongly shrunk covariance (the column of ones drops out)."""
    spread_dd = product_dd / len(rows_nd) - np.outer(mean_d, mean_d)
    value_d, axes_dd = np.linalg.eigh(spread_dd)
    value_d = np.maximum(value_d, 0.0)
    floor = _SHRINK * value_d[-1] if value_d[-1] > 0 else 1.0
    whiten_dd = (axes_dd / (value_d + floor)) @ axes_dd.T
    centred_nd = rows_nd - mean_d.astype(rows_nd.dtype)
    return np.asarray(centred_nd @ whiten_dd.astype(rows_nd.dtype))


def make_gpu_bank(x_nd: Any, cost: float, is_among: bool) -> Bank:
    """As `make_bank`, on the device."""
    torch = namespace(x_nd)
    rows_nd = append_ones(x_nd.float())
    power_d, axes_dd = torch.linalg.eigh(rows_nd.double().T @ rows_nd.double())
    cost_one, cost_rest = _costs(cost, len(rows_nd), is_among)
    return Bank(
        x_nd=rows_nd,
        mean_d=rows_nd.mean(dim=0),
        likeness_nd=None,
        axes_dd=axes_dd.float(),
        power_d=power_d.clamp(min=0.0).float(),
        cost_one=cost_one,
        cost_rest=cost_rest,
    )
