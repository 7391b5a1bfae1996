"""Which process is on a run, so that a second one does not do it again?

A claim holds while its process lives, or, where that cannot be seen (another machine, another
container), while its heartbeat is younger than ten minutes.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from fieldmark.store.database import Database
from fieldmark.store.place import birth, host, is_alive, this_place
from fieldmark.store.records import Claim, utc_now

SILENCE = timedelta(minutes=10)
_COLUMNS = "key, host, place, pid, born, started, heartbeat"


def take(database: Database, key: str) -> bool:
    """Makes the run this process's own; False when another living one has it."""
    mine = _mine(key)
    with database.writing() as connection:
        row = connection.execute(f"SELECT {_COLUMNS} FROM claim WHERE key = ?", [key]).fetchone()
        if row and not _is_same_process(held := Claim(*row), mine) and not is_stale(held):
            return False
        connection.execute(
            f"INSERT OR REPLACE INTO claim ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [mine.key, mine.host, mine.place, mine.pid, mine.born, mine.started, mine.heartbeat],
        )
    return True


def beat(database: Database, key: str) -> bool:
    """Says that this process is still on it; False when another one took the run over."""
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
    """The claims that hold, by run key, those of this process included. Changes nothing."""
    rows = database.rows(f"SELECT {_COLUMNS} FROM claim ORDER BY key")
    return {claim.key: claim for claim in (Claim(*row) for row in rows) if not is_stale(claim)}


def is_stale(claim: Claim) -> bool:
    if claim.place and claim.place == this_place():
        return not is_alive(claim.pid, claim.born)
    return datetime.now(UTC) - datetime.fromisoformat(claim.heartbeat) > SILENCE


def _mine(key: str) -> Claim:
    now, pid = utc_now(), os.getpid()
    return Claim(key, host(), this_place(), pid, birth(pid), now, now)


def _is_same_process(one: Claim, other: Claim) -> bool:
    return (one.place, one.pid, one.born) == (other.place, other.pid, other.born)
