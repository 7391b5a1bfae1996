"""Tasks: questions asked of datasets, one YAML file each.

Names come when asked for: listing tasks must not wait for pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.tasks._loader import (
        AnyTask,
        Finder,
        find_file,
        is_pattern,
        list_tasks,
        load_own_task,
        load_task,
        parse_name,
        register_task,
        task_files,
    )
    from fieldmark.tasks._photos import holds_tasks, is_photos
    from fieldmark.tasks._readers import (
        LEVELS,
        CheckedFile,
        CheckedFiles,
        Kind,
        Level,
        NamedTask,
        Problem,
        RenderedTask,
        TaskReader,
        merge_problems,
        problems_of,
        task_readers,
        yaml_files,
    )
    from fieldmark.tasks._schema import (
        Names,
        Strict,
        Task,
        Template,
        task_schema,
    )

__all__ = [
    "LEVELS",
    "AnyTask",
    "CheckedFile",
    "CheckedFiles",
    "Finder",
    "Kind",
    "Level",
    "NamedTask",
    "Names",
    "Problem",
    "RenderedTask",
    "Strict",
    "Task",
    "TaskReader",
    "Template",
    "find_file",
    "holds_tasks",
    "is_pattern",
    "is_photos",
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

__getattr__ = exports(__name__)
