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

    def decide(self, x_nd: Any) -> tuple[np.ndarray, np.ndarray]:
        """Class numbers of the winners (a tie goes to the first) and their leads over the next.

        For two classes the lead is the size of the one value.
        """
        if is_cuda(x_nd):
            from fieldmark.probes._torch_ridge import decide

            return decide(self, x_nd)
        columns, leads = [], []
        for value_bc in self._blocks(as_numpy(x_nd)):
            column_b, lead_b = top_two(value_bc)
            columns.append(column_b)
            leads.append(np.abs(value_bc[:, 1]) if len(self.present_c) == 2 else lead_b)
        return self.present_c[np.concatenate(columns)], np.concatenate(leads)

    def _blocks(self, x_nd: np.ndarray) -> Iterator[np.ndarray]:
        n_block = max(64, _BLOCK_VALUES // (len(self.intercept_c) + x_nd.shape[1]))
        for start in range(0, max(1, len(x_nd)), n_block):
            part_bd = x_nd[start : start + n_block].astype(np.float64, copy=False)
            value_bc = part_bd @ self.coef_dc
            value_bc += self.intercept_c
            yield value_bc


def top_two(value_bc: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best column of each row (the first among equals) and its lead over the next."""
    own = np.arange(len(value_bc))
    first_b = value_bc.argmax(axis=1)
    best_b = value_bc[own, first_b]
    value_bc[own, first_b] = -np.inf
    lead_b = best_b - value_bc.max(axis=1)
    value_bc[own, first_b] = best_b
    return first_b, lead_b
