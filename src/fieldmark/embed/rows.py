"""Append-only row store with checksums: key → vector on disk, which no kill can damage.

One folder per model fingerprint holds pairs of append-only files

    rows-000.keys     24 bytes a row: key (16), CRC-32 of key and values (4), zero (4)
    rows-000.values   dim × float32 a row

Values are written before their keys, so a key that is there has its values; a cut-off tail is not
counted and is overwritten by the next writer. Each writing process holds a lock on the pair it
appends to. A row whose checksum fails counts as absent and is computed again. In memory a row costs
28 bytes, its key and its place; files are read, never mapped: one that is cut short meanwhile must
not end the process.
"""

from __future__ import annotations

import os
import re
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np

from fieldmark.errors import DataError
from fieldmark.files import try_lock
from fieldmark.processes import host

KEY_DTYPE = np.dtype([("key", "V16"), ("crc", "<u4"), ("zero", "<u4")])
LOAD_ROWS = 2**16
"""rows whose keys are read at once when a folder is opened"""
FOLD_AT = 2**14
"""rows that wait in a dict before they join the sorted arrays"""
_FEW = 2**11
"""keys that are looked up one by one"""
READ_BYTES = 2**20
"""most that is read at once"""
SKIP_BYTES = 2**12
"""rows this close together are read in one go"""
_FILE_SHIFT = 40
"""a place is the number of the file, shifted, and the number of the row in it"""
_ROW_MASK = 2**_FILE_SHIFT - 1
_ENTRY = np.dtype([("key", "V16"), ("place", ">u8"), ("crc", ">u4")])
_BYTES = np.dtype(f"S{_ENTRY.itemsize}")
"""an entry as numpy sorts it: by key, then by place (the numbers are big-endian)"""
_BEHIND = b"\xff" * 12
"""after a key: behind all entries that it has"""


class FeatureRows:
    """The features of one model: key → vector, on disk.

    All of it may be called from any thread. Rows that other processes add are seen after
    `refresh`. `is_shared`: some of them may run on other machines. Then no file is appended to from
    two machines, for locks need not reach that far, and `sync` shows them what was added.
    """

    def __init__(self, folder: Path, dim: int, is_shared: bool = False) -> None:
        self.folder, self.dim, self._is_shared = folder, dim, is_shared
        self._writing = Lock()
        self._writer: _Writer | None = None
        self._files: list[Path] = []
        self._n_seen: dict[Path, int] = {}
        """rows of every file that are in the index"""
        self._index = _RowIndex()
        self._see_new()

    @property
    def n_damaged(self) -> int:
        """Rows met so far whose checksum failed."""
        return self._index.n_dropped

    def missing(self, keys: Sequence[bytes]) -> np.ndarray:
        """bool, n: which of the keys have no row, or only damaged ones."""
        return ~self._read(keys, None)

    def gather(self, keys: Sequence[bytes]) -> np.ndarray:
        """The vectors of the keys, float32, in their order; all of them must be there."""
        out = np.empty((len(keys), self.dim), np.float32)
        if not self._read(keys, out).all():
            raise DataError(
                f"{self.folder}  cached features have disappeared (was the cache cleaned "
                "meanwhile?). Run the same command again."
            )
        return out

    def append(self, keys: Sequence[bytes], values_nd: np.ndarray) -> None:
        """Adds rows; when this returns, `kill -9` no longer loses them."""
        if not keys:
            return
        with self._writing:
            if self._writer is None:
                self._writer = _Writer(self.folder, self.dim, self._is_shared)
            path, n_before = self._writer.values_path, self._writer.n_rows
            start = self._first_place(path) + n_before
            crcs = self._writer.append(keys, np.ascontiguousarray(values_nd, np.float32))
            self._index.add(keys, start, crcs)
            if self._n_seen.get(path, 0) == n_before:
                self._n_seen[path] = self._writer.n_rows

    def sync(self) -> None:
        """When this returns, other machines can see the rows so far."""
        with self._writing:
            if self._writer is not None:
                self._writer.sync()

    def refresh(self) -> None:
        """Sees the rows that other processes have added."""
        if self._is_shared:
            # On NFS a list of files may be a minute old, unless one was added from here since.
            path = self.folder / f".{_process_name()}"
            with suppress(OSError):
                path.touch()
                path.unlink()
        with self._writing:
            self._see_new()

    def close(self) -> None:
        with self._writing:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _see_new(self) -> None:
        """Adds the rows to the index that are not in it."""
        seen, self._n_seen = self._n_seen, {}  # a file that is gone may come back as another
        for path in sorted(self.folder.glob("rows-*.keys")):
            values = path.with_suffix(".values")
            n, start = _n_whole_rows(path, values, self.dim), self._first_place(values)
            self._n_seen[values], n_before = n, seen.get(values, 0)
            if n <= n_before:
                continue
            with path.open("rb") as file:
                file.seek(n_before * KEY_DTYPE.itemsize)
                for row in range(n_before, n, LOAD_ROWS):
                    heads = np.fromfile(file, KEY_DTYPE, min(LOAD_ROWS, n - row))
                    self._index.add_many(heads["key"], start + row, heads["crc"])

    def _first_place(self, path: Path) -> int:
        if path not in self._files:
            self._files.append(path)
        return self._files.index(path) << _FILE_SHIFT

    def _read(self, keys: Sequence[bytes], out_nd: np.ndarray | None) -> np.ndarray:
        """bool, n: which rows are there, whole and right; their values go to `out_nd`."""
        is_right = np.zeros(len(keys), bool)
        todo = np.arange(len(keys))
        while len(todo):  # a key whose last row is damaged may have an older one
            places, crcs = self._index.find([keys[index] for index in todo.tolist()])
            order = np.argsort(places, kind="stable")
            order = order[np.searchsorted(places[order], 0) :]
            todo, places, crcs = todo[order], places[order], crcs[order]
            is_good = np.zeros(len(todo), bool)
            for start, values_nd in self._blocks(places):
                part = slice(start, start + len(values_nd))
                part_keys = [keys[index] for index in todo[part].tolist()]
                is_good[part] = _crcs(part_keys, values_nd) == crcs[part]
                if out_nd is not None:
                    out_nd[todo[part]] = values_nd
            is_right[todo[is_good]] = True
            todo = todo[~is_good]
            if len(todo):
                self._index.drop(places[~is_good])
        return is_right

    def _blocks(self, places: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """The values of sorted places, as many at once as lie together: where these begin among
        the places, and the rows. Places that cannot be read are left out.
        """
        n_bytes = 4 * self.dim
        gap, most = 1 + SKIP_BYTES // n_bytes, max(1, READ_BYTES // (SKIP_BYTES + n_bytes))
        which = (places >> _FILE_SHIFT).tolist()
        rows = (places & _ROW_MASK).tolist()
        for begin, end in _runs(which, 0, len(which)):
            path = self._files[which[begin]]
            with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
                for start, stop in _runs(rows[begin:end], gap, most):
                    wanted = places[begin + start : begin + stop] - places[begin + start]
                    block = np.empty((int(wanted[-1]) + 1, self.dim), np.float32)
                    file.seek(rows[begin + start] * n_bytes)
                    n_whole = file.readinto(block.data) // n_bytes
                    yield begin + start, block[wanted[wanted < n_whole]]


class _RowIndex:
    """Key → places of its rows: sorted arrays, one for each first byte of a key (adding to a small
    one copies little), and a small dict of what was added since.

    A key may have several rows (two processes computed it, or it was written again after damage):
    the last one is given, and the one before once that is dropped.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._recent: dict[bytes, tuple[int, int]] = {}
        self._parts = [np.empty(0, _BYTES)] * 256
        self.n_dropped = 0

    def find(self, keys: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Place (-1 = none) and checksum of the last row of every key."""
        if len(keys) < _FEW:
            with self._lock:
                entries = [self._last(key) for key in keys]
            pairs = np.array(entries, np.int64).reshape(-1, 2)
            return pairs[:, 0], pairs[:, 1].astype(np.uint32)
        keys_b = np.frombuffer(b"".join(key + _BEHIND for key in keys), _BYTES)
        order = np.argsort(_first_bytes(keys_b), kind="stable")
        places, crcs = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.uint32)
        with self._lock:
            for byte, bounds in _by_first_byte(keys_b[order]):
                part, which = self._parts[byte], order[bounds]
                if len(part):
                    # Entries sort by key, then place: just before the end of a key lies its last.
                    at = part.searchsorted(keys_b[which], "right")
                    near = part[np.maximum(at - 1, 0)].view(_ENTRY)
                    is_there = near["key"] == keys_b[which].view(_ENTRY)["key"]
                    places[which[is_there]] = near["place"][is_there]
                    crcs[which[is_there]] = near["crc"][is_there]
            if self._recent:
                for index, key in enumerate(keys):
                    if key in self._recent:
                        places[index], crcs[index] = self._recent[key]
        return places, crcs

    def _last(self, key: bytes) -> tuple[int, int]:
        """As `find`, for one key: faster for those that lie in as many arrays as there are."""
        if key in self._recent:
            return self._recent[key]
        part = self._parts[key[0]]
        at = int(part.searchsorted(key + _BEHIND, "right")) if len(part) else 0
        entry = part[max(at - 1, 0) : at].tobytes()
        if entry[:16] != key:
            return -1, 0
        return int.from_bytes(entry[16:24], "big"), int.from_bytes(entry[24:], "big")

    def add(self, keys: Sequence[bytes], start: int, crcs: np.ndarray) -> None:
        """Rows that lie one after the other."""
        with self._lock:
            for index, (key, crc) in enumerate(zip(keys, crcs.tolist(), strict=True)):
                self._recent[key] = (start + index, crc)
            if len(self._recent) >= FOLD_AT:
                self._fold()

    def add_many(self, keys: np.ndarray, start: int, crcs: np.ndarray) -> None:
        """As `add`, at once into the arrays."""
        with self._lock:
            self._merge(keys, np.arange(start, start + len(keys)), crcs)

    def drop(self, places: np.ndarray) -> None:
        """Forgets rows that turned out to be damaged."""
        with self._lock:
            self._fold()
            for byte, part in enumerate(self._parts):
                is_kept = ~np.isin(part.view(_ENTRY)["place"].astype(np.int64), places)
                self.n_dropped += len(part) - int(is_kept.sum())
                self._parts[byte] = part[is_kept]

    def _fold(self) -> None:
        keys = np.frombuffer(b"".join(self._recent), "V16")
        places, crcs = np.array(list(self._recent.values()), np.int64).reshape(-1, 2).T
        self._merge(keys, places, crcs)
        self._recent.clear()

    def _merge(self, keys: np.ndarray, places: np.ndarray, crcs: np.ndarray) -> None:
        entries = np.empty(len(keys), _ENTRY)
        entries["key"], entries["place"], entries["crc"] = keys, places, crcs
        added = entries.view(_BYTES)
        added.sort()
        for byte, bounds in _by_first_byte(added):
            old, new = self._parts[byte], added[bounds]
            self._parts[byte] = np.insert(old, old.searchsorted(new), new)


def _first_bytes(entries: np.ndarray) -> np.ndarray:
    return entries.view(np.uint8)[:: _ENTRY.itemsize]


def _by_first_byte(entries: np.ndarray) -> Iterator[tuple[int, slice]]:
    """Of sorted entries: a first byte, and where those are that begin with it."""
    bounds = np.searchsorted(_first_bytes(entries), np.arange(257)).tolist()
    for byte, (start, stop) in enumerate(pairwise(bounds)):
        if start < stop:
            yield byte, slice(start, stop)


class _Writer:
    """Appends to one pair of files that no other process appends to."""

    def __init__(self, folder: Path, dim: int, is_shared: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._keys = _lock_some_file(folder, f"{_host_name()}-" if is_shared else "")
        keys_path = Path(self._keys.name)
        self.values_path = keys_path.with_suffix(".values")
        self.values_path.touch()
        # Unbuffered: what could not be written must not be tried again when the file is closed.
        self._values = self.values_path.open("r+b", buffering=0)
        self._sizes = ((self._values, 4 * dim), (self._keys, KEY_DTYPE.itemsize))
        self.n_rows = _n_whole_rows(keys_path, self.values_path, dim)
        self._cut()

    def append(self, keys: Sequence[bytes], values_nd: np.ndarray) -> np.ndarray:
        """Writes rows; returns their checksums."""
        heads = np.zeros(len(keys), KEY_DTYPE)
        heads["key"] = np.frombuffer(b"".join(keys), "V16")
        heads["crc"] = _crcs(keys, values_nd)
        try:
            # Values before their keys: a key that is there has its values, whenever we are killed.
            for (file, size), data in zip(self._sizes, (values_nd, heads), strict=True):
                _write(file, self.n_rows * size, data)
        except OSError as error:
            self._cut()
            raise self._unwritable(error) from error
        self.n_rows += len(keys)
        return heads["crc"]

    def sync(self) -> None:
        try:
            for file, _ in self._sizes:
                os.fsync(file.fileno())
        except OSError as error:  # some network folders tell only now that they are full
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(
            f"{self._values.name}  cannot be written: {error.strerror}. Free some space or "
            "choose another folder with --cache; the features so far are kept."
        )

    def close(self) -> None:
        self._values.close()
        self._keys.close()

    def _cut(self) -> None:
        for file, size in self._sizes:
            file.truncate(self.n_rows * size)


def _write(file: IO[bytes], position: int, data: np.ndarray) -> None:
    """All of it: an unbuffered write may take only a part."""
    file.seek(position)
    rest = data.view(np.uint8).reshape(-1).data
    while rest:
        rest = rest[file.write(rest) :]


def _crcs(keys: Sequence[bytes], values_nd: np.ndarray) -> np.ndarray:
    """Checksums of keys and values."""
    rows = zip(keys, values_nd, strict=True)
    return np.array([zlib.crc32(row, zlib.crc32(key)) for key, row in rows], np.uint32)


def _runs(values: Sequence[int], gap: int, most: int) -> Iterator[tuple[int, int]]:
    """Parts of sorted values whose neighbours are at most `gap` apart, `most` of them a part."""
    start = 0
    for stop in range(1, len(values) + 1):
        is_last = stop == len(values) or values[stop] - values[stop - 1] > gap
        if is_last or stop - start == most:
            yield start, stop
            start = stop


def _n_whole_rows(keys_path: Path, values_path: Path, dim: int) -> int:
    return min(_size(keys_path) // KEY_DTYPE.itemsize, _size(values_path) // (dim * 4))


def _size(path: Path) -> int:
    """As the server knows it: on NFS a file is looked at anew when it is opened, its name is not.
    https://man7.org/linux/man-pages/man5/nfs.5.html (close-to-open cache consistency)
    """
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return 0


def _lock_some_file(folder: Path, owner: str) -> IO[bytes]:
    """The first keys file nobody writes to, locked; the lock ends with the process.

    Where files cannot be locked each process has one of its own.
    """
    for number in range(10_000):
        path = folder / f"rows-{owner}{number:03d}.keys"
        is_new = not path.exists()
        path.touch()
        file = path.open("r+b", buffering=0)
        is_mine = try_lock(file)
        if is_mine:
            return file
        file.close()
        if is_mine is None:
            if is_new:
                path.unlink(missing_ok=True)
            break
    path = folder / f"rows-{_process_name()}.keys"
    path.touch()
    return path.open("r+b", buffering=0)


@cache
def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", host())


@cache
def _process_name() -> str:
    return uuid.uuid4().hex
