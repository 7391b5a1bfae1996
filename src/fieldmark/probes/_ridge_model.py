"""What does a fitted linear classifier answer?

Rows go through in blocks, so predicting many rows of many classes needs no rows × classes array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark.probes._tensor import as_numpy, is_cuda

_BLOCK_VALUES = 1 << 21


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Decision values `x @ coef_dc + intercept_c`, in float64."""

    present_c: np.ndarray
    """class number of each column"""
    coef_dc: np.ndarray
    intercept_c: np.ndarray

    def decision_function(self, x_nd: Any) -> np.ndarray:
        """n × C, or for two classes n: the second one's."""
        x_nd = as_numpy(x_nd)
        value_nc = np.concatenate(list(self._blocks(x_nd)))
        return np.asarray(value_nc[:, 1] if len(self.present_c) == 2 else value_nc)

    def predict(self, x_nd: Any) -> np.ndarray:
        """Class numbers; a tie goes to the first."""
        if is_cuda(x_nd):
            return self._decide_there(x_nd)[0]
        x_nd = as_numpy(x_nd)
        return np.concatenate(
            [self.present_c[value_bc.argmax(axis=1)] for value_bc in self._blocks(x_nd)]
        )

    def lead(self, x_nd: Any) -> np.ndarray:
        """The best decision value minus the next; for two classes the size of the one value."""
        if is_cuda(x_nd) and len(self.present_c) != 2:
            return self._decide_there(x_nd)[1]
        x_nd = as_numpy(x_nd)
        if len(self.present_c) == 2:
            return np.asarray(np.abs(self.decision_function(x_nd)))
        leads = []
        for value_bc in self._blocks(x_nd):
            value_bc.partition(-2, axis=1)
            leads.append(value_bc[:, -1] - value_bc[:, -2])
        return np.concatenate(leads)

    def _decide_there(self, x_nd: Any) -> tuple[np.ndarray, np.ndarray]:
        from fieldmark.probes._torch_ridge import decide

        return decide(self, x_nd)

    def _blocks(self, x_nd: np.ndarray) -> Iterator[np.ndarray]:
        n_block = max(64, _BLOCK_VALUES // (len(self.intercept_c) + x_nd.shape[1]))
        for start in range(0, max(1, len(x_nd)), n_block):
            part_bd = x_nd[start : start + n_block].astype(np.float64, copy=False)
            value_bc = part_bd @ self.coef_dc
            value_bc += self.intercept_c
            yield value_bc
