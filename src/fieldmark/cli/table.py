"""Print scores with intervals, ties with the best, and the line that reproduces them.

examples:
  fieldmark table
  fieldmark table --task newt --by-part
  fieldmark table --task newt --by label
  fieldmark table --long --json
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import UseAppendAction, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import print_json, talk

if TYPE_CHECKING:
    from fieldmark.report import Table
    from fieldmark.settings import Settings


@dataclass(frozen=True, slots=True)
class TableArgs:
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """only these (* and ? work; NAME#4ae7 is one version)"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    metric: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """another metric than the tasks' own"""
    long: bool = False
    """one row per run"""
    by_part: bool = False
    """one row per part or group of parts"""
    by: Annotated[str, arg(metavar="COLUMN", help_behavior_hint="")] = ""
    """share right for each value: label, unit, or a column of the data (family, camera, ...)"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: TableArgs) -> int:
    from fieldmark.report import (
        fit_lines,
        plain_fits,
        plain_ranks,
        plain_rows,
        read_table,
        sliced,
        training_notes,
        with_groups,
    )
    from fieldmark.store import RunFilter, Store, nothing_stored

    settings = args.common.settings()
    where = RunFilter(models=args.model, tasks=args.task)
    with Store.open(settings.store, read_only=True) as store:
        table = read_table(
            store, where, args.metric, args.by_part, compare=not args.by, memory=settings.cache
        )
        is_told = args.long and not args.json
        notes = training_notes(store, table.rows) if is_told else []
        notes += fit_lines(store, table.rows, _width()) if is_told else []
        if not (args.by or args.by_part or args.task):
            table = with_groups(store, table, args.metric)
        if args.by:
            table = sliced(store, table, args.by, _values(args.by, table, settings))
        fits = plain_fits(store, table.rows) if args.json else []
    if args.json:
        placed = plain_ranks(table)
        print_json(
            [
                {**plain, **placed[row.model], **fit}
                for plain, row, fit in zip(plain_rows(table), table.rows, fits, strict=True)
            ]
        )
        for note in table.notes:
            talk(note)
        return 0
    if not table.rows:
        raise nothing_stored(settings.store)
    print("\n".join([_draw(args, table), *notes]))
    return 0


def _draw(args: TableArgs, table: Table) -> str:
    from fieldmark.report import long_table, part_table, wide_table

    width = _width()
    if args.by or args.by_part:
        return part_table(table, width, heading=args.by or "part")
    return long_table(table, width) if args.long else wide_table(table, width)


def _width() -> int:
    return shutil.get_terminal_size().columns


def _values(column: str, table: Table, settings: Settings) -> dict[str, dict[str, str]] | None:
    """What the data say; None for columns that are in the store."""
    from fieldmark.report import STORED

    if column in STORED:
        return None
    from fieldmark.experiments import item_column
    from fieldmark.report import is_valued

    roots: dict[str, set[str]] = {}
    for row in table.rows:
        if not is_valued(row.run):
            roots.setdefault(row.run.spec.task, set()).add(row.run.root)
    return {
        task: item_column(task, column, settings, mine.pop() if len(mine) == 1 else "")
        for task, mine in sorted(roots.items())
    }
