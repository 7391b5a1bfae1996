"""How far would two models be parted, had each unit's answers come from either of them?

For any metric: the answers of both models are swapped unit by unit and scored anew. All swaps for a
few units, else as many at random as resamples are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fieldmark.stats._items import Items, Metric, weighted_score
from fieldmark.stats._resample import CellKinds, Resampling, cell_kinds

ALL_SWAPS = 12
"""up to so many units every swap is scored"""


def swap_test(
    items: Items, a: np.ndarray, b: np.ndarray, metric: Metric, resampling: Resampling
) -> float:
    """Two-sided p of the difference of the two models' scores."""
    cells = cell_kinds(items, a, b)
    target, ours, theirs = cells.columns.T
    twice = np.tile(cells.part, 2), np.tile(target, 2)
    score_a = weighted_score(items, metric, *twice, np.concatenate([ours, theirs]))
    score_b = weighted_score(items, metric, *twice, np.concatenate([theirs, ours]))
    whole = cells.weights(cells.kinds.count[None, :])

    def difference(kept: np.ndarray) -> np.ndarray:
        weight = np.concatenate([kept, whole - kept], axis=1)
        return np.asarray(score_a(weight) - score_b(weight))

    found = float(difference(whole)[0])
    if cells.kinds.count.sum() <= ALL_SWAPS:
        return float(_is_as_far(cells.values(_every_swap(cells), difference), found).mean())
    return _share_as_far(cells.values(cells.kinds.halved(resampling, "test"), difference), found)


def _every_swap(cells: CellKinds) -> Iterator[np.ndarray]:
    """How many units of each kind are kept, for every choice of units."""
    kind_u = np.repeat(np.arange(len(cells.kinds.count)), cells.kinds.count)
    is_kept = (np.arange(1 << len(kind_u))[:, None] >> np.arange(len(kind_u))) & 1
    yield is_kept @ (kind_u[:, None] == np.arange(len(cells.kinds.count)))


def _is_as_far(chance_r: np.ndarray, found: float) -> np.ndarray:
    return np.asarray(np.abs(chance_r) >= abs(found) - 1e-12)


def _share_as_far(chance_r: np.ndarray, found: float) -> float:
    """Share of chance results at least as far from 0, the found one counted among them.

    Where none of them is, the draws only say "less than one in so many", which no correction for
    many models survives; Hoeffding's bound for sums of random signs then says how much less.
    """
    n_far = int(_is_as_far(chance_r, found).sum())
    share = (1 + n_far) / (1 + len(chance_r))
    if n_far:
        return share
    steps = abs(found) / float(np.sqrt(np.mean(chance_r**2)))
    return min(share, 2 * math.exp(-(steps**2) / 2))
