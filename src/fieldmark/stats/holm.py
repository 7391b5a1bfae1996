"""Holm's correction for multiple testing: how surprising is a p value when many were looked at?

It holds the chance of even one false alarm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def holm(p: ArrayLike, n_tests: int | None = None) -> np.ndarray:
    """The p values corrected step by step, in the order they came.

    `n_tests`: how many were looked at, where these are only the smallest of them.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p_k = _read(p)
    n = len(p_k) if n_tests is None else n_tests
    if n < len(p_k):
        raise ValueError(f"n_tests is {n}, p has {len(p_k)} values: expected at least as many.")
    order = np.argsort(p_k, kind="stable")
    corrected = np.empty(len(p_k))
    stepped = np.minimum(p_k[order] * (n - np.arange(len(p_k))), 1.0)
    corrected[order] = np.maximum.accumulate(stepped) if len(p_k) else stepped
    return corrected


def _read(p: ArrayLike) -> np.ndarray:
    p_k = np.asarray(p, np.float64)
    if p_k.ndim != 1 or not ((p_k >= 0) & (p_k <= 1)).all():
        raise ValueError(f"p is {p_k}: expected one row of numbers from 0 to 1.")
    return p_k
