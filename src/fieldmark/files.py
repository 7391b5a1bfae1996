"""Atomic writes and file locks: how does a file appear whole or not at all, and who writes to it?

The bytes go to a hidden file beside the place, which gets its name at the end. `is_durable` forces
them, and the name, to the disk first: for what is expensive to make again, and for files that say
that others are complete.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fieldmark.errors import DataError


@contextlib.contextmanager
def whole_file(path: Path, is_durable: bool = False) -> Iterator[IO[bytes]]:
    """An open file that becomes `path` when the block ends; an error in the block leaves nothing.

    DataError where it cannot be written.
    """
    part = part_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w+b") as file:
            yield file
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        part.replace(path)
        if is_durable:
            sync_folder(path.parent)
    except OSError as error:
        raise DataError(f"{path}  cannot be written: {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """The hidden file beside a place, of this process alone."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def write_file(path: Path, data: bytes, is_durable: bool = False) -> None:
    """The file appears whole or not at all."""
    with whole_file(path, is_durable) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Names that were given in the folder are on the disk when this returns."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
