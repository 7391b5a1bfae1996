"""Task readers (plug-ins) and the problems they report: how are task files of other forms read?

A reader is an object in the group `fieldmark.task_readers`, loaded when a file or a name is asked
for. `open(folders)` gives the tasks of the folders that the user named with `--include-path`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.registry import Registry

if TYPE_CHECKING:
    from fieldmark.progress import Progress
    from fieldmark.settings import Settings

READERS = Registry("task reader", "fieldmark.task_readers")
_SKIPPED = frozenset(("__pycache__", ".ipynb_checkpoints", ".git", ".venv", "node_modules"))

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
Kind = Literal[
    "read",  # the file, or one it includes, cannot be read
    "key",  # a key or a value does not fit the schema
    "name",  # a task or group of this name stands in two files
    "group",  # a group names what is not there
    "data",  # the dataset is not named, not there, or cannot be opened
    "split",  # no split to ask about
    "prompt",  # text, target, choices or pictures of a document cannot be made
    "template",  # a Jinja template cannot be read
    "untagged",  # the name of a function stands as plain text
    "function",  # the code behind `!function` is missing or fails
    "package",  # code wants a package that is not installed
    "network",  # code wants the network when it is imported
    "program",  # code starts a program when it is imported
    "key wanted",  # code wants a key of some service when it is imported
    "metric",  # a metric, aggregation or filter is not known or wrongly set
    "generation",  # a setting for the model's answer is wrong
    "no effect",  # a key is accepted and changes nothing
    "not run",  # fieldmark does not run tasks of this kind
    "document",  # a document cannot be rendered
    "experiment",  # an experiment holds something odd
]
"""kinds of problems, as `--json` counts them, and what each means"""
_PLACED = re.compile(r"(?P<file>.+?)(?::(?P<line>\d+))?  (?P<text>.+)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One line of `fieldmark check`."""

    level: Level
    kind: Kind
    place: str
    """`file:line` of the key itself, which may stand in an included file"""
    text: str
    files: tuple[Path, ...] = ()
    """the files it was met through"""

    @property
    def file(self) -> str:
        return re.sub(r":\d+$", "", self.place)

    @property
    def line(self) -> int:
        match = re.search(r":(\d+)$", self.place)
        return int(match[1]) if match else 0

    def found_in(self, path: Path) -> Problem:
        return replace(self, files=(path,))


def problems_of(error: FieldmarkError, kind: Kind, where: str) -> list[Problem]:
    """One for each line of an error; lines that name no file get the place."""
    text = str(error)
    if where:
        on_one_line = where.encode("unicode_escape").decode() if "\n" in where else where
        text = text.replace(where, on_one_line)
    lines = text.splitlines()
    # From two on, the last line counts them (`join_problems`).
    lines = lines[:-1] if len(lines) > 1 else lines
    return [_parsed(line, kind, where) for line in lines]


def _parsed(line: str, kind: Kind, where: str) -> Problem:
    match = _PLACED.fullmatch(line)
    if match is None:
        return Problem("error", kind, where, line)
    number = f":{match['line']}" if match["line"] else ""
    return Problem("error", kind, f"{match['file']}{number}", match["text"])


def merge_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Equal lines become one that knows all its files; errors first, then by place."""
    files: dict[Problem, dict[Path, None]] = {}
    for problem in problems:
        files.setdefault(replace(problem, files=()), {}).update(dict.fromkeys(problem.files))
    merged = [replace(problem, files=tuple(paths)) for problem, paths in files.items()]
    return sorted(merged, key=lambda one: (LEVELS.index(one.level), one.file, one.line))


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A task, and what it is called in a run."""

    name: str
    task: Any
    """fieldmark's own `Task`, or an object of the reader's with `task` (its name), `line_of`,
    `plain()` (the keys that differ from their defaults, as JSON) and `show()` (for people)"""
    groups: tuple[dict[str, Any], ...] = ()
    """the groups it was asked for with, each with what is averaged over it"""


class Library(Protocol):
    """The tasks of some folders, in the reader's form and in fieldmark's own."""

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
    seen: str = ""
    """what its data hold, in words; of tasks in fieldmark's own form"""


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
        settings: Settings,
        code_s: float = 0.0,
        others: Container[Path] = (),
        progress: Progress | None = None,
    ) -> CheckedFiles:
        """What is wrong with the files. Code of tasks may come from the folders, data lie
        where the settings say; importing a file
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
            raise UsageError(f"{folder}  is not a folder: expected one with task files (.yaml).")
        for path in sorted(_walk(folder)):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield Path(path)


def _walk(folder: Path) -> Iterator[str]:
    for here, inner, files in os.walk(folder):
        inner[:] = [name for name in inner if name not in _SKIPPED]
        yield from (f"{here}/{name}" for name in files if name.endswith((".yaml", ".yml")))
