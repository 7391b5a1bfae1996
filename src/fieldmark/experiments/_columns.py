"""What does the data say of each item of a task, beyond its label?"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fieldmark.data import load_dataset
from fieldmark.errors import DataError, UnknownName
from fieldmark.protocols import root_of
from fieldmark.settings import Settings
from fieldmark.tasks import load_own_task


def item_column(
    task_name: str, column: str, settings: Settings, ran_in: str = ""
) -> dict[str, str]:
    """The values of a column of the task's dataset, by item id; items without one are left out.

    `ran_in` is the folder that its runs saw, where there is one.
    """
    task = load_own_task(task_name)
    root = Path(ran_in) if ran_in and Path(ran_in).exists() else root_of(task, settings)
    if not root.exists():
        raise DataError(
            f"{root}  does not exist: the column {column!r} of task {task.task!r} stands in its "
            f"data (`fieldmark datasets {task.dataset}` says how to get it)."
        )
    table = load_dataset(task.dataset).table(root, **task.options)
    if column not in table.columns:
        raise UnknownName(f"column of dataset {task.dataset!r}", column, table.columns)
    if table.schema[column].is_nested():
        raise DataError(f"column {column!r} of dataset {task.dataset!r} has no single values.")
    named = table.select("id", pl.col(column).cast(pl.String)).drop_nulls()
    return dict(named.iter_rows())
