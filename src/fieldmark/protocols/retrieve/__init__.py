"""Retrieval (image-text, cross-modal): how is a dual encoder asked to find what belongs together?

Both ways, as two parts: the caption of an image among all captions, the image of a caption among
all images. A row's own partner is the only right answer (as published), and beside it every row
that shares the caption or the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fieldmark.protocols._contract import Protocol, later
from fieldmark.registry import DUAL

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.protocols._question import Question, Workspace
    from fieldmark.protocols._score import Scoring
    from fieldmark.store import PartRecord, Score
    from fieldmark.tasks.split import Draw


class Retrieve(Protocol):
    """a dual encoder: the caption of each image, and the image of each caption"""

    name = "retrieve"
    needs = (DUAL,)
    training = "none"
    Block = later("fieldmark.protocols.retrieve.run:RetrieveBlock")
    answer = later("fieldmark.protocols.retrieve.run:run")

    def problems(self, task: Any) -> list[str]:
        from fieldmark.protocols._values import value_problems

        return value_problems(task, self.name)

    def prepare(self, task: Any, draw: Draw, settings: Any, workspace: Workspace) -> Question:
        from fieldmark.protocols._dual import projected
        from fieldmark.protocols._question import table_question
        from fieldmark.protocols.retrieve.run import caption_parts, caption_warnings

        block = task.block(self.name)
        key = ("captions", workspace.root(task), repr(task.model_dump()), draw.parts)
        parts = workspace.once(key, lambda: caption_parts(task, workspace.table(task), draw.parts))
        # Both ways are asked about the same rows, so that the mean of the two is the mean of all
        # answers; pooled, a unit is drawn with its answers both ways, which are no independent
        # ones.
        return table_question(
            self, task, draw, settings, workspace, parts, (block.caption,),
            rule="pooled",
            backbone=partial(projected, projector=block.projector),
            warnings=partial(caption_warnings, task, parts),
        )  # fmt: skip

    def score(
        self,
        scoring: Scoring,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
        question: Question | None = None,
    ) -> list[Score]:
        from fieldmark.protocols._score import MEAN, score_answers

        return [score for score in score_answers(scoring, predictions) if score.part != MEAN]


PROTOCOL = Retrieve()
