"""Ask (prompting, few-shot): how is a multimodal language model asked a task in words?

Every test item is a request: the question, examples from the training images where wanted, the
picture. Answers are kept in a journal as they come, read strictly, and stored with their words,
tokens and price; what could not be asked or read is an outcome of its own, and scores as wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fieldmark.abilities import ANSWERS
from fieldmark.protocols._contract import Assignment, Protocol
from fieldmark.protocols.ask.settings import AskSettings
from fieldmark.store import AMONG_ANSWERED, ANSWERED_RATE

if TYPE_CHECKING:
    import polars as pl
    from pydantic import BaseModel

    from fieldmark.chat import Estimate
    from fieldmark.progress import Progress
    from fieldmark.protocols._predictions import PartPredictions, Reread
    from fieldmark.protocols._workspace import Workspace
    from fieldmark.store import PartRecord, Score


class LanguageProtocol(Protocol):
    """What every way of asking a language model has in common."""

    version: ClassVar[int] = 2
    needs = frozenset({ANSWERS})
    settings = AskSettings
    hub_task = "image-text-to-text"
    has_gaps = True
    beside: ClassVar[tuple[str, ...]] = (
        AMONG_ANSWERED, ANSWERED_RATE, "failure_rate", "refusal_rate", "parse_success_rate",
        "usd_per_answer",
    )  # fmt: skip

    def scores_beside(self, predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Score]:
        from fieldmark.protocols.ask.answers import answer_rates

        return answer_rates(predictions, parts)

    def asked_again(self, settings: AskSettings) -> Collection[str]:
        return settings.asks_again()

    def last_words(self, at: Workspace) -> str:
        budget = at.shared.get("budget")
        return f"spent: {budget.words}" if budget is not None and budget.spent_tokens else ""


class Ask(LanguageProtocol):
    name = "ask"
    summary = "a multimodal language model, asked in words, with n examples"
    beside = (*LanguageProtocol.beside, "loose_rate")

    def block(self) -> type[BaseModel]:
        from fieldmark.protocols.ask.block import AskBlock

        return AskBlock

    def why_not(
        self, task: Any, draw: Any, settings: Any, abilities: Collection[str]
    ) -> str | None:
        if self.reads(task) and self.block_of(task) is None:
            return (
                f"task {task.task!r} has no `ask` block: add one to its file, for example "
                "`ask: {prompt: Which species is this?}`"
            )
        why = super().why_not(task, draw, settings, abilities)
        if why is None and self.block_of(task).kind == "same" and draw.n_train:
            return "n_train: expected 0, pairs of pictures are asked without examples"
        return why

    def identity(self, assignment: Assignment) -> dict[str, Any]:
        """What was given as it is by default is not told from what was left out."""
        block = self.block_of(assignment.task)
        facts = {"ask": block.model_dump(mode="json", exclude_defaults=True)}
        settings: AskSettings = assignment.settings
        return facts | settings.unusual()

    def columns(self, task: Any) -> tuple[str, ...]:
        block = self.block_of(task)
        if block is None:
            return tuple(task.traits)
        named = block.names if isinstance(block.names, str) else ""
        return (*task.traits, named, block.scientific, block.common, *block.lineage)

    def needed(self, assignment: Assignment, broken: Collection[str]) -> pl.DataFrame:
        from fieldmark.protocols.ask.run import needed

        return needed(assignment, broken)

    def estimate(self, assignment: Assignment, model_name: str) -> Estimate:
        from fieldmark.models import load_chat_model
        from fieldmark.protocols.ask.run import estimate_cost

        model = assignment.settings.priced(load_chat_model(model_name))
        return estimate_cost(assignment, model)

    def answer(
        self,
        assignment: Assignment,
        wanted: Collection[str],
        model: Any,
        at: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        from fieldmark.protocols.ask.run import run
        from fieldmark.protocols.ask.sending import ask_options

        return run(assignment, wanted, model, ask_options(assignment.settings, at), progress)

    def scores_beside(self, predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Score]:
        from fieldmark.protocols.ask.answers import reading_rates

        return super().scores_beside(predictions, parts) + reading_rates(predictions)

    def reread(self, predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Reread]:
        from fieldmark.protocols.ask.reread import reread

        return reread(predictions, parts)


PROTOCOL = Ask()
