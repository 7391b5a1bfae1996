"""Tasks: questions asked of datasets, one YAML file each.

Names come when asked for: listing tasks must not wait for pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.tasks._find import (
        AnyTask,
        Finder,
        Found,
        list_documents,
        load_task,
        register_task,
    )
    from fieldmark.tasks._loader import (
        TaskName,
        find_file,
        list_tasks,
        load_own_task,
        parse_name,
        task_files,
    )
    from fieldmark.tasks._schema import Filter, Names, Part, Strict, Task, is_match, task_schema

__all__ = [
    "AnyTask",
    "Filter",
    "Finder",
    "Found",
    "Names",
    "Part",
    "Strict",
    "Task",
    "TaskName",
    "find_file",
    "is_match",
    "list_documents",
    "list_tasks",
    "load_own_task",
    "load_task",
    "parse_name",
    "register_task",
    "task_files",
    "task_schema",
]

__getattr__ = exports(
    __name__,
    {
        "_find": (
            "AnyTask",
            "Finder",
            "Found",
            "list_documents",
            "load_task",
            "register_task",
        ),
        "_loader": (
            "TaskName",
            "find_file",
            "list_tasks",
            "load_own_task",
            "parse_name",
            "task_files",
        ),
        "_schema": (
            "Filter", "Names", "Part", "Strict", "Task", "is_match", "task_schema",
        ),
    },
)
