"""Reranking (INQUIRE): how is a model asked to put the images found for a query in order?

A dual encoder by cosine, a language model by what it says of each image. Scores are means over
queries: average precision, nDCG and reciprocal rank, of all and of each group of queries.
arXiv:2411.02537
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.abilities import ANSWERS, DUAL
from fieldmark.protocols._contract import Assignment
from fieldmark.protocols.ask import LanguageProtocol

if TYPE_CHECKING:
    import polars as pl
    from pydantic import BaseModel

    from fieldmark.chat import Estimate
    from fieldmark.progress import Progress
    from fieldmark.protocols._contract import Draw
    from fieldmark.protocols._items import PartItems, Selection
    from fieldmark.protocols._predictions import PartPredictions
    from fieldmark.protocols._score import Scoring
    from fieldmark.protocols._workspace import Workspace
    from fieldmark.protocols.ask.settings import AskSettings
    from fieldmark.store import PartRecord, RunSpec, Score

APPLIES = ("temp", "system", "frames", "max_output", "effort", "extra")
"""settings of `ask` that mean something here"""


class Rerank(LanguageProtocol):
    name = "rerank"
    summary = "the images found for a query, put in order"
    needs = DUAL
    or_needs = frozenset({ANSWERS})
    takes_training = False
    hub_task = "zero-shot-image-classification"

    def block(self) -> type[BaseModel]:
        from fieldmark.protocols.rerank.block import RerankBlock

        return RerankBlock

    def problems(self, task: Any) -> list[str]:
        from fieldmark.protocols._values import value_problems

        return value_problems(task, self.name)

    def why_not(
        self, task: Any, draw: Draw, settings: Any, abilities: Collection[str]
    ) -> str | None:
        if self.block_of(task) is not None and task.options.get("form") == "full":
            from fieldmark.protocols.rerank.full import why_no_gallery

            if why := why_no_gallery(self.block_of(task)):
                return why
        return super().why_not(task, draw, settings, abilities) or self._why_unset(
            task, settings.unusual(), ANSWERS in abilities
        )

    def _why_unset(self, task: Any, given: Collection[str], answers: bool) -> str | None:
        """Why what the block or a setting asks for is not for such a model."""
        if not answers:
            words = "is for language models: a dual encoder has no such setting"
            return next((f"{name} {words}" for name in given), None)
        if self.block_of(task).gallery:
            return "a gallery of embeddings is ranked by dual encoders, not by language models"
        words = "is for tasks with an `ask` block: `rerank` has its own prompts"
        return next((f"{name} {words}" for name in given if name not in APPLIES), None)

    def identity(self, assignment: Assignment) -> dict[str, Any]:
        """What was given as it is by default is not told from what was left out."""
        settings: AskSettings = assignment.settings
        block = self.block_of(assignment.task).model_dump(mode="json")
        return {self.name: block} | settings.unusual()

    def columns(self, task: Any) -> tuple[str, ...]:
        from fieldmark.protocols.rerank.full import ADDED
        from fieldmark.protocols.rerank.queries import result_columns

        block = self.block_of(task)
        return (*result_columns(block), *(ADDED if block.gallery else ()))

    def parts(self, task: Any, draw: Draw, selection: Selection, at: Workspace) -> list[PartItems]:
        from fieldmark.protocols._items import keep_selected
        from fieldmark.protocols.rerank.full import query_part
        from fieldmark.protocols.rerank.queries import result_part

        is_full = bool(self.block_of(task).gallery)
        key = ("results", at.root(task), repr(task.model_dump()))
        part: PartItems = at.once(
            key, lambda: query_part(task, at) if is_full else result_part(task, at.table(task))
        )
        return keep_selected(task, [part], selection)

    def needed(self, assignment: Assignment, broken: Collection[str]) -> pl.DataFrame | None:
        """No image where they were embedded before: what the gallery holds is in the digest."""
        from fieldmark.protocols.rerank.queries import drawn_rows

        if self.block_of(assignment.task).gallery:
            return None
        rows = drawn_rows(assignment.task, assignment.parts[0], assignment.draw)
        return rows.select("id", "image", "crop")

    def tested(self, assignment: Assignment) -> pl.DataFrame:
        from fieldmark.protocols.rerank.queries import tested_queries

        return tested_queries(assignment.task, assignment.parts[0], assignment.draw)

    def estimate(self, assignment: Assignment, model_name: str) -> Estimate | None:
        from fieldmark.models import abilities, load_chat_model

        if ANSWERS not in abilities(model_name):
            return None
        from fieldmark.protocols.rerank.by_answer import estimate_reranking

        model = assignment.settings.priced(load_chat_model(model_name))
        return estimate_reranking(assignment, model)

    def backbone(self, task: Any, model: Any) -> Any:
        from fieldmark.protocols._dual import projected

        return None if _is_chat(model) else projected(model, self.block_of(task).projector)

    def answer(
        self,
        assignment: Assignment,
        wanted: Collection[str],
        model: Any,
        at: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        if _is_chat(model):
            from fieldmark.protocols.ask.sending import ask_options
            from fieldmark.protocols.rerank.by_answer import rerank_by_answer

            options = ask_options(assignment.settings, at)
            yield rerank_by_answer(assignment, model, options, progress)
            return
        from fieldmark.protocols._features import embed_options
        from fieldmark.protocols.rerank.full import rank_gallery
        from fieldmark.protocols.rerank.run import rerank_by_cosine

        is_full = bool(self.block_of(assignment.task).gallery)
        rank = rank_gallery if is_full else rerank_by_cosine
        yield rank(assignment, model, embed_options(at), progress)

    def score(
        self, assignment: Assignment, predictions: pl.DataFrame, parts: Sequence[PartRecord],
        folder: Path,
    ) -> list[Score]:  # fmt: skip
        from fieldmark.protocols._score import Scoring, value_names

        task = assignment.task
        metrics = dict.fromkeys((task.metric, *task.also, *value_names(predictions)))
        scores = self._scores(Scoring(tuple(metrics), "pooled", {"": {}}), predictions)
        return scores + self.scores_beside(predictions, parts)

    def score_stored(
        self,
        scoring: Scoring,
        spec: RunSpec,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
    ) -> list[Score]:
        return self._scores(scoring, predictions) + self.scores_beside(predictions, parts)

    def scores_beside(self, predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Score]:
        """Rates of requests, of which a query has many; a dual encoder is sent none."""
        from collections import Counter

        from fieldmark.protocols.ask.answers import outcome_rates

        outcomes = Counter[str]()
        for part in parts:
            outcomes.update((part.info or {}).get("outcomes", {}) if part.repeat == 0 else {})
        return outcome_rates(outcomes, parts) if outcomes else []

    def _scores(self, scoring: Scoring, predictions: pl.DataFrame) -> list[Score]:
        from fieldmark.protocols._score import score_answers
        from fieldmark.protocols.rerank.queries import score_groups

        return score_answers(scoring, predictions) + score_groups(scoring, predictions)


def _is_chat(model: Any) -> bool:
    from fieldmark.chat import ChatModel, LocalModel

    return isinstance(model, ChatModel | LocalModel)


PROTOCOL = Rerank()
