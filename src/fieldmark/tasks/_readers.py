"""Task readers: plug-ins that read and check task files of other programs' forms.

A reader is an object in the group `fieldmark.task_readers`, loaded when a file or a name is asked
for. `open(folders)` gives the tasks of the folders that the user named with `--include-path`.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fieldmark.errors import UsageError
from fieldmark.registry import Registry

if TYPE_CHECKING:
    from fieldmark.progress import Progress
    from fieldmark.tasks._problems import Problem

READERS = Registry("task reader", "fieldmark.task_readers", "fieldmark tasks --help")
_SKIPPED = frozenset(("__pycache__", ".ipynb_checkpoints", ".git", ".venv", "node_modules"))


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A task, and what it is called in a run."""

    name: str
    task: Any
    """fieldmark's own `Task`, or an object of the reader's with `task` (its name), `place_of`,
    `plain()` (the keys that differ from their defaults, as JSON) and `show()` (for people)"""
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


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a file is, and its task or group where that can be loaded."""

    path: Path
    kind: str
    """task, group, python, abstract (a template), own, other (no task), unread"""
    name: str = ""
    place: str = ""
    """`file:line` of the name"""
    task: Any = None
    group: Any = None


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """All files of a check, and what is wrong with them."""

    files: tuple[CheckedFile, ...]
    problems: tuple[Problem, ...]
    """equal ones once; errors first"""
    failing: frozenset[Path] | None = None
    """files of tasks whose code does not import here; None = nobody tried"""

    @property
    def tasks(self) -> list[CheckedFile]:
        return [file for file in self.files if file.kind == "task"]

    def imports(self, file: CheckedFile) -> bool | None:
        """Does all code of the task in this file import? None = nobody tried."""
        if self.failing is None or file.task is None:
            return None
        return file.path not in self.failing


class RenderedTask(Protocol):
    """The first rows of a task's data as a model would be asked."""

    @property
    def problems(self) -> Sequence[Problem]: ...

    def show(self) -> list[tuple[str, str]]:
        """Lines for people: what stands before, and a text that may be long."""

    def plain(self) -> dict[str, Any]:
        """The same as JSON."""


class TaskReader(Protocol):
    """What a plug-in offers."""

    def open(self, folders: Sequence[Path]) -> Library: ...

    def check(
        self,
        paths: Sequence[Path],
        folders: Sequence[Path],
        code_s: float = 0.0,
        others: Container[Path] = (),
        progress: Progress | None = None,
    ) -> CheckedFiles:
        """What is wrong with the files. Code of tasks may come from the folders; importing a file
        of it may take `code_s` seconds, 0 = none is imported. Files of `others` that have no key
        of a task are only counted.
        """

    def render(self, task: Any, n: int, cache: Path, fetch: bool) -> RenderedTask:
        """The first `n` rows of the task; all that goes wrong is a problem, not an exception."""


def task_readers() -> list[TaskReader]:
    return [READERS.get(name) for name in READERS]


def yaml_files(folders: Iterable[Path]) -> Iterator[Path]:
    """The files below each folder in the order of their names, each once."""
    seen: set[str] = set()
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}  is no folder: one with task files (.yaml) is needed.")
        for path in sorted(_walk(folder)):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield Path(path)


def _walk(folder: Path) -> Iterator[str]:
    for here, inner, files in os.walk(folder):
        inner[:] = [name for name in inner if name not in _SKIPPED]
        yield from (f"{here}/{name}" for name in files if name.endswith((".yaml", ".yml")))
