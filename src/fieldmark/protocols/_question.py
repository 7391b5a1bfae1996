"""Question: what is asked of a model, made once by `Protocol.prepare` and read by everyone else?

A task with its data at hand: parts, what identifies them, the images they need, the items tested,
where features come from, what a plan should say. Plan, identity, execution, cluster and report ask
the protocol none of it again. It is made in a workspace: tables of datasets, what images hold, and
whatever protocols keep there, each made once for all runs of a command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fieldmark.data import Contents, ImageRef, is_synthetic, load_dataset, read_table
from fieldmark.errors import DataError, FieldmarkError, UsageError, readable
from fieldmark.protocols._settings import given
from fieldmark.registry import is_file_reference
from fieldmark.settings import Settings, dataset_key
from fieldmark.store import canonical_json
from fieldmark.tasks.split import (
    PartItems,
    check_part,
    draw_test,
    is_joint,
    rows_of,
    split_parts,
)
from fieldmark.words import counted

if TYPE_CHECKING:
    from fieldmark.protocols._contract import Protocol
    from fieldmark.tasks import Task
    from fieldmark.tasks.split import Draw

ASKING_ONLY = {"title", "about", "metric", "also", "variants", "repeats"}
"""keys of a task that do not say which rows it has, besides the blocks of protocols"""
ROWS = ("id", "target", "unit", "class_kind")
"""columns of which every value counts, where a task has them"""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A task with its data at hand, and how it is to be asked."""

    protocol: str
    task: Any
    draw: Draw
    settings: Any
    """an object of the protocol's settings class"""
    parts: Sequence[Any]
    """of the task's own form: `PartItems` of a dataset's table; each has a `name`"""
    digest: str
    """changes when an item, a label, a unit or a crop of the parts does"""
    identity: Mapping[str, Any]
    """what can change a prediction, besides data, draw, metric and model"""
    metrics: tuple[str, ...]
    """the first is the task's own"""
    rule: str
    """how parts make one score: "mean", "pooled", or the part whose score is the task's"""
    needed: Callable[[Collection[str]], pl.DataFrame | None]
    """id, image and crop of every row whose images it looks at, where these images are broken;
    None: the digest holds what they are"""
    tested: Callable[[], pl.DataFrame]
    """part, id, target and unit of every item of the first repeat; null: a unit of its own"""
    root: Path = Path()
    """the folder of the images; Path() where items name their own"""
    is_synthetic: bool = False
    """did fieldmark draw the images?"""
    note: str = ""
    """what a plan should say of the job"""
    warnings: Callable[[], list[str]] = list
    """what the data make doubtful about the task, for `fieldmark check`"""
    backbone: Callable[[Any], Any] | None = None
    """model → what embeds its images, or None; features are computed before the run begins, in one
    pass over the files: what these hold is noted on the way, so that none is read only to be
    hashed"""
    cache_name: Callable[[str], str] = str
    """fingerprint of a model → that of the features it needs"""
    needs_features_only: bool = False
    """is nothing asked of a model but features of images, so that those in the cache do?"""
    asks_again: Collection[str] = ()
    """outcomes of a finished run that are asked again, besides failures"""

    @property
    def part_names(self) -> list[str]:
        return [part.name for part in self.parts]


# --- the workspace ---


class MissingData(DataError):
    """The dataset's folder is not there."""

    def __init__(self, text: str, unchecked: str = "") -> None:
        super().__init__(text)
        self.unchecked = unchecked
        """for commands that only look: data that nobody said are here may come later"""


@dataclass(slots=True)
class Workspace:
    settings: Settings
    contents: Contents
    """what the images hold, as far as it is known"""
    shared: dict[object, Any] = field(default_factory=dict)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """What `make` gives, or raises, the first time."""
        if key not in self.shared:
            try:
                self.shared[key] = make()
            except FieldmarkError as error:
                self.shared[key] = error
        made = self.shared[key]
        if isinstance(made, FieldmarkError):
            raise made
        return made

    def root(self, task: Task) -> Path:
        return root_of(task, self.settings)

    def table(self, task: Task) -> pl.DataFrame:
        """The task's dataset, read once."""
        root = self.root(task)
        key = ("table", task.dataset, root, repr(task.options))
        table: pl.DataFrame = self.once(key, lambda: _read(task, root, self.settings))
        return table


def _read(task: Task, root: Path, settings: Settings) -> pl.DataFrame:
    load_dataset(task.dataset)
    if not root.exists():
        raise _missing(task, root, settings)
    try:
        return read_table(task.dataset, root, task.options)
    except UsageError as error:  # only the task's options can be wrong here
        raise UsageError(f"{task.line_of('options')}  {error}") from error
    except DataError as error:
        if task.folder != root:  # a flag or a setting names the folder
            raise
        lines = map(readable, str(error).split("\n"))
        place = task.line_of("data")
        raise DataError("\n".join(f"{place}  data: {line}" for line in lines)) from error


def root_of(task: Task, settings: Settings) -> Path:
    """Where the task's data are: said for the task by a flag, in its file, for its dataset."""
    by_task = settings.data.get(task.task)
    if by_task is not None:
        return Path(by_task)
    return task.folder or settings.root_of(task.dataset)


def _missing(task: Task, root: Path, settings: Settings) -> MissingData:
    """What to do; a flag must name what named this folder: the task or its dataset."""
    if task.task in settings.data:
        return MissingData(no_data(task.dataset, root, task.task))
    if task.folder is None:
        unchecked = f"{root}  does not exist, so these data were not checked."
        is_said = dataset_key(task.dataset) in settings.data
        return MissingData(no_data(task.dataset, root), "" if is_said else unchecked)
    return MissingData(
        f"{task.line_of('data')}  data: {root} does not exist. Correct it, or give "
        f"`fieldmark run` the flag --data {task.task}=FOLDER."
    )


def no_data(dataset: str, root: Path, name: str = "") -> str:
    """What to do about a folder that is not there; `name` is what --data needs."""
    steps = f"--data {name or dataset_key(dataset)}=FOLDER says where they are."
    if not is_file_reference(dataset):
        steps = f"`fieldmark datasets {dataset}` says how to get the data; {steps}"
    return f"{root}  does not exist. {steps}"


# --- questions about images of a dataset's table ---


def table_question(
    protocol: Protocol,
    task: Task,
    draw: Draw,
    settings: Any,
    workspace: Workspace,
    parts: Sequence[PartItems] | None = None,
    columns: Sequence[str] | None = None,
    **more: Any,
) -> Question:
    """A question about images of a dataset's table; `columns` of the data change predictions,
    besides labels, units and crops, `more` are fields of a `Question` that differ.
    """
    learns = protocol.training == "needed"
    if parts is None:
        parts = table_parts(task, draw, workspace, learns or draw.n_train != 0)
    if columns is None:
        columns = task.traits
    root, block = workspace.root(task), task.block(protocol.name)
    block_settings = {} if block is None else {protocol.name: block.model_dump(mode="json")}
    fields: dict[str, Any] = {
        "identity": block_settings | given(settings),
        "metrics": (task.metric, *task.also),
        "rule": task.primary or task.score,
        "needed": lambda _: rows_of(task, parts, draw, learns),
        "tested": partial(tested_rows, task, parts, draw),
        "root": root,
        "is_synthetic": is_synthetic(root),
        "note": short_parts(parts, draw),
    }
    key = ("rows", id(parts), *columns)
    digest = workspace.once(key, lambda: rows_digest(parts, columns))
    return Question(protocol.name, task, draw, settings, parts, digest, **(fields | more))


def table_parts(
    task: Task, draw: Draw, workspace: Workspace, has_training: bool = True
) -> list[PartItems]:
    """The parts of a task, made once for all jobs that ask about the same rows, and checked."""
    blocks = dict.fromkeys(task.protocols)
    rows = repr(task.model_dump(exclude={*ASKING_ONLY, *blocks}))
    key = ("parts", workspace.root(task), rows, draw.parts, is_joint(task), task.is_leave_one_out)
    parts: list[PartItems] = workspace.once(
        key, lambda: split_parts(task, workspace.table(task), draw.parts)
    )
    drawn = draw if task.test == "rest" else None

    def check() -> None:
        for part in parts:
            check_part(task, part, workspace.table(task), drawn, has_training)

    workspace.once(("checked", id(parts), drawn, has_training), check)
    return parts


def rows_digest(parts: Sequence[PartItems], also: Sequence[str]) -> str:
    """Changes when an item, a label (or what it is), a split, a unit or a crop of the parts does,
    or a value of the columns that count `also`. Neither the place of a file nor the order of rows
    counts.
    """
    frames = [rows for part in parts for rows in (part.train, part.test)]
    sizes = [len(rows) for rows in frames]
    every = pl.concat(frames, how="diagonal")
    names = [name for name in dict.fromkeys((*ROWS, *also)) if name in every.columns]
    text = every.select(
        *(pl.col(name).cast(pl.String) for name in names),
        pl.col("crop").list.eval(pl.element().cast(pl.String)).list.join(","),
    )
    # All frames in one go: one by one, NeWT's 328 cost a finished run 0.07 s of CPU time more
    # (measured 2026-11-18). Their sizes tell where one ends.
    of = pl.Series(np.repeat(np.arange(len(frames)), sizes))
    sizes_text = canonical_json([[(part.name, part.groups) for part in parts], sizes])
    rows = text.sort(pl.lit(of), "id").write_csv()
    return hashlib.blake2b(f"{sizes_text}\n{rows}".encode(), digest_size=8).hexdigest()


def short_parts(parts: Sequence[PartItems], draw: Draw) -> str:
    """That some parts have fewer training images than are asked for; "" where none has."""
    if draw.n_train <= 0:
        return ""
    short = [len(part.train) for part in parts if len(part.train) < draw.n_train]
    if not short:
        return ""
    where = f" in {len(short)} of {len(parts)} parts" if len(parts) > 1 else ""
    least, most = min(short), max(short)
    n = counted(most, "training photo") if least == most else f"{least} to {most} training photos"
    return f"only {n}{where}, so all are used"


def tested_rows(task: Task, parts: Sequence[PartItems], draw: Draw) -> pl.DataFrame:
    """part, id, target and unit of the test rows of all parts, in the first repeat."""
    return pl.concat(
        draw_test(task, part, draw, 0).select(
            pl.lit(part.name).alias("part"), "id", "target", "unit"
        )
        for part in parts
    )


def refs_of(rows: pl.DataFrame) -> list[tuple[ImageRef, ...]]:
    """The images of each row, in their order: one, or the frames of a clip."""
    refs = []
    for image, crop in rows.select("image", "crop").iter_rows():
        box = tuple(crop) if crop is not None else None
        images = [image] if isinstance(image, str) else image
        refs.append(tuple(ImageRef(name, box) for name in images))
    return refs
