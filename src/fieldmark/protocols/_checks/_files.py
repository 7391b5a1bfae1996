"""Which of these task files are wrong, and where?

Files in fieldmark's own form and in lmms-eval's alike, from a single one to a checkout of
thousands. Offline: neither data nor network; the code of tasks is imported in processes of its own,
or not at all.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.progress import Progress, Silent
from fieldmark.protocols._check import task_problems
from fieldmark.protocols._checks._names import group_problems, name_problems
from fieldmark.registry import is_file_reference, resolve_reference
from fieldmark.source_lines import Located
from fieldmark.tasks import Task, load_own_task
from fieldmark.tasks.lmms import (
    DocumentTask,
    Entry,
    Function,
    Group,
    Index,
    Problem,
    Trust,
    code_problems,
    expand_file,
    field_problems,
    functions_of,
    index_folders,
    kind_of,
    make_group,
    make_task,
    problems_of,
    read_document_file,
    told_once,
    yaml_files,
)


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a file is, and its task or group where that can be loaded."""

    path: Path
    kind: str
    """task, group, python, abstract (a template), own, other (no task), unread"""
    name: str = ""
    place: str = ""
    """`file:line` of the name"""
    task: DocumentTask | None = None
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    files: tuple[CheckedFile, ...]
    problems: tuple[Problem, ...]
    """equal ones told once; errors first"""
    failing: frozenset[Path] | None = None
    """files of tasks whose code does not import here; None = nobody tried"""

    @property
    def tasks(self) -> list[CheckedFile]:
        return [each for each in self.files if each.kind == "task"]

    def imports(self, file: CheckedFile) -> bool | None:
        """Does all code of the task in this file import? None = nobody tried."""
        if self.failing is None or file.task is None:
            return None
        return file.path not in self.failing


def check_files(
    paths: Sequence[Path],
    trust: Trust,
    code_s: float = 0.0,
    others: Container[Path] = (),
    progress: Progress | None = None,
) -> Checked:
    """`code_s`: seconds that importing a file of code may take; 0 = no code is imported.

    Files of `others` that have no key of a task are somebody else's: they are counted, no more.
    """
    progress = progress or Silent()
    files: list[CheckedFile] = []
    problems: list[Problem] = []
    progress.start("task files", len(paths))
    for path in paths:
        file, found = _look(path, trust, path in others, bool(code_s))
        files.append(file)
        progress.advance()
        problems.extend(each.found_in(path) for each in found)
    problems.extend(_duplicates(files))
    problems.extend(_groups(files, trust))
    failing = None
    if code_s:
        functions = _functions(files)
        progress.start("code of tasks", len(functions))
        code = list(code_problems(functions, trust, code_s))
        failing = frozenset(path for each in code for path in each.files)
        problems.extend(code)
    return Checked(tuple(files), tuple(told_once(problems)), failing)


def _functions(files: Iterable[CheckedFile]) -> dict[Path, list[Function]]:
    return {each.path: functions_of(each.task) for each in files if each.task is not None}


def _look(
    path: Path, trust: Trust, is_other: bool, with_code: bool
) -> tuple[CheckedFile, list[Problem]]:
    """What the file is, and what is wrong with it by itself."""
    try:
        located = read_document_file(path, trust)
        kind = kind_of(located)
    except FieldmarkError as error:
        return CheckedFile(path, "unread"), problems_of(error, "read", str(path))
    if kind == "own" and is_other and not located.data.keys() & {"task", "dataset"}:
        return CheckedFile(path, "other"), []
    key = "group" if kind == "group" else "task"
    name = located.data.get(key)
    file = CheckedFile(path, kind, name if isinstance(name, str) else "", located.where((key,)))
    if kind == "own":
        return file, _own_problems(path, trust, with_code)
    if kind == "python":
        text = "is a task written as a Python class: fieldmark does not run it."
        return file, [Problem("note", "not run", located.where(("class",)), text)]
    return _validated(file, located, trust)


def _validated(
    file: CheckedFile, located: Located, trust: Trust
) -> tuple[CheckedFile, list[Problem]]:
    try:
        if file.kind == "group":
            return replace(file, group=make_group(located)), []
        if file.kind == "task":
            task = make_task(located, trust)
            problems = [*field_problems(task), *name_problems(task)]
            return replace(file, task=task), problems
        if file.kind == "abstract":
            make_task(replace(located, data={**located.data, "task": file.path.stem}), trust)
    except FieldmarkError as error:
        return file, problems_of(error, "key", str(file.path))
    return file, []


def _own_problems(path: Path, trust: Trust, with_code: bool) -> list[Problem]:
    """The file as it is, and with each variant's keys in place.

    Looking up the names of a task runs the files of Python among them: not from anywhere.
    """
    try:
        task = load_own_task(str(path))
        every = [task, *(load_own_task(f"{path}@{variant}") for variant in task.variants)]
    except FieldmarkError as error:
        return problems_of(error, "key", str(path))
    code = [each for task in every for each in _code_of(task)]
    told = f"outside the folders whose code may run ({trust.words()}): name its folder too."
    lines = [f"{place}  {file} lies {told}" for place, file in code if not trust.allows(file)]
    if not lines and (with_code or not code):
        lines = [line for each in every for line in task_problems(each)]
    unique = dict.fromkeys(lines)
    return [each for line in unique for each in problems_of(UsageError(line), "key", str(path))]


def _code_of(task: Task) -> Iterator[tuple[str, Path]]:
    """The files of Python that the task names, and where it does."""
    named: dict[tuple[str | int, ...], str] = {
        ("dataset",): task.dataset,
        ("metric",): task.metric,
        **{("also", index): each for index, each in enumerate(task.also)},
    }
    if task.probe is not None:
        named["probe", "classifier"] = task.probe.classifier
    for key, name in named.items():
        if is_file_reference(name):
            yield task.place_of(*key), resolve_reference(name)[0]


def _duplicates(files: Sequence[CheckedFile]) -> Iterator[Problem]:
    by_name: dict[str, list[CheckedFile]] = {}
    for file in files:
        if file.name and file.kind in ("task", "group", "own", "python"):
            by_name.setdefault(file.name, []).append(file)
    for name, found in by_name.items():
        for second in found[1:]:
            first = found[0]
            word = "group" if second.kind == "group" else "task"
            text = f"{word} {name!r} stands in {first.place} too: rename one."
            yield Problem("error", "name", second.place, text, (first.path, second.path))


def _groups(files: Sequence[CheckedFile], trust: Trust) -> Iterator[Problem]:
    """Members that are not there, keys that do not fit them, averages over nothing.

    What is wrong with a member's own file is told there.
    """
    groups = [each for each in files if each.group is not None]
    if not groups:
        return
    index = _index(files, trust)
    known = {str(each.path) for each in files}
    for file in groups:
        try:
            expanded = expand_file(index, file.path, trust)
        except FieldmarkError as error:
            for each in problems_of(error, "group", file.place):
                if each.file == str(file.path) or each.file not in known:
                    yield each.found_in(file.path)
        else:
            yield from (each.found_in(file.path) for each in group_problems(expanded))


def _index(files: Sequence[CheckedFile], trust: Trust) -> Index:
    """The names that groups may use: of all files at hand, and of trusted folders besides."""
    entries = [_entry(each) for each in files if each.kind in ("task", "group", "own", "python")]
    seen = {each.path.resolve() for each in files}
    if all(path.resolve() in seen for path in yaml_files(trust.folders)):
        return Index(trust.folders, tuple(entries))
    around = index_folders(list(trust.folders), trust).entries
    every = [*entries, *(each for each in around if each.path.resolve() not in seen)]
    return Index(trust.folders, tuple(every))


def _entry(file: CheckedFile) -> Entry:
    tags = (*file.task.tag, *file.task.group) if file.task is not None else ()
    return Entry(file.name, file.kind, file.path, tags)  # type: ignore[arg-type]
