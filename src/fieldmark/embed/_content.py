"""Which bytes does an image reference stand for?

The cache is keyed by content, so every file must be hashed; reading all of them anew on each run
would cost as much as the work it saves. What was hashed is remembered with the file's device,
inode, size, mtime and ctime. A change of content moves ctime, which no ordinary tool can set back.
As git does, a file touched in the last moments before it was hashed is not remembered: a second
change could hide in the clock's resolution.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fieldmark.data import ImageRef, read_bytes
from fieldmark.errors import DataError

RACY_NS = 2_000_000_000


def content_key(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def item_key(content: bytes, crop: tuple[float, ...] | None) -> bytes:
    """Same bytes and same crop → same key."""
    if crop is None:
        return content
    return hashlib.blake2b(
        content + repr(tuple(map(float, crop))).encode(), digest_size=16
    ).digest()


def stamp(path: Path) -> str | None:
    """What changes when the file changes; None when it changed too recently to tell."""
    stat = path.stat()
    if time.time_ns() - max(stat.st_ctime_ns, stat.st_mtime_ns) < RACY_NS:
        return None
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"


def file_of(root: Path, image: str) -> Path:
    """The file on disk behind a reference (the archive, for a member of one)."""
    return root / image.partition("::")[0]


class ContentMemory:
    """Remembers content keys; a plain cache, safe to delete at any time."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """A missing file is made, a damaged one made anew (for reading only: taken as empty)."""
        self._stamps: dict[Path, str | None] = {}
        self._path = None if read_only else path
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = _connect(path if path.exists() or not read_only else None, read_only)
        except sqlite3.OperationalError:
            self._db = _connect(None)  # locked or not writable: hashing again is only slower
        except sqlite3.DatabaseError:
            self._db = self._renewed()

    def recall(self, root: Path, images: Iterable[str]) -> dict[str, bytes]:
        """The keys of the images whose files have not changed since they were hashed."""
        found: dict[str, bytes] = {}
        try:
            for image in images:
                row = self._db.execute(
                    "SELECT stamp, key FROM content WHERE name = ?", (self._name(root, image),)
                ).fetchone()
                if row is not None and row[0] == self._stamp(root, image):
                    found[image] = row[1]
        except sqlite3.OperationalError:
            return found  # locked, or another table: hashing again is only slower
        except sqlite3.DatabaseError:
            self.close()
            self._db = self._renewed()
            return {}
        return found

    def touched(self, root: Path, images: Iterable[str]) -> list[str]:
        """The images that were hashed once and whose files are no longer as they were then."""
        known = "SELECT stamp FROM content WHERE name = ?"
        try:
            return [
                image
                for image in images
                if (row := self._db.execute(known, (self._name(root, image),)).fetchone())
                and row[0] != self._stamp(root, image)
            ]
        except sqlite3.DatabaseError:
            return []

    def remember(self, root: Path, keys: dict[str, bytes]) -> None:
        rows = [
            (self._name(root, image), mark, key)
            for image, key in keys.items()
            if (mark := self._stamp(root, image)) is not None
        ]
        try:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO content VALUES (?, ?, ?)", rows)
        except sqlite3.DatabaseError:
            return  # another process holds it, or the disk is full: hashing again is only slower

    def _renewed(self) -> sqlite3.Connection:
        """An empty memory in place of a damaged one; in this process only where it cannot be
        written.
        """
        if self._path is None:
            return _connect(None)
        try:
            self._path.replace(self._path.with_suffix(".damaged"))
            return _connect(self._path)
        except (OSError, sqlite3.DatabaseError):
            return _connect(None)

    def close(self) -> None:
        self._db.close()

    def _name(self, root: Path, image: str) -> str:
        return os.path.abspath(root / image)  # noqa: PTH100 - resolve() would follow links

    def _stamp(self, root: Path, image: str) -> str | None:
        path = file_of(root, image)
        if path not in self._stamps:
            try:
                self._stamps[path] = stamp(path)
            except OSError:
                self._stamps[path] = None
        return self._stamps[path]


@dataclass(slots=True)
class Contents:
    """What the images of datasets hold now; writes nothing, and reads only files that changed."""

    cache: Path
    seen: dict[tuple[Path, str], bytes | None] = field(default_factory=dict)

    def keys(self, root: Path, items: Sequence[ImageRef]) -> dict[ImageRef, bytes]:
        """The cache keys of the items whose content is known; of files never hashed it is not."""
        new = {ref.image for ref in items if (root, ref.image) not in self.seen}
        if new:
            self._look(root, new)
        known = ((ref, self.seen.get((root, ref.image))) for ref in items)
        return {ref: item_key(content, ref.crop) for ref, content in known if content is not None}

    def _look(self, root: Path, images: set[str]) -> None:
        memory = ContentMemory(self.cache / "content.db", read_only=True)
        try:
            found = memory.recall(root, images)
            for image in memory.touched(root, images - found.keys()):
                with suppress(DataError):
                    found[image] = content_key(read_bytes(root, image))
        finally:
            memory.close()
        self.seen.update({(root, image): found.get(image) for image in images})


def _connect(path: Path | None, read_only: bool = False) -> sqlite3.Connection:
    if path is not None and read_only:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
        db.execute("SELECT count(*) FROM content")
        return db
    db = sqlite3.connect(path or ":memory:", timeout=5)
    db.execute(
        "CREATE TABLE IF NOT EXISTS content"
        " (name TEXT PRIMARY KEY, stamp TEXT NOT NULL, key BLOB NOT NULL) STRICT, WITHOUT ROWID"
    )
    return db
