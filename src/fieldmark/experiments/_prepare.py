"""What must be known about a job before it can be planned or run?

Its rows, its parts and the outline of its identity. What jobs share is worked out once: a table per
dataset folder, parts per question, the outline for all models. Nothing here writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.data import COLUMNS, load_dataset
from fieldmark.errors import DataError, FieldmarkError, UsageError
from fieldmark.experiments._documents import Opened
from fieldmark.experiments._grid import Job
from fieldmark.experiments.identity import document_outline, rows_digest, task_outline
from fieldmark.lmms import DocumentPart, DocumentTask
from fieldmark.protocols import Draw, PartItems, check_part, is_joint, split_parts
from fieldmark.registry import is_file_reference, short_name
from fieldmark.settings import Settings, dataset_key
from fieldmark.store import RunSpec
from fieldmark.tasks import Task

_ASKING_ONLY = {"title", "about", "metric", "also", "probe", "ask", "variants", "repeats"}
"""keys of a task that do not say which rows it has"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job with its data at hand."""

    job: Job
    root: Path
    parts: list[PartItems]
    """empty where `documents` are asked"""
    outline: RunSpec
    """its identity, but for the model's version and what the images hold"""
    documents: DocumentPart | None = None
    """of a task in lmms-eval's form"""

    @property
    def part_names(self) -> list[str]:
        return [""] if self.documents else [part.name for part in self.parts]


@dataclass(slots=True)
class Tables:
    """Tables, parts and outlines, each made once; what cannot be made is not tried again."""

    settings: Settings
    opened: Opened = field(init=False)
    """of tasks in lmms-eval's form"""
    _made: dict[object, Any] = field(default_factory=dict)
    _tasks: dict[int, Task] = field(default_factory=dict)
    """holds on to every task that was looked at: they are told apart by their `id`"""

    def __post_init__(self) -> None:
        self.opened = Opened(self.settings)

    def prepare(self, job: Job) -> Prepared:
        if isinstance(job.task, DocumentTask):
            documents = self.opened.part(job, job.task)
            outline = document_outline(job, job.task, documents)
            return Prepared(job, Path(), [], outline, documents)
        self._tasks[id(job.own)] = job.own
        parts = self._once(("parts", id(job.own), job.selection), lambda: self._parts(job))
        drawn = job.draw if job.own.test == "rest" else None
        self._once(("checked", id(parts), drawn), lambda: self._check(job, parts, drawn))
        return Prepared(job, self.root(job), parts, self._outline(job, parts))

    def root(self, job: Job) -> Path:
        root: Path = self._once(("root", id(job.own)), lambda: root_of(job.own, self.settings))
        return root

    def table(self, job: Job) -> pl.DataFrame:
        key = ("table", job.own.dataset, self.root(job), repr(job.own.options))
        table: pl.DataFrame = self._once(key, lambda: self._read(job))
        return table

    def _parts(self, job: Job) -> list[PartItems]:
        task = job.own
        rows = repr(task.model_dump(exclude=_ASKING_ONLY))
        alone = task.probe is not None and task.probe.leave_one_out
        key = ("same parts", self.root(job), rows, job.selection, is_joint(task), alone)
        parts: list[PartItems] = self._once(key, lambda: self._split(job))
        return parts

    def _split(self, job: Job) -> list[PartItems]:
        return split_parts(job.own, self.table(job), job.selection)

    def _check(self, job: Job, parts: list[PartItems], draw: Draw | None) -> None:
        for part in parts:
            check_part(job.own, part, self.table(job), draw)

    def _outline(self, job: Job, parts: list[PartItems]) -> RunSpec:
        rows = self._once(
            ("rows", id(parts), job.protocol, id(job.own)), lambda: rows_digest(job, parts)
        )
        key = (id(job.own), job.task_name, job.selection, job.protocol, job.draw, job.ask)
        outline: RunSpec = self._once(key, lambda: task_outline(job, parts, rows))
        return outline if outline.model == job.model else replace(outline, model=job.model)

    def _once(self, key: object, make: Any) -> Any:
        """What `make` gives, or raises, the first time."""
        if key not in self._made:
            try:
                self._made[key] = make()
            except FieldmarkError as error:
                self._made[key] = error
        made = self._made[key]
        if isinstance(made, FieldmarkError):
            raise made
        return made

    def _read(self, job: Job) -> pl.DataFrame:
        dataset, root = job.own.dataset, self.root(job)
        module = load_dataset(dataset)
        if not root.exists():
            raise MissingData(no_data(dataset, root))
        try:
            table = module.table(root, **job.own.options)
        except UsageError as error:  # only the task's options can be wrong here
            raise UsageError(f"{job.own.place_of('options')}  {error}") from error
        except Exception as error:
            if isinstance(error, FieldmarkError) or not is_file_reference(dataset):
                raise
            raise DataError(
                f"dataset {short_name(dataset)!r} failed in table(): {type(error).__name__}: "
                f"{error} (--debug shows where)."
            ) from error
        missing = [name for name in COLUMNS if name not in getattr(table, "columns", ())]
        if missing:
            raise DataError(
                f"dataset {short_name(dataset)!r}: what table() returns lacks the columns "
                f"{', '.join(missing)}: expected the result of finish_table(frame, root)."
            )
        return table


def root_of(task: Task, settings: Settings) -> Path:
    """Where the task's data are: said for the task by a flag, in its file, for its dataset."""
    said = settings.data.get(task.task)
    if said is not None:
        return Path(said)
    return task.folder or settings.root_of(task.dataset)


def no_data(dataset: str, root: Path) -> str:
    """What to do about a folder that is not there."""
    steps = f"--data {dataset_key(dataset)}=FOLDER says where it is."
    if not is_file_reference(dataset):
        steps = f"`fieldmark datasets {dataset}` says how to get it, {steps}"
    return f"{root}  does not exist: {steps}"


class MissingData(DataError):
    """The dataset's folder is not there."""


def replace_data(settings: Settings, data: Mapping[str, Path]) -> Settings:
    """The folders an experiment file names, under those that flags name."""
    return dataclasses.replace(settings, data={**data, **settings.data})
