"""Schema migration: which tables does the results file have, and how does an older one get them?

`sql/schema.sql` is the whole schema. A new file gets all of it. In an older one, tables that are
defined otherwise are made anew and take over the columns that both have; the rest is not touched.
A version that gives a column another meaning needs a step of its own here. All of it happens in one
transaction of the caller's, so that a file has one version or the other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path

VERSION = 5
OLDEST = 2
"""the first version whose predictions are in `answer`: runs of an older one cannot be taken over"""
APPLICATION_ID = 0x464D524B  # "FMRK", as in sql/schema.sql


def schema() -> str:
    folder = resources.files("fieldmark.store") / "sql"
    return (folder / "schema.sql").read_text(encoding="utf-8") + f"PRAGMA user_version = {VERSION};"


@contextmanager
def tables_may_move(connection: sqlite3.Connection) -> Iterator[None]:
    """References stay as they are written while a table makes room for its successor.

    Around the transaction, not within it: SQLite ignores `foreign_keys` there.
    https://www.sqlite.org/lang_altertable.html#otheralter
    """
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA legacy_alter_table = ON")
    try:
        yield
    finally:
        connection.execute("PRAGMA legacy_alter_table = OFF")
        connection.execute("PRAGMA foreign_keys = ON")


def apply(connection: sqlite3.Connection) -> None:
    """Gives the file the tables of this version, whatever it had."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(schema())
        wanted = _objects(memory)
    there = _objects(connection)
    for kind, name in [item for item in there if item[0] != "table"]:
        connection.execute(f"DROP {kind} {name}")
    tables = {item: sql for item, sql in there.items() if item[0] == "table"}
    stale = [item[1] for item, sql in tables.items() if wanted.get(item) != sql]
    for name in stale:
        connection.execute(f"ALTER TABLE {name} RENAME TO former_{name}")
    for item, sql in wanted.items():
        if tables.get(item) != sql:
            connection.execute(sql)
    for name in stale:
        if ("table", name) in wanted:
            _take_over(connection, name)
        connection.execute(f"DROP TABLE former_{name}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _objects(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """What was created, by kind and name, in that order."""
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_master "
        "WHERE sql IS NOT NULL AND name NOT GLOB 'sqlite_*' ORDER BY rowid"
    )
    return {(kind, name): sql for kind, name, sql in rows}


def _take_over(connection: sqlite3.Connection, name: str) -> None:
    former = set(_columns(connection, f"former_{name}"))
    common = ", ".join(column for column in _columns(connection, name) if column in former)
    connection.execute(f"INSERT INTO {name} ({common}) SELECT {common} FROM former_{name}")
    # the highest number ever given goes along, where numbers are never given twice
    connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", [name])
    connection.execute(
        "UPDATE sqlite_sequence SET name = ? WHERE name = ?", [name, f"former_{name}"]
    )


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [
        name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", [table])
    ]


def copy_beside(source: sqlite3.Connection, path: Path, version: int) -> Path:
    """A copy of the file, with what its write-ahead log holds; an earlier one is left alone."""
    names = [f"{path.name}.version-{version}"]
    names += [f"{names[0]}.{number}" for number in range(2, 100)]
    free = [path.with_name(name) for name in names if not path.with_name(name).exists()]
    unfinished = path.with_name(f"{names[0]}.unfinished")
    try:
        with closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
        unfinished.replace(free[0])
    finally:
        unfinished.unlink(missing_ok=True)
    return free[0]
