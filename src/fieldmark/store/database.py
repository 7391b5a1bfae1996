"""SQLite connection: how is the results file opened and written safely?

Whatever is made or changed is one transaction. `sql/schema.sql` is the whole schema, and a new file
gets all of it. A file of another version is refused and never changed. Reading changes nothing,
and a missing file is answered by an empty store in memory. WAL needs memory that all processes
share, which network file systems do not have. A fault of SQLite is told in one line: the path, what
is wrong, what to do; faults that only a bug in fieldmark can cause are left as they are.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fieldmark.errors import DataError, StoreError, at
from fieldmark.files import filesystem_of

VERSION = 9
APPLICATION_ID = 0x464D524B  # "FMRK", as in sql/schema.sql
RWC, ALONE = "mode=rwc", "nolock=1"
_CACHE_KIB = 65_536
_RIGHTS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


@contextmanager
def explained(path: Path, timeout_s: float) -> Iterator[None]:
    """Tells faults of the file in one line."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        fault = _explain(error, path, timeout_s)
        if fault is None:
            raise
        raise fault from error


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
                # A file that was removed can be written as before, and nobody finds it again.
                if self.inode is not None and _inode(self.path) != self.inode:
                    raise _fault(
                        self.path,
                        "was removed or replaced while it was in use: what was written since is "
                        "lost. Run the same command again.",
                    )
                self.connection.execute("COMMIT")
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")


def open_database(
    path: Path, read_only: bool, timeout_s: float, is_private: bool = False
) -> Database:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"this Python's SQLite {sqlite3.sqlite_version} is too old, {oldest} is needed: "
            "use a newer Python, such as the one `uv python install` brings."
        )
    try:
        if path.is_dir():
            raise _fault(path, "is a folder: the store is one file, such as results.db.")
        with explained(path, timeout_s):
            if read_only:
                return _open_to_read(path, timeout_s, is_private)
            return _open_to_write(path, timeout_s, is_private)
    except OSError as error:  # a folder on the way cannot be entered
        why = error.strerror or error
        text = f"cannot be reached ({why}): check its folders, {_ELSEWHERE}."
        raise _fault(path, text) from error


def _open_to_write(path: Path, timeout_s: float, is_private: bool = False) -> Database:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        text = f"cannot be made ({why}): make this folder by hand, {_ELSEWHERE}."
        raise _fault(path.parent, text) from error
    database = _connect_alone(path, timeout_s) if is_private else _connect(path, RWC, timeout_s)
    with _closed_on_error(database.connection):
        version = _checked_version(database)
        _set_journal(database, is_private)
        if version == 0:
            _make_tables(database)
        else:  # A change of nothing: better told now than later that the file is read-only.
            with database.writing() as connection:
                connection.execute("DELETE FROM claim WHERE false")
    return database


def _open_to_read(path: Path, timeout_s: float, is_private: bool = False) -> Database:
    if not path.exists() or path.stat().st_size == 0:
        return _empty(path, timeout_s)
    # ro: this process may have the file open for writing too, and its journal is not for a second
    # connection to play back
    way = f"mode=ro&{ALONE}"
    database = _connect(path, way, timeout_s) if is_private else _connect_to_read(path, timeout_s)
    with _closed_on_error(database.connection):
        version = _checked_version(database)
    if version:
        return database
    database.connection.close()
    return _empty(path, timeout_s)


def _make_tables(database: Database) -> None:
    """Of a new file; another process may be first. `executescript` would end the transaction, so
    the script runs in memory, and what it made is made here statement by statement.
    """
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(_schema())
        made = memory.execute(
            "SELECT sql FROM sqlite_master "
            "WHERE sql IS NOT NULL AND name NOT GLOB 'sqlite_*' ORDER BY rowid"
        ).fetchall()
    with database.writing() as connection:
        if connection.execute("PRAGMA user_version").fetchone() != (0,):
            return
        for (sql,) in made:
            connection.execute(sql)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _schema() -> str:
    file = resources.files("fieldmark.store") / "sql" / "schema.sql"
    return file.read_text(encoding="utf-8") + f"PRAGMA user_version = {VERSION};"


def _connect_alone(path: Path, timeout_s: float) -> Database:
    """A connection that asks for no lock: nobody else may have the file open.

    A rollback journal without locks is as safe against a crash as one with them, and needs nothing
    of a network file system but plain files. A write-ahead log cannot be had without locks, so a
    file that has one loses it first. https://www.sqlite.org/uri.html#urinolock
    """
    if _has_wal(path):
        with closing(_connect(path, RWC, timeout_s).connection) as connection:
            connection.execute("PRAGMA journal_mode = delete")
    return _connect(path, f"{RWC}&{ALONE}", timeout_s)


def _has_wal(path: Path) -> bool:
    """By its header (https://www.sqlite.org/fileformat.html): is the file in WAL mode?"""
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.read(20)[18:] == b"\x02\x02"


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
            is_about_rights = getattr(error, "sqlite_errorcode", 0) & 0xFF in _RIGHTS
            if not is_about_rights or way != "mode=rw":
                raise
    raise AssertionError("the last way returns or raises")


def open_unchanging(path: Path) -> Database:
    """A connection to a file that nobody writes: no locks, and nothing is written beside it."""
    database = _connect(path, "mode=ro&immutable=1", 0.0)
    with _closed_on_error(database.connection):
        _checked_version(database)
    return database


def _empty(path: Path, timeout_s: float) -> Database:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(_schema())
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
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _checked_version(database: Database) -> int:
    """The file's version; 0 for an empty one. Refuses other programs' files and versions."""
    ((version,),) = database.rows("PRAGMA user_version")
    ((application,),) = database.rows("PRAGMA application_id")
    ((n_tables,),) = database.rows("SELECT count(*) FROM sqlite_master")
    if application != APPLICATION_ID and (application or version or n_tables):
        raise _fault(
            database.path, f"is another program's SQLite database: move it away, {_ELSEWHERE}."
        )
    if version > VERSION:
        raise _fault(
            database.path,
            f"was written by a newer fieldmark (store version {version}, this one knows up to "
            f"{VERSION}): update fieldmark, {_ELSEWHERE}.",
            may_pass=True,
        )
    if 0 < version < VERSION:
        raise _fault(
            database.path,
            f"was written by an older fieldmark (store version {version}, this one wants "
            f"{VERSION}): move it away, {_ELSEWHERE}, and run the same command again.",
        )
    return int(version)


def _set_journal(database: Database, is_private: bool) -> None:
    """WAL where shared memory works, the plain journal elsewhere and in files of one process.

    Changing the mode does not wait its turn as other statements do: two processes that make the
    same file at once need a second try.
    """
    mode = "delete" if is_private or filesystem_of(database.path).is_shared else "wal"
    until = time.monotonic() + database.timeout_s
    while database.rows("PRAGMA journal_mode") != [(mode,)]:
        try:
            database.connection.execute(f"PRAGMA journal_mode = {mode}")
            break  # SQLite keeps another mode where it cannot have this one: that is fine too
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > until:
                raise
            time.sleep(0.02)


# --- faults of the file ---


OLDEST_SQLITE = (3, 37, 0)
"""the first with STRICT tables"""

_ELSEWHERE = "or choose another folder with --results"
_TEXTS = {
    sqlite3.SQLITE_BUSY: "is locked by another process (waited {waited:g} s): wait for it "
    "or stop it, then run the same command again.",
    sqlite3.SQLITE_READONLY: "cannot be written, the file or its folder is read-only: make it "
    f"writable, {_ELSEWHERE}.",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the permissions of the file and its folder, "
    f"{_ELSEWHERE}.",
    sqlite3.SQLITE_FULL: "could not grow, the disk is full: free some space, then run the same "
    "command again; finished parts are kept.",
    sqlite3.SQLITE_NOTADB: "is not a fieldmark store (not an SQLite file): move it away, "
    f"{_ELSEWHERE}.",
    sqlite3.SQLITE_CORRUPT: "is damaged: move it away and run the same command again; "
    "`sqlite3 {name} .recover` shows what can be saved.",
    sqlite3.SQLITE_IOERR: "could not be read or written ({error}): check the disk, then run the "
    "same command again.",
}
_TEXTS[sqlite3.SQLITE_LOCKED] = _TEXTS[sqlite3.SQLITE_PROTOCOL] = _TEXTS[sqlite3.SQLITE_BUSY]
_LASTING = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
"""faults of the file itself: all others are of the disk, of rights or of the moment"""
_TEXTS[sqlite3.SQLITE_PERM] = _TEXTS[sqlite3.SQLITE_CANTOPEN]


def _fault(path: Path, text: str, may_pass: bool = False) -> StoreError:
    return StoreError(at(path, None, text), may_pass)


def _explain(error: Exception, path: Path, waited_s: float) -> StoreError | None:
    """The line for a fault of the file, or None for anything else."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        code = sqlite3.SQLITE_CORRUPT
    text = _TEXTS.get(code & 0xFF) if code is not None else None
    if text is None:
        return None
    may_pass = code is not None and code & 0xFF not in _LASTING
    return _fault(path, text.format(waited=waited_s, name=path.name, error=error), may_pass)


def nothing_stored(path: Path) -> DataError:
    """What is said where a report finds no finished run."""
    state = "contains no finished runs" if path.exists() else "does not exist"
    return DataError(
        f"{path}  {state}. Start with `fieldmark run`, or give another folder with --results."
    )
