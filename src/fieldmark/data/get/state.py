"""State of a download folder: which files were found right, and one download at a time (lock).

The journal `ROOT/.fieldmark/state.jsonl` says which files had the right checksum (as long as size
and time are the same, gigabytes are not read again). Whoever downloads is its one writer. Beside it
are scratch folders, and lists of what was unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from fieldmark.data.get.download import make_folder
from fieldmark.data.get.verify import Download
from fieldmark.errors import DataError, StoreError
from fieldmark.journal import Journal, read_rows

FOLDER = ".fieldmark"


@dataclass(frozen=True, slots=True)
class FolderState:
    """The memory of one folder."""

    root: Path
    journal: Journal | None = None
    """None = the folder is only looked at"""
    right: dict[str, dict[str, object]] = field(default_factory=dict)
    """file → what it was like when it was found right"""

    @property
    def folder(self) -> Path:
        return self.root / FOLDER

    def file(self, name: str, what: str) -> Path:
        return self.folder / f"{quote(name, safe='')}.{what}"

    def name(self, file: Download) -> str:
        return file.target.relative_to(self.root).as_posix()

    def scratch(self, name: str) -> Path:
        return self.folder / "unpack" / quote(name, safe="")

    def remember(self, file: Download) -> None:
        """Notes that the finished file was found right."""
        assert self.journal is not None, "whoever downloads has the folder's lock"
        name, stamp = self.name(file), _facts(file)
        self.journal.append({"file": name, **stamp})
        self.right[name] = stamp

    def knows(self, file: Download) -> bool:
        """Was this file found right, and not been touched since?"""
        try:
            return self.right.get(self.name(file)) == _facts(file)
        except OSError:
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


@contextmanager
def locked_folder(root: Path) -> Iterator[FolderState]:
    """The folder's memory, for one process at a time; a killed one holds nothing."""
    make_folder(FolderState(root).folder)
    path = FolderState(root).folder / "state.jsonl"
    try:
        journal = Journal(path)
    except StoreError as error:
        if not error.may_pass:
            raise DataError(str(error)) from error
        raise DataError(
            f"{root}  is being filled by another `fieldmark data get`: wait for it, or end it."
        ) from error
    with journal:
        yield FolderState(root, journal, {row.pop("file"): row for row in read_rows(path)})
