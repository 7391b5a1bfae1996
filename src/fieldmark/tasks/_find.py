"""Which tasks does a name mean, in whichever form their files are written?

newt, my/task.yaml             as ever
mmstar, mme*, a tag, a group   tasks in lmms-eval's form, from folders the user named
lmms_tasks/mme/mme.yaml        one of them, or a group, by its file
lmms_tasks/mme/                all tasks of a folder
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fieldmark.errors import UnknownName, UsageError, join_problems
from fieldmark.tasks._loader import is_pattern, load_own_task, parse_name, register_file, task_files
from fieldmark.tasks.lmms._disk import is_file, is_folder, with_home

if TYPE_CHECKING:
    from fieldmark.tasks._schema import Task
    from fieldmark.tasks.lmms import DocumentTask, Expanded, Group, GroupMetric, Index, Trust

    AnyTask: TypeAlias = Task | DocumentTask
else:
    AnyTask = Any  # the schemas are loaded when a task is


@dataclass(frozen=True, slots=True)
class Found:
    """A task, and what it is called in a run."""

    name: str
    task: AnyTask
    groups: tuple[dict[str, Any], ...] = ()
    """the groups it was asked for with, each with what is averaged over it"""


@dataclass(slots=True)
class Finder:
    """Finds tasks by name; folders are looked through once, when the first name asks for it."""

    folders: Sequence[Path] = ()
    _seen: dict[tuple[Path, ...], Index] = field(default_factory=dict)

    def find(self, name: str, where: str = "") -> list[Found]:
        base, files = parse_name(name).base, task_files()
        if base.endswith((".yaml", ".yml")):
            return self._in_file(name, with_home(base), where)
        if base in files:
            return self._in_file(name, files[base], where)
        if self.folders and self._index(self.folders).has(name):
            return self._by_name(name, where)  # before a folder that happens to be called so
        if is_folder(with_home(name)):
            return self._in_folder(with_home(name), where)
        if self.folders:
            return self._by_name(name, where)
        if is_pattern(name):
            raise UsageError(f"{where}  task {name!r}: patterns need --include-path.".lstrip())
        raise UnknownName("task", name, files, "fieldmark tasks", where)

    def known(self) -> list[str]:
        return [*task_files(), *(self._index(self.folders).names if self.folders else ())]

    def _in_file(self, name: str, path: Path, where: str) -> list[Found]:
        from fieldmark.tasks.lmms import (
            expand_file,
            kind_of,
            load_document_task,
            read_document_file,
        )

        if not is_file(path):
            return [Found(name, load_own_task(name, where))]  # says so, with the closest name
        trust = self._trust(path.parent)
        kind = kind_of(read_document_file(path, trust))
        if kind == "own":
            return [Found(name, load_own_task(name, where))]
        if kind == "task":
            task = load_document_task(path, trust)
            return [Found(task.task, task)]
        if kind == "group":
            index = self._index((*self.folders, path.parent))
            return _found(expand_file(index, path, trust))
        raise UsageError(
            f"{path}  is {'a task class in Python' if kind == 'python' else 'only included'}: "
            "it cannot be run by itself."
        )

    def _in_folder(self, folder: Path, where: str) -> list[Found]:
        from fieldmark.tasks.lmms import expand_file

        index, real = self._index((folder,)), folder.resolve()
        _refuse_broken([text for path, text in index.problems if path.parent == real])
        here = [entry for entry in index.entries if entry.path.parent == real]
        theirs = [entry.path for entry in here if entry.kind == "task"]
        own = [str(entry.path) for entry in here if entry.kind == "own" and entry.name]
        if not (theirs or own):
            raise UsageError(f"{where}  {folder}  holds no tasks (.yaml files).".strip())
        trust = self._trust(folder)
        found = [each for path in theirs for each in _found(expand_file(index, path, trust))]
        return [*found, *(Found(name, load_own_task(name, where)) for name in own)]

    def _by_name(self, name: str, where: str) -> list[Found]:
        from fieldmark.tasks.lmms import expand

        index = self._index(self.folders)
        hits = index.by_name.get(name, ())
        if len(hits) == 1 and hits[0].kind == "own":
            path = str(hits[0].path)
            return [Found(path, load_own_task(path, where))]
        if not index.has(name):
            _refuse_broken([t for path, t in index.problems if fnmatchcase(path.stem, name)])
            if not is_pattern(name):
                raise UnknownName("task", name, self.known(), "fieldmark tasks", where)
        return _found(expand(index, name, self._trust(), where))

    def _index(self, folders: Sequence[Path]) -> Index:
        from fieldmark.tasks.lmms import index_folders

        key = tuple(dict.fromkeys(each.resolve() for each in folders))
        if key not in self._seen:
            self._seen[key] = index_folders(key)
        return self._seen[key]

    def _trust(self, *more: Path) -> Trust:
        from fieldmark.tasks.lmms import Trust

        return Trust.of(*self.folders, *more)


def load_task(name: str, include_path: Sequence[Path] = ()) -> AnyTask:
    """The task of that name or file, in either form; UsageError where it means several.

    >>> load_task("beluga").metric
    'accuracy'
    """
    found = Finder(include_path).find(name)
    if len(found) != 1:
        raise UsageError(f"task {name!r} means {len(found)} tasks: expected one.")
    return found[0].task


def register_task(path: Path | str) -> str:
    """Makes the task in the file known by its name, which is returned."""
    task = load_task(str(path))
    register_file(task.task, Path(path))
    return task.task


def _refuse_broken(problems: list[str]) -> None:
    """Files that cannot be read may be the tasks that were asked for: none is left out quietly."""
    if problems:
        raise UsageError(join_problems(problems))


def _found(expanded: Expanded) -> list[Found]:
    return [Found(task.task, task, _groups_of(expanded, task.task)) for task in expanded.tasks]


def _groups_of(expanded: Expanded, task: str) -> tuple[dict[str, Any], ...]:
    """What a run keeps of the groups it belongs to, so that they can be averaged later."""
    return tuple(
        {
            "group": each.group.group,
            "alias": each.group.group_alias or "",
            "tasks": list(each.tasks),
            "metrics": [item.model_dump(mode="json") for item in _plain_metrics(each.group)],
        }
        for each in expanded.groups
        if task in each.tasks
    )


def _plain_metrics(group: Group) -> list[GroupMetric]:
    """Code that averages is named, not kept."""
    return [
        item.model_copy(update={"aggregation": str(item.aggregation)})
        for item in group.aggregate_metric_list
    ]


def list_documents(folders: Sequence[Path]) -> list[dict[str, str]]:
    """Name, title, dataset and metric of the tasks, groups and tags of the folders."""
    from fieldmark.tasks.lmms import Trust, index_folders, read_document_file

    index, trust = index_folders(folders), Trust.of(*folders)
    rows = [
        _row(entry.name, entry.kind, read_document_file(entry.path, trust).data)
        for entry in index.entries
        if entry.kind in ("task", "group", "own") and entry.name
    ]
    tags = [_row(tag, "tag", {}) for tag in index.tags]
    return sorted([*rows, *tags], key=lambda row: row["task"])


def _row(name: str, kind: str, data: Mapping[str, Any]) -> dict[str, str]:
    """As `list_tasks` gives them; a group or tag says so in place of a title."""
    metrics = data.get("metric_list") or [{}]
    first = metrics[0] if isinstance(metrics, list) and isinstance(metrics[0], dict) else {}
    title = kind if kind in ("group", "tag") else data.get("task_alias") or data.get("title")
    return {
        "task": name,
        "title": str(title or ""),
        "dataset": str(data.get("dataset_path") or data.get("dataset") or ""),
        "metric": str(first.get("metric") or data.get("metric") or ""),
    }
