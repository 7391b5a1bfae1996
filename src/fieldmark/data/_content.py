"""Content digests (hash cache): which bytes does an image reference stand for, now?

Features and results belong to content, never to names, so every file must be hashed; reading all of
them anew for each command would cost as much as the work it saves. What was hashed is remembered
with the file's inode, size, mtime and ctime. A change of content moves ctime, which no ordinary
tool can set back. As git does with its index, a file that changed in the last moments before it was
hashed is not remembered (a second change could hide in the clock's resolution), nor is one whose
ctime lies in the future. A file whose content is not known is read; none is ever trusted. Who reads
files anyway notes what they hold, so that none is read only to be hashed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from fieldmark.data._bytes import base_folder, leads_out, read_bytes, split_reference
from fieldmark.data._image import ImageRef, quick_check
from fieldmark.errors import DataError, plain_reason
from fieldmark.files import hash_file, stamp
from fieldmark.words import is_text

T = TypeVar("T")
OnUnknown = Callable[[int], Callable[[], None]]

ContentRow = tuple[str, bytes, bytes, str]
"""name, stamp, key, problem"""

MEMORY = "contents.db"
"""what the memory of contents is called in a cache folder"""
COMMIT_EVERY_S = 1.0
"""what a kill may cost: at most so long a time of hashing is done again"""
_FEW = 2_000
"""names that are looked up one by one; more are read with all that lie between them"""
_ABSORBED = 50_000
"""rows that are taken over at once"""
_STEP = 512
"""files handed to threads at a time"""


def content_key(data: bytes) -> bytes:
    """Sixteen bytes that stand for the bytes of a file."""
    return hashlib.blake2b(data, digest_size=16).digest()


def item_key(content: bytes, crop: tuple[float, ...] | None) -> bytes:
    """What the features of an image are kept under: same bytes and same crop → same key."""
    if crop is None:
        return content
    return hashlib.blake2b(
        content + repr(tuple(map(float, crop))).encode(), digest_size=16
    ).digest()


class Content(NamedTuple):
    """What a file holds."""

    key: bytes
    """of its bytes; ABSENT where they cannot be read"""
    problem: str = ""
    """why it cannot be used as an image; "" = nothing is known against it"""


ABSENT = bytes(16)
"""the key of a file that is not there or cannot be read"""


class FileRead(NamedTuple):
    """A file that was read once: its bytes, and what is known from them."""

    content: Content
    mark: bytes | None
    """its stamp if it may be relied on later"""
    data: bytes


class Contents:
    """What files hold now, each looked at once while this object lives (one command).

    `memory` is an SQLite file that remembers them for the next command: a plain cache, safe to
    delete at any time. Without one nothing is remembered. `also` are memories that are asked too
    and never written: snapshots (`snapshot_contents`), which no process changes any more.
    """

    def __init__(self, memory: Path | None, threads: int = 2, also: Sequence[Path] = ()) -> None:
        self.memory, self.also = memory, tuple(also)
        self._threads = threads
        self._seen: dict[Path, dict[str, Content]] = {}
        self._files: dict[str, tuple[bytes, bytes]] = {}
        """stamp and content of single files"""
        self._lock = threading.Lock()
        self._notes: _ContentDb | None = None
        """open while what is read is noted"""
        self._prefix: dict[Path, str] = {}

    def known(
        self, root: Path, images: Iterable[str], has_asked: bool = False
    ) -> dict[str, Content]:
        """The images whose content is known without reading them.

        `has_asked`: only what other processes may have noted since is looked up again.
        """
        seen = self._seen.setdefault(root, {})
        names = list(images)
        unseen = [image for image in names if image not in seen and not leads_out(image)]
        for memory in self._memories(with_snapshots=not has_asked) if unseen else ():
            with memory:
                seen.update(memory.recall(root, unseen))
            unseen = [image for image in unseen if image not in seen]
            if not unseen:
                break
        return {image: seen[image] for image in names if image in seen}

    def learn(
        self, root: Path, images: Iterable[str], on_unknown: OnUnknown | None = None
    ) -> dict[str, Content]:
        """The content of all images; those that are not known are read, and remembered as they
        come. `on_unknown` is told how many these are and gives what is called after each.
        """
        every = list(dict.fromkeys(images))
        contents = self.known(root, every)
        if len(contents) == len(every):
            return contents
        unknown = [image for image in every if image not in contents]
        tell = on_unknown(len(unknown)) if on_unknown else None
        try:
            with ThreadPoolExecutor(self._threads) as pool:
                for image, (content, mark, _) in _in_turn(
                    pool, lambda name: read_content(root, name), unknown
                ):
                    self.note(root, [(image, content, mark)])
                    if tell is not None:
                        tell()
        finally:
            self.flush()
        seen = self._seen[root]
        return {image: seen[image] for image in every}

    def note(self, root: Path, images: Sequence[tuple[str, Content, bytes | None]]) -> None:
        """Remembers what images were seen to hold, for good where their stamps allow it.

        From any thread. A second of it may be lost by a kill, until `flush` has been called.
        """
        with self._lock:
            self._seen.setdefault(root, {}).update((image, content) for image, content, _ in images)
            if self._notes is None:
                self._notes = _ContentDb(self.memory)
            if root not in self._prefix:
                self._prefix[root] = _name(root, "")
            prefix = self._prefix[root]
            self._notes.remember(
                [(prefix + image, mark, content) for image, content, mark in images if mark]
            )

    def flush(self) -> None:
        """Writes what was noted."""
        with self._lock:
            if self._notes is not None:
                self._notes.close()
                self._notes = None

    def has_absent(self, root: Path, images: Sequence[str]) -> bool:
        """Is one of them missing, empty or no file? Reads none: members of archives may be missing
        all the same.
        """
        prefix = _name(root, "")

        def look(start: int) -> bool:
            names = (split_reference(image)[0] for image in images[start : start + _STEP])
            return any(_is_absent(prefix, name) for name in dict.fromkeys(names))

        with ThreadPoolExecutor(self._threads) as pool:
            return any(pool.map(look, range(0, len(images), _STEP)))

    def digest(self, path: Path) -> bytes:
        """The content of any one file, such as a model's weights, as it is at this moment; raises
        OSError.
        """
        path = path.absolute()
        mark, is_settled = stamp(path)
        if str(path) in self._files and self._files[str(path)][0] == mark and is_settled:
            return self._files[str(path)][1]
        key = self._recalled(path)
        if key is None:
            key = hash_file(path)
            if is_settled:
                with _ContentDb(self.memory) as memory:
                    memory.remember([(str(path), mark, Content(key))])
        self._files[str(path)] = (mark, key)
        return key

    def _recalled(self, path: Path) -> bytes | None:
        for memory in self._memories():
            with memory:
                content = memory.recall(path.parent, [path.name]).get(path.name)
            if content:
                return content.key
        return None

    def _memories(self, with_snapshots: bool = True) -> Iterator[_ContentDb]:
        """Its own memory first."""
        if self.memory is not None and self.memory.is_file():
            yield _ContentDb(self.memory)
        for path in self.also if with_snapshots else ():
            yield _ContentDb(path, is_snapshot=True)

    def item_keys(self, root: Path, items: Sequence[ImageRef]) -> dict[ImageRef, bytes]:
        """What features of the items are kept under, where the content is known."""
        contents = self.known(root, {ref.image for ref in items})
        return {
            ref: item_key(content.key, ref.crop)
            for ref in items
            if (content := contents.get(ref.image)) is not None and content.key != ABSENT
        }


def read_content(
    root: Path, image: str, stamped: Callable[[], tuple[bytes, bytes | None]] | None = None
) -> FileRead:
    """Reads, hashes and checks one file; `stamped` gives or raises what `read_stamped` did, where
    another thread reads.
    """
    try:
        data, mark = stamped() if stamped else read_stamped(root, image)
    except (DataError, OSError, ValueError) as error:
        return FileRead(Content(ABSENT, _reason(root, image, error)), None, b"")
    return FileRead(Content(content_key(data), quick_check(data) or ""), mark, data)


def read_stamped(root: Path, image: str) -> tuple[bytes, bytes | None]:
    """The bytes of one file, and its stamp if it may be relied on later.

    The stamp is taken before the bytes are read: a change in between makes it another.
    """
    # The file on disk behind a reference (the archive, for a member of one).
    mark, is_settled = stamp(_name(root, split_reference(image)[0]))
    return read_bytes(root, image), mark if is_settled else None


def _is_absent(prefix: str, name: str) -> bool:
    if leads_out(name):
        return True
    try:
        state = os.stat(prefix + name)  # noqa: PTH116 - as above
    except (OSError, ValueError):
        return True
    return not stat.S_ISREG(state.st_mode) or state.st_size == 0


def _reason(root: Path, image: str, error: Exception) -> str:
    """Why it cannot be read, in words."""
    if not isinstance(error, DataError):
        try:
            read_bytes(root, image)  # it says what is wrong in words
        except DataError as explained:
            error = explained
    return plain_reason(error)


def _in_turn(
    pool: ThreadPoolExecutor, work: Callable[[str], T], images: Sequence[str]
) -> Iterator[tuple[str, T]]:
    """Results in order, a bounded number of them waiting."""
    rest = iter(images)
    while some := list(islice(rest, _STEP)):
        yield from zip(some, pool.map(work, some), strict=True)


def _name(root: Path, image: str) -> str:
    return f"{os.path.abspath(base_folder(root))}{os.sep}{image}"  # noqa: PTH100 - resolve() would follow links


class _ContentDb:
    """The SQLite file; whatever is wrong with it only makes hashing necessary again."""

    def __init__(self, path: Path | None, is_snapshot: bool = False) -> None:
        self._path, self._is_snapshot = path, is_snapshot
        self._waiting: list[ContentRow] = []
        self._written = time.monotonic()
        self._db = self._open()

    def __enter__(self) -> _ContentDb:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._write()
        if self._db is not None:
            self._db.close()

    def every(self) -> Iterator[ContentRow]:
        """All that is remembered, as far as it can be read."""
        if self._db is not None:
            with suppress(sqlite3.DatabaseError):
                yield from self._db.execute("SELECT name, stamp, key, problem FROM content")

    def absorb(self, rows: Sequence[ContentRow]) -> int:
        """Writes rows of another one, waiting longer than usual; how many were written."""
        if self._db is not None:
            self._db.execute("PRAGMA busy_timeout = 30000")
        self._waiting += rows
        self._write()
        return len(rows) if self._db is not None else 0

    def recall(self, root: Path, images: Iterable[str]) -> dict[str, Content]:
        """The images whose files have not changed since they were hashed."""
        prefix = _name(root, "")
        names = {image for image in images if is_text(prefix + image)}
        contents: dict[str, Content] = {}
        stamps: dict[str, bytes | None] = {}
        try:
            for name, mark, key, problem in self._rows(prefix, names):
                image = name[len(prefix) :]
                if image not in names:
                    continue
                if "::" not in image:
                    is_same = mark == _settled(name)
                else:
                    file = prefix + split_reference(image)[0]
                    if file not in stamps:
                        stamps[file] = _settled(file)
                    is_same = mark == stamps[file]
                if is_same:
                    contents[image] = Content(key, problem)
        except sqlite3.DatabaseError:
            return contents
        return contents

    def remember(self, files: Iterable[tuple[str, bytes, Content]]) -> None:
        for name, mark, content in files:
            if is_text(name):
                self._waiting.append((name, mark, content.key, content.problem))
        if time.monotonic() - self._written > COMMIT_EVERY_S:
            self._write()

    def _rows(self, prefix: str, images: set[str]) -> Iterator[ContentRow]:
        if self._db is None:
            return
        columns = "SELECT name, stamp, key, problem FROM content WHERE"
        if len(images) > _FEW:
            ends = [prefix + min(images), prefix + max(images)]
            yield from self._db.execute(f"{columns} name BETWEEN ? AND ?", ends)
            return
        for image in images:
            yield from self._db.execute(f"{columns} name = ?", [prefix + image])

    def _write(self) -> None:
        if self._db is None or not self._waiting:
            return
        try:
            with self._db:
                self._db.executemany(
                    "INSERT OR REPLACE INTO content VALUES (?, ?, ?, ?)", self._waiting
                )
        except sqlite3.DatabaseError:
            self._db.close()  # held by another process, a full disk: hashing again is only slower
            self._db = None
        self._waiting.clear()
        self._written = time.monotonic()

    def _open(self) -> sqlite3.Connection | None:
        """None where it cannot be had; a damaged file is put aside and made anew."""
        if self._path is None:
            return None
        if self._is_snapshot:
            return _connect_snapshot(self._path)
        try:
            return _connect(self._path)
        except (OSError, sqlite3.OperationalError):
            return None
        except sqlite3.DatabaseError:
            with suppress(OSError, sqlite3.DatabaseError):
                self._path.replace(self._path.with_suffix(".damaged"))
                return _connect(self._path)
            return None


def _settled(file: str) -> bytes | None:
    """The stamp of a file that has not changed in the last moments; None for another one."""
    try:
        mark, is_settled = stamp(file)
    except (OSError, ValueError):
        return None
    return mark if is_settled else None


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, timeout=5, check_same_thread=False)
    try:
        db.execute(
            "CREATE TABLE IF NOT EXISTS content (name TEXT PRIMARY KEY, stamp BLOB NOT NULL,"
            " key BLOB NOT NULL, problem TEXT NOT NULL) STRICT, WITHOUT ROWID"
        )
        db.execute("SELECT name, stamp, key, problem FROM content LIMIT 1")
    except BaseException:
        db.close()
        raise
    return db


def _connect_snapshot(path: Path) -> sqlite3.Connection | None:
    """Read without locks or journal: nobody writes to it. None where it cannot be had."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        return sqlite3.connect(uri, uri=True, check_same_thread=False)
    except sqlite3.DatabaseError:
        return None


# --- memories of several processes


def snapshot_contents(memory: Path, out: Path) -> None:
    """Copies a memory that others may be writing to; `out` is whole or not there.

    A memory that is not there, or damaged, gives an empty copy.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f"{out.name}.{os.urandom(4).hex()}")
    try:
        copy = _connect(temporary)
        try:
            if memory.is_file():
                with suppress(sqlite3.DatabaseError), closing(_connect(memory)) as source:
                    source.backup(copy)
        finally:
            copy.close()
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def absorb_contents(memory: Path, others: Sequence[Path]) -> int:
    """Adds what finished memories of other processes hold; returns how many files that are.

    Theirs replace what is known of the same file: they looked at it later. What cannot be read or
    written is left out: it is only hashed again.
    """
    rows = chain.from_iterable(map(_rows_of, others))
    batch = list(islice(rows, _ABSORBED))
    if not batch:
        return 0
    n = 0
    with _ContentDb(memory) as database:
        while batch:
            n += database.absorb(batch)
            batch = list(islice(rows, _ABSORBED))
    return n


def _rows_of(path: Path) -> Iterator[ContentRow]:
    with _ContentDb(path, is_snapshot=True) as other:
        yield from other.every()
