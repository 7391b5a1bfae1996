"""Loading: how does a file become a task or a group, and what in it has no effect?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fieldmark.errors import UsageError
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.files import add_below, kind_of, read_document_file, with_includes
from fieldmark.lmms.read.schema import NO_EFFECT, DocumentTask, Group
from fieldmark.source_lines import Located, is_file, validate

_CODE_FIELDS = ("doc_to_visual", "doc_to_text", "doc_to_target", "doc_to_choice")
_MODULE_NAME = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)")


def notes_of(task: DocumentTask, located: Located) -> Iterator[str]:
    """One line each, with its place."""
    yield from located.notes
    for key in located.data:
        if key in NO_EFFECT:
            yield f"{located.where((key,))}  {key} {NO_EFFECT[key]}."
    if task.group:
        yield f"{located.where(('group',))}  group in a task is an old word for tag: read as tag."
    for field in _CODE_FIELDS:
        if _is_untagged(getattr(task, field), located, field):
            words = "names a function, but without `!function` it is plain text"
            yield f"{located.where((field,))}  {field} = {getattr(task, field)!r} {words}."


def _is_untagged(value: object, located: Located, field: str) -> bool:
    """Is this text the name of a function in a file that stands beside the task's?"""
    match = _MODULE_NAME.fullmatch(value) if isinstance(value, str) else None
    return bool(match and is_file(located.file((field,)).parent / f"{match[1]}.py"))


_INSTEAD = {
    "group": "is a group of tasks, not a task",
    "python": "is a task written as a Python class: fieldmark runs tasks whose steps are named"
    " one by one (doc_to_text, process_results, …)",
    "abstract": "names no task: it is a template for other files to include",
    "own": "is a task in fieldmark's own form, not in lmms-eval's",
}


def load_document_task(
    path: Path, trust: Trust, overrides: Mapping[str, Any] | Located | None = None
) -> DocumentTask:
    """The task in the file, checked; `overrides` are keys put in place of the file's own."""
    located = read_document_file(path, trust)
    kind = kind_of(located)
    if kind != "task":
        raise UsageError(f"{located.where(_telling_key(kind))}  {_INSTEAD[kind]}.")
    return make_task(with_includes(with_overrides(located, overrides), trust), trust)


def make_task(located: Located, trust: Trust) -> DocumentTask:
    """The task that the keys describe."""
    task = validate(DocumentTask, located)
    task._origin, task._trust = located, trust
    task._notes = tuple(notes_of(task, located))
    return task


def load_group(path: Path, trust: Trust) -> Group:
    """The group in the file, checked; its members are only named."""
    located = read_document_file(path, trust)
    kind = kind_of(located)
    if kind != "group":
        words = "is a task, not a group" if kind == "task" else _INSTEAD[kind]
        raise UsageError(f"{located.where(_telling_key(kind))}  {words}.")
    return make_group(located)


def make_group(located: Located) -> Group:
    """The group that the keys describe."""
    group = validate(Group, located)
    group._origin = located
    return group


def with_overrides(located: Located, overrides: Mapping[str, Any] | Located | None) -> Located:
    """The keys with others put in their place; those of another file keep their places."""
    if overrides is None:
        return located
    if isinstance(overrides, Located):
        merged = add_below(overrides, located)
        return replace(
            merged,
            path=located.path,
            files=merged.files | {key: overrides.file((key,)) for key in overrides.data},
        )
    lines = {key: line for key, line in located.lines.items() if key[0] not in overrides}
    return replace(located, data=located.data | dict(overrides), lines=lines)


def _telling_key(kind: str) -> tuple[str, ...]:
    return {"group": ("task",), "python": ("class",), "task": ("task",)}.get(kind, ())
