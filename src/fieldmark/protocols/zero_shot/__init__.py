"""Zero-shot classification: how is a dual encoder asked a task that it was never trained on?

The class whose text is nearest to the image is the answer. Nothing is fitted, no training image is
looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from fieldmark.abilities import DUAL
from fieldmark.protocols._contract import Assignment, DrawChoice, Protocol

if TYPE_CHECKING:
    from pydantic import BaseModel

    from fieldmark.progress import Progress
    from fieldmark.protocols._contract import Draw
    from fieldmark.protocols._items import Selection
    from fieldmark.protocols._predictions import PartPredictions
    from fieldmark.protocols._workspace import Workspace


class ZeroShot(Protocol):
    name = "zero_shot"
    summary = "a dual encoder: the class whose text is nearest to the image"
    needs = DUAL
    takes_training = False
    head = "text"
    hub_task = "zero-shot-image-classification"

    def block(self) -> type[BaseModel]:
        from fieldmark.protocols.zero_shot.block import ZeroShotBlock

        return ZeroShotBlock

    def why_not(
        self, task: Any, draw: Draw, settings: Any, abilities: Collection[str]
    ) -> str | None:
        if self.block_of(task) is not None and task.traits:
            return f"task {task.task!r} asks for traits: `zero_shot` chooses one of several classes"
        return super().why_not(task, draw, settings, abilities)

    def parts(self, task: Any, draw: Draw, selection: Selection, at: Workspace) -> list[Any]:
        """A column or taxon that is not there must be known before hours are spent."""
        from fieldmark.protocols.zero_shot.classes import class_texts

        parts, block = super().parts(task, draw, selection, at), self.block_of(task)
        for part in parts:
            key = ("class texts", id(part), repr(block))
            at.once(key, lambda part=part: class_texts(task, block, part))  # type: ignore[misc]
        return parts

    def warnings(self, task: Any, at: Workspace) -> list[str]:
        from fieldmark.protocols._items import Selection
        from fieldmark.protocols.zero_shot.classes import text_warnings

        draw = self.cell(task, DrawChoice())[1]
        return text_warnings(task, self.parts(task, draw, Selection(), at))

    def identity(self, assignment: Assignment) -> dict[str, Any]:
        """What is said about models changes no answer; what a list of taxa holds does."""
        from fieldmark.protocols.zero_shot.classes import taxa_of

        task, block = assignment.task, self.block_of(assignment.task)
        facts = block.model_dump(mode="json", exclude={"seen_by", "taxa"})
        taxa = taxa_of(task, block)
        return {self.name: facts | ({"taxa": sorted(taxa)} if taxa else {})}

    def columns(self, task: Any) -> tuple[str, ...]:
        from fieldmark.protocols.zero_shot.classes import class_columns

        return class_columns(self.block_of(task))

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
        from fieldmark.protocols.zero_shot.run import run

        return run(assignment, wanted, model, embed_options(at), progress)


PROTOCOL = ZeroShot()
