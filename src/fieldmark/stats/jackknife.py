"""Jackknife, and bootstrap weights: intervals of any function of a list of items.

For scores that are no metric of targets and predictions: any function of a list of items. Either
units are drawn with replacement (`unit_weights`, whose scores go to `percentile_limits`), or, for
functions that no item may enter twice, blocks of units are left out in turn (`unit_blocks`,
`jackknife_limits`; Shao & Tu 1995, chapter 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fieldmark.stats.bootstrap import Kinds, Resampling
from fieldmark.stats.items import Items

_BLOCK_ENTRIES = 1 << 21


def unit_weights(items: Items, resampling: Resampling) -> Iterator[np.ndarray]:
    """How often each item counts in every resample (draws × items), in blocks of draws."""
    unit_n = items.unit_codes()
    if not len(unit_n):
        return
    part_u = np.zeros(int(unit_n.max()) + 1, np.intp)
    part_u[unit_n] = items.part_codes()
    order = np.argsort(part_u, kind="stable")
    place_u = np.empty_like(order)
    place_u[order] = np.arange(len(order))
    kinds = Kinds(np.ones(len(order), np.int64), part_u[order])
    n_rows = max(1, _BLOCK_ENTRIES // len(unit_n))
    for count_ru in kinds.resampled(resampling, "interval"):
        for start in range(0, len(count_ru), n_rows):
            yield count_ru[start : start + n_rows][:, place_u[unit_n]]


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
