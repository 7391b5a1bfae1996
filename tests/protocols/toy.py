"""A protocol of one's own in one file: the class whose name is written in the block is always said.

The tests drop this file into a folder of a user's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from fieldmark.protocols import Assignment, PartPredictions, Protocol, draw_test


class ToyBlock(BaseModel):
    """how the toy is asked"""

    model_config = ConfigDict(extra="forbid", frozen=True)
    says: str


@dataclass(frozen=True, slots=True)
class ToySettings:
    """how the toy answers"""

    whisper: bool | None = None
    """says nothing at all"""


class Toy(Protocol):
    name = "toy"
    summary = "a toy that always says the same"
    settings = ToySettings
    head = "says"

    def block(self) -> type[BaseModel]:
        return ToyBlock

    def answer(
        self, assignment: Assignment, wanted: Collection[str], model: Any, at: Any, progress: Any
    ) -> Iterator[PartPredictions]:
        says = None if assignment.settings.whisper else self.block_of(assignment.task).says
        for part in assignment.parts:
            rows = draw_test(assignment.task, part, assignment.draw, 0)
            yield PartPredictions(
                part.name,
                rows.select("id", "target", "unit").with_columns(
                    pl.lit(says, pl.String).alias("prediction"),
                    pl.lit(1.0).alias("score"),
                    pl.lit(0).alias("repeat"),
                ),
                n_train=0,
            )


PROTOCOL = Toy()
