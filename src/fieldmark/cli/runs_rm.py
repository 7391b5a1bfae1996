"""Remove runs with their predictions and scores. There is no way back; --dry-run looks first.

Flags of several kinds choose the runs that fit all of them. A run that a process is on stays.

examples:
  fieldmark runs rm 12 3fa9c2d1
  fieldmark runs rm --superseded
  fieldmark runs rm --model 'my_model.py:*' --failed --dry-run
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._runs import RIGHT, Names, Standing, States, Words, keys_of, standings, who
from fieldmark.cli._show import counted, print_json, show_rows, talk
from fieldmark.errors import DataError, UsageError, join_problems

if TYPE_CHECKING:
    from fieldmark.store import Store


@dataclass(frozen=True, slots=True)
class RunsRmArgs:
    run: Words = ()
    """numbers or keys, as `runs ls` shows them"""
    superseded: bool = False
    """those whose photos or labels were changed in place, and run again since"""
    failed: bool = False
    """those that failed"""
    model: Annotated[Names, arg(metavar="MODEL")] = ()
    """those of these models (* and ? work)"""
    task: Annotated[Names, arg(metavar="TASK")] = ()
    """those of these tasks (* and ? work)"""
    state: States = ()
    """those in these states"""
    all: bool = False
    """every run"""
    dry_run: bool = False
    """only show what would be removed"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: RunsRmArgs) -> int:
    from fieldmark.store import Store, nothing_stored

    states = [*args.state, *["superseded"] * args.superseded, *["failed"] * args.failed]
    n_ways = bool(args.run) + bool(states or args.model or args.task) + args.all
    if n_ways == 0:
        raise UsageError(
            "say which: `fieldmark runs rm ID`, a flag such as --superseded, or --all."
        )
    if n_ways > 1:
        raise UsageError("name runs, or choose them by flags, or take --all: only one of these.")
    path = args.common.settings().store
    if not path.exists():
        raise nothing_stored(path)
    with Store.open(path, read_only=args.dry_run) as store:
        chosen = _chosen(store, args, states)
        _refuse_claimed(chosen)
        if not args.dry_run:
            store.drop_runs([standing.run.key for standing in chosen])
    if args.json:
        print_json([standing.plain() for standing in chosen])
        return 0
    show_rows([standing.row() for standing in chosen], False, RIGHT)
    does = "would be removed" if args.dry_run else "removed"
    talk(f"{counted(len(chosen), 'run')} {does} from {path}.")
    return 0


def _chosen(store: Store, args: RunsRmArgs, states: list[str]) -> list[Standing]:
    every = standings(store, args.model, args.task, states)
    if not args.run:
        return every
    by_key = {standing.run.key: standing for standing in every}
    ids = {standing.run.id: standing.run.key for standing in every}
    return [by_key[key] for key in keys_of(args.run, ids, list(by_key))]


def _refuse_claimed(chosen: list[Standing]) -> None:
    problems = [
        f"run {standing.run.id} is in the hands of {who(standing.claim)}: stop that one first."
        for standing in chosen
        if standing.claim is not None
    ]
    if problems:
        raise DataError(join_problems(problems, "nothing was removed"))
