"""Statistical power: how small a difference could these units show, how many would show a smaller?

A difference is visible when a test at 5 % would see it 4 times in 5 (80 % power): Student's two
quantiles times the standard error, as if the models differed unit by unit as they did here. An
exact test needs six units that all lean one way (five still have p = 0.0625), so nothing is visible
below what six discordant units are worth, met in 4 of 5 draws, nor with fewer than six units. Where
fewer than six differed here, the others to six are taken to differ altogether: how much a unit may
differ was then not measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fieldmark.stats.wilson import wilson

_NORMAL = NormalDist()
_FEWEST_SPLITS = 6


DISAGREEMENT = 0.2
"""share of the items that one of two models has right, where nothing was measured"""
CORRELATION = 0.3
"""of the differences within a unit, where nothing was measured"""


@dataclass(frozen=True, slots=True)
class UnitSpread:
    """How two models differ from unit to unit, whatever the number of units."""

    variance: float
    """of the difference, times the number of units; about no difference, not about the mean"""
    discordance: float
    """share of the units on which the two do not score alike"""
    effective: float
    """independent units per unit: less than 1 where some are larger than others"""

    @classmethod
    def measured(
        cls,
        se: float,
        df: float,
        n_units: int,
        n_discordant: int,
        difference: float = 0.0,
        level: float = 0.95,
    ) -> UnitSpread:
        """From a comparison of `n_units` units whose difference has that standard error."""
        n_added = max(0, fewest_units(level) - n_discordant)
        return cls(
            variance=n_units * se**2 + difference**2 + n_added / n_units,
            discordance=(n_discordant + n_added) / n_units,
            effective=(df + 1) / n_units,
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
        apart, together = float(share_n @ share_n), float(share_u @ share_u)
        variance = disagreement * ((1 - correlation) * apart + correlation * together)
        any_u = 1 - (1 - disagreement) ** n_u
        discordance = (1 - correlation) * float(any_u.mean()) + correlation * disagreement
        return cls(len(n_u) * variance, discordance, 1 / (together * len(n_u)))

    def detectable(self, n_units: float, level: float = 0.95, power: float = 0.8) -> float:
        """The smallest difference that `n_units` such units show; infinite where none."""
        from scipy.special import betaincinv, stdtrit  # slow to load, and most reports need none

        fewest, df = fewest_units(level), self.effective * n_units - 1
        if n_units < fewest or not df > 0:
            return math.inf
        se = math.sqrt(self.variance / n_units)
        by_test = float(stdtrit(df, (1 + level) / 2) + stdtrit(df, power)) * se
        # a binomial share with which at least `fewest` of the units are met in `power` of draws
        share = max(fewest / n_units, float(betaincinv(fewest, n_units - fewest + 1, power)))
        return max(by_test, share * math.sqrt(self.variance / self.discordance))

    def units_to_detect(self, difference: float, level: float = 0.95, power: float = 0.8) -> int:
        """The fewest such units that show a difference of that size 4 times in 5."""
        if not difference > 0:
            raise ValueError(f"difference is {difference}: expected more than 0.")
        low, high = 0, fewest_units(level)
        while self.detectable(high, level, power) > difference:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self.detectable(middle, level, power) > difference:
                low = middle
            else:
                high = middle
        return high


def fewest_units(level: float = 0.95) -> int:
    """How many units that all lean one way an exact test needs.

    >>> fewest_units()
    6
    """
    return math.ceil(1 - math.log2(1 - level) - 1e-9)


def detectable(
    se: float,
    df: float,
    n_units: int,
    n_discordant: int,
    level: float = 0.95,
    power: float = 0.8,
    difference: float = 0.0,
) -> float:
    """The smallest difference visible in these units; infinite where none is.

    `se` is the standard error of the difference that was seen, `df` its degrees of freedom.

    >>> round(detectable(se=0.0141, df=999, n_units=1000, n_discordant=200), 3)
    0.04
    >>> detectable(se=0.1, df=4, n_units=5, n_discordant=5)
    inf
    """
    if n_units < fewest_units(level) or not df > 0:
        return math.inf
    spread = UnitSpread.measured(se, df, n_units, n_discordant, difference, level)
    return spread.detectable(n_units, level, power)


def detectable_share(n_discordant: int, n: int, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest visible difference of two shares (Connor 1987); 1 where none would be.

    Without any disagreement the rate may still be what that many items could have missed.
    """
    if n == 0:
        return 1.0
    rate = n_discordant / n if n_discordant else wilson(0, n, level).high
    at_test, at_power = _NORMAL.inv_cdf((1 + level) / 2), _NORMAL.inv_cdf(power)
    smallest = (at_test + at_power) * math.sqrt(rate / n)
    for _ in range(20):
        smallest = (
            at_test * math.sqrt(rate) + at_power * math.sqrt(max(0.0, rate - smallest**2))
        ) / (math.sqrt(n))
    return min(1.0, max(smallest + 1 / n, _FEWEST_SPLITS / n))  # the exact test counts whole items


def detectable_mean(se: float, n_units: int, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest visible difference whose standard error is `se`; infinite for one unit."""
    from scipy.special import stdtrit  # slow to load, and most reports need none

    if n_units < 2:
        return math.inf
    quantiles = stdtrit(n_units - 1, (1 + level) / 2) + stdtrit(n_units - 1, power)
    return float(quantiles) * se


def items_to_detect(detectable: float, n: int, difference: float) -> int:
    """Items needed in all to see `difference`, where `n` items see `detectable`.

    What is visible shrinks with the root of the number of items (of units, if they stay as large).

    >>> items_to_detect(0.04, 500, 0.02)
    2000
    """
    if not difference > 0:
        raise ValueError(f"difference is {difference}: expected more than 0.")
    return math.ceil(n * (detectable / difference) ** 2 - 1e-9)
