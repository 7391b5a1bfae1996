"""Compare two models on the same photos, or with published scores.

examples:
  fieldmark compare bioclip-2 dinov2
  fieldmark compare bioclip-2 dinov2 --task newt
  fieldmark compare "dinov2 (probe)" "dinov2 (simpleshot)"
  fieldmark compare bioclip-2 dinov2 --power 2
  fieldmark compare --published
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli.flags import Common, ReportFlags, Words, full_names
from fieldmark.cli.show import print_json, show, talk, width
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class CompareArgs:
    models: Annotated[Positional[tuple[str, ...]], arg(metavar="A B")] = ()
    """two models of the table. A part of a name will do where only one model has it. NAME#4ae7 is a
    version of a model, "NAME (probe)" one way to use it"""
    task: Annotated[Words, arg(metavar="TASK")] = ()
    """only these tasks (* and ? are wildcards)"""
    metric: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """use this metric instead of each task's own"""
    power: Annotated[UseAppendAction[tuple[float, ...]], arg(metavar="POINTS")] = ()
    """how many photos would show a difference of this many points?"""
    published: bool = False
    """compare your scores with published ones instead"""
    json: bool = False
    """print JSON"""
    common: ReportFlags = Common()


def run(args: CompareArgs) -> int:
    for points in args.power:
        if not 0 < points < float("inf"):
            raise UsageError(f"--power {points:g}: expected a difference above 0, in points.")
    return _published(args) if args.published else _pair(args)


def _pair(args: CompareArgs) -> int:
    from fieldmark.report import (
        compare_models,
        comparison_text,
        needed_text,
        needed_units,
        plain_comparison,
    )
    from fieldmark.store import RunFilter, Store

    if len(args.models) != 2:
        given = f"found {len(args.models)}" if args.models else "found none"
        raise UsageError(f"expected two models to compare, {given}: fieldmark compare A B.")
    a, b = full_names(args.models)
    settings = args.common.settings()
    where = RunFilter(tasks=args.task, folders=args.common.folders())
    with Store.open(settings.store, read_only=True) as store:
        compared = compare_models(store, a, b, where, args.metric)
    needed = needed_units(compared, args.power)
    if args.json:
        power = {"power": [row.plain() for row in needed]} if args.power else {}
        print_json({**plain_comparison(compared), **power})
    else:
        show(comparison_text(compared, width()))
        if args.power:
            show("")
            show(needed_text(needed, width()))
    for note in (*(compared.setups if args.json else ()), *compared.notes):
        talk(note)
    for reason in compared.not_compared:
        talk(f"not compared: {reason}.")
    return 0


def _published(args: CompareArgs) -> int:
    from fieldmark.report import match_published, plain_published, published_text, read_table
    from fieldmark.store import RunFilter, Store, nothing_stored

    where = RunFilter(models=full_names(args.models), tasks=args.task)
    settings = args.common.settings()
    with Store.open(settings.store, read_only=True) as store:
        table = read_table(store, where, args.metric, compare=False)
    if not table.rows and not args.json:
        raise nothing_stored(settings.store)
    matches = match_published(table.rows)
    if args.json:
        print_json([plain_published(match) for match in matches])
    else:
        show(published_text(matches, width()))
    return 0
