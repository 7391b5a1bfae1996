"""What is said when a selection or a filter leaves nothing to ask about?"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.errors import DataError, UnknownName, UsageError, closest
from fieldmark.tasks import Filter, Task, is_match

if TYPE_CHECKING:
    from fieldmark.protocols._items import PartItems, Selection


def nothing_selected(task: Task, parts: list[PartItems], wanted: Selection) -> UsageError:
    names = {part.name for part in parts} | {value for part in parts for _, value in part.groups}
    asked = (*wanted.parts, *wanted.any_of, *(v for _, values in wanted.groups for v in values))
    place = f"{wanted.where}  " if wanted.where else ""
    if names == {""} and asked:
        return UsageError(f"{place}task {task.task!r} has no parts: leave out `/{asked[0]}`.")
    for each in asked:
        if not any(fnmatchcase(name, each) for name in names):
            kind = f"part or group of task {task.task!r}"
            unknown = UnknownName(kind, each, names, where=wanted.where)
            return unknown if unknown.closest else UsageError(f"{unknown} {_some(sorted(names))}")
    return UsageError(
        f"{place}task {task.task!r}: the filters leave none of its {len(parts)} parts."
    )


def nothing_fits(task: Task, table: pl.DataFrame) -> DataError:
    """Names what the first column that matches nothing holds instead."""
    for column, patterns in task.where.items():
        values = table.get_column(column).cast(pl.String).drop_nulls().unique().sort().to_list()
        if not any(is_match(each, patterns) for each in values):
            near = closest(patterns[0], values, most=1) if patterns else []
            mean = f" Did you mean {near[0]!r}?" if near else f" {_some(values)}"
            return DataError(
                f"{task.place_of('where', column)}  where: no row of dataset {task.dataset!r} has "
                f"{told({column: patterns})}.{mean}"
            )
    return DataError(
        f"{task.place_of('where')}  no row of dataset {task.dataset!r} fits {told(task.where)}."
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"It has {', '.join(names[:5]) or 'none'}{more}."


def told(wanted: Filter) -> str:
    """`split: train`."""
    rules = [f"{column}: {', '.join(patterns)}" for column, patterns in wanted.items()]
    return f"`{'; '.join(rules)}`"


def splits_of(part: PartItems, table: pl.DataFrame | None) -> str:
    rows = pl.concat([part.train, part.test]) if table is None else table
    values = rows.get_column("split").drop_nulls().unique()
    return ", ".join(sorted(values)) or "none"
