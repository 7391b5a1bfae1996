"""Print scores with intervals, ties with the best, and the line that reproduces them.

examples:
  fieldmark table
  fieldmark table --task newt --by-part
  fieldmark table --long --json
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import UseAppendAction, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import print_json
from fieldmark.errors import DataError


@dataclass(frozen=True, slots=True)
class Args:
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """only these (* and ? work)"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    metric: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """another metric than the tasks' own"""
    long: bool = False
    """one row per run"""
    by_part: bool = False
    """one row per part or group of parts"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: Args) -> int:
    from fieldmark.report import long_table, part_table, plain_rows, read_table, wide_table
    from fieldmark.store import RunFilter, Store

    settings = args.common.settings()
    where = RunFilter(models=args.model, tasks=args.task)
    with Store.open(settings.store, read_only=True) as store:
        table = read_table(store, where, args.metric, args.by_part)
    if args.json:
        print_json(plain_rows(table))
        return 0
    if not table.rows:
        raise DataError(
            f"{settings.store}  holds no finished runs: `fieldmark run` makes some, "
            "--results says where others are."
        )
    draw = part_table if args.by_part else long_table if args.long else wide_table
    print(draw(table, shutil.get_terminal_size().columns))
    return 0
