"""Task readers: plug-ins that read task files of other programs' forms.

A reader is an object in the group `fieldmark.task_readers`; it is loaded when a file or a name is
asked for that fieldmark's own form does not explain. It offers `open(folders)`, which gives what is
below: the tasks of the folders that the user named with `--include-path`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fieldmark.registry import Registry

if TYPE_CHECKING:
    from fieldmark.tasks._find import AnyTask

READERS = Registry("task reader", "fieldmark.task_readers", "fieldmark tasks --help")


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A task, and what it is called in a run."""

    name: str
    task: AnyTask
    groups: tuple[dict[str, Any], ...] = ()
    """the groups it was asked for with, each with what is averaged over it"""


class Library(Protocol):
    """The tasks of some folders, in the reader's form and in fieldmark's own."""

    def names(self) -> list[str]: ...

    def rows(self) -> list[dict[str, str]]:
        """Name, title, dataset and metric of each, as `list_tasks` gives them."""

    def has(self, name: str) -> bool: ...

    def find(self, name: str, where: str = "") -> list[NamedTask]:
        """The tasks that a name, a group, a tag or a pattern means; UsageError where none."""

    def in_file(self, path: Path) -> list[NamedTask] | None:
        """The tasks of one file; None where it is in fieldmark's own form."""

    def in_folder(self, folder: Path, where: str = "") -> list[NamedTask]: ...


class TaskReader(Protocol):
    """What a plug-in offers."""

    def open(self, folders: Sequence[Path]) -> Library: ...


def open_libraries(folders: Sequence[Path]) -> list[Library]:
    """The folders as each reader sees them; nothing is read yet."""
    return [READERS.get(name).open(folders) for name in READERS]
