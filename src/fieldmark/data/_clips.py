"""Which frames of a clip are looked at?

A choice depends on the clip's name and a seed only: never on workers, on order, or on other clips.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fieldmark.draws import number


@dataclass(frozen=True, slots=True)
class Pick:
    """Frames `start`, `start + step`, … of a clip, `n` of them."""

    start: int
    step: int
    n: int

    def of(self, values: Sequence[int]) -> list[int]:
        return [values[self.start + self.step * turn] for turn in range(self.n)]


def pick_frames(length: int, n: int, step: int, *draw: object) -> Pick:
    """`n` frames of a clip of `length` ≥ n; the step shrinks until they fit, the start is drawn."""
    step = min(step, (length - 1) // (n - 1))
    margin = length - 1 - (n - 1) * step
    return Pick(number(*draw) % (margin + 1), step, n)


def most_common(values: Sequence[int]) -> int:
    """The mode; of several, the lowest."""
    counts = Counter(values)
    return min(counts, key=lambda each: (-counts[each], each))


@dataclass(frozen=True, slots=True)
class Order:
    """What is odd about the frame numbers of a clip, in the order of the file."""

    has_gap: bool
    """a number between the lowest and the highest is missing"""
    is_disordered: bool
    """the numbers do not rise"""
    has_twins: bool


def judge_order(frame_ids: Sequence[int]) -> Order:
    distinct = set(frame_ids)
    return Order(
        has_gap=len(distinct) <= max(distinct) - min(distinct),
        is_disordered=any(b < a for a, b in pairwise(frame_ids)),
        has_twins=len(distinct) < len(frame_ids),
    )
