"""Retrieval (image-text, cross-modal): how is a dual encoder asked to find what belongs together?

Both ways, as two parts: the caption of an image among all captions, the image of a caption among
all images. A row's own partner is the only right answer (as published), and beside it every row
that shares the caption or the image.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.abilities import DUAL
from fieldmark.protocols._contract import Assignment, Protocol

if TYPE_CHECKING:
    import polars as pl
    from pydantic import BaseModel

    from fieldmark.progress import Progress
    from fieldmark.protocols._contract import Draw
    from fieldmark.protocols._items import PartItems, Selection
    from fieldmark.protocols._predictions import PartPredictions
    from fieldmark.protocols._score import Scoring
    from fieldmark.protocols._workspace import Workspace
    from fieldmark.store import PartRecord, RunSpec, Score


POOLED = "pooled"
"""Both ways are asked about the same rows, so that the mean of the two is the mean of all answers;
as such, a unit is drawn with its answers both ways, which are no independent ones."""


class Retrieve(Protocol):
    name = "retrieve"
    summary = "a dual encoder: the caption of each image, and the image of each caption"
    needs = DUAL
    takes_training = False
    hub_task = "image-text-to-text"

    def block(self) -> type[BaseModel]:
        from fieldmark.protocols.retrieve.block import RetrieveBlock

        return RetrieveBlock

    def problems(self, task: Any) -> list[str]:
        from fieldmark.protocols._values import value_problems

        return value_problems(task, self.name)

    def warnings(self, task: Any, at: Workspace) -> list[str]:
        from fieldmark.protocols._contract import Draw
        from fieldmark.protocols._dual import long_words, too_long_for_clip
        from fieldmark.protocols._items import Selection

        block, rows = self.block_of(task), self.parts(task, Draw(0), Selection(), at)[0].test
        texts = {block.template.replace("{}", caption) for caption in rows[block.caption]}
        long = too_long_for_clip(sorted(texts))
        words = long_words(long, len(texts), "captions") if long else ""
        return [f"{task.place_of(self.name)}  {words}"] if long else []

    def outline(self, assignment: Assignment) -> dict[str, Any]:
        return super().outline(assignment) | {"score": POOLED}

    def columns(self, task: Any) -> tuple[str, ...]:
        return (self.block_of(task).caption,)

    def parts(self, task: Any, draw: Draw, selection: Selection, at: Workspace) -> list[PartItems]:
        from fieldmark.protocols.retrieve.run import caption_parts

        key = ("captions", at.root(task), repr(task.model_dump()), selection)
        parts: list[PartItems] = at.once(
            key, lambda: caption_parts(task, at.table(task), selection)
        )
        return parts

    def backbone(self, task: Any, model: Any) -> Any:
        from fieldmark.protocols._dual import projected

        return projected(model, self.block_of(task).projector)

    def answer(
        self,
        assignment: Assignment,
        wanted: Collection[str],
        model: Any,
        at: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        from fieldmark.protocols._features import embed_options
        from fieldmark.protocols.retrieve.run import run

        return run(assignment, wanted, model, embed_options(at), progress)

    def score(
        self, assignment: Assignment, predictions: pl.DataFrame, parts: Sequence[PartRecord],
        folder: Path,
    ) -> list[Score]:  # fmt: skip
        from fieldmark.protocols._score import Scoring, value_names

        task = assignment.task
        metrics = dict.fromkeys((task.metric, *task.also, *value_names(predictions)))
        names: dict[str, dict[str, str]] = {name: {} for name in assignment.part_names}
        return self._scores(Scoring(tuple(metrics), POOLED, names), predictions)

    def score_stored(
        self,
        scoring: Scoring,
        spec: RunSpec,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
    ) -> list[Score]:
        return self._scores(scoring, predictions)

    def _scores(self, scoring: Scoring, predictions: pl.DataFrame) -> list[Score]:
        from fieldmark.protocols._score import MEAN, score_answers

        return [score for score in score_answers(scoring, predictions) if score.part != MEAN]


PROTOCOL = Retrieve()
