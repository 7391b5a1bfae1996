"""Feature normalisation (L2, centring, standardising): which steps come before a probe?

`l2` gives every row length one, `centre` takes away the training mean, `standardise` also divides
by the training spread. Steps apply in the order given, each fitted on the training rows as the
steps before left them: NeWT's old recipe is l2, centre, l2. Nothing of a test row ever enters a
fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldmark.errors import UnknownName, UsageError
from fieldmark.probes._arrays import ProbeDataError, read_features

STEPS = ("l2", "centre", "standardise")


class Normaliser:
    """Steps fitted on training features; rows of zeros stay zeros, constant columns become zeros.

    >>> Normaliser(["l2"]).fit([[3.0, 4.0]]).transform([[0.0, 2.0], [0.0, 0.0]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """

    def __init__(self, steps: Sequence[str] = ()) -> None:
        if isinstance(steps, str):
            raise UsageError(f"normalise is {steps!r}: expected a list such as [{steps}].")
        for step in steps:
            if step not in STEPS:
                raise UnknownName("normalisation step", str(step), STEPS)
        self.steps = tuple(steps)
        self._fitted: list[tuple[np.ndarray, np.ndarray]] | None = None

    def fit(self, X: Any) -> Normaliser:
        """Learns the means and spreads of the training rows."""
        x_nd = read_features(X)
        self._fitted = []
        self._width = x_nd.shape[1]
        for step in self.steps:
            self._fitted.append(_moments(x_nd, step))
            x_nd = _apply(x_nd, step, *self._fitted[-1])
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The rows after all steps, in the precision they came in; the input is left as it was."""
        if self._fitted is None:
            raise ValueError(
                "this Normaliser is not fitted yet: call fit with the training features."
            )
        x_nd = read_features(X, is_empty_ok=True)
        if x_nd.shape[1] != self._width:
            raise ProbeDataError(
                f"features have {x_nd.shape[1]} columns, the training features had {self._width}."
            )
        for step, fitted in zip(self.steps, self._fitted, strict=True):
            x_nd = _apply(x_nd, step, *fitted)
        return x_nd

    def __repr__(self) -> str:
        return f"Normaliser({list(self.steps)})"


def _moments(x_nd: np.ndarray, step: str) -> tuple[np.ndarray, np.ndarray]:
    """Offset and scale of each column for the step (0 and 1 where it needs none)."""
    width = x_nd.shape[1]
    mean_d, scale_d = np.zeros(width), np.ones(width)
    if step == "l2":
        return mean_d, scale_d
    # Exactly the value where a column has only one: a rest of rounding would grow to length one
    # under l2.
    is_constant_d = x_nd.min(axis=0) == x_nd.max(axis=0)
    mean_d = np.where(is_constant_d, x_nd[0], x_nd.mean(axis=0, dtype=np.float64))
    if step == "standardise":
        spread_d = x_nd.std(axis=0, dtype=np.float64)
        # A column whose spread is rounding of its mean is constant: dividing would blow up noise.
        floor_d = len(x_nd) * np.finfo(np.float64).eps * np.abs(mean_d)
        scale_d = np.where(spread_d > floor_d, spread_d, 1.0)
    return mean_d, scale_d


def _apply(x_nd: np.ndarray, step: str, mean_d: np.ndarray, scale_d: np.ndarray) -> np.ndarray:
    if step == "l2":
        length_n = np.sqrt(np.einsum("nd,nd->n", x_nd, x_nd, dtype=np.float64))
        changed = x_nd / np.where(length_n > 0, length_n, 1.0)[:, None]
    else:
        changed = (x_nd - mean_d) / scale_d
    return np.asarray(changed, dtype=x_nd.dtype)
