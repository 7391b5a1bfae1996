"""How many examples fit?

Each example is measured once, in tokens, pictures and bytes; running sums then say how many of them
fit beside the question, with room kept for the answer. k examples cost k additions, never k
recounts of a growing prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """What a piece of a prompt takes up."""

    tokens: int = 0
    pictures: int = 0
    n_bytes: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.tokens + other.tokens,
            self.pictures + other.pictures,
            self.n_bytes + other.n_bytes,
        )


@dataclass(frozen=True, slots=True)
class Room:
    """What a model takes in one request; None = no limit known."""

    tokens: int | None = None
    """the context, question and answer together"""
    answer_tokens: int = 1024
    """kept free for the answer"""
    pictures: int | None = None
    n_bytes: int | None = None

    def lacks(self, load: Load) -> str:
        """What is too small for a prompt of this size: "context", "pictures", "bytes" or ""."""
        if self.tokens is not None and load.tokens + self.answer_tokens > self.tokens:
            return "context"
        if self.pictures is not None and load.pictures > self.pictures:
            return "pictures"
        return "bytes" if self.n_bytes is not None and load.n_bytes > self.n_bytes else ""


@dataclass(frozen=True, slots=True)
class Fit:
    k: int
    why: str = ""
    """what made it fewer than were offered; "" = all fit"""
    fits: bool = True
    """False: not even the question alone fits"""


def fit(base: Load, loads: Iterable[Load], room: Room) -> Fit:
    """The largest k such that the question and the first k examples fit.

    >>> fit(Load(100), [Load(50)] * 10, Room(tokens=1000, answer_tokens=600))
    Fit(k=6, why='context', fits=True)
    """
    total, k = base, 0
    lacking = room.lacks(total)
    if lacking:
        return Fit(0, lacking, fits=False)
    for load in loads:
        total = total + load
        lacking = room.lacks(total)
        if lacking:
            return Fit(k, lacking)
        k += 1
    return Fit(k)
