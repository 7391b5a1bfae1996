"""Does the code that tasks name exist, and does it import here?

What a file of code lacks on this machine (a package, the network, a key) is a warning: the task may
be sound. A file of code that fails is one problem, whatever number of functions is taken from it;
so is a package that is missing, whatever number of files wants it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fieldmark.lmms.check.problems import Kind, Level, Problem
from fieldmark.lmms.code.sandbox import try_imports
from fieldmark.lmms.read.marks import Function, Trust

_PACKAGE = re.compile(r"needs the package '[^']+', which is not installed: `[^`]+`")
_LACKS = re.compile(r"(?P<file>\S+\.py) has no '(?P<name>\w+)'\.")
_NETWORK = re.compile(
    r"(?P<place>\S+) (?:LocalEntryNotFoundError|OfflineModeIsEnabled|\w*ConnectionError|"
    r".*\bsocket\.\w+ is closed while the code of tasks is imported)"
)
_PROGRAM = re.compile(r"(?P<place>\S+) .* is closed while the code of tasks is imported")
_SECRET = re.compile(r"(?i)\b\w*(?:api_?key|credentials|_token)\b")


def code_problems(
    functions: Mapping[Path, Sequence[Function]], trust: Trust, timeout_s: float
) -> Iterator[Problem]:
    """By the file of the task that names the code."""
    told = try_imports([each for found in functions.values() for each in found], trust, timeout_s)
    places: dict[str, str] = {}
    for path, found in functions.items():
        wrong = {each: told[each] for each in found if told.get(each)}
        for problem in (*_lacking(wrong), *(_failing(*each, places) for each in wrong.items())):
            yield problem.found_in(path)


def _lacking(wrong: dict[Function, str]) -> Iterator[Problem]:
    """Several names that one file does not have are one problem; they are taken out of `wrong`."""
    by_file: dict[str, dict[str, Function]] = {}
    for function, text in wrong.items():
        found = _LACKS.match(text.removeprefix(f"{function.place}  "))
        if found:
            by_file.setdefault(found["file"], {})[found["name"]] = function
    for file, names in by_file.items():
        if len(names) > 1:
            listed = ", ".join(map(repr, names))
            first = next(iter(names.values()))
            yield Problem("error", "function", first.place, f"{file} has none of {listed}.")
            for function in [each for each in wrong if each in names.values()]:
                del wrong[function]


def _failing(function: Function, line: str, places: dict[str, str]) -> Problem:
    """`places`: where a text about more than one function was met first."""
    text = line.removeprefix(f"{function.place}  ")
    of_file = text.removeprefix(f"{function}: ")
    if of_file == text:
        return Problem("error", "function", function.place, text)
    level, kind, shared = _of_file(of_file)
    return Problem(level, kind, places.setdefault(shared, function.place), shared)


def _of_file(text: str) -> tuple[Level, Kind, str]:
    """The level and the kind of what a whole file of code says when it is imported."""
    if found := _PACKAGE.search(text):
        return "warning", "package", f"{found[0]}."
    if found := _NETWORK.match(text):
        words = f"{found['place']} reaches for the network when it is imported: it was refused."
        return "warning", "network", words
    if found := _PROGRAM.match(text):
        words = f"{found['place']} starts a program when it is imported: it was refused."
        return "warning", "program", words
    if _SECRET.search(text):
        return "warning", "key wanted", text
    if " ImportError: " in text:
        return "warning", "package", text
    return "error", "function", text
