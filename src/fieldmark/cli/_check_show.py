"""How are the findings of `fieldmark check` told, to people and to programs?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fieldmark.cli._check import MANY, Found
from fieldmark.cli._show import counted, talk

if TYPE_CHECKING:
    from pathlib import Path

    from fieldmark.cli.check import Args
    from fieldmark.lmms import Checked, Problem, Rendered, RenderedDocument

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


def show(args: Args, found: Found) -> None:
    for each in found.rendered:
        _show_rendered(each)
    for text in _lines(fold(found.problems)):
        print(text)
    paths = ", ".join(map(str, args.path))
    talk(_printable(f"{paths}  {_summary(found)}"))


def _lines(problems: Iterable[Problem]) -> Iterator[str]:
    """A line each; of a file with very many the first, and their number."""
    n_told: Counter[str] = Counter()
    for each in problems:
        n_told[each.file] += 1
        if n_told[each.file] <= _MOST_PER_FILE or not each.file:
            yield line(each)
    for file, n in n_told.items():
        if file and n > _MOST_PER_FILE:
            more = counted(n - _MOST_PER_FILE, "more finding")
            yield _printable(f"note  {file}  {more}: `--json` has all.")


def line(problem: Problem) -> str:
    """`level  file:line  text`, and in how many files an included line was met."""
    where = f"{problem.place}  " if problem.place else ""
    n = len(problem.files)
    text = f"{problem.text} ({n:,} files)" if n > 1 and problem.kind != "name" else problem.text
    return _printable(f"{problem.level}  {where}{text}")


def _printable(text: str) -> str:
    """On one line, without what would move the cursor or colour the screen."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def fold(problems: Iterable[Problem]) -> list[Problem]:
    """Notes that say the same of many files are told at the first, with their number; so are
    warnings that say the same of several lines of one file.
    """
    told: dict[tuple[str, ...], Problem] = {}
    for each in problems:
        near = {"note": "", "warning": each.file}.get(each.level, each.place)
        key = each.level, each.kind, each.text, near
        files = told[key].files if key in told else ()
        told[key] = replace(told.get(key, each), files=tuple(dict.fromkeys((*files, *each.files))))
    return list(told.values())


def _summary(found: Found) -> str:
    """What was looked at, what was found, how long it took."""
    levels = Counter(each.level for each in fold(found.problems))
    words = [counted(levels[level], level) for level in ("error", "warning", "note")]
    if found.checked is None or len(found.checked.files) < 2:
        n = counted(sum(levels.values()), "finding")
        return f"{n}." if levels else "is fine."
    looked = ", ".join(counted(n, _FORMS[kind]) for kind, n in _kinds(found.checked))
    took = f" ({found.seconds:.1f} s)" if len(found.checked.files) >= MANY else ""
    return f"{looked}: {', '.join(words)}{took}.{_code_words(found.checked)}"


def _kinds(checked: Checked) -> list[tuple[str, int]]:
    counts = Counter(each.kind for each in checked.files)
    return [(kind, counts[kind]) for kind in _FORMS if counts[kind]]


def _code_words(checked: Checked) -> str:
    if checked.failing is None or not checked.tasks:
        return ""
    n = sum(checked.imports(each) is True for each in checked.tasks)
    return f" The code of {n:,} of {counted(len(checked.tasks), 'task')} imports here."


def _show_rendered(rendered: Rendered) -> None:
    if not rendered.documents:
        return
    n = counted(rendered.n, "document")
    print(_printable(f"task {rendered.task}  split {rendered.split}, {n}"))
    for each in rendered.documents:
        print(f"  document {each.row}")
        for name, text in _parts(each):
            print(f"    {name:<8}{_short(text)}")


def _parts(document: RenderedDocument) -> list[tuple[str, str]]:
    choices = document.choices
    found = [("text", document.text), ("target", repr(document.target))]
    if choices is not None:
        found.append(("choices", " | ".join(map(str, choices))))
    if document.visuals:
        found.append(("visual", ", ".join(document.visuals)))
    return found


def _short(text: str) -> str:
    """On one line, so that each document is a few lines."""
    flat = _printable(text.replace("\n", "⏎ "))
    return flat if len(flat) <= _WIDEST else f"{flat[: _WIDEST - 1]}…"


def as_json(args: Args, found: Found) -> dict[str, Any]:
    levels = Counter(each.level for each in found.problems)
    kinds: dict[str, Counter[str]] = {}
    for each in found.problems:
        kinds.setdefault(each.kind, Counter())[each.level] += 1
    checked = found.checked
    return {
        "paths": [str(path) for path in args.path],
        "ok": found.code == 0,
        "levels": {level: levels[level] for level in ("error", "warning", "note")},
        "kinds": {kind: dict(counts) for kind, counts in sorted(kinds.items())},
        "problems": [_problem_json(each) for each in found.problems],
        "files": [] if checked is None else _files_json(checked, found.problems),
        "documents": [_rendered_json(each) for each in found.rendered],
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


def _files_json(checked: Checked, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """`problems` of a file are places in the list of all."""
    by_file: dict[Path, list[int]] = {}
    for number, problem in enumerate(problems):
        for path in problem.files:
            by_file.setdefault(path, []).append(number)
    return [
        {
            "file": str(each.path),
            "form": each.kind,
            "name": each.name,
            "ok": all(problems[n].level != "error" for n in by_file.get(each.path, ())),
            "imports": checked.imports(each),
            "problems": by_file.get(each.path, []),
        }
        for each in checked.files
    ]


def _rendered_json(rendered: Rendered) -> dict[str, Any]:
    return {
        "task": rendered.task,
        "split": rendered.split,
        "n": rendered.n,
        "documents": [
            {
                "row": each.row,
                "text": each.text,
                "target": each.target,
                "choices": each.choices,
                "visuals": each.visuals,
            }
            for each in rendered.documents
        ],
    }
