"""List the runs: the state of each, its data, and the process that works on it now.

killed: it stopped half-way; the same command continues it. superseded: its photos or labels were
changed in place, and a later run used the new ones.

examples:
  fieldmark runs ls
  fieldmark runs ls --task newt --state failed --state killed
  fieldmark runs ls --json
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.cli._flags import RunChoice, existing_store
from fieldmark.cli._runs import States, show_runs, standings


@dataclass(frozen=True, slots=True)
class RunsLsArgs(RunChoice):
    state: States = ()
    """only runs in these states"""
    json: bool = False
    """print JSON"""


def run(args: RunsLsArgs) -> int:
    path = existing_store(args.common)
    with args.open_store() as store:
        runs = standings(store, args.where, args.state)
    show_runs(runs, args.json, f"in {path}. `runs rm` removes runs, `runs free` frees claims.")
    return 0
