"""Bootstrap bias corrected cross-validation (BBC-CV): how good is the model that scored highest?

The highest of several scores is partly luck, so its own interval promises too much. Tsamardinos et
al. 2018 (10.1007/s10994-018-5714-4) repeat the choice inside a bootstrap: draw units, choose on
them, score the chosen one on the units that were not drawn. The mean of these scores is the
estimate. Its spread is far too wide as an interval (coverage 99 %); the limits here are Wilson's,
with the variance over units of whatever each bootstrap chose. Another training set would have given
another model; that adds a quarter of the variance (simulated: decision 26).
`benchmarks/honesty.py` has the coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fieldmark import draws
from fieldmark.stats import wilson_limits

N_BOOTSTRAPS = 400
Z95 = 1.96
"""of the standard normal distribution"""
TRAINING_LUCK = 0.25
"""of the variance over units: what another training set would add"""
LEAST_UNITS = 5
"""below: no interval for new units"""
ROUGH_UNITS = 10
"""below: the interval is rough"""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which configuration is best, and how good it is on new units."""

    best: int
    accuracy: float
    """of the chosen one, with the luck of the choice removed"""
    low: float
    high: float
    """95 % limits; NaN where there are too few units"""
    n_units: int

    @property
    def has_interval(self) -> bool:
        return not math.isnan(self.low)


def choose(hit_nm: np.ndarray, unit_n: np.ndarray, seed: str = "") -> ModelChoice:
    """Chooses among m configurations by their hits (1 or 0) on n photos of units numbered from 0.

    Among equals the first wins.
    """
    n_units = int(unit_n.max()) + 1
    hit_um = np.stack([np.bincount(unit_n, hits, n_units) for hits in hit_nm.T], axis=1)
    size_u = np.bincount(unit_n, minlength=n_units).astype(np.float64)
    best = int(hit_um.sum(axis=0).argmax())
    if n_units < 2:
        return ModelChoice(best, float(hit_nm[:, best].mean()), math.nan, math.nan, n_units)
    random = draws.generator("choice", seed, n_units)
    scores, variances = [], []
    for _ in range(N_BOOTSTRAPS):
        count_u = np.bincount(random.integers(n_units, size=n_units), minlength=n_units)
        chosen = int((count_u @ hit_um).argmax())
        is_out = count_u == 0
        if is_out.any():
            scores.append(hit_um[is_out, chosen].sum() / size_u[is_out].sum())
        variances.append(_variance(hit_um[:, chosen], size_u))
    accuracy = float(np.mean(scores))
    low, high = math.nan, math.nan
    if n_units >= LEAST_UNITS:
        variance = float(np.mean(variances)) * (1 + TRAINING_LUCK)
        low, high = _limits(accuracy, variance, size_u)
    return ModelChoice(best, accuracy, low, high, n_units)


def _variance(hit_u: np.ndarray, size_u: np.ndarray) -> float:
    """Cluster-robust variance of a share: K/(K-1) · Σ (hits - share · n)² / n²."""
    n_units, n = len(size_u), size_u.sum()
    residual_u = hit_u - hit_u.sum() / n * size_u
    return float(n_units / (n_units - 1) * (residual_u**2).sum() / n**2)


def _limits(share: float, variance: float, size_u: np.ndarray) -> tuple[float, float]:
    """Wilson's limits for the number of independent photos with that variance.

    The normal quantile, although the variance is estimated: it is a mean over many bootstraps and
    several configurations, and Wilson's limits are wide where photos are few. With 5 to 12 units
    it covers in 93 to 96 %; Student's with 2 (n - 1) degrees of freedom in 97 to 98 (simulated).
    """
    inside = min(max(share, 1e-3), 1 - 1e-3)
    # No mistakes at all, or only mistakes: every unit still counts as one photo at most.
    n = min(inside * (1 - inside) / max(variance, 1e-12), float(size_u.sum()))
    return wilson_limits(share, max(n, 1.0), Z95)
