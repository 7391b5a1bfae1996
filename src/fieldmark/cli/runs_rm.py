"""Remove runs with their predictions and scores. This cannot be undone; try --dry-run first.

Several kinds of flags choose the runs that match all of them. Runs in progress are not removed.

examples:
  fieldmark runs rm 12 3fa9c2d1
  fieldmark runs rm --superseded
  fieldmark runs rm --model 'my_model.py:*' --failed --dry-run
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldmark.cli._flags import RunChoice, existing_store
from fieldmark.cli._runs import RunNames, Standing, States, keys_of, show_runs, standings, who
from fieldmark.errors import DataError, UsageError, join_problems

if TYPE_CHECKING:
    from fieldmark.store import Store


@dataclass(frozen=True, slots=True)
class RunsRmArgs(RunChoice):
    run: RunNames = ()
    """numbers or keys, as `runs ls` shows them"""
    superseded: bool = False
    """only runs whose photos or labels were changed in place, and that were run again since"""
    failed: bool = False
    """only runs that failed"""
    state: States = ()
    """only runs in these states"""
    all: bool = False
    """remove every run"""
    dry_run: bool = False
    """only show what would be removed"""
    json: bool = False
    """print JSON"""


def run(args: RunsRmArgs) -> int:
    from fieldmark.store import Store

    states = [*args.state, *["superseded"] * args.superseded, *["failed"] * args.failed]
    n_ways = bool(args.run) + bool(states or args.model or args.task) + args.all
    if n_ways == 0:
        raise UsageError(
            "which runs? `fieldmark runs rm ID`, a flag such as --superseded, or --all."
        )
    if n_ways > 1:
        raise UsageError("give runs, or flags that choose them, or --all: only one of the three.")
    path = existing_store(args.common)
    with Store.open(path, read_only=args.dry_run) as store:
        chosen = _chosen(store, args, states)
        _refuse_claimed(chosen)
        if not args.dry_run:
            store.drop_runs([standing.run.name for standing in chosen])
    does = "would be removed" if args.dry_run else "removed"
    show_runs(chosen, args.json, f"{does} from {path}.")
    return 0


def _chosen(store: Store, args: RunsRmArgs, states: list[str]) -> list[Standing]:
    every = standings(store, args.where, states)
    if not args.run:
        return every
    by_id = {standing.run.id: standing for standing in every}
    chosen = (_named(word, by_id) for word in args.run)
    return list({standing.run.id: standing for standing in chosen}.values())


def _named(word: str, by_id: Mapping[int, Standing]) -> Standing:
    """The run of that number, or of that key where only one has it."""
    if word.isdecimal() and int(word) in by_id:
        return by_id[int(word)]
    (key,) = keys_of([word], {}, [standing.run.key for standing in by_id.values()])
    numbers = [number for number, standing in by_id.items() if standing.run.key == key]
    if len(numbers) > 1:
        shown = ", ".join(map(str, numbers))
        raise UsageError(
            f"{len(numbers)} runs have the key {word}: give a number instead ({shown})."
        )
    return by_id[numbers[0]]


def _refuse_claimed(chosen: list[Standing]) -> None:
    problems = [
        f"run {standing.run.id} is being run by {who(standing.claim)}: stop that one first."
        for standing in chosen
        if standing.claim is not None
    ]
    if problems:
        raise DataError(join_problems(problems, "nothing was removed"))
