"""How is the results file opened, brought up to date and written without losing anything?

Migrations are the numbered files in `sql/`, each applied in one transaction (with the step in
Python that belongs to it) that also raises `PRAGMA user_version`. Reading never changes the file: a
missing one is answered by an empty store in memory.
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

from fieldmark.store import problems
from fieldmark.store.place import is_on_network

_CACHE_KIB = 65_536
_RIGHTS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_PACKED = 2
"""the version whose predictions are columns"""
APPLICATION_ID = 0x464D524B  # "FMRK", as in sql/0001_runs.sql


@contextmanager
def explained(path: Path, timeout_s: float) -> Iterator[None]:
    """Tells faults of the file in one line."""
    try:
        yield
    except sqlite3.Error as error:
        told = problems.explain(error, path, timeout_s)
        if told is None:
            raise
        raise told from error


@dataclass(frozen=True, slots=True)
class Database:
    """A connection whose faults are told in one line."""

    connection: sqlite3.Connection
    path: Path
    timeout_s: float

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with explained(self.path, self.timeout_s):
            return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is written, or nothing."""
        with explained(self.path, self.timeout_s):
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
    try:
        if path.is_dir():
            raise problems.is_folder(path)
        with explained(path, timeout_s):
            return _open_to_read(path, timeout_s) if read_only else _open_to_write(path, timeout_s)
    except OSError as error:  # a folder on the way cannot be entered
        raise problems.unreachable(path, error) from error


def _open_to_write(path: Path, timeout_s: float) -> Database:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise problems.no_folder(path.parent, error) from error
    database = _connect(path, "mode=rwc", timeout_s)
    with _closed_on_error(database):
        _checked_version(database)
        _set_journal(database)
        _migrate(database)
    return database


def _open_to_read(path: Path, timeout_s: float) -> Database:
    if not path.exists() or path.stat().st_size == 0:
        return _empty(path, timeout_s)
    database = _connect_to_read(path, timeout_s)
    with _closed_on_error(database):
        version = _checked_version(database)
        if 0 < version < len(migrations()):
            raise problems.older(path, version, len(migrations()))
    if version == 0:
        database.connection.close()
        return _empty(path, timeout_s)
    return database


def _connect_to_read(path: Path, timeout_s: float) -> Database:
    """A connection that writes nothing and leaves no -wal and -shm file behind.

    SQLite needs these two to read a file in WAL mode, and only a connection opened for writing
    clears them away when it closes. Where the folder is read-only they cannot be made: then nobody
    writes here either, and the file can be read as one that does not change.
    """
    has_wal = path.with_name(f"{path.name}-wal").exists()
    for way in ["mode=rw", "mode=ro"] if has_wal else ["mode=rw", "mode=ro&immutable=1"]:
        try:
            return _connect(path, way, timeout_s, "PRAGMA query_only = ON")
        except sqlite3.Error as error:
            is_about_rights = error.sqlite_errorcode & 0xFF in _RIGHTS
            if not is_about_rights or way != "mode=rw":
                raise
    raise AssertionError("the last way returns or raises")


def _empty(path: Path, timeout_s: float) -> Database:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    database = Database(connection, path, timeout_s)
    _migrate(database)
    connection.execute("PRAGMA query_only = ON")
    return database


def _connect(path: Path, options: str, timeout_s: float, *pragmas: str) -> Database:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=timeout_s,
        isolation_level=None,  # transactions are begun by hand; autocommit= came with 3.12
    )
    database = Database(connection, path, timeout_s)
    with _closed_on_error(database):
        for pragma in (*pragmas, "PRAGMA foreign_keys = ON", f"PRAGMA cache_size = -{_CACHE_KIB}"):
            connection.execute(pragma)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return database


@contextmanager
def _closed_on_error(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.connection.close()
        raise


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
    """Applies what is missing, one transaction each; another process may do the same at once."""
    known = migrations()
    while True:
        with database.writing() as connection:
            ((version,),) = connection.execute("PRAGMA user_version").fetchall()
            if version >= len(known):
                # A change of nothing: better told now than later that the file is read-only.
                connection.execute("DELETE FROM claim WHERE false")
                return
            for statement in statements(known[version]):
                connection.execute(statement)
            if version + 1 == _PACKED:
                from fieldmark.store.columns import pack_rows  # numpy: not needed to open a file

                pack_rows(connection)
            connection.execute(f"PRAGMA user_version = {version + 1}")


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
