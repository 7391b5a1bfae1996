"""Random draws (seeded by a hash): where does every random choice come from?

From a hash of (seed, task, item, purpose): the same under any order, worker count or concurrency.
Nothing in fieldmark may use a global random state, or a generator that several places share.
Which photos are drawn for training and tests is decided in `tasks/split.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def digest(*parts: object) -> bytes:
    """Sixteen bytes that stand for the parts; ("ab", "c") and ("a", "bc") differ."""
    return _hasher(parts).digest()


def _hasher(parts: Iterable[object], before: hashlib.blake2b | None = None) -> hashlib.blake2b:
    """A hash of the parts, or of those before and these, which stays open for more."""
    hasher = hashlib.blake2b(digest_size=16) if before is None else before.copy()
    for part in parts:
        data = str(part).encode()
        hasher.update(len(data).to_bytes(8, "little") + data)
    return hasher


def number(*parts: object) -> int:
    """A whole number in [0, 2^64) that stands for the parts."""
    return int.from_bytes(digest(*parts)[:8], "little")


def generator(*parts: object) -> np.random.Generator:
    """A generator of its own for the parts."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(int.from_bytes(digest(*parts), "little")))


def shuffled(ids: Iterable[str], *parts: object) -> list[str]:
    """The ids in an order that depends on their names and the parts only, not on how they came.

    A prefix of it is a sample without replacement, and the sample of 3 is part of the sample of 10.
    """
    before = _hasher(parts)
    return sorted(ids, key=lambda name: (_hasher((name,), before).digest(), name))


def places(k: int, n: int, *parts: object) -> list[int]:
    """`k` different numbers below `n`, in an order of their own; all of them where `k` is larger.

    A few out of very many cost no more than out of few, unlike `shuffled`. The first 3 are those
    that asking for 3 gives.
    """
    before, chosen, time_drawn = _hasher(parts), dict[int, None](), 0
    while len(chosen) < min(k, n):
        drawn = _hasher((time_drawn,), before).digest()
        chosen[int.from_bytes(drawn, "little") % n] = None
        time_drawn += 1
    return list(chosen)


def sample(ids: Sequence[str], n: int, *parts: object) -> list[str]:
    """`n` of the ids (all when `n` is negative or too large), kept in the order they came."""
    if n < 0 or n >= len(ids):
        return list(ids)
    chosen = set(shuffled(ids, *parts)[:n])
    return [name for name in ids if name in chosen]


def lazily_shuffled(ids: Sequence[str], *parts: object) -> Iterator[str]:
    """The ids in a drawn order; the first k of any number of ids take k draws.

    Fisher-Yates shuffle that keeps only the places that were swapped: a pool of half a million
    photos is not gone through for each question.
    """
    moved: dict[int, int] = {}
    for index in range(len(ids)):
        other = index + number(*parts, index) % (len(ids) - index)
        chosen = moved.get(other, other)
        moved[other] = moved.get(index, index)
        yield ids[chosen]
