"""Statistical power: how small a difference could these units show, how many would show a smaller?

A difference is detectable when a test at 5 % would see it 4 times in 5 (80 % power): Student's two
quantiles times the standard error, as if the models differed unit by unit as they did here. An
exact test needs six units that all lean one way (five still have p = 0.0625), so nothing is
detectable below what six discordant units are worth, met in 4 of 5 draws, nor with fewer than six
units. Where fewer than six differed here (with the two that a comparison adds), the others to six
are taken to differ as those did or, if none did, altogether. More units do not lessen the luck of
the training draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fieldmark.stats.items import LEVEL

DISAGREEMENT = 0.2
"""share of the items that one of two models has right, where nothing was measured"""
CORRELATION = 0.3
"""of the differences within a unit, where nothing was measured"""
ADDED_UNITS = 2
"""discordant ones that `compare` adds to the variance, as Bonett and Price do"""
FEWEST_UNITS = 6
"""that all lean one way, which an exact test at 5 % needs: 2 · 0.5^5 = 0.0625, 2 · 0.5^6 = 0.031"""
POWER = 0.8
_MOST_UNITS = 10**12


@dataclass(frozen=True, slots=True)
class UnitSpread:
    """How two models differ from unit to unit, whatever the number of units."""

    variance: float
    """of the difference, times the number of units; about no difference, not about the mean"""
    discordance: float
    """share of the units on which the two do not score alike"""
    effective: float
    """independent units per unit: less than 1 where some are larger than others"""
    added: float = 0.0
    """variance that the units added by the test bring, times the square of the number of units"""
    luck: float = 0.0
    """variance of the difference that other training draws would bring, with any number of units"""
    draws_df: float = math.inf
    """degrees of freedom of that"""
    is_graded: bool = False
    """even units whose differences are graded: `compare` takes Student's t alone, and adds none"""

    @classmethod
    def measured(
        cls,
        se: float,
        df: float,
        n_units: int,
        n_discordant: int,
        difference: float = 0.0,
        draws: tuple[float, int] = (0.0, 1),
        is_graded: bool = False,
    ) -> UnitSpread:
        """From a comparison of `n_units` units whose difference has that standard error, with the
        two units that `compare` adds; `draws`: the part of it that training draws bring, and how
        many there were.
        """
        luck, draws_df = min(draws[0], se) ** 2, max(draws[1] - 1, 1)
        if se == 0:  # no two units differ, so that none tells how sure their spread is
            df = n_units - 1.0
        elif luck:  # Satterthwaite's formula, solved for the units' own degrees of freedom
            rest = se**4 / max(df, 1e-9) - luck**2 / draws_df
            own_df = (se**2 - luck) ** 2 / rest if rest > 0 else math.inf
            df = min(own_df, n_units - 1.0)
        of_units = se**2 - luck
        # About no difference, not about the mean: E d² = Var d + (E d)².
        if is_graded:
            variance = n_units * of_units + difference**2
            return cls(variance, n_discordant / n_units, (df + 1) / n_units, is_graded=True)
        of_pair = of_units * n_discordant / (n_discordant + ADDED_UNITS)
        n_held = n_discordant + (ADDED_UNITS if se > 0 else 0)
        n_whole = max(0, FEWEST_UNITS - n_held)
        whole = of_pair / n_discordant if of_pair > 0 else 1 / n_units**2
        return cls(
            variance=n_units * (of_pair + n_whole * whole) + difference**2,
            discordance=min(1.0, max(n_discordant + n_whole, 1) / n_units),
            effective=(df + 1) / n_units,
            added=n_units**2 * (of_units - of_pair),
            luck=luck,
            draws_df=draws_df if luck else math.inf,
        )

    @classmethod
    def assumed(
        cls,
        unit_n: np.ndarray,
        share_n: np.ndarray,
        disagreement: float = DISAGREEMENT,
        correlation: float = CORRELATION,
    ) -> UnitSpread:
        """Of items whose weights in the score, and whose units (0 up), are known, where two models
        would disagree on that share of the items, and be as correlated in a unit.
        """
        share_u, n_u = np.bincount(unit_n, share_n), np.bincount(unit_n)
        # Var Σ w d, where the d of a unit correlate by ρ: (1 - ρ) Σ w² + ρ Σ over units of (Σ w)².
        apart, together = float(share_n @ share_n), float(share_u @ share_u)
        variance = disagreement * ((1 - correlation) * apart + correlation * together)
        # A unit is discordant if any of its items is: independently, or all of them at once.
        any_u = 1 - (1 - disagreement) ** n_u
        discordance = (1 - correlation) * float(any_u.mean()) + correlation * disagreement
        return cls(len(n_u) * variance, discordance, 1 / (together * len(n_u)))

    def detectable(self, n_units: float) -> float:
        """The smallest difference that `n_units` such units show; infinite where none."""
        from scipy.special import betaincinv, stdtrit  # slow to load, and most reports need none

        units_df = self.effective * n_units - 1
        if (n_units < FEWEST_UNITS and not self.is_graded) or not units_df > 0:
            return math.inf
        of_units = self.variance / n_units + self.added / n_units**2
        total = of_units + self.luck
        # Degrees of freedom of a sum of two variances (Welch 1947, Satterthwaite 1946).
        spread = of_units**2 / units_df + self.luck**2 / self.draws_df
        df = total**2 / spread if spread else units_df  # 0 where every unit leans the same way
        by_test = float(stdtrit(df, (1 + LEVEL) / 2) + stdtrit(df, POWER)) * math.sqrt(total)
        if self.is_graded:
            return by_test
        # a binomial share with which at least that many of the units are met in `POWER` of draws
        met = float(betaincinv(FEWEST_UNITS, n_units - FEWEST_UNITS + 1, POWER))
        share = max(FEWEST_UNITS / n_units, met)
        return max(by_test, share * math.sqrt(self.variance / self.discordance))

    def units_to_detect(self, difference: float) -> int | None:
        """The fewest such units that show a difference of that size 4 times in 5; None where no
        number of them does, for the luck of the training draws.
        """
        if not difference > 0:
            raise ValueError(f"difference is {difference}: expected more than 0.")
        # Doubling, then bisection: more units never detect less.
        low, high = 0, FEWEST_UNITS
        while self.detectable(high) > difference:
            low, high = high, 2 * high
            if high > _MOST_UNITS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if self.detectable(middle) > difference:
                low = middle
            else:
                high = middle
        return high


def detectable(
    se: float,
    df: float,
    n_units: int,
    n_discordant: int,
    difference: float = 0.0,
    is_graded: bool = False,
) -> float:
    """The smallest difference visible in these units; infinite where none is.

    `se` is the standard error of the difference that was seen, `df` its degrees of freedom.

    >>> round(detectable(se=0.0141, df=999, n_units=1000, n_discordant=200), 3)
    0.04
    >>> detectable(se=0.1, df=4, n_units=5, n_discordant=5)
    inf
    """
    if (n_units < FEWEST_UNITS and not is_graded) or not df > 0:
        return math.inf
    spread = UnitSpread.measured(se, df, n_units, n_discordant, difference, is_graded=is_graded)
    return spread.detectable(n_units)
