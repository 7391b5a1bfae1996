"""What in a task file has no effect, or perhaps not the one that was meant?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fieldmark.source_lines import Located
from fieldmark.tasks.lmms._disk import is_file
from fieldmark.tasks.lmms._schema import NO_EFFECT, DocumentTask

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
            told = "names a function, but without `!function` it is plain text"
            yield f"{located.where((field,))}  {field} = {getattr(task, field)!r} {told}."


def _is_untagged(value: object, located: Located, field: str) -> bool:
    """Is this text the name of a function in a file that stands beside the task's?"""
    found = _MODULE_NAME.fullmatch(value) if isinstance(value, str) else None
    return bool(found and is_file(located.file((field,)).parent / f"{found[1]}.py"))
