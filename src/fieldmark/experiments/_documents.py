"""What must be known about a job of a task in lmms-eval's form before it can be planned or run?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.errors import UsageError
from fieldmark.models import model_identity
from fieldmark.protocols import (
    AskSettings,
    DocumentPart,
    Draw,
    mean_of,
    metric_names,
    open_part,
)
from fieldmark.settings import Settings
from fieldmark.store import RunSpec, canonical_json
from fieldmark.tasks import Found
from fieldmark.tasks.lmms import DocumentTask, code_digest, functions_of, plain_task

if TYPE_CHECKING:
    from fieldmark.experiments._grid import Axes, Job

APPLIES = ("temp", "prompting", "system", "max_output_tokens", "prompts_for")
"""settings of `ask` that mean something where the task writes its own prompts"""


def document_cells(
    model: str, protocol: str, found: Found, task: DocumentTask, axes: Axes
) -> Iterator[Job]:
    """`num_fewshot` of the file holds unless another number is asked for; an exact 0 holds always,
    as its authors mean it: the task takes no examples.
    """
    from fieldmark.experiments._grid import Job

    own = task.num_fewshot or 0
    for n_train, n_test, seed, repeats, settings in itertools.product(
        axes.n_train, axes.n_test, axes.seed, axes.repeats, axes.ask
    ):
        wanted = own if n_train is None or task.num_fewshot == 0 else n_train
        draw = Draw(n_train=wanted, n_test=-1 if n_test is None else n_test, seed=seed)
        asked = task.model_copy(update={"repeats": repeats}) if repeats else task
        yield Job(model, found.name, asked, protocol, draw, ask=settings, groups=found.groups)


def why_not_documents(job: Job) -> str | None:
    """Why the job cannot be done at all, or None."""
    if job.protocol != "ask":
        return (
            f"task {job.task.task!r} is written in lmms-eval's form, for language models: "
            "--model chat/… or hf-chat/…"
        )
    if job.draw.n_train < 0:
        return "n_train = -1: examples are shown one by one, expected their number"
    given = AskSettings.of(dict(job.ask)).changed()
    strange = [name for name in given if name not in APPLIES]
    if strange:
        return f"{strange[0]} is for tasks with an `ask` block: this one writes its own prompts"
    return None


def open_document_part(job: Job, task: DocumentTask, settings: Settings) -> DocumentPart:
    part = open_part(task, job.draw, settings.cache, settings.fetch)
    if not part.rows:
        raise UsageError(f"{task.place_of('test_split')}  task {task.task!r} has no documents.")
    return replace(part, memberships=job.groups)


def document_spec(job: Job, task: DocumentTask, part: DocumentPart) -> RunSpec:
    """The file as resolved, the code behind it, the documents: what can change an answer."""
    mean, pipeline = mean_of(task)
    facts: dict[str, Any] = {
        "output_type": task.output_type,
        "mean_of": mean,
        "pipeline": pipeline,
        "digest": draws.digest(canonical_json(plain_task(task))).hex()[:16],
        "code": code_digest(functions_of(task), task.trust),
    }
    settings = {
        "parts": [""],
        "score": "pooled",
        "metric": metric_names(task),
        "documents": facts,
        **AskSettings.of(dict(job.ask)).changed(),
    }
    return RunSpec(
        model=job.model,
        model_version=model_identity(job.model),
        task=task.task,
        task_version=task.version,
        protocol="ask",
        settings=settings,
        n_train=job.draw.n_train,
        n_test=None if job.draw.n_test < 0 else job.draw.n_test,
        seed=job.draw.seed,
        repeats=1,
        data=part.digest,
    )
