"""Bootstrap and jackknife: what would a function of a list of items have given for other units?

For aggregations that only the task itself knows (lmms-eval's functions). Units are drawn with
replacement (`unit_weights`, whose scores go to `percentile_limits`) or, for functions that no item
may enter twice, blocks of units are left out in turn (`unit_blocks`, `jackknife_limits`; Shao & Tu
1995, chapter 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fieldmark import draws
from fieldmark.stats.interval import wilson
from fieldmark.stats.items import LEVEL, Items, count_units

_BLOCK_ENTRIES = 1 << 21


@dataclass(frozen=True, slots=True)
class Resampling:
    """How resamples are drawn; equal settings give equal intervals."""

    draws: int = 2000
    level: float = LEVEL
    seed: int = 0
    task: str = ""
    """part of the seed, so that tasks do not share their luck"""

    def __post_init__(self) -> None:
        if self.draws < 1 or not 0 < self.level < 1:
            raise ValueError(
                f"draws is {self.draws} and level {self.level}: expected draws from 1 up and a "
                "level between 0 and 1."
            )

    def generator(self, purpose: str) -> np.random.Generator:
        return draws.generator(self.seed, self.task, "", purpose)


def unit_weights(items: Items, resampling: Resampling) -> Iterator[np.ndarray]:
    """How often each item counts in every resample (draws × items), in blocks of draws."""
    unit_n = items.unit_codes()
    if not len(unit_n):
        return
    n_units = int(unit_n.max()) + 1
    random = resampling.generator("interval")
    n_rows = max(1, _BLOCK_ENTRIES // len(unit_n))
    for start in range(0, resampling.draws, n_rows):
        n = min(n_rows, resampling.draws - start)
        count_ru = random.multinomial(n_units, np.full(n_units, 1 / n_units), size=n)
        yield count_ru[:, unit_n]


def percentile_limits(
    value: float,
    replicate_r: np.ndarray,
    items: Items,
    resampling: Resampling,
    bounds: tuple[float, float],
) -> tuple[float, float]:
    """Percentiles of the replicates, moved so that their mean is the value, within the bounds.

    Moved, because resamples lose rare classes and sit below the value; a plain mean needs no
    resamples at all. When every resample gives the same, nothing was learned about the spread: the
    limits are then as far away as a surprise that never came in that many units may still be.
    """
    n_units = count_units(items)
    low, high = np.quantile(replicate_r, _tails(n_units, resampling.level))
    shift = value - replicate_r.mean()
    low, high = low + shift, high + shift
    if np.ptp(replicate_r) <= 1e-12:
        unseen = wilson(0, n_units, resampling.level).high
        low, high = value - unseen, value + unseen
    return min(max(float(low), bounds[0]), value), max(min(float(high), bounds[1]), value)


def _tails(n: int, level: float) -> tuple[float, float]:
    """Which percentiles of resamples to take: beyond (1 - level) / 2 when few things were drawn
    (Hesterberg 2015)."""
    from scipy.special import ndtr, stdtrit  # slow to load, and most reports need none

    if n < 2:
        return 0.0, 1.0
    tail = float(ndtr(stdtrit(n - 1, (1 - level) / 2) * math.sqrt(n / (n - 1))))
    return tail, 1 - tail


def unit_blocks(items: Items, n_blocks: int, resampling: Resampling) -> np.ndarray:
    """The block of each item: units are dealt evenly, in an order drawn for this task."""
    unit_n = items.unit_codes()
    n_units = int(unit_n.max(initial=-1)) + 1
    block_u = np.empty(n_units, np.intp)
    block_u[resampling.generator("blocks").permutation(n_units)] = np.arange(n_units) % n_blocks
    return np.asarray(block_u[unit_n])


def jackknife_limits(
    value: float, without_b: np.ndarray, level: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Student's limits from the scores without each block in turn, within the bounds."""
    from scipy.special import stdtrit  # slow to load, and most reports need none

    n = len(without_b)
    error = math.sqrt((n - 1) / n * float(((without_b - without_b.mean()) ** 2).sum()))
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    return min(max(value - half, bounds[0]), value), max(min(value + half, bounds[1]), value)
