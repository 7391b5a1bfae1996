"""Compare two models on the same items, or your scores with published ones.

examples:
  fieldmark compare bioclip-2 dinov2
  fieldmark compare bioclip-2 dinov2 --task newt
  fieldmark compare bioclip-2 dinov2 --power 2
  fieldmark compare --published
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli._flags import Common, CommonFlags, Words
from fieldmark.cli._show import print_json, talk, width
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class CompareArgs:
    models: Annotated[Positional[tuple[str, ...]], arg(metavar="A B")] = ()
    """two models, by name or by a part of the name that fits only one; NAME#4ae7 is one version"""
    task: Annotated[Words, arg(metavar="TASK")] = ()
    """only these tasks (* and ? are wildcards)"""
    metric: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """use this metric instead of each task's own"""
    power: Annotated[UseAppendAction[tuple[float, ...]], arg(metavar="POINTS")] = ()
    """say how many more units would show a difference of so many points between the two"""
    published: bool = False
    """compare your scores with published ones instead"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: CompareArgs) -> int:
    for points in args.power:
        if not points > 0:
            raise UsageError(f"--power {points:g}: expected a difference above 0, in points.")
    return _published(args) if args.published else _pair(args)


def _pair(args: CompareArgs) -> int:
    from fieldmark.report import (
        compare_models,
        comparison_notes,
        comparison_text,
        needed_text,
        needed_units,
        not_compared,
        plain_comparison,
        plain_needed,
    )
    from fieldmark.store import Store

    if len(args.models) != 2:
        given = f"found {len(args.models)}" if args.models else "found none"
        raise UsageError(f"expected two models to compare, {given}: fieldmark compare A B.")
    with Store.open(args.common.settings().store, read_only=True) as store:
        questions = compare_models(store, *args.models, tasks=args.task, metric=args.metric)
        left_out = not_compared(store, *args.models, tasks=args.task, metric=args.metric)
        notes = comparison_notes(store, *args.models, tasks=args.task)
    needed = [
        needed_units(question.a.heading, question.comparison, question.a.score.scale, args.power)
        for question in questions
    ]
    if args.json:
        power = [
            {"power": [plain_needed(row) for row in own]} if args.power else {} for own in needed
        ]
        print_json(
            [
                {**plain_comparison(question), **own}
                for question, own in zip(questions, power, strict=True)
            ]
        )
    else:
        print(comparison_text(questions, width()))
        if args.power:
            print()
            print(needed_text([row for own in needed for row in own], width()))
    for note in notes:
        talk(note)
    for reason in left_out:
        talk(f"not compared: {reason}.")
    return 0


def _published(args: CompareArgs) -> int:
    from fieldmark.report import match_published, plain_published, published_text, read_table
    from fieldmark.store import RunFilter, Store, nothing_stored

    where = RunFilter(models=args.models, tasks=args.task)
    settings = args.common.settings()
    with Store.open(settings.store, read_only=True) as store:
        table = read_table(store, where, args.metric, compare=False)
    if not table.rows and not args.json:
        raise nothing_stored(settings.store)
    matches = match_published(table.rows)
    if args.json:
        print_json([plain_published(match) for match in matches])
    else:
        print(published_text(matches, width()))
    return 0
