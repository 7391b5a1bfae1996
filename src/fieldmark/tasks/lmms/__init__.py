"""Tasks in lmms-eval's form: its own YAML files, read unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.tasks.lmms._marks import Function, Trust
    from fieldmark.tasks.lmms._schema import DocumentTask, Group

__all__ = ["DocumentTask", "Function", "Group", "Trust"]

__getattr__ = exports(
    __name__,
    {"_marks": ("Function", "Trust"), "_schema": ("DocumentTask", "Group")},
)
