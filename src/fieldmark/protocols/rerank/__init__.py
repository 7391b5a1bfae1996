"""Reranking (INQUIRE): how is a model asked to put the images found for a query in order?

A dual encoder by cosine, a language model by what it says of each image. Scores are means over
queries: average precision, nDCG and reciprocal rank, of all and of each group of queries.
arXiv:2411.02537
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark.protocols._contract import Protocol, later
from fieldmark.protocols.ask.settings import AskSettings
from fieldmark.registry import ANSWERS, DUAL

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from fieldmark.chat import Estimate, Usual
    from fieldmark.progress import Progress
    from fieldmark.protocols._predictions import PartPredictions
    from fieldmark.protocols._question import Question, Workspace
    from fieldmark.protocols._score import Scoring
    from fieldmark.store import PartRecord, Score
    from fieldmark.tasks.split import Draw

APPLIES = ("temp", "system", "frames", "max_output", "effort", "extra")
"""settings of `ask` that mean something here"""


class Rerank(Protocol):
    """the images found for a query, put in order"""

    name = "rerank"
    version = 2
    needs = (DUAL, frozenset({ANSWERS}))
    training = "none"
    Settings = AskSettings
    Block = later("fieldmark.protocols.rerank.block:RerankBlock")

    def problems(self, task: Any) -> list[str]:
        from fieldmark.protocols._values import value_problems

        return value_problems(task, self.name)

    def why_not(
        self, task: Any, draw: Draw, settings: Any, abilities: Collection[str]
    ) -> str | None:
        block = task.block(self.name) if self.reads(task) else None
        if block is not None and task.options.get("form") == "full":
            from fieldmark.protocols.rerank.full import why_no_gallery

            if why := why_no_gallery(block):
                return why
        if why := super().why_not(task, draw, settings, abilities):
            return why
        unusual = settings.unusual()
        if ANSWERS not in abilities:
            reason = "is for language models: a dual encoder has no such setting"
            return next((f"{name} {reason}" for name in unusual), None)
        if block is not None and block.gallery:
            return "a gallery of embeddings is ranked by dual encoders, not by language models"
        reason = "is for tasks with an `ask` block: `rerank` has its own prompts"
        return next((f"{name} {reason}" for name in unusual if name not in APPLIES), None)

    def prepare(
        self, task: Any, draw: Draw, settings: AskSettings, workspace: Workspace
    ) -> Question:
        from fieldmark.protocols._dual import projected
        from fieldmark.protocols._question import table_question
        from fieldmark.protocols.rerank.full import ADDED, query_part
        from fieldmark.protocols.rerank.queries import (
            drawn_rows,
            result_columns,
            result_part,
            tested_queries,
        )
        from fieldmark.tasks.split import keep_selected

        block = task.block(self.name)
        is_full = bool(block.gallery)
        key = ("results", workspace.root(task), repr(task.model_dump()))
        part = workspace.once(
            key,
            lambda: (
                query_part(task, workspace) if is_full else result_part(task, workspace.table(task))
            ),
        )
        parts = workspace.once((*key, draw.parts), lambda: keep_selected(task, [part], draw.parts))

        def needed(_: Collection[str]) -> pl.DataFrame | None:
            """No image where they were embedded before: what the gallery holds is in the digest."""
            if is_full:
                return None
            return drawn_rows(task, parts[0], draw).select("id", "image", "crop")

        # What was given as it is by default is not told from what was left out.
        return table_question(
            self, task, draw, settings, workspace, parts,
            (*result_columns(block), *(ADDED if is_full else ())),
            identity={self.name: block.model_dump(mode="json")} | settings.unusual(),
            needed=needed,
            tested=lambda: tested_queries(task, parts[0], draw),
            backbone=lambda model: None if _is_chat(model) else projected(model, block.projector),
            asks_again=settings.asks_again(),
        )  # fmt: skip

    def estimate(
        self, question: Question, model_name: str, journal: Path | None, usual: Usual
    ) -> Estimate | None:
        from fieldmark.models import abilities, load_chat_model

        if ANSWERS not in abilities(model_name):
            return None
        from fieldmark.protocols.rerank.by_answer import estimate_reranking

        model = question.settings.priced(load_chat_model(model_name))
        return estimate_reranking(question, model, journal, usual)

    def answer(
        self,
        question: Question,
        part_names: Collection[str],
        model: Any,
        workspace: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        if _is_chat(model):
            from fieldmark.protocols.ask.sending import ask_options
            from fieldmark.protocols.rerank.by_answer import rerank_by_answer

            options = ask_options(question.settings, workspace)
            yield rerank_by_answer(question, model, options, progress)
            return
        from fieldmark.protocols._features import embed_options
        from fieldmark.protocols.rerank.full import rank_gallery
        from fieldmark.protocols.rerank.queries import rerank_by_cosine

        is_full = bool(question.task.block(self.name).gallery)
        rank = rank_gallery if is_full else rerank_by_cosine
        yield rank(question, model, embed_options(workspace), progress)

    def score(
        self,
        scoring: Scoring,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
        question: Question | None = None,
    ) -> list[Score]:
        """With rates of requests, of which a query has many; a dual encoder is sent none."""
        from fieldmark.protocols._score import score_answers
        from fieldmark.protocols.ask.answers import outcome_rates
        from fieldmark.protocols.rerank.queries import score_groups

        outcomes = Counter[str]()
        for part in parts:
            outcomes.update((part.info or {}).get("outcomes", {}) if part.repeat == 0 else {})
        scores = score_answers(scoring, predictions) + score_groups(scoring, predictions)
        return scores + (outcome_rates(outcomes, parts) if outcomes else [])


def _is_chat(model: Any) -> bool:
    from fieldmark.chat import ChatModel, LocalModel

    return isinstance(model, ChatModel | LocalModel)


PROTOCOL = Rerank()
