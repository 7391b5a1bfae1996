"""Check photos, task files or experiment files. Runs nothing.

examples:
  fieldmark check my_task.yaml
  fieldmark check lmms-eval/lmms_eval/tasks --json > problems.json
  fieldmark check my_task.yaml --data folder=photos
  fieldmark check tasks/ --n-documents 2 --run-code
  fieldmark check grid.toml
  fieldmark check photos/
  fieldmark check obs.csv --label species --unit camera
  fieldmark check data/newt --dataset newt
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli.flags import Common, DataFlags, check_least
from fieldmark.cli.show import counted, print_json, show, show_sentence, talk
from fieldmark.errors import FieldmarkError, MissingExtra, UsageError, readable
from fieldmark.progress import for_people
from fieldmark.source_lines import read_text
from fieldmark.tasks import (
    LEVELS,
    AnyTask,
    CheckedFiles,
    Level,
    Problem,
    RenderedTask,
    TaskReader,
    holds_tasks,
    load_own_task,
    merge_problems,
    problems_of,
    task_readers,
    yaml_files,
)
from fieldmark.words import printable


@dataclass(frozen=True, slots=True)
class CheckArgs:
    path: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH…", help_behavior_hint="")]
    """.yaml tasks and folders of them (fieldmark's own or lmms-eval's), .toml experiments, or
    labelled photos as `fieldmark try` takes them: a folder, a table (.csv)"""
    image: str = ""
    """of a table of photos: the column that names the photo"""
    label: str = ""
    """the column that names the label"""
    unit: str = ""
    """the column that names the camera, site or individual"""
    label_part: Annotated[int, arg(metavar="N", help_behavior_hint="")] = 0
    """which folder names the label, where folders of photos lie in folders: 1 is the outermost"""
    dataset: str = ""
    """read the data as this dataset [labelled photos]"""
    n_documents: Annotated[int, arg(metavar="N")] = 0
    """for tasks in lmms-eval's format: open the data and show this many prompts of each"""
    fetch: bool = False
    """allow --n-documents to download datasets"""
    include_path: Annotated[UseAppendAction[tuple[Path, ...]], arg(metavar="FOLDER")] = ()
    """a further folder whose files tasks may include, and whose code they may run"""
    run_code: bool = False
    """run the code that tasks name, in separate processes without network and keys"""
    code_s: float = 30.0
    """seconds that importing one file of code may take"""
    json: bool = False
    """print JSON: counts, and the problems by file and by kind"""
    common: DataFlags = Common()


def run(args: CheckArgs) -> int:
    from fieldmark.registry import without_code

    if not args.path:
        raise UsageError(
            "nothing to check: give files or folders, for example `fieldmark check my_task.yaml`."
        )
    check_least("--n-documents", args.n_documents, 0)
    if args.code_s <= 0:
        raise UsageError(
            f"--code-s {args.code_s:g}: expected more than 0 (it is used with --run-code)."
        )
    with nullcontext(set[Path]()) if args.run_code else without_code() as not_run:
        findings = check_paths(args)
    if args.json:
        print_json(as_json(args, findings))
    else:
        show_findings(args, findings)
        if not_run:
            names = ", ".join(sorted({path.name for path in not_run}))
            talk(f"not run: {names} (`--run-code` runs and checks such files).")
    return findings.code


# --- the linter ---

MANY = 50
"""files from which on it is told how far the work is, and how long it took"""
_FORMS = {
    "task": "task",
    "group": "group",
    "own": "fieldmark task",
    "abstract": "template",
    "python": "Python task",
    "other": "other YAML file",
    "unread": "unreadable file",
}
_PHOTO_LEVELS: dict[str, Level] = {"unreadable": "error", "duplicate": "note", "burst": "note"}
"""what a finding about photos is; the others are warnings"""
_MOST_PER_FILE = 20
_WIDEST = 400
"""characters shown of a text; `--json` has all"""


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
    seen: str = ""
    """what the data hold, in words, where one thing was checked"""


def check_paths(args: CheckArgs) -> Findings:
    start = time.monotonic()
    for path in args.path:
        if not path.exists():
            read_text(path)  # says so, with the closest name
    tasks = [path for path in args.path if not args.dataset and holds_tasks(path)]
    codes: list[int] = []
    problems: list[Problem] = []
    rendered: list[RenderedTask] = []
    checked = None
    if tasks:
        reader = task_readers()[0]
        checked = _check_tasks(args, reader, tasks)
        problems += checked.problems
        codes += _codes_of(checked)
        for task, of_data in _render(args, reader, checked) if args.n_documents else ():
            rendered.append(task)
            problems += of_data
            codes += [_code_of_data(of_data)] if _has_errors(of_data) else []
    _check_names(args, checked)
    seen = [file.seen for file in checked.files] if checked else []
    others: list[Problem] = []
    for path in (path for path in args.path if path not in tasks):
        of_path, code, holds = _check_other(args, path)
        others += of_path
        codes += [code] if code else []
        seen.append(holds)
    every = (*merge_problems(problems), *others)
    seconds = time.monotonic() - start
    only = seen[0] if len(seen) == 1 and not codes else ""
    return Findings(every, min(codes, default=0), checked, tuple(rendered), seconds, only)


def _codes_of(checked: CheckedFiles) -> Iterator[int]:
    """As a run would end: 3 where only the data of a task are wrong, 2 where its file is."""
    own_files = {file.path for file in checked.files if file.kind == "own"}
    for problem in checked.problems:
        if problem.level == "error":
            yield 3 if problem.kind == "data" and own_files.issuperset(problem.files) else 2


def _code_of_data(problems: Iterable[Problem]) -> int:
    """As a run would end."""
    return MissingExtra.exit_code if any(one.kind == "package" for one in problems) else 3


def _check_names(args: CheckArgs, checked: CheckedFiles | None) -> None:
    """A name in --data that is neither a dataset's nor a task's would have no effect."""
    from fieldmark.experiments import check_dataset_name, read_grid

    tasks: list[AnyTask] = []
    with suppress(FieldmarkError):  # it is told as a problem of its file
        for file in checked.files if checked and args.common.data else ():
            tasks += [load_own_task(str(file.path), mistakes=[])] if file.kind == "own" else []
        for path in args.path if args.common.data else ():
            if path.suffix.lower() == ".toml":
                tasks += [job.task for job in read_grid(path, _include_path(args)).jobs]
    for text in args.common.data:
        check_dataset_name(text.partition("=")[0], tasks, f"--data {text}")


def _has_errors(problems: Iterable[Problem]) -> bool:
    return any(problem.level == "error" for problem in problems)


def _check_tasks(args: CheckArgs, reader: TaskReader, paths: Sequence[Path]) -> CheckedFiles:
    folders = [path if path.is_dir() else path.parent for path in paths]
    files = list(_files(paths))
    code_s, settings = args.code_s if args.run_code else 0.0, args.common.settings()
    with for_people(quiet=len(files) < MANY) as progress:
        others = set(files) - set(paths)
        return reader.check(
            files, [*folders, *_include_path(args)], settings, code_s, others, progress
        )


def _include_path(args: CheckArgs) -> tuple[Path, ...]:
    return (*args.include_path, *args.common.settings().include_path)


def _render(
    args: CheckArgs, reader: TaskReader, checked: CheckedFiles
) -> Iterator[tuple[RenderedTask, list[Problem]]]:
    settings = args.common.settings()
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
            inner = file.relative_to(path).parts[:-1] if path.is_dir() else ()
            is_hidden = any(part.startswith(".") for part in inner)
            if not is_hidden and file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _check_other(args: CheckArgs, path: Path) -> tuple[list[Problem], int, str]:
    """Experiments, tables and folders of images; what is wrong is an error of its own kind."""
    try:
        if path.suffix.lower() == ".toml":
            problems, seen = _grid_problems(args, path), ""
        else:
            problems, seen = _data_problems(args, path)
    except FieldmarkError as error:
        if args.common.debug:
            raise
        return problems_of(error, "key", ""), error.exit_code, ""
    return problems, 3 if _has_errors(problems) else 0, seen


def _grid_problems(args: CheckArgs, path: Path) -> list[Problem]:
    """The notes of an experiment, and why its jobs could not have their data."""
    from fieldmark.experiments import data_errors, read_grid, replace_data
    from fieldmark.protocols import as_problems

    grid = read_grid(path, _include_path(args))
    problems = [Problem("note", "experiment", "", note) for note in grid.notes]
    for error in data_errors(grid.jobs, replace_data(args.common.settings(), grid.data)):
        problems += as_problems(error)
    return merge_problems(problems)


def _photo_problems(args: CheckArgs, path: Path) -> tuple[list[Problem], str]:
    """What `fieldmark try` says about somebody's photos, without trying a model."""
    from fieldmark.data.read.own_formats import read_photos
    from fieldmark.data.read.own_photos import Columns
    from fieldmark.tryout.survey import look_at
    from fieldmark.tryout.words import tell_counts, tell_single

    photos = read_photos(path, Columns(args.image, args.label, args.unit, args.label_part))
    with for_people(quiet=len(photos.table) < MANY) as progress:
        survey = look_at(photos, args.common.settings(), progress)
    problems = [
        Problem(_PHOTO_LEVELS.get(finding.kind, "warning"), "data", "", finding.text)
        for finding in survey.audit.findings
    ]
    if survey.in_one_unit:
        problems.append(Problem("warning", "data", "", tell_single(survey)))
    if len(survey.counts) < 2:
        problems.append(Problem("error", "data", "", survey.too_little))
    return problems, " ".join(tell_counts(survey)).rstrip(".")


def _data_problems(args: CheckArgs, path: Path) -> tuple[list[Problem], str]:
    from fieldmark.data import load_dataset, rows_seen

    if not args.dataset:
        return _photo_problems(args, path)
    dataset = load_dataset(args.dataset)
    levels: dict[str, Level] = {level: level for level in LEVELS}
    findings = dataset.check(path)
    problems = [Problem(levels[finding.level], "data", "", finding.text) for finding in findings]
    return problems, "" if _has_errors(problems) else rows_seen(dataset.table(path))


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


def show_findings(args: CheckArgs, findings: Findings) -> None:
    for task in findings.rendered:
        _show_rendered(task)
    for text in _lines(fold(findings.problems)):
        show_sentence(text)
    paths = ", ".join(map(str, args.path))
    talk(printable(f"{paths}  {_summary(findings)}"))


def _lines(problems: Iterable[Problem]) -> Iterator[str]:
    """A line each; of a file with very many the first, and their number."""
    counts: Counter[str] = Counter()
    for problem in problems:
        counts[problem.file] += 1
        if counts[problem.file] <= _MOST_PER_FILE or not problem.file:
            yield _line(problem)
    for file, n in counts.items():
        if file and n > _MOST_PER_FILE:
            more = counted(n - _MOST_PER_FILE, "more finding")
            yield printable(f"note  {file}: {more}: `--json` shows all.")


def _line(problem: Problem) -> str:
    """`level  file:line: text`, and in how many files an included line was met."""
    where = f"{problem.place}  " if problem.place else ""
    n = len(problem.files)
    text = f"{problem.text} ({n:,} files)" if n > 1 and problem.kind != "name" else problem.text
    return printable(f"{problem.level}  {readable(where + text)}")


def _summary(findings: Findings) -> str:
    """What was looked at, what was found, how long it took."""
    checked = findings.checked
    levels = Counter(problem.level for problem in fold(findings.problems))
    counts = [counted(levels[level], level) for level in LEVELS]
    if checked is None or len(checked.files) < 2:
        result = counted(sum(levels.values()), "finding") if levels else "is fine"
        end = "." if ":" in findings.seen else ":"
        return f"{result}{end} {findings.seen}." if findings.seen else f"{result}."
    kinds = Counter(file.kind for file in checked.files)
    looked = ", ".join(counted(kinds[kind], _FORMS[kind]) for kind in _FORMS if kinds[kind])
    took = f" ({findings.seconds:.1f} s)" if len(checked.files) >= MANY else ""
    return f"{looked}: {', '.join(counts)}{took}.{_code_words(checked)}"


def _code_words(checked: CheckedFiles) -> str:
    if checked.failing is None or not checked.tasks:
        return ""
    n = sum(checked.imports(file) is True for file in checked.tasks)
    return f" The code of {n:,} of {counted(len(checked.tasks), 'task')} can be imported here."


def _show_rendered(task: RenderedTask) -> None:
    """Each text on one line, so that a row of the data is a few lines."""
    for start, text in task.show():
        flat = printable(text.replace("\n", "⏎ "))
        show(printable(start) + (flat if len(flat) <= _WIDEST else f"{flat[: _WIDEST - 1]}…"))


def as_json(args: CheckArgs, findings: Findings) -> dict[str, Any]:
    problems, checked = findings.problems, findings.checked
    levels = Counter(problem.level for problem in problems)
    kinds: dict[str, Counter[str]] = {}
    for problem in problems:
        kinds.setdefault(problem.kind, Counter())[problem.level] += 1
    return {
        "paths": [str(path) for path in args.path],
        "ok": findings.code == 0,
        "levels": {level: levels[level] for level in LEVELS},
        "kinds": {kind: dict(counts) for kind, counts in sorted(kinds.items())},
        "problems": [_problem_json(problem) for problem in problems],
        "files": [] if checked is None else _files_json(checked, problems),
        "documents": [task.plain() for task in findings.rendered],
    }


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "level": problem.level,
        "kind": problem.kind,
        "file": problem.file,
        "line": problem.line or None,
        "text": problem.text,
        "n_files": len(problem.files),
    }


def _files_json(checked: CheckedFiles, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """`problems` of a file are places in the list of all."""
    by_file: dict[Path, list[int]] = {}
    for number, problem in enumerate(problems):
        for path in problem.files:
            by_file.setdefault(path, []).append(number)
    return [
        {
            "file": str(file.path),
            "form": file.kind,
            "name": file.name,
            "ok": all(problems[n].level != "error" for n in by_file.get(file.path, ())),
            "imports": checked.imports(file),
            "seen": file.seen,
            "problems": by_file.get(file.path, []),
        }
        for file in checked.files
    ]
