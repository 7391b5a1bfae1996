"""Claims (locks with a heartbeat): which process is on a run, so that no second one does it too?

A lease (`fieldmark.leases`) that is a row of the results file, so that the transaction that writes
to a run can check it. It holds while its process lives, or, where that cannot be seen (another
machine, another container), while its heartbeat is younger than two minutes. A process whose claim
another one took, or somebody freed, must not write to the run any more.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

from fieldmark.errors import ClaimLost
from fieldmark.leases import Holder
from fieldmark.store.records import Claim, utc_now

SILENCE = timedelta(minutes=2)
COLUMNS = "key, host, place, pid, born, started, heartbeat"


def other(connection: sqlite3.Connection, key: str) -> Claim | None:
    """The claim of another living process on the run."""
    held = holding(connection, key)
    is_free = held is None or _is_same_process(held, mine(key)) or is_stale(held)
    return None if is_free else held


def check(connection: sqlite3.Connection, key: str, is_held: bool) -> None:
    """ClaimLost when another process is on the run, or the claim that `is_held` is not there."""
    if (holder := other(connection, key)) is not None:
        raise ClaimLost(
            f"process {holder.pid} on {holder.host} is working on run {key[:8]}, so this one left "
            f"it alone. If that process has ended, type `fieldmark runs free {key[:8]}`."
        )
    held = holding(connection, key) if is_held else None
    if is_held and (held is None or not _is_same_process(held, mine(key))):
        raise ClaimLost(
            f"run {key[:8]} was taken over by another process, or freed by `fieldmark runs free`."
        )


def holding(connection: sqlite3.Connection, key: str) -> Claim | None:
    """The claim on the key, whether it still holds or not."""
    row = connection.execute(f"SELECT {COLUMNS} FROM claim WHERE key = ?", [key]).fetchone()
    return Claim(*row) if row else None


def mine(key: str) -> Claim:
    """A claim of this process, made now."""
    here, now = Holder.here(), utc_now()
    return Claim(key, here.host, here.place, here.pid, here.born, now, now)


def is_running(claim: Claim) -> bool | None:
    """Does its process live? None: that cannot be seen from here."""
    return Holder(claim.host, claim.place, claim.pid, claim.born).is_running


def is_stale(claim: Claim) -> bool:
    if (lives := is_running(claim)) is not None:
        return not lives
    # One from the future is as old as one from the past: a clock was set.
    return abs(datetime.now(UTC) - datetime.fromisoformat(claim.heartbeat)) > SILENCE


def _is_same_process(one: Claim, other: Claim) -> bool:
    return (one.place, one.pid, one.born) == (other.place, other.pid, other.born)
