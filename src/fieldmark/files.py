"""Atomic writes, file hashes and stamps, JSON and CSV with texts of strangers, file locks, mount
table: how does a file appear whole or not at all, did it change, and where does it lie?

The bytes go to a hidden file beside the place, which gets its name at the end. `is_durable` forces
them, and the name, to the disk first: for what is expensive to make again, and for files that say
that others are complete.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import re
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fieldmark.errors import DataError
from fieldmark.words import printable


@contextlib.contextmanager
def whole_file(path: Path, is_durable: bool = False) -> Iterator[IO[bytes]]:
    """An open file that becomes `path` when the block ends; an error in the block leaves nothing.

    DataError where it cannot be written.
    """
    try:
        with replacing(path, is_durable) as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}  cannot be written: {error.strerror or error}.") from error


@contextlib.contextmanager
def replacing(path: Path, is_durable: bool = False) -> Iterator[IO[bytes]]:
    """The same for whoever says by himself why it cannot be written: OSError."""
    part = part_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w+b") as file:
            yield file
            file.flush()
            # Before the new name: else a power cut may leave the name with nothing in it.
            if is_durable:
                os.fsync(file.fileno())
        # Atomic within a folder (rename(2)): whoever reads has the old file or the new one.
        part.replace(path)
        if is_durable:
            sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """A hidden file beside a place that nobody else writes: machines may share the folder."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")


_PART = re.compile(r"\.(.+)\.\d+-[0-9a-f]{8}\.part")


def remove_parts(folder: Path, is_own: Callable[[str], object] = bool) -> None:
    """Removes what killed processes left of files whose names are one's own: to be called where
    nobody else may write these, under a lock or a lease. Checkpoints and shards are gigabytes.
    """
    for path in folder.glob(".*.part"):
        if (match := _PART.fullmatch(path.name)) and is_own(match[1]):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def write_file(path: Path, data: bytes, is_durable: bool = False) -> None:
    """The file appears whole or not at all."""
    with whole_file(path, is_durable) as file:
        file.write(data)


def copy_file(source: Path, target: Path) -> None:
    """The copy appears whole or not at all."""
    with source.open("rb") as stream, whole_file(target) as file:
        shutil.copyfileobj(stream, file)


def sync_folder(folder: Path) -> None:
    """Names that were given in the folder are on the disk when this returns."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- what a file holds, and whether it changed ---

RACY_NS = 2_000_000_000
"""a file this young may change again without a change of its dates"""
_STAMP = struct.Struct("<QQqq")


def hash_bytes(data: bytes) -> bytes:
    """Sixteen bytes that stand for the data (BLAKE2b)."""
    return hashlib.blake2b(data, digest_size=16).digest()


def hash_file(path: Path) -> bytes:
    """The same for the bytes of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).digest()


def stamp(path: str | Path) -> tuple[bytes, bool]:
    """What changes when the file changes, and whether it is old enough to be relied on later."""
    state = os.stat(path)  # noqa: PTH116 - a hundred thousand of them: Path.stat takes twice as long
    changed, modified, now = state.st_ctime_ns, state.st_mtime_ns, time.time_ns()
    is_young = now - changed < RACY_NS or 0 <= now - modified < RACY_NS
    return _STAMP.pack(state.st_ino, state.st_size, modified, changed), not is_young


def try_lock(file: IO[bytes]) -> bool | None:
    """Locks an open file until it is closed or the process ends. False: another process has it;
    None: files cannot be locked here (Windows, some network folders).
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def parse_json(text: str | bytes) -> Any:
    """JSON that others wrote. ValueError also where it is nested too deep for Python's parser.

    >>> parse_json('{"a": [1]}')
    {'a': [1]}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_json(value: Any) -> str:
    """One text per value: keys sorted, no spaces, whole floats kept apart from integers."""
    return _SORTED.encode(value)


def small_json(path: Path) -> dict[str, Any]:
    """The object in a small file of ours; {} where there is none, or it is damaged."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def json_bytes(values: object) -> bytes:
    """What a small file that people may read holds."""
    return (json.dumps(values, indent=1) + "\n").encode()


# --- tables that people open in a spreadsheet, or look at in a terminal ---

UNSAFE_CELL = r"^[=+\-@\t\r]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]"
"""a regular expression, of Rust too: a cell that `csv_cell` may change"""
_FORMULA = re.compile(r"[=+\-@\t\r](?![\d.]+([eE][+-]?\d+)?\Z)")


def csv_cell(value: object) -> object:
    """The value as it is safe in a CSV. A text that a spreadsheet would run as a formula gets an
    apostrophe, as OWASP advises; control characters are spelled out.

    >>> [csv_cell(value) for value in ("=A1", "-1.5", "fox", -1, "\\x1b[2J")]
    ["'=A1", '-1.5', 'fox', -1, '\\\\x1b[2J']
    """
    if not isinstance(value, str):
        return value
    return f"{chr(39) * bool(_FORMULA.match(value))}{printable(value, chr(10) + chr(9))}"


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Lines of a CSV, safe for spreadsheets and terminals."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(csv_cell, row) for row in rows])
    return text.getvalue()


# --- file systems ---
# Shared are network and cluster file systems, which several machines write at once. They have no
# memory that processes of two machines share, and their locks may be slow or missing: what SQLite
# needs for several writers. Known on Linux only; elsewhere every folder counts as local.
# https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html

SHARED = {
    *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "gfs", "gfs2", "glusterfs"),
    *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2"),
    *("smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs"),
}
"""besides these, all that begin with `fuse.`: sshfs, s3fs, JuiceFS, clients of Gluster"""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What a path lies on."""

    kind: str
    """as the kernel calls it: "ext4", "nfs4", "lustre"; "": not known"""
    is_shared: bool
    """may several machines write it at once?"""
    mount: Path
    """where it is mounted"""


def filesystem_of(path: Path) -> FileSystem:
    """The file system of a path, or of the nearest folder above it that exists."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        mounts = ""
    return find_mount(path.resolve(), mounts)


def find_mount(path: Path, mounts: str) -> FileSystem:
    """The file system of an absolute path by the text of /proc/self/mountinfo."""
    best, kind, mount = -1, "", Path("/")
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if len(left.split()) < 5 or not right.split():
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), left.split()[4]))
        # >=: a later mount on the same point hides the earlier one
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind, mount = len(point.parts), right.split()[0], point
    return FileSystem(kind, kind in SHARED or kind.startswith("fuse."), mount)
