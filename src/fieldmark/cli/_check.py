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
from fieldmark.protocols import Checked, Rendered, check_files, render_documents
from fieldmark.source_lines import read_text
from fieldmark.tasks.lmms import LEVELS, Problem, Trust, problems_of, told_once, yaml_files

if TYPE_CHECKING:
    from fieldmark.cli.check import Args

MANY = 50
"""files from which on it is told how far the work is, and how long it took"""
_ENDINGS = (".yaml", ".yml")
_TASK_KEY = re.compile(rb"^(task|group|include|dataset|dataset_path)[ \t]*:", re.MULTILINE)
_HEAD = 2**16
"""bytes of a file in which a task would show"""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known after all checks."""

    problems: tuple[Problem, ...]
    code: int
    """exit code"""
    checked: Checked | None = None
    """of the task files"""
    rendered: tuple[Rendered, ...] = ()
    seconds: float = 0.0


def check_paths(args: Args) -> Found:
    start = time.monotonic()
    for path in args.path:
        if not path.exists():
            read_text(path)  # says so, with the closest name
    tasks = [path for path in args.path if not args.dataset and _holds_tasks(path)]
    checked = _check_tasks(args, tasks) if tasks else None
    problems = list(checked.problems) if checked else []
    codes = [2] if _has_errors(problems) else []
    rendered = list(_render(args, checked)) if checked and args.data else []
    of_data = [each for one in rendered for each in one.problems]
    codes += [3] if _has_errors(of_data) else []
    others: list[Problem] = []
    for path in (each for each in args.path if each not in tasks):
        found, code = _check_other(args, path)
        others += found
        codes += [code] if code else []
    every = (*told_once([*problems, *of_data]), *others)
    return Found(every, min(codes, default=0), checked, tuple(rendered), time.monotonic() - start)


def _has_errors(problems: Iterable[Problem]) -> bool:
    return any(each.level == "error" for each in problems)


def _check_tasks(args: Args, paths: Sequence[Path]) -> Checked:
    folders = [path if path.is_dir() else path.parent for path in paths]
    trust = Trust.of(*folders, *_include_path(args))
    files = list(_files(paths))
    code_s = 0.0 if args.no_code else args.code_s
    with for_people(quiet=len(files) < MANY) as progress:
        return check_files(files, trust, code_s, set(files) - set(paths), progress)


def _include_path(args: Args) -> tuple[Path, ...]:
    from fieldmark.settings import load_settings

    return (*args.include_path, *load_settings().include_path)


def _render(args: Args, checked: Checked) -> Iterator[Rendered]:
    from fieldmark.settings import load_settings

    settings = load_settings()
    fetch = args.fetch or settings.may_fetch
    files = [each for each in checked.files if each.task is not None]
    with for_people(quiet=len(files) < MANY) as progress:
        progress.start("documents of tasks", len(files))
        for file in files:
            assert file.task is not None
            found = render_documents(file.task, args.n_documents, settings.cache, fetch)
            told = tuple(each.found_in(file.path) for each in found.problems)
            yield replace(found, problems=told)
            progress.advance()


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Each file once; folders whose name starts with a dot are other programs'."""
    seen: set[Path] = set()
    for path in paths:
        below = yaml_files([path]) if path.is_dir() else [path]
        for each in below:
            is_hidden = path.is_dir() and _is_hidden(each.relative_to(path).parent)
            if not is_hidden and each.resolve() not in seen:
                seen.add(each.resolve())
                yield each


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
    from fieldmark.data.folder import is_image

    return any(is_image(name) for _, _, names in os.walk(folder) for name in names)


def _check_other(args: Args, path: Path) -> tuple[list[Problem], int]:
    """Experiments, tables and folders of images; what is wrong is an error of its own kind."""
    try:
        problems = list(_look(args, path))
    except FieldmarkError as error:
        if args.debug:
            raise
        return problems_of(error, "key", ""), error.exit_code
    return problems, 3 if any(each.level == "error" for each in problems) else 0


def _look(args: Args, path: Path) -> Iterator[Problem]:
    if path.suffix.lower() == ".toml":
        from fieldmark.experiments import read_grid

        for note in read_grid(path, _include_path(args)).notes:
            yield Problem("note", "experiment", "", note)
        return
    from fieldmark.data import load_dataset

    guess = "csv" if path.is_file() else "folder"
    for finding in load_dataset(args.dataset or guess).check(path):
        level = next(each for each in LEVELS if each == finding.level)
        yield Problem(level, "data", "", finding.text)
