"""Zero-shot classification: how is a dual encoder asked a task that it was never trained on?

The class whose text is nearest to the image is the answer. Nothing is fitted, no training image is
looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from fieldmark.protocols._contract import Protocol, later
from fieldmark.registry import DUAL

if TYPE_CHECKING:
    from fieldmark.protocols._question import Question, Workspace
    from fieldmark.tasks.split import Draw


class ZeroShot(Protocol):
    """a dual encoder: the class whose text is nearest to the image"""

    name = "zero_shot"
    needs = (DUAL,)
    training = "none"
    Block = later("fieldmark.protocols.zero_shot.block:ZeroShotBlock")
    answer = later("fieldmark.protocols.zero_shot.run:run")

    def why_not(
        self, task: Any, draw: Draw, settings: Any, abilities: Collection[str]
    ) -> str | None:
        if self.reads(task) and task.block(self.name) is not None and task.traits:
            return f"task {task.task!r} asks for traits: `zero_shot` chooses one of several classes"
        return super().why_not(task, draw, settings, abilities)

    def prepare(self, task: Any, draw: Draw, settings: Any, workspace: Workspace) -> Question:
        """A column or taxon that is not there must be known before hours are spent."""
        from fieldmark.protocols._dual import projected
        from fieldmark.protocols._question import table_parts, table_question
        from fieldmark.protocols.zero_shot.classes import (
            class_columns,
            class_texts,
            taxa_of,
            text_warnings,
        )

        block = task.block(self.name)
        parts = table_parts(task, draw, workspace, draw.n_train != 0)
        for part in parts:
            key = ("class texts", id(part), repr(block))
            workspace.once(key, partial(class_texts, task, block, part))
        # What is said about models changes no answer; what a list of taxa holds does.
        block_settings = block.model_dump(mode="json", exclude={"seen_by", "taxa"})
        taxa = taxa_of(task, block)
        return table_question(
            self, task, draw, settings, workspace, parts, class_columns(block),
            identity={self.name: block_settings | ({"taxa": sorted(taxa)} if taxa else {})},
            backbone=partial(projected, projector=block.projector),
            warnings=partial(text_warnings, task, parts),
        )  # fmt: skip


PROTOCOL = ZeroShot()
