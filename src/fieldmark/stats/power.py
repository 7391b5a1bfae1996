"""Statistical power: how small a difference could these items show, how many would show a smaller?

A difference is called visible when a test at 5 % would see it 4 times in 5 (80 % power), given how
often, or how much, the two models disagreed here.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from fieldmark.stats.wilson import wilson

_NORMAL = NormalDist()
_FEWEST_SPLITS = 6
"""five disagreements, all one way, still have an exact p of 0.0625"""


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
