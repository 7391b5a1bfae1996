"""Free the claim of a process on a run, so that another one may do it.

Only needed where fieldmark cannot see that the process is gone: on another machine, in a container.
One that is still alive stops at its next write to the run.

examples:
  fieldmark runs free 12
  fieldmark runs free --all
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._runs import SHORT, Words, keys_of, who
from fieldmark.cli._show import counted, talk
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class RunsFreeArgs:
    run: Words = ()
    """numbers or keys, as `runs ls` shows them"""
    all: bool = False
    """every claim"""
    common: CommonFlags = Common()


def run(args: RunsFreeArgs) -> int:
    from fieldmark.store import Store, nothing_stored

    if bool(args.run) == args.all:
        raise UsageError("say which: `fieldmark runs free ID`, or --all for every claim.")
    path = args.common.settings().store
    if not path.exists():
        raise nothing_stored(path)
    n_freed = 0
    with Store.open(path) as store:
        living = store.claims()
        ids = {stored.id: stored.key for stored in store.runs()}
        known = [*ids.values(), *living]
        for key in list(living) if args.all else keys_of(args.run, ids, known):
            claim = store.free(key)
            if claim is None or key not in living:
                talk(f"{key[:SHORT]}  nobody was on it")
                continue
            n_freed += 1
            since = f"since {claim.started}, last heard of {claim.heartbeat}"
            talk(f"{key[:SHORT]}  freed; it was held by {who(claim)} {since}")
    talk(f"{counted(n_freed, 'claim')} freed.")
    return 0
