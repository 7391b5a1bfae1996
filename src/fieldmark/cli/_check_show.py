"""How are the findings of `fieldmark check` told, to people and to programs?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark.cli._check import MANY, Findings, fold
from fieldmark.cli._show import counted, talk
from fieldmark.tasks import LEVELS

if TYPE_CHECKING:
    from pathlib import Path

    from fieldmark.cli.check import CheckArgs
    from fieldmark.tasks import CheckedFiles, Problem, RenderedTask

_FORMS = {
    "task": "task",
    "group": "group",
    "own": "fieldmark task",
    "abstract": "template",
    "python": "Python task",
    "other": "other YAML file",
    "unread": "unreadable file",
}
_MOST_PER_FILE = 20
_WIDEST = 400
"""characters shown of a text; `--json` has all"""


def show(args: CheckArgs, findings: Findings) -> None:
    for task in findings.rendered:
        _show_rendered(task)
    for text in _lines(fold(findings.problems)):
        print(text)
    paths = ", ".join(map(str, args.path))
    talk(_printable(f"{paths}  {_summary(findings)}"))


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
            yield _printable(f"note  {file}  {more}: `--json` has all.")


def _line(problem: Problem) -> str:
    """`level  file:line  text`, and in how many files an included line was met."""
    where = f"{problem.place}  " if problem.place else ""
    n = len(problem.files)
    text = f"{problem.text} ({n:,} files)" if n > 1 and problem.kind != "name" else problem.text
    return _printable(f"{problem.level}  {where}{text}")


def _printable(text: str) -> str:
    """On one line, without what would move the cursor or colour the screen."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _summary(findings: Findings) -> str:
    """What was looked at, what was found, how long it took."""
    checked = findings.checked
    levels = Counter(problem.level for problem in fold(findings.problems))
    words = [counted(levels[level], level) for level in LEVELS]
    if checked is None or len(checked.files) < 2:
        n = counted(sum(levels.values()), "finding")
        return f"{n}." if levels else "is fine."
    kinds = Counter(file.kind for file in checked.files)
    looked = ", ".join(counted(kinds[kind], _FORMS[kind]) for kind in _FORMS if kinds[kind])
    took = f" ({findings.seconds:.1f} s)" if len(checked.files) >= MANY else ""
    return f"{looked}: {', '.join(words)}{took}.{_code_words(checked)}"


def _code_words(checked: CheckedFiles) -> str:
    if checked.failing is None or not checked.tasks:
        return ""
    n = sum(checked.imports(file) is True for file in checked.tasks)
    return f" The code of {n:,} of {counted(len(checked.tasks), 'task')} imports here."


def _show_rendered(task: RenderedTask) -> None:
    """Each text on one line, so that a row of the data is a few lines."""
    for start, text in task.show():
        flat = _printable(text.replace("\n", "⏎ "))
        print(_printable(start) + (flat if len(flat) <= _WIDEST else f"{flat[: _WIDEST - 1]}…"))


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
            "problems": by_file.get(file.path, []),
        }
        for file in checked.files
    ]
