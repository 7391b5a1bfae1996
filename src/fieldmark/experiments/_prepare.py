"""Prepared jobs: what must be known about a job before it can be planned or run?

Its rows, its parts and the outline of its identity. What jobs share is worked out once: a table per
dataset folder, parts per question, the outline for all models. Nothing here writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fieldmark.experiments._grid import Job
from fieldmark.experiments.identity import outline_of
from fieldmark.protocols import Assignment, Protocol, Workspace, load_protocol
from fieldmark.settings import Settings
from fieldmark.store import RunSpec


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job with its data at hand."""

    job: Job
    assignment: Assignment
    outline: RunSpec
    """its identity, but for the model's version and what the images hold"""

    @property
    def protocol(self) -> Protocol:
        return load_protocol(self.job.protocol)

    @property
    def root(self) -> Path:
        return self.assignment.root


@dataclass(slots=True)
class Tables:
    """Parts and outlines, each made once; what cannot be made is not tried again."""

    workspace: Workspace
    _tasks: dict[int, Any] = field(default_factory=dict)
    """holds on to every task that was looked at: they are told apart by their `id`"""

    def prepare(self, job: Job) -> Prepared:
        at, task = self.workspace, job.task
        self._tasks[id(task)] = task
        protocol = load_protocol(job.protocol)
        key = ("prepared", id(task), job.protocol, job.selection, job.draw, job.settings)

        def make() -> tuple[Assignment, RunSpec]:
            parts = protocol.parts(task, job.draw, job.selection, at)
            root = protocol.root(task, at)
            assignment = Assignment(task, parts, root, job.draw, job.settings, job.groups)
            rows = at.once(
                ("rows", id(parts), job.protocol, id(task)),
                lambda: protocol.data_digest(task, parts),
            )
            return assignment, outline_of(job, assignment, rows)

        assignment, outline = at.once((*key, job.task_name, repr(job.groups)), make)
        if outline.model != job.model:
            outline = replace(outline, model=job.model)
        return Prepared(job, assignment, outline)


def replace_data(settings: Settings, data: Mapping[str, Path]) -> Settings:
    """The folders an experiment file names, under those that flags name."""
    return dataclasses.replace(settings, data={**data, **settings.data})
