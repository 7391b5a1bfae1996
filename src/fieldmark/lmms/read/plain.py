"""How is a task told in plain JSON, for records and hashes?"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from fieldmark.lmms.read.marks import Function
from fieldmark.lmms.read.schema import DocumentTask


def plain_task(task: DocumentTask) -> dict[str, Any]:
    """The keys that differ from their defaults; code by its name."""
    given = {
        name: getattr(task, name)
        for name, about in type(task).model_fields.items()
        if getattr(task, name) != about.default
    }
    found = {name: _plain(value) for name, value in given.items()}
    return {name: value for name, value in found.items() if value not in ([], {})}


def functions_of(value: Any) -> list[Function]:
    """Every piece of code a task names, in the order it stands in."""
    if isinstance(value, Function):
        return [value]
    if isinstance(value, BaseModel):
        value = [*(getattr(value, name) for name in type(value).model_fields), value.model_extra]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in functions_of(item)]
    return []


def _plain(value: Any) -> Any:
    if isinstance(value, Function):
        return str(value)
    if isinstance(value, BaseModel):
        named = {name: getattr(value, name) for name in type(value).model_fields}
        return _plain({**named, **(value.model_extra or {})})
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
