"""The `documents` protocol: how is a language model asked a task in lmms-eval's form?

The file writes its own prompts, reads the answers and says how they become numbers; sending, cost
and the rates of failed answers are those of `ask`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark.protocols import AskSettings, Protocol
from fieldmark.registry import ANSWERS

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from fieldmark.chat import Estimate, Usual
    from fieldmark.lmms.read.schema import DocumentTask
    from fieldmark.progress import Progress
    from fieldmark.protocols import Draw, PartPredictions, Question, Scoring, Workspace
    from fieldmark.store import PartRecord, Score

APPLIES = ("temp", "prompting", "system", "max_output", "effort", "extra", "prompts_for", "judge")
"""settings of `ask` that mean something where the task writes its own prompts"""
CODE = "!function"
"""how a task's own code begins in the record of a run"""


class DocumentProtocol(Protocol):
    """a language model, asked by a task in lmms-eval's form"""

    name = "documents"
    version = 2
    needs = (frozenset({ANSWERS}),)
    Settings = AskSettings

    def reads(self, task: Any) -> bool:
        from fieldmark.lmms.read.schema import DocumentTask

        return isinstance(task, DocumentTask)

    def problems(self, task: DocumentTask) -> list[str]:
        """What its file alone tells; the data are not looked at and no code is run."""
        from fieldmark.lmms.check.task import task_problems
        from fieldmark.lmms.run import why_not_run

        problems = [problem for problem in task_problems(task) if problem.level == "error"]
        return [*(f"{problem.place}  {problem.text}" for problem in problems), *why_not_run(task)]

    def why_not(
        self, task: DocumentTask, draw: Draw, settings: Any, abilities: Collection[str]
    ) -> str | None:
        if not self.reads(task):
            return super().why_not(task, draw, settings, abilities)
        if ANSWERS not in abilities:
            return (
                f"task {task.task!r} is written in lmms-eval's form, for language models: use "
                "--model chat/… or hf-chat/…"
            )
        if draw.n_train < 0:
            return "n_train = -1: expected the number of examples to show"
        if draw.n_test == 0:
            return "n_test = 0: a score needs at least one document"
        if draw.n_train and task.doc_to_messages:
            n = draw.n_train
            return f"n_train = {n}: doc_to_messages makes the whole prompt, without examples"
        strange = [name for name in settings.given() if name not in APPLIES]
        if strange:
            return f"{strange[0]} is for tasks with an `ask` block: this one writes its own prompts"
        return None

    def prepare(
        self, task: DocumentTask, draw: Draw, settings: AskSettings, workspace: Workspace
    ) -> Question:
        """Documents are opened once; a task that cannot be opened is not tried again. Its identity
        is the file as resolved, the code behind it, and what was set.
        """
        import polars as pl

        from fieldmark import draws
        from fieldmark.data import is_synthetic
        from fieldmark.lmms.code.digest import code_digest
        from fieldmark.lmms.run import open_part, opened_task
        from fieldmark.lmms.score.scores import mean_of, metric_names
        from fieldmark.protocols import Question
        from fieldmark.store import canonical_json

        opened = opened_task(task, workspace)
        part, folders = workspace.once((opened, draw), lambda: open_part(opened, draw))
        mean, pipeline = mean_of(task)
        identity = {
            "output_type": task.output_type,
            "mean_of": mean,
            "pipeline": pipeline,
            "digest": draws.digest(canonical_json(task.plain())).hex()[:16],
            "code": code_digest(task.functions, task.trust),
        }
        rows = pl.Series("id", part.rows).cast(pl.String)
        items = pl.DataFrame([rows, rows.alias("unit")])
        is_rounds = task.output_type == "generate_until_multi_round"
        return Question(
            self.name,
            task,
            draw,
            settings,
            [part],
            part.digest,
            {"documents": identity, **settings.given()},
            tuple(metric_names(task)),
            rule="pooled",
            needed=lambda _: None,  # pictures are part of the documents, whose digest holds them
            tested=lambda: items.with_columns(part=pl.lit(""), target=pl.lit("")),
            # Files on this machine tell by the folders they lie in; what is on the hub is real.
            is_synthetic=bool(folders) and all(map(is_synthetic, folders)),
            note="; ".join(filter(None, [_ROUNDS * is_rounds, _judge_note(task, settings)])),
            asks_again=settings.asks_again(),
        )

    def estimate(
        self, question: Question, model_name: str, journal: Path | None, usual: Usual
    ) -> Estimate:
        from fieldmark.lmms.run import estimate_documents
        from fieldmark.models import load_chat_model

        model = question.settings.priced(load_chat_model(model_name))
        how = question.settings
        return estimate_documents(question.parts[0], model, question.draw, how, usual)

    def answer(
        self,
        question: Question,
        part_names: Collection[str],
        model: Any,
        workspace: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        from fieldmark.lmms.run import ask_documents, judge_of
        from fieldmark.protocols import ask_options

        options = ask_options(question.settings, workspace)
        with judge_of(question.settings, workspace) as judge:
            part = question.parts[0]
            predictions = ask_documents(part, model, question.draw, options, progress, judge)
        yield predictions

    def score(
        self,
        scoring: Scoring,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
        question: Question | None = None,
    ) -> list[Score] | None:
        """Documents keep the values their tasks gave them; where a task's own code makes one number
        of these, it is not run again.
        """
        from fieldmark.lmms.run import judge_of, score_in_sandbox
        from fieldmark.lmms.score.scores import score_document_run
        from fieldmark.protocols.ask.answers import outcome_rates

        task = question.task if question else _scoring_of(parts)
        if task is None:
            return None
        if question is None:
            scores = score_document_run(task, predictions, scoring.seed, None)
        else:
            with judge_of(question.settings, scoring.workspace) as judge:
                scores = score_in_sandbox(task, predictions, scoring.seed, scoring.folder, judge)
        return scores + outcome_rates(Counter(predictions["outcome"].to_list()), parts)


_ROUNDS = "requests of the first round: how many follow depends on the answers"


def _judge_note(task: DocumentTask, settings: AskSettings) -> str:
    """What to know before anything is paid, where the code behind a task can ask a judge."""
    import os

    from fieldmark.lmms.code.digest import asks_judge
    from fieldmark.lmms.code.judge import URL

    if not asks_judge(task.functions, task.trust):
        return ""
    if settings.judge or os.environ.get(URL):
        return "its judge is asked too: the cost leaves that out, --max-usd does not"
    return (
        "its code can ask a judge: name one with --judge MODEL, or the run may end without scores"
    )


def _scoring_of(parts: Sequence[PartRecord]) -> DocumentTask | None:
    """As much of the task as scores need; None where code would be needed."""
    from fieldmark.lmms.read.schema import DocumentTask

    recorded: dict[str, Any] = next((part.info["documents"] for part in parts if part.info), {})
    config: dict[str, Any] = recorded.get("config", {})
    metrics = [dict(item) for item in config.get("metric_list") or ()]
    is_own = "process_results" in config
    if not config or not all(_is_aggregated_here(item, is_own) for item in metrics):
        return None
    for item in metrics:
        if item["metric"].startswith(CODE):
            item["metric"] = item["metric"].rpartition(".")[2]
    kept = ("task", "filter_list", "output_type", "repeats", "score_key", "cluster_key")
    given = {name: config[name] for name in kept if name in config}
    return DocumentTask.model_validate({**given, "metric_list": metrics or None})


def _is_aggregated_here(item: dict[str, Any], is_own: bool) -> bool:
    """Not by a task's code, nor by the way of a metric that somebody registered elsewhere."""
    from fieldmark.lmms.metrics.registry import known_document_metrics

    given = item.get("aggregation")
    if given is not None:
        return not str(given).startswith(CODE)
    name = str(item["metric"])
    return is_own or name.startswith(CODE) or name in known_document_metrics()


PROTOCOL = DocumentProtocol()
