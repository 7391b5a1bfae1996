"""Permutation tests: how often would chance alone part two models so far?

Sign flips: the sum of the units' leads under random signs, its law computed instead of sampled: all
signs for a few units, a Fourier sum where leads are multiples of one step (rights and wrongs in
bursts), else the saddlepoint formula (Lugannani and Rice 1980; Robinson 1982 for this law). So a p
of one in a million costs as little as one of a half, which correcting for 100 models needs.

Swaps, for any metric: the answers of both models are swapped unit by unit and scored anew; all
swaps for a few units, else as many at random as resamples are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fieldmark.stats.bootstrap import CellKinds, Resampling, cell_kinds
from fieldmark.stats.items import Items, Metric, weighted_score

_ALL_SIGNS = 16
"""up to so many units all signs are tried"""
_FOURIER_WORK = 2_000_000
_PARTS = 6
"""leads of 2 and 3 items have a step of half the smaller one; so many parts are tried"""
_FOURIER_LEAST = 1e-9
"""below, rounding shows in a Fourier sum"""


def sign_flip(lead_u: np.ndarray) -> float:
    """Two-sided p of leads that add up so far from 0; 1 where no unit leads.

    >>> sign_flip(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
    0.03125
    """
    lead = abs(float(lead_u.sum(dtype=np.float64)))
    size_k = np.abs(lead_u[lead_u != 0]).astype(np.float64)
    if not len(size_k):
        return 1.0
    if len(size_k) <= _ALL_SIGNS:
        return _all_signs(size_k, lead)
    p = _fourier(size_k, lead)
    return p if p is not None else _saddlepoint(size_k, lead)


def binomial_split(n_first: np.ndarray, n_second: np.ndarray) -> np.ndarray:
    """Exact McNemar: two-sided p of so uneven splits of the items only one model has right."""
    from scipy.special import bdtr  # slow to load, and most reports need none

    fewer = np.minimum(n_first, n_second).astype(np.int64)
    total = (n_first + n_second).astype(np.int64)
    return np.asarray(np.minimum(1.0, 2 * bdtr(fewer, total, 0.5)))


def _all_signs(size_k: np.ndarray, lead: float) -> float:
    sums = size_k[:1]  # the mirrored half adds nothing to a two-sided test
    for size in size_k[1:]:
        sums = np.concatenate([sums + size, sums - size])
    return float((np.abs(sums) >= lead - 1e-9 * size_k.sum()).mean())


def _fourier(size_k: np.ndarray, lead: float) -> float | None:
    """The exact p where all leads are multiples of one step; None where they are not."""
    step = _common_step(size_k)
    if step is None:
        return None
    step_k = np.rint(size_k / step)
    n_steps, top = round(lead / step), int(step_k.sum())
    if step_k.max() == 1:
        n_fewer = (top - n_steps) // 2
        return float(binomial_split(np.array(n_fewer), np.array(top - n_fewer)))
    if top * step_k.max() > _FOURIER_WORK:
        return None
    length = 1 << (top + 1).bit_length()
    angle = np.pi * np.arange(length // 2 + 1) / length
    wave = np.exp(-1j * angle * top)
    for size, n in zip(*np.unique(step_k, return_counts=True), strict=True):
        wave *= np.cos(angle * size) ** int(n)
    share_s = np.fft.irfft(wave, length)[: top + 1]
    p = 2 * float(share_s[(top + n_steps + 1) // 2 :].sum())
    return min(1.0, p) if p > _FOURIER_LEAST else None


def _common_step(size_k: np.ndarray) -> float | None:
    """The largest step, the smallest size or a part of it, of which all are multiples."""
    ratio_k = size_k / size_k.min()
    for part in range(1, _PARTS + 1):
        step_k = ratio_k * part
        if np.abs(step_k - np.rint(step_k)).max() < 1e-5 * step_k.max():
            return float(size_k.min() / part)
    return None


def _saddlepoint(size_k: np.ndarray, lead: float) -> float:
    """Lugannani and Rice's tail of the sum of ±size, whose cumulants are sums of log cosh."""
    from scipy.special import ndtr  # slow to load, and most reports need none

    least = 2.0 ** (1 - len(size_k))
    if lead >= size_k.sum() * (1 - 1e-9):
        return least
    tilt = lead / float(size_k @ size_k)
    # From below, Newton's steps on this concave curve never pass the root.
    for _ in range(40):
        lean_k = np.tanh(tilt * size_k)
        bend = float((size_k**2 * (1 - lean_k**2)).sum())
        gap = lead - float(size_k @ lean_k)
        tilt += gap / bend
        if gap <= 1e-7 * lead:
            break
    x_k = tilt * size_k
    cumulant = float((x_k + np.log1p(np.exp(-2 * x_k)) - math.log(2)).sum())
    far = math.sqrt(max(0.0, 2 * (tilt * lead - cumulant)))
    if far < 1e-3:
        return 1.0
    steep = tilt * math.sqrt(bend)
    density = math.exp(-(far**2) / 2) / math.sqrt(2 * math.pi)
    tail = float(ndtr(-far)) + density * (1 / steep - 1 / far)
    return min(1.0, max(2 * tail, least))


# --- swaps ---


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

    observed = float(difference(whole)[0])
    if cells.kinds.count.sum() <= ALL_SWAPS:
        return float(_is_as_extreme(cells.values(_every_swap(cells), difference), observed).mean())
    return _share_as_extreme(
        cells.values(cells.kinds.halved(resampling, "test"), difference), observed
    )


def _every_swap(cells: CellKinds) -> Iterator[np.ndarray]:
    """How many units of each kind are kept, for every choice of units."""
    kind_u = np.repeat(np.arange(len(cells.kinds.count)), cells.kinds.count)
    is_kept = (np.arange(1 << len(kind_u))[:, None] >> np.arange(len(kind_u))) & 1
    yield is_kept @ (kind_u[:, None] == np.arange(len(cells.kinds.count)))


def _is_as_extreme(chance_r: np.ndarray, observed: float) -> np.ndarray:
    return np.asarray(np.abs(chance_r) >= abs(observed) - 1e-12)


def _share_as_extreme(chance_r: np.ndarray, observed: float) -> float:
    """Share of chance results at least as far from 0, the found one counted among them.

    Where none of them is, the draws only say "less than one in so many", which no correction for
    many models survives; Hoeffding's bound for sums of random signs then says how much less.
    """
    n_extreme = int(_is_as_extreme(chance_r, observed).sum())
    share = (1 + n_extreme) / (1 + len(chance_r))
    if n_extreme:
        return share
    steps = abs(observed) / float(np.sqrt(np.mean(chance_r**2)))
    return min(share, 2 * math.exp(-(steps**2) / 2))
