"""How is the results file opened, brought up to date and written without losing anything?

Migrations are the numbered files in `sql/`, each applied in one transaction that also raises
`PRAGMA user_version`. Reading never changes the file: a missing one is answered by an empty store
in memory.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fieldmark.store import problems
from fieldmark.store.place import is_on_network

_CACHE_KIB = 65_536
APPLICATION_ID = 0x464D524B  # "FMRK", as in sql/0001_runs.sql


@dataclass(frozen=True, slots=True)
class Database:
    """A connection whose faults are told in one line."""

    connection: sqlite3.Connection
    path: Path
    timeout_s: float

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            told = problems.explain(error, self.path, self.timeout_s)
            if told is None:
                raise
            raise told from error

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self.explained():
            return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is written, or nothing."""
        with self.explained():
            # IMMEDIATE: a transaction that reads first and then writes could not wait for its turn.
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")


def open_database(path: Path, read_only: bool, timeout_s: float) -> Database:
    problems.check_sqlite()
    if path.is_dir():
        raise problems.is_folder(path)
    return _open_to_read(path, timeout_s) if read_only else _open_to_write(path, timeout_s)


def _open_to_write(path: Path, timeout_s: float) -> Database:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise problems.no_folder(path.parent, error) from error
    database = _connect(path, "mode=rwc", timeout_s)
    try:
        with database.explained():
            version = _checked_version(database)
            _set_journal(database)
            if version < len(migrations()):
                _migrate(database)
    except BaseException:
        database.connection.close()
        raise
    return database


def _open_to_read(path: Path, timeout_s: float) -> Database:
    if not path.exists() or path.stat().st_size == 0:
        return _empty(path, timeout_s)
    database = _connect_to_read(path, timeout_s)
    try:
        with database.explained():
            version = _checked_version(database)
        if version == 0:
            return _empty(path, timeout_s)
        if version < len(migrations()):
            raise problems.older(path, version, len(migrations()))
    except BaseException:
        database.connection.close()
        raise
    return database


def _connect_to_read(path: Path, timeout_s: float) -> Database:
    """A connection that writes nothing and leaves no -wal and -shm file behind.

    SQLite needs these two to read a file in WAL mode, and only a connection opened for writing
    clears them away when it closes. Where the folder is read-only they cannot be made: then
    nobody writes here either, and the file can be read as one that does not change.
    """
    with_wal = path.with_name(f"{path.name}-wal").exists()
    ways = ["mode=rw", "mode=ro"] + ([] if with_wal else ["mode=ro&immutable=1"])
    for way in ways:
        database = _connect(path, way, timeout_s)
        try:
            database.connection.execute("PRAGMA query_only = ON")
            database.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            database.connection.close()
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) and way != ways[-1]:
                continue
            raise problems.explain(error, path, timeout_s) or error from error
        break
    return database


def _empty(path: Path, timeout_s: float) -> Database:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    database = Database(connection, path, timeout_s)
    _migrate(database)
    connection.execute("PRAGMA query_only = ON")
    return database


def _connect(path: Path, options: str, timeout_s: float) -> Database:
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{options}",
            uri=True,
            timeout=timeout_s,
            isolation_level=None,  # transactions are begun by hand; autocommit= came with 3.12
        )
    except sqlite3.Error as error:
        raise problems.explain(error, path, timeout_s) or error from error
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return Database(connection, path, timeout_s)


def _checked_version(database: Database) -> int:
    """The file's version; 0 for an empty one. Refuses other programs' files and newer ones."""
    ((version,),) = database.rows("PRAGMA user_version")
    ((application,),) = database.rows("PRAGMA application_id")
    ((n_tables,),) = database.rows("SELECT count(*) FROM sqlite_master")
    if application != APPLICATION_ID and (application or version or n_tables):
        raise problems.foreign(database.path)
    if version > len(migrations()):
        raise problems.newer(database.path, version, len(migrations()))
    return int(version)


def _set_journal(database: Database) -> None:
    """WAL where shared memory works, the plain journal elsewhere.

    Changing the mode does not wait its turn as other statements do: two processes that make the
    same file at once need a second try.
    """
    wanted = "delete" if is_on_network(database.path) else "wal"
    until = time.monotonic() + database.timeout_s
    while database.rows("PRAGMA journal_mode") != [(wanted,)]:
        try:
            database.connection.execute(f"PRAGMA journal_mode = {wanted}")
            break  # SQLite keeps another mode where it cannot have this one: that is fine too
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _migrate(database: Database) -> None:
    """Applies what is missing, one transaction each; another process may have done it meanwhile."""
    for number, sql in enumerate(migrations(), start=1):
        with database.writing() as connection:
            ((version,),) = connection.execute("PRAGMA user_version").fetchall()
            if version >= number:
                continue
            for statement in statements(sql):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")


def migrations() -> list[str]:
    """The texts of `sql/NNNN_*.sql`, in order; the n-th leads to version n."""
    folder = resources.files("fieldmark.store") / "sql"
    files = {each.name: each for each in folder.iterdir() if each.name.endswith(".sql")}
    return [files[name].read_text(encoding="utf-8") for name in sorted(files)]


def statements(sql: str) -> Iterator[str]:
    """The single statements of a script: `execute` takes one, and `executescript` commits first."""
    text = ""
    for line in sql.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""
    if text.strip():
        yield text
