"""How does a file become a task or a group?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fieldmark.errors import UsageError
from fieldmark.source_lines import Located, validate
from fieldmark.tasks.lmms._marks import Trust
from fieldmark.tasks.lmms._notes import notes_of
from fieldmark.tasks.lmms._read import add_below, kind_of, read_document_file, with_includes
from fieldmark.tasks.lmms._schema import DocumentTask, Group

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
        told = "is a task, not a group" if kind == "task" else _INSTEAD[kind]
        raise UsageError(f"{located.where(_telling_key(kind))}  {told}.")
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
