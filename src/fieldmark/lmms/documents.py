"""The `documents` protocol: how is a language model asked a task in lmms-eval's form?

The file writes its own prompts, reads the answers and says how they become numbers; sending, cost
and the rates of failed answers are those of `ask`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.abilities import ANSWERS
from fieldmark.protocols import Assignment, DrawChoice, LanguageProtocol

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.chat import Estimate
    from fieldmark.lmms.data.documents import DocumentPart
    from fieldmark.lmms.read.schema import DocumentTask
    from fieldmark.progress import Progress
    from fieldmark.protocols import Draw, PartPredictions, Scoring, Selection, Workspace
    from fieldmark.store import PartRecord, RunSpec, Score

APPLIES = ("temp", "prompting", "system", "max_output", "effort", "extra", "prompts_for", "judge")
"""settings of `ask` that mean something where the task writes its own prompts"""
CODE = "!function"
"""how a task's own code begins in the record of a run"""


class DocumentProtocol(LanguageProtocol):
    name = "documents"
    summary = "a language model, asked by a task in lmms-eval's form"
    takes_metrics = False

    def reads(self, task: Any) -> bool:
        from fieldmark.lmms.read.schema import DocumentTask

        return isinstance(task, DocumentTask)

    def block_of(self, task: Any) -> None:
        return None

    def problems(self, task: DocumentTask) -> list[str]:
        """What its file alone tells; the data are not looked at and no code is run."""
        from fieldmark.lmms.check.task import task_problems
        from fieldmark.lmms.run import why_not_run

        problems = [problem for problem in task_problems(task) if problem.level == "error"]
        return [*(f"{problem.place}  {problem.text}" for problem in problems), *why_not_run(task)]

    def cell(self, task: DocumentTask, choice: DrawChoice) -> tuple[DocumentTask, Draw]:
        """`num_fewshot` of the file holds unless another number is asked for; an exact 0 holds
        always, as its authors mean it: the task takes no examples. Nor does one that writes its own
        messages.
        """
        from fieldmark.protocols import Draw

        own = 0 if task.doc_to_messages is not None else task.num_fewshot or 0
        n_train = own if choice.n_train is None or task.num_fewshot == 0 else choice.n_train
        n_test = -1 if choice.n_test is None else choice.n_test
        asked = task.model_copy(update={"repeats": choice.repeats}) if choice.repeats else task
        return asked, Draw(n_train=n_train, n_test=n_test, seed=choice.seed)

    def why_not(
        self, task: DocumentTask, draw: Draw, settings: Any, abilities: Collection[str]
    ) -> str | None:
        if not self.reads(task):
            return super().why_not(task, draw, settings, abilities)
        if ANSWERS not in abilities:
            return (
                f"task {task.task!r} is written in lmms-eval's form, for language models: "
                "--model chat/… or hf-chat/…"
            )
        if draw.n_train < 0:
            return "n_train = -1: examples are shown one by one, expected their number"
        if draw.n_test == 0:
            return "n_test = 0: without a document there is no score"
        if draw.n_train and task.doc_to_messages:
            n = draw.n_train
            return f"n_train = {n}: doc_to_messages says everything, examples have no place in it"
        strange = [name for name in settings.given() if name not in APPLIES]
        if strange:
            return f"{strange[0]} is for tasks with an `ask` block: this one writes its own prompts"
        return None

    def outline(self, assignment: Assignment) -> dict[str, Any]:
        """The file as resolved, the code behind it, and what was set."""
        from fieldmark import draws
        from fieldmark.lmms.code.digest import code_digest
        from fieldmark.lmms.score.scores import mean_of, metric_names
        from fieldmark.store import canonical_json

        task = assignment.task
        mean, pipeline = mean_of(task)
        facts = {
            "output_type": task.output_type,
            "mean_of": mean,
            "pipeline": pipeline,
            "digest": draws.digest(canonical_json(task.plain())).hex()[:16],
            "code": code_digest(task.functions, task.trust),
        }
        return {
            "parts": [""],
            "score": "pooled",
            "metric": metric_names(task),
            "protocol_version": self.version,
            "documents": facts,
            **assignment.settings.given(),
        }

    def root(self, task: DocumentTask, at: Workspace) -> Path:
        return Path()

    def is_synthetic(self, assignment: Assignment) -> bool:
        """Files on this machine tell by the folders they lie in; what is on the hub is real."""
        from fieldmark.data import is_synthetic

        places = assignment.parts[0].documents.places
        return bool(places) and all(map(is_synthetic, places))

    def parts(
        self, task: DocumentTask, draw: Draw, selection: Selection, at: Workspace
    ) -> list[DocumentPart]:
        """Documents are opened once; a task that cannot be opened is not tried again."""
        from fieldmark.lmms.data.documents import draw_part, open_documents
        from fieldmark.store import canonical_json

        own = at.settings
        plain = {name: value for name, value in task.plain().items() if name != "repeats"}
        key = ("documents", task.place_of("task"), canonical_json(plain))
        documents = at.once(key, lambda: open_documents(task, own.cache, own.may_fetch))
        return [replace(draw_part(task, documents, draw), workspace=at)]

    def data_digest(self, task: DocumentTask, parts: Sequence[DocumentPart]) -> str:
        return parts[0].digest

    def needed(self, assignment: Assignment, broken: Collection[str]) -> None:
        """Pictures are part of the documents, whose digest holds them."""
        return

    def tested(self, assignment: Assignment) -> pl.DataFrame:
        """Every document is a unit of its own."""
        import polars as pl

        rows = pl.Series("id", assignment.parts[0].rows).cast(pl.String)
        return pl.DataFrame([rows, rows.alias("unit")]).with_columns(
            part=pl.lit(""), target=pl.lit("")
        )

    def estimate(self, assignment: Assignment, model_name: str) -> Estimate:
        from fieldmark.lmms.run import estimate_documents
        from fieldmark.models import load_chat_model

        model = assignment.settings.priced(load_chat_model(model_name))
        return estimate_documents(assignment.parts[0], model, assignment.draw, assignment.settings)

    def note(self, assignment: Assignment) -> str:
        if assignment.task.output_type != "generate_until_multi_round":
            return ""
        return "requests of the first round: how many follow depends on the answers"

    def answer(
        self,
        assignment: Assignment,
        wanted: Collection[str],
        model: Any,
        at: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        from fieldmark.lmms.code.guard import without_secrets
        from fieldmark.lmms.code.judge import judging
        from fieldmark.lmms.run import ask_documents, judge_of
        from fieldmark.protocols import ask_options

        part = replace(assignment.parts[0], memberships=assignment.groups)
        options = ask_options(assignment.settings, at)
        with judging(judge_of(assignment.settings, at)), without_secrets():
            predictions = ask_documents(part, model, assignment.draw, options, progress)
        yield predictions

    def score(
        self, assignment: Assignment, predictions: pl.DataFrame, parts: Sequence[PartRecord],
        folder: Path,
    ) -> list[Score]:  # fmt: skip
        from fieldmark.lmms.code.guard import without_secrets
        from fieldmark.lmms.code.judge import judging
        from fieldmark.lmms.run import judge_of
        from fieldmark.lmms.score.scores import score_document_run

        seed, at = assignment.draw.seed, assignment.parts[0].workspace
        with judging(judge_of(assignment.settings, at)), without_secrets():
            scores = score_document_run(assignment.task, predictions, seed, folder)
        return scores + self.scores_beside(predictions, parts)

    def score_stored(
        self,
        scoring: Scoring,
        spec: RunSpec,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
    ) -> list[Score] | None:
        """Documents keep the values their tasks gave them; where a task's own code makes one number
        of these, it is not run again.
        """
        from fieldmark.lmms.score.scores import score_document_run

        task = _scoring_of(parts)
        if task is None:
            return None
        scores = score_document_run(task, predictions, spec.seed, None)
        return scores + self.scores_beside(predictions, parts)

    def joined(self, info: Mapping[str, Any], groups: Sequence[dict[str, Any]]) -> Any:
        own = info.get("documents") or {}
        before = {group["group"]: group for group in own.get("groups") or ()}
        every = list((before | {group["group"]: group for group in groups}).values())
        if every == own.get("groups"):
            return None
        return {**info, "documents": own | {"groups": every}}

    def record(self, task: DocumentTask) -> dict[str, Any]:
        return task.plain()


def _scoring_of(parts: Sequence[PartRecord]) -> DocumentTask | None:
    """As much of the task as scores need; None where code would be needed."""
    from fieldmark.lmms.read.schema import DocumentTask

    facts: dict[str, Any] = next((part.info["documents"] for part in parts if part.info), {})
    config: dict[str, Any] = facts.get("config", {})
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
