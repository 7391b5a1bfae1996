"""Ask (prompting, few-shot): how is a multimodal language model asked a task in words?

Every test item is a request: the question, examples from the training images where wanted, the
picture. Answers are kept in a journal as they come, read strictly, and stored with their words,
tokens and price; what could not be asked or read is an outcome of its own, and scores as wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark.protocols._contract import Protocol, later
from fieldmark.protocols.ask.settings import AskSettings
from fieldmark.registry import ANSWERS

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from fieldmark.chat import Estimate, Usual
    from fieldmark.protocols._question import Question, Workspace
    from fieldmark.protocols._score import Scoring
    from fieldmark.store import PartRecord, Score


class Ask(Protocol):
    """a multimodal language model, asked in words, with n examples"""

    name = "ask"
    version = 2
    needs = (frozenset({ANSWERS}),)
    Settings = AskSettings
    Block = later("fieldmark.protocols.ask.block:AskBlock")
    answer = later("fieldmark.protocols.ask.run:run")
    reread = later("fieldmark.protocols.ask.reread:reread")

    def why_not(
        self, task: Any, draw: Any, settings: Any, abilities: Collection[str]
    ) -> str | None:
        block = task.block(self.name) if self.reads(task) else None
        if self.reads(task) and block is None:
            return (
                f"task {task.task!r} has no `ask` block: add one to its file, for example "
                "`ask: {prompt: Which species is this?}`"
            )
        why = super().why_not(task, draw, settings, abilities)
        if why is None and block and block.kind == "same" and draw.n_train:
            return "n_train: expected 0, pairs of pictures are asked without examples"
        return why

    def prepare(
        self, task: Any, draw: Any, settings: AskSettings, workspace: Workspace
    ) -> Question:
        from fieldmark.protocols._question import table_parts, table_question
        from fieldmark.protocols.ask.run import needed

        block = task.block(self.name)
        parts = table_parts(task, draw, workspace, draw.n_train != 0)
        named = block.names if isinstance(block.names, str) else ""
        # What was given as it is by default is not told from what was left out.
        block_settings = {self.name: block.model_dump(mode="json", exclude_defaults=True)}
        return table_question(
            self, task, draw, settings, workspace, parts,
            (*task.traits, named, block.scientific, block.common, *block.lineage),
            identity=block_settings | settings.unusual(),
            needed=lambda broken: needed(task, parts, draw, settings, broken),
            asks_again=settings.asks_again(),
        )  # fmt: skip

    def estimate(
        self, question: Question, model_name: str, journal: Path | None, usual: Usual
    ) -> Estimate:
        from fieldmark.models import load_chat_model
        from fieldmark.protocols.ask.run import estimate_cost

        model = question.settings.priced(load_chat_model(model_name))
        return estimate_cost(question, model, journal, usual)

    def score(
        self,
        scoring: Scoring,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
        question: Question | None = None,
    ) -> list[Score]:
        from fieldmark.protocols.ask.answers import answer_rates

        scores = super().score(scoring, predictions, parts, question) or []
        return scores + answer_rates(predictions, parts)


PROTOCOL = Ask()
