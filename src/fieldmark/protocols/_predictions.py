"""What does every protocol hand to the store?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl


@dataclass(frozen=True, slots=True)
class PartPredictions:
    """The answers of one part, all repeats."""

    part: str
    frame: pl.DataFrame
    """repeat, id, target, prediction (null = not answered), score, unit"""
    n_train: int
    """training images really used (the fewest of all repeats)"""
    notes: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    groups: tuple[tuple[str, str], ...] = ()

    def by_repeat(self) -> Iterator[tuple[int, pl.DataFrame]]:
        for repeat in self.frame.get_column("repeat").unique().sort():
            yield int(repeat), self.frame.filter(pl.col("repeat") == repeat)

    def timed(self, seconds: float) -> PartPredictions:
        return replace(self, seconds=seconds)
