"""How often does each kind of unit come up when as many units are drawn as there are?

Multinomial counts. numpy draws them one binomial after the other. With thousands of kinds it is
faster to draw a little less than needed as independent Poisson counts, each by one look into a
table, and the rest one by one: Poisson counts given their sum are multinomial, and so is the sum of
two multinomial draws.
"""

from __future__ import annotations

import math

import numpy as np

_FEW_KINDS, _FEW_UNITS = 100, 1000
_TABLE_BITS = 16
_LARGEST, _WORTH = 64, 2500
"""units of a kind up to which a table is used, and numbers for which it is worth making"""


def draw_counts(random: np.random.Generator, count_k: np.ndarray, n: int) -> np.ndarray:
    """`n` draws (rows) of the counts of kinds, each as many units as `count_k` has."""
    total = int(count_k.sum())
    if len(count_k) < _FEW_KINDS or total < _FEW_UNITS:
        return random.multinomial(total, count_k / total, size=n)
    share = 1 - 3 / math.sqrt(total)
    drawn_kn = _poisson(random, count_k, share, n)
    lacking_n = total - drawn_kn.sum(axis=0)
    over = np.flatnonzero(lacking_n < 0)  # three standard deviations away: one in 700
    drawn_kn[:, over] = random.multinomial(total, count_k / total, size=len(over)).T
    lacking_n[over] = 0
    kind_u = np.repeat(np.arange(len(count_k)), count_k)
    more = kind_u[random.integers(0, total, int(lacking_n.sum()))]
    np.add.at(drawn_kn.reshape(-1), more * n + np.repeat(np.arange(n), lacking_n), np.int32(1))
    return np.asarray(drawn_kn.T)


def _poisson(random: np.random.Generator, count_k: np.ndarray, share: float, n: int) -> np.ndarray:
    """Poisson counts (kinds × draws) with means `share * count_k`."""
    drawn_kn = np.empty((len(count_k), n), np.int32)
    for count in np.unique(count_k):
        mine = np.flatnonzero(count_k == count)
        if count > _LARGEST or len(mine) * n < _WORTH:
            drawn_kn[mine] = random.poisson(share * count, (len(mine), n))
            continue
        luck = np.frombuffer(random.bytes(2 * len(mine) * n), np.uint16)
        drawn_kn[mine] = _table(share * float(count)).take(luck).reshape(len(mine), n)
    return drawn_kn


def _table(mean: float) -> np.ndarray:
    """The Poisson count for each of 65,536 equally likely numbers."""
    size = 1 << _TABLE_BITS
    count = np.arange(int(mean + 12 * math.sqrt(mean) + 12))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.maximum(count[1:], 1)))])
    below = np.cumsum(np.exp(count * math.log(mean) - mean - log_factorial))
    edge = np.rint(below * size).astype(np.int64)
    edge[-1] = size
    return np.repeat(count.astype(np.int32), np.diff(edge, prepend=0))
