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
        load_task,
        register_task,
    )
    from fieldmark.tasks._loader import (
        TaskName,
        find_file,
        is_pattern,
        list_tasks,
        load_own_task,
        parse_name,
        task_files,
    )
    from fieldmark.tasks._problems import LEVELS, Kind, Level, Problem, merge_problems, problems_of
    from fieldmark.tasks._readers import (
        CheckedFile,
        CheckedFiles,
        Library,
        NamedTask,
        RenderedTask,
        TaskReader,
        task_readers,
        yaml_files,
    )
    from fieldmark.tasks._schema import Filter, Names, Part, Strict, Task, is_match, task_schema

__all__ = [
    "LEVELS",
    "AnyTask",
    "CheckedFile",
    "CheckedFiles",
    "Filter",
    "Finder",
    "Kind",
    "Level",
    "Library",
    "NamedTask",
    "Names",
    "Part",
    "Problem",
    "RenderedTask",
    "Strict",
    "Task",
    "TaskName",
    "TaskReader",
    "find_file",
    "is_match",
    "is_pattern",
    "list_tasks",
    "load_own_task",
    "load_task",
    "merge_problems",
    "parse_name",
    "problems_of",
    "register_task",
    "task_files",
    "task_readers",
    "task_schema",
    "yaml_files",
]

__getattr__ = exports(
    __name__,
    {
        "_find": (
            "AnyTask",
            "Finder",
            "Library",
            "NamedTask",
            "load_task",
            "register_task",
        ),
        "_loader": (
            "TaskName",
            "TaskReader",
            "find_file",
            "is_pattern",
            "list_tasks",
            "load_own_task",
            "parse_name",
            "task_files",
        ),
        "_problems": ("LEVELS", "Kind", "Level", "Problem", "merge_problems", "problems_of"),
        "_readers": (
            "CheckedFile",
            "CheckedFiles",
            "Library",
            "NamedTask",
            "RenderedTask",
            "TaskReader",
            "task_readers",
            "yaml_files",
        ),
        "_schema": (
            "Filter",
            "Names",
            "Part",
            "Strict",
            "Task",
            "is_match",
            "task_schema",
        ),
    },
)
