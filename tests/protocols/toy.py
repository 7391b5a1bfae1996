"""A protocol of one's own in one file: the class whose name is written in the block is always said.

The tests drop this file into a folder of a user's.
"""

from dataclasses import dataclass

import polars as pl
from pydantic import BaseModel

from fieldmark.protocols import PartPredictions, Protocol, draw_test


class ToyBlock(BaseModel, extra="forbid", frozen=True):
    says: str


@dataclass(frozen=True, slots=True)
class ToySettings:
    """how the toy answers"""

    whisper: bool | None = None
    """says nothing at all"""


class Toy(Protocol):
    """a toy that always says the same"""

    name, Block, Settings = "toy", ToyBlock, ToySettings

    def answer(self, question, part_names, model, workspace, progress):
        says = None if question.settings.whisper else question.task.block("toy").says
        for part in question.parts:
            rows = draw_test(question.task, part, question.draw, 0).with_columns(
                prediction=pl.lit(says, pl.String), score=pl.lit(1.0), repeat=pl.lit(0)
            )
            yield PartPredictions(part.name, rows, n_train=0)


PROTOCOL = Toy()
