"""Show the scores with margins of error, and which model is best.

examples:
  fieldmark table
  fieldmark table --task newt --by-part
  fieldmark table --task newt --by label
  fieldmark table --long --json
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from fieldmark.cli.flags import Common, CommonFlags, Only, RunChoice
from fieldmark.cli.show import print_json, screen_width, show, talk, width

if TYPE_CHECKING:
    from fieldmark.report import Table
    from fieldmark.settings import Settings


@dataclass(frozen=True, slots=True)
class TableArgs(RunChoice):
    metric: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """use this metric instead of each task's own"""
    long: bool = False
    """one row per run"""
    by_part: bool = False
    """one row per part, or group of parts, of a task"""
    by: Annotated[str, arg(metavar="COLUMN", help_behavior_hint="")] = ""
    """accuracy for each value of a column: label, unit, or one of the data (family, camera, ...)"""
    json: bool = False
    """print JSON"""
    common: Annotated[CommonFlags, Only(("results", "data", "data_root"))] = Common()


def run(args: TableArgs) -> int:
    from fieldmark.report import (
        fit_lines,
        plain_fits,
        plain_rows,
        plain_standings,
        read_table,
        sliced,
        with_groups,
    )
    from fieldmark.store import nothing_stored

    settings = args.common.settings()
    with args.open_store() as store:
        table = read_table(
            store, args.where, args.metric, args.by_part, compare=not args.by, by_run=args.long
        )
        notes: list[str] = []
        if args.long and not args.json:
            notes = fit_lines(store, table.rows, width())
        if not (args.by or args.by_part or args.task):
            table = with_groups(store, table, args.metric)
        if args.by:
            table = sliced(store, table, args.by, _values(args.by, table, settings))
        fits = plain_fits(store, table.rows) if args.json else []
    if args.json:
        placed = plain_standings(table)
        print_json(
            [
                {**plain, **placed[row.name], **fit}
                for plain, row, fit in zip(plain_rows(table), table.rows, fits, strict=True)
            ]
        )
        for note in table.notes:
            talk(note)
        return 0
    if not table.rows:
        raise nothing_stored(settings.store)
    show("\n".join([_draw(args, table), *notes]))
    return 0


def _draw(args: TableArgs, table: Table) -> str:
    from fieldmark.report import long_table, part_table, wide_table

    if args.by or args.by_part:
        return part_table(table, width(), heading=args.by or "part")
    if args.long:
        return long_table(table, width(), is_screen=screen_width() is not None)
    return wide_table(table, width())


def _values(column: str, table: Table, settings: Settings) -> dict[str, dict[str, str]] | None:
    """What the data say; None for columns that are in the store."""
    from fieldmark.report import STORED

    if column in STORED:
        return None
    from fieldmark.report import is_valued

    roots: dict[str, set[str]] = {}
    for row in table.rows:
        if not is_valued(row.run):
            roots.setdefault(row.run.spec.task, set()).add(row.run.root)
    return {
        task: _item_column(task, column, settings, task_roots.pop() if len(task_roots) == 1 else "")
        for task, task_roots in sorted(roots.items())
    }


def _item_column(task_name: str, column: str, settings: Settings, ran_in: str) -> dict[str, str]:
    """The values of a column of the task's dataset, by item id; items without one are left out.

    `ran_in` is the folder that its runs saw, where there is one.
    """
    import polars as pl

    from fieldmark.data import load_dataset
    from fieldmark.errors import DataError, UnknownName
    from fieldmark.protocols import root_of
    from fieldmark.tasks import load_own_task

    task = load_own_task(task_name)
    root = Path(ran_in) if ran_in and Path(ran_in).exists() else root_of(task, settings)
    if not root.exists():
        raise DataError(
            f"{root}  does not exist. The column {column!r} of task {task.task!r} is in these "
            f"data; `fieldmark datasets {task.dataset}` says how to get them."
        )
    table = load_dataset(task.dataset).table(root, **task.options)
    if column not in table.columns:
        raise UnknownName(f"column of dataset {task.dataset!r}", column, table.columns)
    if table.schema[column].is_nested():
        raise DataError(
            f"column {column!r} of dataset {task.dataset!r} has lists in place of single values."
        )
    named = table.select("id", pl.col(column).cast(pl.String)).drop_nulls()
    return dict(named.iter_rows())
