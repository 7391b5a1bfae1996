"""How are rows brought to one size before a layer sees them?

Batch by batch, so that no second copy of the features is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmark.probes._arrays import Array, beside, double, namespace, real
from fieldmark.probes._tensor import as_numpy

SCALINGS = ("none", "layer", "standardise")
_LAYER_EPSILON = 1e-5
_BLOCK_VALUES = 1 << 22


@dataclass(frozen=True, slots=True)
class Scaling:
    """`layer`: each row has mean 0 and spread 1 (LayerNorm without gains); `standardise`: columns.

    Constant columns become zeros.
    """

    kind: str = "none"
    mean_d: Array | None = None
    spread_d: Array | None = None

    @classmethod
    def fit(cls, kind: str, x_nd: Array, rows: np.ndarray) -> Scaling:
        """Means and spreads of the given rows, in float64."""
        if kind != "standardise":
            return cls(kind)
        return cls(kind, *column_moments(x_nd, rows))

    def placed(self, x: Array) -> Scaling:
        """The same where `x` lives, in its precision."""
        if self.mean_d is None or self.spread_d is None:
            return self
        return Scaling(self.kind, real(self.mean_d, x), real(self.spread_d, x))

    def apply(self, x_bd: Array) -> Array:
        """The rows (last axis: features) after the step; `placed` must have been called."""
        if self.kind == "layer":
            xp = namespace(x_bd)
            centred_bd = x_bd - x_bd.mean(axis=-1)[..., None]
            spread_b = xp.sqrt((centred_bd * centred_bd).mean(axis=-1) + _LAYER_EPSILON)
            return centred_bd / spread_b[..., None]
        if self.mean_d is None or self.spread_d is None:
            return x_bd
        return (x_bd - self.mean_d) / self.spread_d


def column_moments(x_nd: Array, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of each column; the spread of a constant column is given as 1."""
    n, n_block = len(rows), max(1, _BLOCK_VALUES // x_nd.shape[1])
    parts = [beside(rows[start : start + n_block], x_nd) for start in range(0, n, n_block)]
    first_d = double(x_nd[parts[0][:1]])[0]
    mean_d = first_d + sum((double(x_nd[part]) - first_d).sum(axis=0) for part in parts) / n
    square_d = sum(((double(x_nd[part]) - mean_d) ** 2).sum(axis=0) for part in parts)
    spread_d = namespace(x_nd).sqrt(square_d / n)
    floor_d = n * float(np.finfo(np.float64).eps) * abs(mean_d)
    spread_d[spread_d <= floor_d] = 1.0
    return as_numpy(mean_d), as_numpy(spread_d)
