"""Wilson interval: between which values does a share lie, 19 times out of 20?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Interval:
    """Limits of a score, and what they rest on."""

    low: float
    high: float
    method: str
    """"wilson", "units" (cluster-robust), "units and training draws", or how else"""
    n: int
    n_units: int
    """independent units among the n items"""
    why: str = ""
    """why there are no limits (they are NaN then), in words"""

    @property
    def half_width(self) -> float:
        """What stands after ± in a table."""
        return (self.high - self.low) / 2


def wilson(hits: int, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a share; without any item, all of [0, 1].

    >>> round(wilson(9, 10).low, 3)
    0.596
    """
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} hits of {n}: expected 0 <= hits <= n.")
    if n == 0:
        return Interval(0.0, 1.0, "wilson", 0, 0)
    low, high = wilson_limits(hits / n, n, NormalDist().inv_cdf((1 + level) / 2))
    return Interval(low, high, "wilson", n, n)


def wilson_limits(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score limits; `n` need not be whole. A share of 0 or 1 is its own limit."""
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z * math.sqrt(max(0.0, share * (1 - share)) / n + z * z / (4 * n * n)) / shrink
    low = 0.0 if share <= 0 else min(centre - half, share)
    high = 1.0 if share >= 1 else max(centre + half, share)
    return low, high
