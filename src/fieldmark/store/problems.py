"""What does a person read when the results file cannot be used?

One line per fault of SQLite: the path, what is wrong, what to do. Faults that only a bug in
fieldmark can cause are left as they are.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from fieldmark.errors import DataError, StoreError, at

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
_TEXTS[sqlite3.SQLITE_PERM] = _TEXTS[sqlite3.SQLITE_CANTOPEN]


def explain(error: Exception, path: Path, waited_s: float) -> StoreError | None:
    """The line for a fault of the file, or None for anything else."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        code = sqlite3.SQLITE_CORRUPT
    text = _TEXTS.get(code & 0xFF) if code is not None else None
    if text is None:
        return None
    return StoreError(at(path, None, text.format(waited=waited_s, name=path.name, error=error)))


def newer(path: Path, found: int, known: int) -> StoreError:
    versions = f"(store version {found}, this one knows up to {known})"
    text = f"was written by a newer fieldmark {versions}: update fieldmark, {_ELSEWHERE}."
    return StoreError(at(path, None, text))


def older(path: Path, found: int, wanted: int) -> StoreError:
    versions = f"(store version {found}, this one wants {wanted})"
    text = (
        f"was written by an older fieldmark {versions} and cannot be brought up to date, the file "
        "or its folder is read-only: copy it to a folder of your own and name that with --results."
    )
    return StoreError(at(path, None, text))


def too_old(path: Path, found: int) -> StoreError:
    text = (
        f"holds runs of a fieldmark before 0.1.0 (store version {found}), which this one cannot "
        f"read: move it away, {_ELSEWHERE}, and run the same command again."
    )
    return StoreError(at(path, None, text))


def gone(path: Path) -> StoreError:
    text = (
        "was removed or replaced while it was in use: what was written since is lost. Run the "
        "same command again."
    )
    return StoreError(at(path, None, text))


def foreign(path: Path) -> StoreError:
    text = f"is another program's SQLite database: move it away, {_ELSEWHERE}."
    return StoreError(at(path, None, text))


def is_folder(path: Path) -> StoreError:
    return StoreError(at(path, None, "is a folder: the store is one file, such as results.db."))


def no_folder(path: Path, error: OSError) -> StoreError:
    text = f"cannot be made ({error.strerror or error}): make this folder by hand, {_ELSEWHERE}."
    return StoreError(at(path, None, text))


def unreachable(path: Path, error: OSError) -> StoreError:
    text = f"cannot be reached ({error.strerror or error}): check its folders, {_ELSEWHERE}."
    return StoreError(at(path, None, text))


def check_sqlite() -> None:
    """Refuses SQLite libraries without STRICT tables."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"this Python's SQLite {sqlite3.sqlite_version} is too old, {wanted} is needed: "
            "use a newer Python, such as the one `uv python install` brings."
        )


def nothing_stored(path: Path) -> DataError:
    """What is said where a report finds no finished run."""
    found = "holds no finished runs" if path.exists() else "does not exist"
    return DataError(
        f"{path}  {found}: `fieldmark run` makes some, --results says where others are."
    )
