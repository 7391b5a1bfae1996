"""Which kind of check does each path want, and what do all of them find together?"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.errors import FieldmarkError
from fieldmark.progress import for_people
from fieldmark.source_lines import read_text
from fieldmark.tasks import (
    LEVELS,
    CheckedFiles,
    Problem,
    RenderedTask,
    TaskReader,
    merge_problems,
    problems_of,
    task_readers,
    yaml_files,
)

if TYPE_CHECKING:
    from fieldmark.cli.check import CheckArgs

MANY = 50
"""files from which on it is told how far the work is, and how long it took"""
_ENDINGS = (".yaml", ".yml")
_TASK_KEY = re.compile(rb"^(task|group|include|dataset|dataset_path)[ \t]*:", re.MULTILINE)
_HEAD = 2**16
"""bytes of a file in which a task would show"""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known after all checks."""

    problems: tuple[Problem, ...]
    code: int
    """exit code"""
    checked: CheckedFiles | None = None
    """the task files"""
    rendered: tuple[RenderedTask, ...] = ()
    seconds: float = 0.0


def check_paths(args: CheckArgs) -> Findings:
    start = time.monotonic()
    for path in args.path:
        if not path.exists():
            read_text(path)  # says so, with the closest name
    tasks = [path for path in args.path if not args.dataset and _holds_tasks(path)]
    codes: list[int] = []
    problems: list[Problem] = []
    rendered: list[RenderedTask] = []
    checked = None
    if tasks:
        reader = task_readers()[0]
        checked = _check_tasks(args, reader, tasks)
        problems += checked.problems
        codes += [2] if _has_errors(checked.problems) else []
        for task, of_data in _render(args, reader, checked) if args.data else ():
            rendered.append(task)
            problems += of_data
            codes += [3] if _has_errors(of_data) else []
    others: list[Problem] = []
    for path in (path for path in args.path if path not in tasks):
        own, code = _check_other(args, path)
        others += own
        codes += [code] if code else []
    every = (*merge_problems(problems), *others)
    seconds = time.monotonic() - start
    return Findings(every, min(codes, default=0), checked, tuple(rendered), seconds)


def _has_errors(problems: Iterable[Problem]) -> bool:
    return any(problem.level == "error" for problem in problems)


def _check_tasks(args: CheckArgs, reader: TaskReader, paths: Sequence[Path]) -> CheckedFiles:
    folders = [path if path.is_dir() else path.parent for path in paths]
    files = list(_files(paths))
    code_s = 0.0 if args.no_code else args.code_s
    with for_people(quiet=len(files) < MANY) as progress:
        others = set(files) - set(paths)
        return reader.check(files, [*folders, *_include_path(args)], code_s, others, progress)


def _include_path(args: CheckArgs) -> tuple[Path, ...]:
    from fieldmark.settings import load_settings

    return (*args.include_path, *load_settings().include_path)


def _render(
    args: CheckArgs, reader: TaskReader, checked: CheckedFiles
) -> Iterator[tuple[RenderedTask, list[Problem]]]:
    from fieldmark.settings import load_settings

    settings = load_settings()
    fetch = args.fetch or settings.may_fetch
    files = [file for file in checked.files if file.task is not None]
    with for_people(quiet=len(files) < MANY) as progress:
        progress.start("documents of tasks", len(files))
        for file in files:
            task = reader.render(file.task, args.n_documents, settings.cache, fetch)
            yield task, [problem.found_in(file.path) for problem in task.problems]
            progress.advance()


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Each file once; folders whose name starts with a dot are other programs'."""
    seen: set[Path] = set()
    for path in paths:
        for file in yaml_files([path]) if path.is_dir() else [path]:
            is_hidden = path.is_dir() and _is_hidden(file.relative_to(path).parent)
            if not is_hidden and file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _is_hidden(folder: Path) -> bool:
    return any(part.startswith(".") for part in folder.parts)


def _holds_tasks(path: Path) -> bool:
    """A YAML file, or a folder with one below; among images it must look like a task."""
    if not path.is_dir():
        return path.suffix.lower() in _ENDINGS
    every = list(yaml_files([path]))
    return any(map(_looks_like_task, every)) or (bool(every) and not _has_images(path))


def _looks_like_task(path: Path) -> bool:
    try:
        if not path.is_file():  # a pipe would keep its reader waiting
            return False
        with path.open("rb") as file:
            return _TASK_KEY.search(file.read(_HEAD)) is not None
    except OSError:
        return False


def _has_images(folder: Path) -> bool:
    from fieldmark.data import is_image

    return any(is_image(name) for _, _, names in os.walk(folder) for name in names)


def _check_other(args: CheckArgs, path: Path) -> tuple[list[Problem], int]:
    """Experiments, tables and folders of images; what is wrong is an error of its own kind."""
    try:
        problems = list(_other_problems(args, path))
    except FieldmarkError as error:
        if args.debug:
            raise
        return problems_of(error, "key", ""), error.exit_code
    return problems, 3 if _has_errors(problems) else 0


def _other_problems(args: CheckArgs, path: Path) -> Iterator[Problem]:
    if path.suffix.lower() == ".toml":
        from fieldmark.experiments import read_grid

        for note in read_grid(path, _include_path(args)).notes:
            yield Problem("note", "experiment", "", note)
        return
    from fieldmark.data import load_dataset

    guess = "csv" if path.is_file() else "folder"
    for finding in load_dataset(args.dataset or guess).check(path):
        level = next(level for level in LEVELS if level == finding.level)
        yield Problem(level, "data", "", finding.text)


def fold(problems: Iterable[Problem]) -> list[Problem]:
    """Notes that say the same of many files are told at the first, with their number; so are
    warnings that say the same of several lines of one file.
    """
    folded: dict[tuple[str, ...], Problem] = {}
    for problem in problems:
        near = {"note": "", "warning": problem.file}.get(problem.level, problem.place)
        key = problem.level, problem.kind, problem.text, near
        files = folded[key].files if key in folded else ()
        every = tuple(dict.fromkeys((*files, *problem.files)))
        folded[key] = replace(folded.get(key, problem), files=every)
    return list(folded.values())
