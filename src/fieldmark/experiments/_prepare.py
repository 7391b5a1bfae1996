"""What must be known about a job before it can be planned or run?

Its rows, its parts and its key: the hash of everything that can change its answers. Tables are read
once per dataset folder. Nothing here writes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.data import COLUMNS, load_dataset
from fieldmark.errors import DataError, FieldmarkError, UsageError
from fieldmark.experiments._documents import Opened, document_spec
from fieldmark.experiments._grid import Job
from fieldmark.models import model_identity
from fieldmark.protocols import AskSettings, DocumentPart, PartItems, check_part, split_parts
from fieldmark.registry import code_hash, is_file_reference, short_name
from fieldmark.settings import Settings, dataset_key
from fieldmark.store import RunSpec
from fieldmark.tasks import parse_name
from fieldmark.tasks.lmms import DocumentTask


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job with its data at hand."""

    job: Job
    root: Path
    parts: list[PartItems]
    """empty where `documents` are asked"""
    spec: RunSpec
    documents: DocumentPart | None = None
    """of a task in lmms-eval's form"""

    @property
    def part_names(self) -> list[str]:
        return [""] if self.documents else [part.name for part in self.parts]


@dataclass(slots=True)
class Tables:
    """Tables by dataset folder, each read once; one that cannot be read is not tried again."""

    settings: Settings
    seen: dict[tuple[str, Path, str], pl.DataFrame | FieldmarkError] = field(default_factory=dict)
    opened: Opened = field(init=False)
    """of tasks in lmms-eval's form"""

    def __post_init__(self) -> None:
        self.opened = Opened(self.settings)

    def root(self, job: Job) -> Path:
        return self.settings.root_of(job.own.dataset)

    def table(self, job: Job) -> pl.DataFrame:
        key = (job.own.dataset, self.root(job), repr(job.own.options))
        if key not in self.seen:
            try:
                self.seen[key] = self._read(job)
            except FieldmarkError as error:
                self.seen[key] = error
        found = self.seen[key]
        if isinstance(found, FieldmarkError):
            raise found
        return found

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


def no_data(dataset: str, root: Path) -> str:
    """What to do about a folder that is not there."""
    steps = f"--data {dataset_key(dataset)}=FOLDER says where it is."
    if not is_file_reference(dataset):
        steps = f"`fieldmark datasets {dataset}` says how to get it, {steps}"
    return f"{root}  does not exist: {steps}"


class MissingData(DataError):
    """The dataset's folder is not there."""


def prepare(job: Job, tables: Tables) -> Prepared:
    if isinstance(job.task, DocumentTask):
        documents = tables.opened.part(job, job.task)
        spec = document_spec(job, job.task, documents)
        return Prepared(job, Path(), [], spec, documents)
    table = tables.table(job)
    parts = split_parts(job.own, table, job.selection)
    for part in parts:
        check_part(job.own, part, table, job.draw)
    return Prepared(job, tables.root(job), parts, _spec(job, parts))


def _spec(job: Job, parts: list[PartItems]) -> RunSpec:
    """Titles and notes do not matter; rows, labels, recipe and model do."""
    draw = job.draw
    settings: dict[str, Any] = {
        "parts": [part.name for part in parts],
        "metric": [_portable(name) for name in (job.own.metric, *job.own.also)],
        "score": job.own.primary or job.own.score,
    }
    method = job.protocol
    if job.protocol == "probe" and job.own.probe is not None:
        classifier = job.own.probe.classifier
        block = job.own.probe.model_dump(mode="json")
        settings["probe"] = block | {"classifier": _portable(classifier)}
        method = f"probe/{short_name(classifier)}"
    if job.protocol == "ask" and job.own.ask is not None:
        settings["ask"] = job.own.ask.model_dump(mode="json", exclude_defaults=True)
        settings |= AskSettings.of(dict(job.ask)).changed()
    if draw.shots:
        settings["shots"] = draw.shots
    if job.own.test == "rest":
        settings["test"] = "rest"
    if draw.n_train >= 0:
        settings["sampling"] = draw.sampling
    return RunSpec(
        model=job.model,
        model_version=model_identity(job.model),
        task=job.own.task,
        task_variant=parse_name(job.task_name).variant,
        task_version=str(job.own.version),
        protocol=method,
        settings=settings,
        n_train=None if draw.n_train < 0 else draw.n_train,
        n_test=None if draw.n_test < 0 else draw.n_test,
        seed=draw.seed,
        repeats=draw.repeats,
        data=_signature(parts),
    )


def _signature(parts: list[PartItems]) -> str:
    """Changes when an item, a label (or what it is), a split or a unit of the parts changes."""
    hasher = hashlib.blake2b(digest_size=8)
    columns = ("id", "image", "target", "unit", "class_kind")
    for part in parts:
        for rows in (part.train, part.test):
            text = rows.select(
                *(pl.col(name) for name in columns if rows.schema.get(name) == pl.String),
                pl.col("crop").list.eval(pl.element().cast(pl.String)).list.join(","),
            )
            hasher.update(part.name.encode() + text.sort("id").write_csv().encode())
    return hasher.hexdigest()


def _portable(name: str) -> str:
    """The same on every machine; an edited file of the user's is another probe or metric."""
    code = code_hash(name)
    return f"{short_name(name)}#{code}" if code else name


def replace_data(settings: Settings, data: dict[str, Path]) -> Settings:
    """The folders an experiment file names, under those that flags name."""
    return dataclasses.replace(settings, data={**data, **settings.data})
