"""Task files: where is a task found, and what do the parts of its name mean?

    newt                    the file tasks/newt.yaml
    beluga@biobench2026     its variant of that name
    newt/behavior           only the parts of that name or group (commas and * work)
    my/task.yaml            a file of the user's
    photos/, obs.csv        labelled photos: a folder with one folder per label, or a table
    anything else           is asked of the task readers: a file, a folder, a name from the folders
                            that the user named with `--include-path`

Listing tasks reads only the first lines of each file and no YAML library.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fieldmark.errors import UnknownName, UsageError
from fieldmark.registry import entry_points_of, is_file_reference, resolve_reference
from fieldmark.source_lines import is_file, is_folder, with_home
from fieldmark.tasks._photos import is_photos, photo_task
from fieldmark.tasks._readers import Library, NamedTask, task_readers

if TYPE_CHECKING:
    from fieldmark.source_lines import Located, SchemaError
    from fieldmark.tasks._schema import Task

FOLDER = Path(__file__).parent
_added: dict[str, Path] = {}
AnyTask: TypeAlias = Any
"""a `Task`, or one of the form that a task reader knows"""


@dataclass(frozen=True, slots=True)
class TaskName:
    """The parts of `NAME[@VARIANT][/SELECTION]`."""

    base: str
    variant: str = ""
    selection: str = ""


def parse_name(text: str) -> TaskName:
    """
    >>> parse_name("beluga@closed"), parse_name("newt/behavior,ml_age_*").selection
    (TaskName(base='beluga', variant='closed', selection=''), 'behavior,ml_age_*')
    """
    for ending in (".yaml", ".yml"):
        if ending in text:
            head, _, tail = text.partition(ending)
            rest = parse_name(f"x{tail}")
            return TaskName(head + ending, rest.variant, rest.selection)
    head, _, selection = text.partition("/")
    base, _, variant = head.partition("@")
    return TaskName(base, variant, selection)


def is_pattern(name: str) -> bool:
    """May the name fit several tasks?"""
    return any(sign in name for sign in "*?[")


def task_files() -> dict[str, Path]:
    """Every known task's file by name: the package's, entry points', registered ones."""
    files = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
    for name, point in entry_points_of("fieldmark.tasks").items():
        files[name] = Path(str(point.load()))
    return files | _added


def find_file(base: str, where: str = "") -> Path:
    if base.endswith((".yaml", ".yml")):
        return with_home(base)
    files = task_files()
    if base not in files:
        raise UnknownName("task", base, files, "fieldmark tasks", where)
    return files[base]


def load_own_task(name: str, where: str = "", mistakes: list[SchemaError] | None = None) -> Task:
    """The task of fieldmark's own form, checked, with its variant's keys in place.

    The selection does not matter here. With `mistakes`, what does not fit the schema is put there,
    and the task is what is left without it: for looking on.
    """
    parsed = parse_name(name)
    located = _read(find_file(parsed.base, where), where)
    task = _validated(located, mistakes)
    task._origin = located
    for variant, keys in task.variants.items():
        changed = _with_variant(located, variant, keys, task)
        is_asked = variant == parsed.variant
        merged = _validated(changed, mistakes if is_asked or mistakes is None else [])
        if is_asked:
            merged._origin = changed
            task = merged
    if parsed.variant and parsed.variant not in task.variants:
        raise UnknownName(
            f"variant of task {task.task!r}", parsed.variant, task.variants, where=where
        )
    if located.path.parent == FOLDER and task.task != located.path.stem:
        raise UsageError(
            f"{task.line_of('task')}  task {task.task!r} must have the name of its file."
        )
    return _with_whole_paths(task, located.path, is_sound=mistakes is None)


def _has_our_keys(path: Path) -> bool:
    """Has the file keys of our form only, so that no reader of another need look at it?"""
    from fieldmark.source_lines import read_yaml
    from fieldmark.tasks._schema import task_schema

    if path.parent == FOLDER:
        return True
    try:
        keys = read_yaml(path).data
    except UsageError:  # it may have what only another form has, such as `!function`
        return False
    return (
        isinstance(keys.get("task"), str) and keys.keys() <= task_schema(keys).model_fields.keys()
    )


def _validated(located: Located, mistakes: list[SchemaError] | None) -> Task:
    """The typed form of the file; with `mistakes`, of what is right in it, and something that is
    right in place of a required key.
    """
    from fieldmark.source_lines import SchemaError, validate
    from fieldmark.tasks._schema import task_schema

    try:
        return validate(task_schema(located.data), located)
    except SchemaError as error:
        wrong = error.keys | ({"options"} if "dataset" in error.keys else set())
        name = re.sub(r"[^a-z0-9]+", "-", located.path.stem.lower()).strip("-") or "unnamed"
        any_value = {"task": name, "dataset": "folder", "metric": "accuracy"}
        needed = {key: value for key, value in any_value.items() if key in wrong}
        right = {key: value for key, value in located.data.items() if str(key) not in wrong}
        if mistakes is None or needed | right == located.data:
            raise
        mistakes.append(error)
        # What leans on a wrong key (`primary` on `parts`) is wrong for its sake only.
        return _validated(replace(located, data=needed | right), [])


def _read(path: Path, where: str) -> Located:
    """The file; that it is not there is the fault of the place that names it."""
    from fieldmark.source_lines import read_text, read_yaml

    try:
        read_text(path)
    except UsageError as error:
        raise UsageError(f"{where}  {error}" if where else str(error)) from error
    return read_yaml(path)


def _with_whole_paths(task: Task, path: Path, is_sound: bool) -> Task:
    """Code beside the task file is found from any folder; it must be there for a sound task."""
    folder = path.resolve().parent

    def whole(name: str, *key: str | int) -> str:
        if not is_file_reference(name):
            return name
        try:
            file, attribute = resolve_reference(name, folder)
        except UsageError as error:
            if not is_sound:
                return str(folder / with_home(name))
            raise UsageError(f"{task.line_of(*key)}  {error}") from error
        return f"{file}:{attribute}"

    named = {key: whole(name, *key) for key, name in task.references().items()}
    changes: dict[str, Any] = {
        "dataset": named["dataset",],
        "data": str(folder / with_home(task.data)) if task.data else "",
        "metric": named["metric",],
        "also": tuple(named["also", index] for index in range(len(task.also))),
    }
    for protocol in task.protocols:
        files = {str(key[1]): name for key, name in named.items() if key[0] == protocol}
        if files:
            changes[protocol] = task.block(protocol).model_copy(update=files)
    return task.model_copy(update=changes)


def _with_variant(located: Located, variant: str, keys: dict[str, Any], task: Task) -> Located:
    """The file as if the variant's keys stood at its top, each still on its own line; a block
    without its first key (a `probe` without a classifier) changes the old one.
    """
    inside = ("variants", variant)
    moved = {key[2:]: line for key, line in located.lines.items() if key[:2] == inside and key[2:]}
    data = located.data | keys
    for name in task.protocols:
        new, main_key = keys.get(name), next(iter(type(task.block(name)).model_fields))
        if isinstance(new, dict) and main_key not in new:
            data[name] = located.data.get(name, {}) | new
    return replace(located, data=data, lines=located.lines | moved)


def list_tasks(query: str = "") -> list[dict[str, str]]:
    """Name, title, dataset and metric of the tasks that match, without loading any."""
    rows = []
    for name, path in sorted(task_files().items()):
        head = {"task": name, **_top_scalars(path)}
        row = {key: head.get(key, "") for key in ("task", "title", "dataset", "metric")}
        if query.lower() in " ".join(row.values()).lower():
            rows.append(row)
    return rows


def _top_scalars(path: Path) -> dict[str, str]:
    """`key: text` lines without indentation; a fast stand-in for a YAML parser, for lists only."""
    head = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        key, colon, value = line.partition(":")
        if colon and key and not key[0].isspace() and not line.startswith("#"):
            head[key] = value.strip().strip("\"'")
    return head


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
        if is_photos(with_home(name)):
            task = photo_task(with_home(name), files)
            return [NamedTask(task.task, task)]
        if is_folder(with_home(name)):
            return self._libraries()[0].in_folder(with_home(name), where)
        matches = {
            task_name: path for task_name, path in files.items() if fnmatchcase(task_name, name)
        }
        if matches:
            own = [self._in_file(known, path, where) for known, path in matches.items()]
            return [*chain.from_iterable(own), *self._fitting(name, matches, where)]
        if self.folders:
            return self._libraries()[0].find(name, where)  # says what is known
        if is_pattern(name):
            raise UsageError(f"{where}  task {name!r}: patterns need --include-path.".lstrip())
        raise UnknownName("task", name, files, "fieldmark tasks", where)

    def _fitting(self, pattern: str, present: Container[str], where: str) -> list[NamedTask]:
        """Tasks of the folders that a pattern fits: none that is called as a known one."""
        try:
            theirs = self._libraries()[0].find(pattern, where) if self.folders else []
        except UnknownName:  # none
            return []
        return [task for task in theirs if task.task.task not in present]

    def rows(self) -> list[dict[str, str]]:
        """Name, title, dataset and metric of all tasks, groups and tags of the folders."""
        return [row for library in self._libraries() for row in library.rows()]

    def _in_file(self, name: str, path: Path, where: str) -> list[NamedTask]:
        if is_file(path) and not _has_our_keys(path):
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
        raise UsageError(f"task {name!r} means {len(tasks)} tasks: name one.")
    return tasks[0].task


def register_task(path: Path | str) -> str:
    """Makes the task in the file known by its name, which is returned."""
    name = str(load_task(str(path)).task)
    _added[name] = Path(path)
    return name
