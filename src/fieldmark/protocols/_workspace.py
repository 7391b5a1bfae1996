"""Workspace: what all runs of one command share, each thing made once.

Tables of datasets, what images hold, and whatever protocols keep under a name of their own: one
budget, one set of opened documents. What cannot be made is not tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.data import Contents, load_dataset, read_table
from fieldmark.errors import DataError, FieldmarkError, UsageError
from fieldmark.registry import is_file_reference
from fieldmark.settings import Settings, dataset_key

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.tasks import Task


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
        raise UsageError(f"{task.place_of('options')}  {error}") from error


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
        f"{task.place_of('data')}  data: {root} does not exist. Correct it, or give "
        f"`fieldmark run` the flag --data {task.task}=FOLDER."
    )


def no_data(dataset: str, root: Path, name: str = "") -> str:
    """What to do about a folder that is not there; `name` is what --data needs."""
    steps = f"--data {name or dataset_key(dataset)}=FOLDER says where it is."
    if not is_file_reference(dataset):
        steps = f"`fieldmark datasets {dataset}` says how to get it, {steps}"
    return f"{root}  does not exist: {steps}"
