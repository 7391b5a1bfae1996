"""Task reader of lmms-eval's form: which tasks do a file, a folder and a name mean?

    mmstar, mme*, a tag, a group   tasks of the folders the user named
    lmms_tasks/mme/mme.yaml        one of them, or a group, by its file
    lmms_tasks/mme/                all tasks of a folder

Tasks in fieldmark's own form that lie in these folders are found by name as well.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.errors import UnknownName, UsageError, join_problems
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.files import Index, index_folders, kind_of, read_document_file
from fieldmark.lmms.read.groups import Expanded, expand, expand_file, load_document_task
from fieldmark.lmms.read.schema import DocumentTask, Group, GroupMetric
from fieldmark.tasks import NamedTask, TaskReader, is_pattern, load_own_task, task_files

if TYPE_CHECKING:
    from fieldmark.lmms.check.render import RenderedDocuments
    from fieldmark.progress import Progress
    from fieldmark.settings import Settings
    from fieldmark.tasks import CheckedFiles


@dataclass(slots=True)
class TaskFolders:
    """Folders of task files; they are looked through once, when the first name asks for it."""

    folders: Sequence[Path] = ()
    _indexes: dict[tuple[Path, ...], Index] = field(default_factory=dict)

    def names(self) -> list[str]:
        return self._index(self.folders).names if self.folders else []

    def has(self, name: str) -> bool:
        return bool(self.folders) and self._index(self.folders).has(name)

    def find(self, name: str, where: str = "") -> list[NamedTask]:
        index = self._index(self.folders)
        hits = index.by_name.get(name, ())
        if len(hits) == 1 and hits[0].kind == "own":
            path = str(hits[0].path)
            return [NamedTask(path, load_own_task(path, where))]
        if not index.has(name):
            _refuse_broken([text for path, text in index.problems if fnmatchcase(path.stem, name)])
            if not is_pattern(name):
                names = [*task_files(), *self.names()]
                raise UnknownName("task", name, names, "fieldmark tasks", where)
        return _named(expand(index, name, Trust.of(*self.folders), where))

    def in_file(self, path: Path) -> list[NamedTask] | None:
        trust = Trust.of(*self.folders, path.parent)
        kind = kind_of(read_document_file(path, trust))
        if kind == "own":
            return None
        if kind == "task":
            task = load_document_task(path, trust)
            return [NamedTask(task.task, task)]
        if kind == "group":
            index = self._index((*self.folders, path.parent))
            return _named(expand_file(index, path, trust))
        raise UsageError(
            f"{path}  is {'a task class in Python' if kind == 'python' else 'only included'}: "
            "it cannot be run by itself."
        )

    def in_folder(self, folder: Path, where: str = "") -> list[NamedTask]:
        index, real = self._index((folder,)), folder.resolve()
        _refuse_broken([text for path, text in index.problems if path.parent == real])
        here = [entry for entry in index.entries if entry.path.parent == real]
        theirs = [entry.path for entry in here if entry.kind == "task"]
        own_paths = [str(entry.path) for entry in here if entry.kind == "own" and entry.name]
        if not (theirs or own_paths):
            raise UsageError(f"{where}  {folder}  contains no tasks (.yaml files).".strip())
        trust = Trust.of(*self.folders, folder)
        tasks = [task for path in theirs for task in _named(expand_file(index, path, trust))]
        return [*tasks, *(NamedTask(name, load_own_task(name, where)) for name in own_paths)]

    def rows(self) -> list[dict[str, str]]:
        """Name, title, dataset and metric of the tasks, groups and tags of the folders."""
        if not self.folders:
            return []
        index, trust = self._index(self.folders), Trust.of(*self.folders)
        rows = [
            _row(entry.name, entry.kind, read_document_file(entry.path, trust).data)
            for entry in index.entries
            if entry.kind in ("task", "group", "own") and entry.name
        ]
        tags = [_row(tag, "tag", {}) for tag in index.tags]
        return sorted([*rows, *tags], key=lambda row: row["task"])

    def _index(self, folders: Sequence[Path]) -> Index:
        key = tuple(dict.fromkeys(folder.resolve() for folder in folders))
        if key not in self._indexes:
            self._indexes[key] = index_folders(key)
        return self._indexes[key]


class LmmsReader:
    """What is registered as the task reader `lmms-eval`; see `fieldmark.tasks.TaskReader`."""

    open = TaskFolders

    def check(
        self,
        paths: Sequence[Path],
        folders: Sequence[Path],
        settings: Settings,
        code_s: float = 0.0,
        others: Container[Path] = (),
        progress: Progress | None = None,
    ) -> CheckedFiles:
        from fieldmark.lmms.check.files import check_files

        return check_files(paths, Trust.of(*folders), settings, code_s, others, progress)

    def render(self, task: DocumentTask, n: int, cache: Path, fetch: bool) -> RenderedDocuments:
        from fieldmark.lmms.check.render import render_documents

        return render_documents(task, n, cache, fetch)


READER: TaskReader = LmmsReader()


def _refuse_broken(problems: list[str]) -> None:
    """Files that cannot be read may be the tasks that were asked for: none is left out quietly."""
    if problems:
        raise UsageError(join_problems(problems))


def _named(expanded: Expanded) -> list[NamedTask]:
    return [NamedTask(task.task, task, _groups_of(expanded, task.task)) for task in expanded.tasks]


def _groups_of(expanded: Expanded, task: str) -> tuple[dict[str, Any], ...]:
    """What a run keeps of the groups it belongs to, so that they can be averaged later."""
    return tuple(
        {
            "group": member.group.group,
            "alias": member.group.group_alias or "",
            "tasks": list(member.tasks),
            "metrics": [item.model_dump(mode="json") for item in _plain_metrics(member.group)],
        }
        for member in expanded.groups
        if task in member.tasks
    )


def _plain_metrics(group: Group) -> list[GroupMetric]:
    """Code that averages is named, not kept."""
    return [
        item.model_copy(update={"aggregation": str(item.aggregation)})
        for item in group.aggregate_metric_list
    ]


def _row(name: str, kind: str, data: Mapping[str, Any]) -> dict[str, str]:
    """As `list_tasks` gives them; a group or tag says so in place of a title."""
    metrics = data.get("metric_list") or [{}]
    metric = metrics[0] if isinstance(metrics, list) and isinstance(metrics[0], dict) else {}
    title = kind if kind in ("group", "tag") else data.get("task_alias") or data.get("title")
    return {
        "task": name,
        "title": str(title or ""),
        "dataset": str(data.get("dataset_path") or data.get("dataset") or ""),
        "metric": str(metric.get("metric") or data.get("metric") or ""),
    }
