"""Few mistakes in clusters (rule of three, exact): how low may a score near its end be?

A moderated variance has as many degrees of freedom as units made mistakes. With none or one it
knows nothing, and its limits would lie further out than those of five mistakes. With no mistake the
limit is exact, `0.025^(1/K)`, for K independent items that say as much as these where units are
nearly right or wrong altogether (a correlation of `ALIKE`; Clopper and Pearson 1934). Mistakes in
units of their own have limits no further out than more such mistakes would have, and no nearer than
none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fieldmark.stats.items import LEVEL

ALIKE = 0.6
"""correlation of right and wrong in a unit that no mistake has told anything of"""
ICC_UNITS = 2
"""units that the expected correlation of a unit's items counts for"""
MOST_ADDED = 24
"""mistakes added in turn; more change nothing, as their degrees of freedom hardly grow"""


@dataclass(frozen=True, slots=True, eq=False)
class UnitCounts:
    """How right and wrong answers lie in the units of m scores between 0 and 1."""

    mass_m2: np.ndarray
    """weight of the wrong and of the right answers"""
    square_m2: np.ndarray
    """the same by unit, squared and summed"""
    robust_m: np.ndarray
    """variance from the units' summed influences"""
    alone_m: np.ndarray
    """variance if items were independent"""
    n_effective: float
    """units, were they even"""
    n_units: int
    item: float
    """weight of an item"""
    n_exact: float
    """independent items that say as much, where units are nearly right or wrong altogether"""
    expected: float
    """design effect where nothing is known"""

    def taken(self, at: np.ndarray) -> UnitCounts:
        by_model = ("mass_m2", "square_m2", "robust_m", "alone_m")
        return replace(self, **{name: getattr(self, name)[at] for name in by_model})

    def limit(self, model: int, side: int, far: float) -> float:
        """How far from its end the limit of a score lies that would be `far` from it (0 to 1).

        Side 0: wrong answers, below 1; side 1: right answers, above 0.
        """
        mass, square = self.mass_m2[model, side], self.square_m2[model, side]
        # (α / 2)^(1 / K) right answers in a row: Clopper and Pearson's limit without a mistake.
        exact = 1 - ((1 - LEVEL) / 2) ** (1 / self.n_exact)
        if mass <= 1e-12:
            return float(exact)
        is_scattered = mass < self.item * self.n_effective and square <= 1.01 * mass * self.item
        nearest = self._with_more(model, side) if is_scattered else 1.0
        return float(max(min(far, nearest), exact))

    def _with_more(self, model: int, side: int) -> float:
        """The nearest limit with mistakes added in turn, each in a unit that has none."""
        from scipy.special import stdtrit  # slow to load, and most reports need none

        mass, square = self.mass_m2[model, side], self.square_m2[model, side]
        n_added = min(MOST_ADDED, self.n_units - 1, int((1 - mass) / self.item) - 1)
        k = np.arange(1.0, n_added + 1)
        if not len(k):
            return 1.0
        mass_k, square_k = mass + k * self.item, square + k * self.item**2
        # Kish's effective number of mistakes, (Σ w)² / Σ w².
        n_k = mass_k**2 / square_k
        inside_k = mass_k * (1 - mass_k)
        alone_k = self.alone_m[model] / (mass * (1 - mass)) * inside_k
        spread = max(square - mass**2 / self.n_effective, 1e-30)
        spread_k = np.maximum(square_k - mass_k**2 / self.n_effective, 0.0)
        robust_k = self.robust_m[model] / spread * spread_k
        # Design effect: the variance by units over that of independent items, drawn towards what is
        # expected of units of this size as long as few mistakes speak for it.
        effect_k = np.maximum(robust_k / alone_k, 1.0)
        effect_k = (n_k * effect_k + ICC_UNITS * self.expected) / (n_k + ICC_UNITS)
        t_k = stdtrit(n_k + ICC_UNITS, (1 + LEVEL) / 2)
        return float(_upper(mass_k, inside_k / (alone_k * effect_k), t_k).min())


def _upper(share_k: np.ndarray, n_k: np.ndarray, z_k: np.ndarray) -> np.ndarray:
    """Wilson's upper limit."""
    extra_k = z_k**2 / n_k
    half_k = z_k * np.sqrt(share_k * (1 - share_k) / n_k + extra_k / (4 * n_k))
    return np.asarray((share_k + extra_k / 2 + half_k) / (1 + extra_k))
