"""Finder: which tasks does a name mean, in whichever form their files are written?

newt, my/task.yaml      fieldmark's own form
anything else           is asked of the task readers: a file, a folder, a name from the folders
                        that the user named with `--include-path`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from fieldmark.errors import UnknownName, UsageError
from fieldmark.source_lines import is_file, is_folder, with_home
from fieldmark.tasks._loader import is_pattern, load_own_task, parse_name, register_file, task_files
from fieldmark.tasks._readers import Library, NamedTask, task_readers

AnyTask: TypeAlias = Any
"""a `Task`, or one of the form that a task reader knows"""


@dataclass(slots=True)
class Finder:
    """Finds tasks by name; folders are looked through once, when the first name asks for it."""

    folders: Sequence[Path] = ()
    _opened: list[Library] = field(default_factory=list)

    def find(self, name: str, where: str = "") -> list[NamedTask]:
        base, files = parse_name(name).base, task_files()
        if base.endswith((".yaml", ".yml")):
            return self._in_file(name, with_home(base), where)
        if base in files:
            return self._in_file(name, files[base], where)
        for library in self._libraries():
            if library.has(name):  # before a folder that happens to be called so
                return library.find(name, where)
        if is_folder(with_home(name)):
            return self._libraries()[0].in_folder(with_home(name), where)
        if self.folders:
            return self._libraries()[0].find(name, where)  # says what is known
        if is_pattern(name):
            raise UsageError(f"{where}  task {name!r}: patterns need --include-path.".lstrip())
        raise UnknownName("task", name, files, "fieldmark tasks", where)

    def rows(self) -> list[dict[str, str]]:
        """Name, title, dataset and metric of all tasks, groups and tags of the folders."""
        return [row for library in self._libraries() for row in library.rows()]

    def _in_file(self, name: str, path: Path, where: str) -> list[NamedTask]:
        if is_file(path):
            for library in self._libraries():
                tasks = library.in_file(path)
                if tasks is not None:
                    return tasks
        return [NamedTask(name, load_own_task(name, where))]  # says so where there is no file

    def _libraries(self) -> list[Library]:
        if not self._opened:
            self._opened = [reader.open(self.folders) for reader in task_readers()]
        return self._opened


def load_task(name: str, include_path: Sequence[Path] = ()) -> AnyTask:
    """The task of that name or file, in either form; UsageError where it means several.

    >>> load_task("beluga").metric
    'accuracy'
    """
    tasks = Finder(include_path).find(name)
    if len(tasks) != 1:
        raise UsageError(f"task {name!r} means {len(tasks)} tasks: expected one.")
    return tasks[0].task


def register_task(path: Path | str) -> str:
    """Makes the task in the file known by its name, which is returned."""
    name = str(load_task(str(path)).task)
    register_file(name, Path(path))
    return name
