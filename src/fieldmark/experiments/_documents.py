"""What must be known about a job of a task in lmms-eval's form before it can be planned or run?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fieldmark.errors import FieldmarkError
from fieldmark.lmms import (
    DocumentPart,
    Documents,
    DocumentTask,
    draw_part,
    open_documents,
    plain_task,
)
from fieldmark.protocols import AskSettings, Draw
from fieldmark.settings import Settings
from fieldmark.store import canonical_json
from fieldmark.tasks import NamedTask

if TYPE_CHECKING:
    from fieldmark.experiments._grid import Axes, Job

APPLIES = ("temp", "prompting", "system", "max_output_tokens", "prompts_for")
"""settings of `ask` that mean something where the task writes its own prompts"""


def document_cells(
    model: str, protocol: str, found: NamedTask, task: DocumentTask, axes: Axes
) -> Iterator[Job]:
    """`num_fewshot` of the file holds unless another number is asked for; an exact 0 holds always,
    as its authors mean it: the task takes no examples. Nor does one that writes its own messages.
    """
    from fieldmark.experiments._grid import Job

    own = 0 if task.doc_to_messages is not None else task.num_fewshot or 0
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
    if job.draw.n_test == 0:
        return "n_test = 0: without a document there is no score"
    if job.draw.n_train and isinstance(job.task, DocumentTask) and job.task.doc_to_messages:
        n = job.draw.n_train
        return f"n_train = {n}: doc_to_messages says everything, examples have no place in it"
    given = AskSettings.of(dict(job.ask)).given()
    strange = [name for name in given if name not in APPLIES]
    if strange:
        return f"{strange[0]} is for tasks with an `ask` block: this one writes its own prompts"
    return None


@dataclass(slots=True)
class Opened:
    """Documents by task, each opened once; a task that cannot be opened is not tried again."""

    settings: Settings
    seen: dict[str, Documents | FieldmarkError] = field(default_factory=dict)

    def part(self, job: Job, task: DocumentTask) -> DocumentPart:
        part = draw_part(task, self._documents(task), job.draw)
        return replace(part, memberships=job.groups)

    def _documents(self, task: DocumentTask) -> Documents:
        told = {name: value for name, value in plain_task(task).items() if name != "repeats"}
        key = f"{task.place_of('task')} {canonical_json(told)}"
        if key not in self.seen:
            try:
                self.seen[key] = open_documents(task, self.settings.cache, self.settings.may_fetch)
            except FieldmarkError as error:
                self.seen[key] = error
        documents = self.seen[key]
        if isinstance(documents, FieldmarkError):
            raise documents
        return documents
