"""Free a run that a process has claimed, so that another process can take it.

Only needed where fieldmark cannot see that the process has ended: on another machine, or in a
container. A process that is still alive stops when it next writes to the run.

examples:
  fieldmark runs free 12
  fieldmark runs free --all
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.cli._flags import Common, CommonFlags, existing_store
from fieldmark.cli._runs import SHORT, RunNames, keys_of, who
from fieldmark.cli._show import counted, talk
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class RunsFreeArgs:
    run: RunNames = ()
    """numbers or keys, as `runs ls` shows them"""
    all: bool = False
    """free every claimed run"""
    common: CommonFlags = Common()


def run(args: RunsFreeArgs) -> int:
    from fieldmark.store import Store

    if bool(args.run) == args.all:
        raise UsageError("which runs? `fieldmark runs free ID`, or --all for every claimed run.")
    n_freed = 0
    with Store.open(existing_store(args.common)) as store:
        living = store.claims()
        ids = {stored.id: stored.key for stored in store.runs()}
        known = [*ids.values(), *living]
        for key in list(living) if args.all else keys_of(args.run, ids, known):
            claim = store.free(key)
            if claim is None or key not in living:
                talk(f"{key[:SHORT]}  was not claimed")
                continue
            n_freed += 1
            since = f"since {claim.started}, last heard of {claim.heartbeat}"
            talk(f"{key[:SHORT]}  freed; it was held by {who(claim)} {since}")
    talk(f"{counted(n_freed, 'claim')} freed.")
    return 0
