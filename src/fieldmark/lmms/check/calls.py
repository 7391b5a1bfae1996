"""Would a function of a task accept what it is called with?

Answered from the text of the Python file, without running it: a function that takes one argument
and is given two fails on the first document, hours after the task was written. What cannot be told
from the text (decorated or imported functions, classes) is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from fieldmark.errors import UsageError
from fieldmark.lmms.check.problems import Problem
from fieldmark.lmms.code.digest import syntax_of
from fieldmark.lmms.code.places import find_file
from fieldmark.lmms.read.marks import Function, Trust
from fieldmark.lmms.read.schema import DocumentTask

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
            yield Problem("error", "function", function.place, _told(key, function, taken, fewest))


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
    found: Signatures = {}
    for node in syntax_of(path).body:
        for name in _bound(node):
            found.pop(name, None)
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            found[node.name] = _positional(node.args)
    return found


def _positional(args: ast.arguments) -> tuple[int, int]:
    n_all = len(args.posonlyargs) + len(args.args)
    return n_all - len(args.defaults), _ANY if args.vararg else n_all


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
