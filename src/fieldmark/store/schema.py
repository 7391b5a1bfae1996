"""Schema: which tables does the results file have?

`sql/schema.sql` is the whole schema, and a new file gets all of it. A file of an older version is
refused and never changed: its runs do not say what readers must be told of them.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import resources

VERSION = 6
APPLICATION_ID = 0x464D524B  # "FMRK", as in sql/schema.sql


def schema() -> str:
    folder = resources.files("fieldmark.store") / "sql"
    return (folder / "schema.sql").read_text(encoding="utf-8") + f"PRAGMA user_version = {VERSION};"


def create(connection: sqlite3.Connection) -> None:
    """Makes the tables within a transaction of the caller's, which `executescript` would end."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(schema())
        made = memory.execute(
            "SELECT sql FROM sqlite_master "
            "WHERE sql IS NOT NULL AND name NOT GLOB 'sqlite_*' ORDER BY rowid"
        ).fetchall()
    for (sql,) in made:
        connection.execute(sql)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
