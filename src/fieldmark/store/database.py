"""How is the results file opened, brought up to date and written without losing anything?

Whatever is made or changed is one transaction. A store of an older version is brought up to date
wherever it is opened, after a copy was put beside it; otherwise reading changes nothing, and a
missing file is answered by an empty store in memory.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.errors import StoreError
from fieldmark.store import problems, schema
from fieldmark.store.place import is_on_network

_log = logging.getLogger(__name__)

_CACHE_KIB = 65_536
_RIGHTS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


@contextmanager
def explained(path: Path, timeout_s: float) -> Iterator[None]:
    """Tells faults of the file in one line."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
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
    inode: tuple[int, int] | None = None
    """which file was opened; None: the store is in memory"""

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
                self._check_in_place()
                self.connection.execute("COMMIT")
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    def _check_in_place(self) -> None:
        """A file that was removed can be written as before, and nobody will find it again."""
        if self.inode is not None and _inode(self.path) != self.inode:
            raise problems.gone(self.path)


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
    with _closed_on_error(database.connection):
        version = _checked_version(database)
        _set_journal(database)
        if version < schema.VERSION:
            _bring_up_to_date(database)
        else:  # A change of nothing: better told now than later that the file is read-only.
            with database.writing() as connection:
                connection.execute("DELETE FROM claim WHERE false")
    return database


def _open_to_read(path: Path, timeout_s: float) -> Database:
    if not path.exists() or path.stat().st_size == 0:
        return _empty(path, timeout_s)
    database = _connect_to_read(path, timeout_s)
    with _closed_on_error(database.connection):
        version = _checked_version(database)
    if version == schema.VERSION:
        return database
    database.connection.close()
    if version == 0:
        return _empty(path, timeout_s)
    try:
        _open_to_write(path, timeout_s).connection.close()
    except (sqlite3.Error, StoreError) as error:
        if _is_about_rights(error) or _is_about_rights(error.__cause__):
            raise problems.older(path, version, schema.VERSION) from error
        raise
    return _open_to_read(path, timeout_s)


def _bring_up_to_date(database: Database) -> None:
    """Makes the tables of a new file, or those an older one lacks; another process may be first."""
    path = database.path
    with schema.tables_may_move(database.connection), database.writing() as connection:
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        if version >= schema.VERSION:
            return
        if version and connection.execute("SELECT 1 FROM run LIMIT 1").fetchone():
            if version < schema.OLDEST:
                raise problems.too_old(path, version)
            # by a connection of its own: this one is about to write
            with closing(_connect(path, "mode=ro", database.timeout_s).connection) as source:
                copy = schema.copy_beside(source, path, version)
            _log.info("%s: store version %d -> %d, copy in %s", path, version, schema.VERSION, copy)
        schema.apply(connection)


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
            if not _is_about_rights(error) or way != "mode=rw":
                raise
    raise AssertionError("the last way returns or raises")


def _is_about_rights(error: BaseException | None) -> bool:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _RIGHTS


def _empty(path: Path, timeout_s: float) -> Database:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(schema.schema())
    connection.execute("PRAGMA query_only = ON")
    return Database(connection, path, timeout_s)


def _connect(path: Path, options: str, timeout_s: float, *pragmas: str) -> Database:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=timeout_s,
        isolation_level=None,  # transactions are begun by hand; autocommit= came with 3.12
    )
    with _closed_on_error(connection):
        for pragma in (*pragmas, "PRAGMA foreign_keys = ON", f"PRAGMA cache_size = -{_CACHE_KIB}"):
            connection.execute(pragma)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return Database(connection, path, timeout_s, _inode(path))


def _inode(path: Path) -> tuple[int, int]:
    """Which file the path leads to; (0, 0): none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _checked_version(database: Database) -> int:
    """The file's version; 0 for an empty one. Refuses other programs' files and newer ones."""
    ((version,),) = database.rows("PRAGMA user_version")
    ((application,),) = database.rows("PRAGMA application_id")
    ((n_tables,),) = database.rows("SELECT count(*) FROM sqlite_master")
    if application != schema.APPLICATION_ID and (application or version or n_tables):
        raise problems.foreign(database.path)
    if version > schema.VERSION:
        raise problems.newer(database.path, version, schema.VERSION)
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
