"""Pseudo-random numbers and sines that are the same on every machine.

`Rng` is a stream of whole numbers expanded from `fieldmark.draws.digest`: it costs 2 µs to start,
where a numpy generator costs 20, and it does not change with numpy's version. Sines come from a
table of whole numbers, because the last bit of `math.sin` differs between C libraries.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

from fieldmark.draws import digest

T = TypeVar("T")
STEPS = 4096  # angles in one turn
FRACTION = 1 << 20  # a sine is a whole number of these
_CHUNK = 1024


class Rng:
    """Whole numbers and exact fractions that depend on the parts only."""

    __slots__ = ("_at", "_chunk", "_data", "_key")

    def __init__(self, *parts: object) -> None:
        self._key = digest(*parts)
        self._chunk = 0
        self._refill()

    def _refill(self) -> None:
        counter = self._chunk.to_bytes(4, "little")
        self._data = hashlib.shake_128(self._key + counter).digest(_CHUNK)
        self._chunk += 1
        self._at = 0

    def word(self) -> int:
        """A whole number in [0, 65536)."""
        if self._at >= _CHUNK:
            self._refill()
        at = self._at
        self._at = at + 2
        return self._data[at] | self._data[at + 1] << 8

    def below(self, n: int) -> int:
        """A whole number in [0, n), n at most 65536."""
        return self.word() * n >> 16

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * (self.word() / 65536)

    def around(self, amount: float) -> float:
        """Between -amount and amount, the middle more likely."""
        return (self.word() + self.word() - 65535) * amount / 65536

    def chance(self, share: float) -> bool:
        return self.word() < share * 65536

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def sample(self, options: Sequence[T], n: int) -> list[T]:
        """`n` different options, in a drawn order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(min(n, len(left)))]


@lru_cache(maxsize=1)
def sine_table() -> tuple[float, ...]:
    """Sines of one turn, each a whole number of 1/FRACTION, so that all machines agree."""
    return tuple(
        round(math.sin(2 * math.pi * step / STEPS) * FRACTION) / FRACTION for step in range(STEPS)
    )


def sine(turn: float) -> float:
    """The sine of an angle given in turns (1.0 is the whole circle), to 1/4096 of a turn."""
    return sine_table()[int(turn * STEPS) % STEPS]


def cosine(turn: float) -> float:
    return sine_table()[(int(turn * STEPS) + STEPS // 4) % STEPS]


@lru_cache(maxsize=8)
def noise_bytes(name: str, n: int) -> bytes:
    """`n` bytes that look random and are the same everywhere."""
    return hashlib.shake_128(digest("world-noise", name)).digest(n)
