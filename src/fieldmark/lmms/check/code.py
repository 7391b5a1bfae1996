"""Checking code: does what `!function` names exist, import here, and take its arguments?

Code is imported only where the user lets it run; else its source is read.

What a file of code lacks on this machine (a package, the network, a key) is a warning: the task may
be sound. A file of code that fails is one problem, whatever number of functions is taken from it;
so is a package that is missing, whatever number of files wants it. Arguments are counted in the
text of the file, without running it; what cannot be seen there (decorated or imported functions,
classes) is left alone.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fieldmark.code import parsed
from fieldmark.errors import CodeNotRun, UsageError
from fieldmark.lmms.code.call import load_function, refuse_function
from fieldmark.lmms.code.imports import find_file
from fieldmark.lmms.code.inside import CONNECTS, LOOKUPS, PROGRAMS, closed_to
from fieldmark.lmms.code.sandbox import SANDBOX, SandboxLost
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.compat import NOT_RUN
from fieldmark.lmms.read.schema import DocumentTask
from fieldmark.tasks import Kind, Level, Problem

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
    errors = try_imports(
        [function for named in functions.values() for function in named], trust, timeout_s
    )
    yield from _problems(functions, errors)


def _problems(
    functions: Mapping[Path, Sequence[Function]], errors: Mapping[Function, str]
) -> Iterator[Problem]:
    first_places: dict[str, str] = {}
    for path, named in functions.items():
        wrong = {function: errors[function] for function in named if errors.get(function)}
        for problem in (
            *_lacking(wrong),
            *(_failing(*item, first_places) for item in wrong.items()),
        ):
            yield problem.found_in(path)


def try_imports(
    functions: Iterable[Function], trust: Trust, timeout_s: float = 60.0
) -> dict[Function, str]:
    """Each function and what is wrong with it, "" for nothing; a file may take `timeout_s`.

    In the sandbox, in an empty folder, with programs closed besides the network.
    """
    errors: dict[Function, str] = {}
    files: dict[Path, list[Function]] = {}
    for function in dict.fromkeys(functions):
        try:
            files.setdefault(find_file(function, trust).resolve(), []).append(function)
        except UsageError as error:
            errors[function] = str(error)
    for path, of_file in files.items():
        whole = [replace(function, file=function.file.absolute()) for function in of_file]
        try:
            problems = SANDBOX.run(_import, whole, trust, limit_s=timeout_s)
        except SandboxLost as lost:
            problems = [f"{one.where}  {one}: importing {path.name} {lost}." for one in whole]
        for function, there, text in zip(of_file, whole, problems, strict=True):
            errors[function] = text.replace(there.where, function.where, 1)
    return errors


def _import(functions: Sequence[Function], trust: Trust) -> list[str]:
    os.chdir(os.environ["TMPDIR"])
    nowhere = io.StringIO()
    with (
        closed_to((*PROGRAMS, *CONNECTS, *LOOKUPS)),
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        return [_problem_of(function, trust) for function in functions]


def _problem_of(function: Function, trust: Trust) -> str:
    try:
        load_function(function, trust)
    except UsageError as error:
        return str(error)
    return ""


def name_problems(functions: Mapping[Path, Sequence[Function]], trust: Trust) -> Iterator[Problem]:
    """What the source of the code tells, without running it: files and names that are not there."""
    errors: dict[Function, str] = {}
    for function in {function for named in functions.values() for function in named}:
        try:
            refuse_function(function, find_file(function, trust))
        except CodeNotRun:
            continue
        except UsageError as error:
            errors[function] = str(error)
    yield from _problems(functions, errors)


def _lacking(wrong: dict[Function, str]) -> Iterator[Problem]:
    """Several names that one file does not have are one problem; they are taken out of `wrong`."""
    by_file: dict[str, dict[str, Function]] = {}
    for function, text in wrong.items():
        match = _LACKS.match(text.removeprefix(f"{function.where}  "))
        if match:
            by_file.setdefault(match["file"], {})[match["name"]] = function
    for file, names in by_file.items():
        if len(names) > 1:
            listed = ", ".join(map(repr, names))
            sample = next(iter(names.values()))
            yield Problem("error", "function", sample.where, f"{file} has none of {listed}.")
            for function in [absent for absent in wrong if absent in names.values()]:
                del wrong[function]


def _failing(function: Function, line: str, first_places: dict[str, str]) -> Problem:
    """`first_places`: where a text about more than one function was met first."""
    text = line.removeprefix(f"{function.where}  ")
    of_file = text.removeprefix(f"{function}: ")
    if of_file == text:
        return Problem("error", "function", function.where, text)
    level, kind, shared = _of_file(of_file)
    return Problem(level, kind, first_places.setdefault(shared, function.where), shared)


def _of_file(text: str) -> tuple[Level, Kind, str]:
    """The level and the kind of what a whole file of code says when it is imported."""
    if text in NOT_RUN.values():
        return "note", "not run", text
    if match := _PACKAGE.search(text):
        return "warning", "package", f"{match[0]}."
    if match := _NETWORK.match(text):
        sentence = f"{match['place']} uses the network when it is imported, which is not allowed."
        return "warning", "network", sentence
    if match := _PROGRAM.match(text):
        sentence = f"{match['place']} starts a program when it is imported, which is not allowed."
        return "warning", "program", sentence
    if _SECRET.search(text):
        return "warning", "key wanted", text
    if " ImportError: " in text:
        return "warning", "package", text
    return "error", "function", text


Signatures = dict[str, tuple[int, int]]
"""plain functions at the top of a file → the fewest and the most positional arguments"""
_ANY = 99
"""more arguments than anybody gives"""
_GIVEN = {
    "doc_to_text": "the document, and what `lmms_eval_specific_kwargs` says where it is set",
    "doc_to_target": "the document, and `model_specific_target_kwargs` where it is set",
    "process_docs": "the documents",
    "process_results": "the document and the results",
    "aggregation": "the values",
}
"""what functions are called with, if not with the document alone"""


def call_problems(task: DocumentTask) -> Iterator[Problem]:
    files: dict[tuple[Path, str], Signatures] = {}
    for key, function, (fewest, most) in _named(task):
        module, _, name = function.text.rpartition(".")
        spot = function.file.parent, module
        if spot not in files:
            files[spot] = _signatures_of(function, task.trust)
        taken = files[spot].get(name)
        if taken is not None and not (taken[0] <= most and taken[1] >= fewest):
            yield Problem("error", "function", function.where, _told(key, function, taken, fewest))


def _named(task: DocumentTask) -> Iterator[tuple[str, Function, tuple[int, int]]]:
    """Each function of the task, with its field and the fewest and the most arguments given."""
    for key, n_given in _calls(task).items():
        function = getattr(task, key)
        if isinstance(function, Function):
            yield key, function, n_given
    for item in task.metric_list or ():
        if isinstance(item.aggregation, Function):
            yield "aggregation", item.aggregation, (1, 2)


def _calls(task: DocumentTask) -> dict[str, tuple[int, int]]:
    """Each field that may be a function → the fewest and the most arguments it is given."""
    n_text = 1 if task.lmms_eval_specific_kwargs is None else 2
    n_target = 1 if task.model_specific_target_kwargs is None else 2
    is_rounds = task.output_type == "generate_until_multi_round"
    return {
        # Rounds bring their keywords with them; pictures are asked for with what is taken.
        **({} if is_rounds else {"doc_to_text": (n_text, n_text)}),
        "doc_to_visual": (1, 2),
        "doc_to_target": (n_target, n_target),
        "doc_to_choice": (1, 1),
        "process_docs": (1, 1),
        "process_results": (2, 2),
    }


def _told(key: str, function: Function, taken: tuple[int, int], n_given: int) -> str:
    fewest, most = taken
    more = f" to {most}" if most < _ANY else " or more"
    takes = f"{fewest}{'' if fewest == most else more}"
    what = _GIVEN.get(key, "the document")
    takes = "1 argument" if takes == "1" else f"{takes} arguments"
    return f"{key} {function.text!r} takes {takes} and is called with {n_given}: {what}."


def _signatures_of(function: Function, trust: Trust) -> Signatures:
    try:
        path = find_file(function, trust)
    except UsageError:  # told where code is imported
        return {}
    return _signatures(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4096)
def _signatures(path: Path, _changed_ns: int) -> Signatures:
    signatures: Signatures = {}
    try:
        statements = parsed(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return signatures  # told where code is imported
    for node in statements:
        for name in _bound(node):
            signatures.pop(name, None)
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            args = node.args
            n_all = len(args.posonlyargs) + len(args.args)
            signatures[node.name] = n_all - len(args.defaults), _ANY if args.vararg else n_all
    return signatures


def _bound(node: Any) -> Iterator[str]:
    """Names of the module that a statement gives a new meaning."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, ast.alias):
            yield (inner.asname or inner.name).partition(".")[0]
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef):
            yield inner.name
