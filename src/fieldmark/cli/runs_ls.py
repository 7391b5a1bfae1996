"""List the runs: how each stands, what it ran on, and who is on it now.

killed: it stopped half-way and goes on with the same command. superseded: its photos or labels were
changed in place and a later run has the new ones.

examples:
  fieldmark runs ls
  fieldmark runs ls --task newt --state failed --state killed
  fieldmark runs ls --json
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._runs import RIGHT, Names, States, standings
from fieldmark.cli._show import counted, print_json, show_rows, talk


@dataclass(frozen=True, slots=True)
class RunsLsArgs:
    model: Annotated[Names, arg(metavar="MODEL")] = ()
    """only these (* and ? work)"""
    task: Annotated[Names, arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    state: States = ()
    """only these"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: RunsLsArgs) -> int:
    from fieldmark.store import Store, nothing_stored

    path = args.common.settings().store
    if not path.exists():
        raise nothing_stored(path)
    with Store.open(path, read_only=True) as store:
        runs = standings(store, args.model, args.task, args.state)
    if args.json:
        print_json([standing.plain() for standing in runs])
        return 0
    show_rows([standing.row() for standing in runs], False, RIGHT)
    talk(f"{counted(len(runs), 'run')} in {path}. `runs rm` removes, `runs free` frees claims.")
    return 0
