"""Checking task files: which of these files are wrong, and where?

Files in fieldmark's own form and in lmms-eval's alike, from a single one to a checkout of
thousands. Offline: no network, and of data only the tables of fieldmark's own tasks; the code of
tasks is imported in processes of its own, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from fieldmark.data import Contents
from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.lmms.check.code import code_problems, name_problems
from fieldmark.lmms.check.task import group_problems
from fieldmark.lmms.check.task import task_problems as problems_of_task
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.data.open import missing_datasets
from fieldmark.lmms.read.files import Index, IndexEntry, index_folders, kind_of, read_document_file
from fieldmark.lmms.read.groups import expand_file, make_group, make_task
from fieldmark.progress import Progress, Silent
from fieldmark.protocols import Workspace, check_data, task_problems
from fieldmark.registry import is_file_reference, resolve_reference, without_code
from fieldmark.settings import Settings
from fieldmark.source_lines import Located, SchemaError
from fieldmark.tasks import (
    CheckedFile,
    CheckedFiles,
    Problem,
    Task,
    load_own_task,
    merge_problems,
    problems_of,
    yaml_files,
)


def check_files(
    paths: Sequence[Path],
    trust: Trust,
    settings: Settings,
    code_s: float = 0.0,
    others: Container[Path] = (),
    progress: Progress | None = None,
) -> CheckedFiles:
    """What is wrong with them. `settings` say where data are. `code_s`: seconds that importing a
    file of code may take; 0 = no code is imported.

    Files of `others` that have no key of a task are somebody else's: they are counted, no more.
    """
    progress, workspace = progress or Silent(), Workspace(settings, Contents(None))
    files: list[CheckedFile] = []
    problems: list[Problem] = []
    progress.start("task files", len(paths))
    with nullcontext() if code_s else without_code():
        for path in paths:
            file, file_problems = _check_file(path, trust, workspace, path in others)
            files.append(file)
            progress.advance()
            problems.extend(problem.found_in(path) for problem in file_problems)
    problems.extend(_missing_package(files))
    problems.extend(_duplicates(files))
    problems.extend(_group_problems(files, trust))
    failing = None
    functions = {file.path: file.task.functions for file in files if file.task is not None}
    if not code_s:
        problems.extend(name_problems(functions, trust))
    else:
        progress.start("code of tasks", len(functions))
        code = list(code_problems(functions, trust, code_s))
        failing = frozenset(path for problem in code for path in problem.files)
        problems.extend(code)
    return CheckedFiles(tuple(files), tuple(merge_problems(problems)), failing)


def _missing_package(files: Sequence[CheckedFile]) -> Iterator[Problem]:
    tasks = [file for file in files if file.task is not None]
    if tasks and (missing := missing_datasets()):
        paths = tuple(file.path for file in tasks)
        yield Problem("warning", "package", tasks[0].place, str(missing), paths)


def _check_file(
    path: Path, trust: Trust, workspace: Workspace, is_other: bool
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
        problems, seen = _own_problems(path, trust, workspace)
        return replace(file, seen=seen), problems
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
            return replace(file, task=task), list(problems_of_task(task))
        if file.kind == "abstract":
            make_task(replace(located, data={**located.data, "task": file.path.stem}), trust)
    except FieldmarkError as error:
        return file, problems_of(error, "key", str(file.path))
    return file, []


def _own_problems(path: Path, trust: Trust, workspace: Workspace) -> tuple[list[Problem], str]:
    """What is wrong with the file as it is, and with each variant's keys in place; and what its
    data hold.
    """
    problems, seen, variants = _problems_as(str(path), path, trust, workspace)
    for variant in variants:
        problems += _problems_as(f"{path}@{variant}", path, trust, workspace)[0]
    return problems, seen


def _problems_as(
    name: str, path: Path, trust: Trust, workspace: Workspace
) -> tuple[list[Problem], str, Collection[str]]:
    """The problems of one form of the task, what its data hold, and its variants.

    Where code may run, looking up the names of a task runs the files of Python among them: not
    from anywhere.
    """
    mistakes: list[SchemaError] = []
    try:
        task = load_own_task(name, mistakes=mistakes)
    except FieldmarkError as error:
        return problems_of(error, "key", str(path)), "", ()
    problems = [one for error in mistakes for one in problems_of(error, "key", str(path))]
    outside = f"outside the folders whose code may run ({trust.words()}): name its folder too."
    code = [(where, file) for where, file in _code_of(task) if not trust.allows(file)]
    if code:
        problems += _parsed([f"{where}  {file} lies {outside}" for where, file in code], path)
        return problems, "", task.variants
    problems += _parsed(task_problems(task), path)
    wrong = {key for error in mistakes for key in error.keys}
    of_data, seen = check_data(task, workspace, wrong)
    problems += [replace(problem, place=problem.place or str(path)) for problem in of_data]
    return problems, seen, task.variants


def _parsed(lines: Sequence[str], path: Path) -> list[Problem]:
    errors = [UsageError(line) for line in dict.fromkeys(lines)]
    return [problem for error in errors for problem in problems_of(error, "key", str(path))]


def _code_of(task: Task) -> Iterator[tuple[str, Path]]:
    """The files of Python that the task names, and where it does."""
    for key, name in task.references().items():
        if is_file_reference(name):
            with suppress(UsageError):  # it is not there: told where names are looked up
                yield task.line_of(*key), resolve_reference(name)[0]


def _duplicates(files: Sequence[CheckedFile]) -> Iterator[Problem]:
    by_name: dict[str, list[CheckedFile]] = {}
    for file in files:
        if file.name and file.kind in ("task", "group", "own", "python"):
            by_name.setdefault(file.name, []).append(file)
    for name, (original, *further) in by_name.items():
        for second in further:
            word = "group" if second.kind == "group" else "task"
            text = f"{word} {name!r} is defined in {original.place} too: rename one."
            yield Problem("error", "name", second.place, text, (original.path, second.path))


def _group_problems(files: Sequence[CheckedFile], trust: Trust) -> Iterator[Problem]:
    """Members that are not there, keys that do not fit them, averages over nothing.

    What is wrong with a member's own file is told there.
    """
    groups = [file for file in files if file.group is not None]
    if not groups:
        return
    index = _index(files, trust)
    checked_files = {str(file.path) for file in files}
    for file in groups:
        try:
            expanded = expand_file(index, file.path, trust)
        except FieldmarkError as error:
            for problem in problems_of(error, "group", file.place):
                if problem.file == str(file.path) or problem.file not in checked_files:
                    yield problem.found_in(file.path)
        else:
            yield from (problem.found_in(file.path) for problem in group_problems(expanded))


def _index(files: Sequence[CheckedFile], trust: Trust) -> Index:
    """The names that groups may use: of all files at hand, and of trusted folders besides."""
    entries = []
    for file in files:
        tags = (*file.task.tag, *file.task.group) if file.task is not None else ()
        if file.kind in ("task", "group", "own", "python"):
            entries.append(IndexEntry(file.name, file.kind, file.path, tags))  # type: ignore[arg-type]
    seen = {file.path.resolve() for file in files}
    if all(path.resolve() in seen for path in yaml_files(trust.folders)):
        return Index(trust.folders, tuple(entries))
    around = index_folders(list(trust.folders), trust).entries
    further = [entry for entry in around if entry.path.resolve() not in seen]
    return Index(trust.folders, (*entries, *further))
