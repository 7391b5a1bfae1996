"""Claims (locks with a heartbeat): which process is on a run, so that no second one does it too?

A lease (`fieldmark.leases`) that is a row of the results file, so that the transaction that writes
to a run can check it. It holds while its process lives, or, where that cannot be seen (another
machine, another container), while its heartbeat is younger than two minutes. A process whose claim
another one took, or somebody freed, must not write to the run any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from dataclasses import astuple
from datetime import UTC, datetime, timedelta

from fieldmark.errors import ClaimLost
from fieldmark.leases import Holder, wait_until_heard
from fieldmark.store.database import Database
from fieldmark.store.records import Claim, utc_now

SILENCE = timedelta(minutes=2)
_COLUMNS = "key, host, place, pid, born, started, heartbeat"


def take(database: Database, key: str) -> bool:
    """Makes the run this process's own; False when another living one has it."""
    mine = _mine(key)
    with database.writing() as connection:
        if other(connection, key) is not None:
            return False
        connection.execute(
            f"INSERT OR REPLACE INTO claim ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            astuple(mine),
        )
    return True


def other(connection: sqlite3.Connection, key: str) -> Claim | None:
    """The claim of another living process on the run."""
    held = _held(connection, key)
    is_free = held is None or _is_same_process(held, _mine(key)) or is_stale(held)
    return None if is_free else held


def check(connection: sqlite3.Connection, key: str, is_held: bool) -> None:
    """ClaimLost when another process is on the run, or the claim that `is_held` is not there."""
    if (holder := other(connection, key)) is not None:
        raise ClaimLost(
            f"run {key[:8]} is in the hands of process {holder.pid} on {holder.host}: left to that "
            f"one. `fieldmark runs free {key[:8]}` takes it away."
        )
    held = _held(connection, key) if is_held else None
    if is_held and (held is None or not _is_same_process(held, _mine(key))):
        raise ClaimLost(
            f"run {key[:8]} was taken from this process by another one or by `fieldmark runs free`."
        )


def _held(connection: sqlite3.Connection, key: str) -> Claim | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM claim WHERE key = ?", [key]).fetchone()
    return Claim(*row) if row else None


def free(database: Database, key: str) -> Claim | None:
    """Takes the claim away from whoever has it."""
    with database.writing() as connection:
        held = _held(connection, key)
        connection.execute("DELETE FROM claim WHERE key = ?", [key])
        return held


def beat(database: Database, key: str) -> bool:
    """Says that this process is still on it; False when its claim was taken over or freed."""
    mine = _mine(key)
    with database.writing() as connection:
        done = connection.execute(
            "UPDATE claim SET heartbeat = ? WHERE key = ? AND place = ? AND pid = ? AND born = ?",
            [mine.heartbeat, key, mine.place, mine.pid, mine.born],
        )
        return done.rowcount == 1


def give_back(database: Database, key: str) -> None:
    mine = _mine(key)
    with database.writing() as connection:
        connection.execute(
            "DELETE FROM claim WHERE key = ? AND place = ? AND pid = ? AND born = ?",
            [key, mine.place, mine.pid, mine.born],
        )


def living(database: Database) -> dict[str, Claim]:
    """The claims that hold, by key, those of this process included. Changes nothing."""
    rows = database.rows(f"SELECT {_COLUMNS} FROM claim ORDER BY key")
    return {claim.key: claim for claim in (Claim(*row) for row in rows) if not is_stale(claim)}


def wait_for_unseen(database: Database, keys: Collection[str], tell: Callable[[str], None]) -> None:
    """Waits while it is not known whether those who are on these runs live: until their hearts beat
    once, or their claims run out.
    """

    def silent() -> dict[str, str]:
        held = living(database)
        unseen = (
            held[key] for key in keys if key in held and _holder(held[key]).is_running is None
        )
        return {claim.key: claim.heartbeat for claim in unseen}

    wait_until_heard(silent, tell)


def is_stale(claim: Claim) -> bool:
    if (is_running := _holder(claim).is_running) is not None:
        return not is_running
    # One from the future is as old as one from the past: a clock was set.
    return abs(datetime.now(UTC) - datetime.fromisoformat(claim.heartbeat)) > SILENCE


def _holder(claim: Claim) -> Holder:
    return Holder(claim.host, claim.place, claim.pid, claim.born)


def _mine(key: str) -> Claim:
    here, now = Holder.here(), utc_now()
    return Claim(key, here.host, here.place, here.pid, here.born, now, now)


def _is_same_process(one: Claim, other: Claim) -> bool:
    return (one.place, one.pid, one.born) == (other.place, other.pid, other.born)
