"""Problems (findings of `fieldmark check`): what is wrong with a task file, in one line?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fieldmark.errors import FieldmarkError

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
Kind = Literal[
    "read",  # the file, or one it includes, cannot be read
    "key",  # a key or a value does not fit the schema
    "name",  # a task or group of this name stands in two files
    "group",  # a group names what is not there
    "data",  # the dataset is not named, not there, or cannot be opened
    "split",  # no split to ask about
    "prompt",  # text, target, choices or pictures of a document cannot be made
    "template",  # a Jinja template cannot be read
    "untagged",  # the name of a function stands as plain text
    "function",  # the code behind `!function` is missing or fails
    "package",  # code wants a package that is not installed
    "network",  # code wants the network when it is imported
    "program",  # code starts a program when it is imported
    "key wanted",  # code wants a key of some service when it is imported
    "metric",  # a metric, aggregation or filter is not known or wrongly set
    "generation",  # a setting for the model's answer is wrong
    "no effect",  # a key is accepted and changes nothing
    "not run",  # fieldmark does not run tasks of this kind
    "document",  # a document cannot be rendered
    "experiment",  # an experiment holds something odd
]
"""kinds of problems, as `--json` counts them, and what each means"""
_PLACED = re.compile(r"(?P<file>.+?)(?::(?P<line>\d+))?  (?P<text>.+)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One line of `fieldmark check`."""

    level: Level
    kind: Kind
    place: str
    """`file:line` of the key itself, which may stand in an included file"""
    text: str
    files: tuple[Path, ...] = ()
    """the files it was met through"""

    @property
    def file(self) -> str:
        return re.sub(r":\d+$", "", self.place)

    @property
    def line(self) -> int:
        match = re.search(r":(\d+)$", self.place)
        return int(match[1]) if match else 0

    def found_in(self, path: Path) -> Problem:
        return replace(self, files=(path,))


def problems_of(error: FieldmarkError, kind: Kind, place: str) -> list[Problem]:
    """One for each line of an error; lines that name no file get the place."""
    text = str(error)
    if place:
        on_one_line = place.encode("unicode_escape").decode() if "\n" in place else place
        text = text.replace(place, on_one_line)
    lines = text.splitlines()
    # From two on, the last line counts them (`join_problems`).
    lines = lines[:-1] if len(lines) > 1 else lines
    return [_parsed(line, kind, place) for line in lines]


def _parsed(line: str, kind: Kind, place: str) -> Problem:
    match = _PLACED.fullmatch(line)
    if match is None:
        return Problem("error", kind, place, line)
    number = f":{match['line']}" if match["line"] else ""
    return Problem("error", kind, f"{match['file']}{number}", match["text"])


def merge_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Equal lines become one that knows all its files; errors first, then by place."""
    files: dict[Problem, dict[Path, None]] = {}
    for problem in problems:
        files.setdefault(replace(problem, files=()), {}).update(dict.fromkeys(problem.files))
    merged = [replace(problem, files=tuple(paths)) for problem, paths in files.items()]
    return sorted(merged, key=lambda one: (LEVELS.index(one.level), one.file, one.line))
