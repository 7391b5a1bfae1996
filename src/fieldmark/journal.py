"""Append-only journal (write-ahead log): how does what was paid for, or took long, survive a kill?

A file of JSON lines, each with a checksum (CRC-32) as its last key. A line goes to the operating
system in one write, so that `kill -9` loses nothing that was appended, and to the disk at most
0.2 s later, so that a power cut loses little. What a kill or a full disk cut off at the end is
dropped, and a damaged line is no row. The rows say what happened, one after the other: who reads
them takes the last that is about his thing.

A file has one writer at a time, by lock. Where many processes or machines write, each has a file of
its own in one folder (`Journal.in_folder`), and reads those of all. Reading takes no lock.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from fieldmark.errors import StoreError
from fieldmark.files import try_lock

SYNC_EVERY_S = 0.2
# The last key of each line is the CRC-32 of all before it, as eight hex digits: a line that a kill
# or a full disk cut off does not fit its sum.
_MARK = b',"crc":"'
_SEAL = len(_MARK) + 8 + len('"}\n')


def seal(row: Mapping[str, Any]) -> bytes:
    """The line of a row, which may not be empty.

    >>> seal({"photo": "a.jpg"})
    b'{"photo":"a.jpg","crc":"61cc2871"}\\n'
    """
    body = json.dumps(row, separators=(",", ":")).encode()[:-1]
    return b'%b%b%08x"}\n' % (body, _MARK, zlib.crc32(body))


def unseal(line: bytes) -> dict[str, Any] | None:
    """The row of a line; None where it is cut off or damaged."""
    body = line[:-_SEAL]
    is_whole = line[-_SEAL:] == _MARK + b'%08x"}\n' % zlib.crc32(body)
    return json.loads(body + b"}") if is_whole else None


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file so far; none where it is not there. StoreError: it cannot be read."""
    try:
        with path.open("rb") as file:
            yield from (row for line in file if (row := unseal(line)) is not None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unusable(path, error) from error


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Adds one row to a file that nobody keeps open, whose writers take turns. Not forced to disk.

    A row that a kill cut off before it stays damaged, alone.
    """
    try:
        with path.open("a+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
            is_cut = bool(end) and file.read(1) != b"\n"
            os.write(file.fileno(), b"\n" * is_cut + seal(row))
    except OSError as error:
        raise unusable(path, error) from error


class Journal:
    """The writer of one file: opened at once, so that a place that cannot be written shows early.

    StoreError where it cannot be written, or another process writes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fault: OSError | None = None
        self._is_closed, self._is_dirty = False, threading.Event()
        self._syncer: threading.Thread | None = None
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
            # Locked before it is looked at: the tail of another writer is no torn line.
            if try_lock(self._file) is False:
                self._file.close()
                text = f"{path}  is being written by another process: wait for it."
                raise StoreError(text, may_pass=True)
            self._size = self._cut_tail()
        except OSError as error:
            raise unusable(path, error) from error

    @classmethod
    def in_folder(cls, folder: Path) -> Self:
        """A file of this process's own beside those of others."""
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        return cls(folder / f"{stamp}-{os.getpid()}-{os.urandom(3).hex()}.jsonl")

    def append(self, row: Mapping[str, Any], is_durable: bool = False) -> int:
        """Adds a row, and gives where its line begins; `is_durable`: it is on disk on return."""
        line = seal(row)
        with self._lock:
            if self._fault is not None:
                raise unusable(self.path, self._fault)
            try:
                # One write in append mode: a line lies whole behind those before it (write(2)).
                written = os.write(self._file.fileno(), line)
                if written < len(line):  # a full disk takes the beginning and then says so
                    os.write(self._file.fileno(), line[written:])
                if is_durable:
                    self.sync()
            except OSError as error:
                self._fault = error  # what follows a torn line would be lost with it
                raise unusable(self.path, error) from error
            start, self._size = self._size, self._size + len(line)
        if not is_durable:
            if self._syncer is None:
                self._syncer = threading.Thread(target=self._sync_now_and_then, daemon=True)
                self._syncer.start()
            self._is_dirty.set()
        return start

    def sync(self) -> None:
        """Everything so far is on disk when this returns."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._is_dirty.set()
        if self._syncer is not None:
            self._syncer.join()
            self.sync()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cut_tail(self) -> int:
        """Drops a line that was cut off: the next would be glued to it. The size that is left."""
        size = end = self._file.seek(0, os.SEEK_END)
        # Backwards in pieces of 64 KiB: files of answers have gigabytes.
        while end:
            start = max(0, end - (1 << 16))
            self._file.seek(start)
            newline = self._file.read(end - start).rfind(b"\n")
            end = start if newline < 0 else start + newline + 1
            if newline >= 0:
                break
        if end < size:
            self._file.truncate(end)
        return end

    def _sync_now_and_then(self) -> None:
        while not self._is_closed:
            self._is_dirty.wait()
            time.sleep(0 if self._is_closed else SYNC_EVERY_S / 2)
            self._is_dirty.clear()
            try:
                self.sync()
            except OSError as error:
                self._fault = error
                return


def unusable(path: Path, error: OSError) -> StoreError:
    reason = error.strerror or str(error)
    return StoreError(
        f"{path}  the journal cannot be used: {reason}. Fix that and run the same command again."
    )
