"""Tasks: questions asked of datasets, one YAML file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fieldmark.tasks._loader import (
        TaskName,
        find_file,
        list_tasks,
        load_task,
        parse_name,
        register_task,
        task_files,
    )
    from fieldmark.tasks._schema import Filter, Part, ProbeBlock, Task, is_match

__all__ = [
    "Filter",
    "Part",
    "ProbeBlock",
    "Task",
    "TaskName",
    "find_file",
    "is_match",
    "list_tasks",
    "load_task",
    "parse_name",
    "register_task",
    "task_files",
]


def __getattr__(name: str) -> Any:
    """Names come when asked for: listing tasks must not wait for pydantic."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(name)
    home = "_schema" if name in ("Filter", "Part", "ProbeBlock", "Task", "is_match") else "_loader"
    return getattr(import_module(f"fieldmark.tasks.{home}"), name)
