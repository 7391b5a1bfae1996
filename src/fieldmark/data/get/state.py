"""State of a download folder: which files were found right, and one download at a time (lock).

`ROOT/.fieldmark/` says which files had the right checksum (as long as size and time are the same,
gigabytes are not read again), holds scratch folders, and a lock: one download per folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fieldmark.data.get.download import make_folder
from fieldmark.data.get.verify import Download
from fieldmark.errors import DataError
from fieldmark.files import try_lock

FOLDER = ".fieldmark"


@dataclass(frozen=True, slots=True)
class FolderState:
    """The memory of one folder."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / FOLDER

    def file(self, name: str, what: str) -> Path:
        return self.folder / f"{quote(name, safe='')}.{what}"

    def scratch(self, name: str) -> Path:
        return self.folder / "unpack" / quote(name, safe="")

    def remember(self, file: Download) -> None:
        """Notes that the finished file was found right."""
        path = self.file(_name(self.root, file), "json")
        draft = path.with_suffix(".json.part")
        try:
            draft.write_text(json.dumps(_facts(file)), encoding="utf-8")
            draft.replace(path)
        except OSError as error:
            raise DataError(f"{path}  cannot be written ({error.strerror}).") from error

    def knows(self, file: Download) -> bool:
        """Was this file found right, and not been touched since?"""
        try:
            text = self.file(_name(self.root, file), "json").read_text(encoding="utf-8")
            return bool(json.loads(text) == _facts(file))
        except (OSError, ValueError):
            return False

    def forget(self, name: str, what: str) -> None:
        self.file(name, what).unlink(missing_ok=True)


def _facts(file: Download) -> dict[str, object]:
    status = file.target.stat()
    return {
        "n_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "md5": file.md5.lower(),
        "sha256": file.sha256.lower(),
    }


def _name(root: Path, file: Download) -> str:
    return file.target.relative_to(root).as_posix()


@contextmanager
def locked_folder(root: Path) -> Iterator[FolderState]:
    """The folder's memory, for one process at a time; a killed one holds nothing."""
    state = FolderState(root)
    make_folder(state.folder)
    try:
        lock = (state.folder / "lock").open("ab")
    except OSError as error:
        raise DataError(f"{root}  cannot be written ({error.strerror}).") from error
    with lock:
        if try_lock(lock) is False:
            raise DataError(
                f"{root}  is being filled by another `fieldmark data get`: wait for it, or end it."
            )
        yield state
