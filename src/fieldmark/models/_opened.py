"""Audit hook: which files does a model open while it is built and looks at its first pictures?

Python tells of every `open` (PEP 578), so weights count that only the model's own code knows of:
`open`, `numpy.load`, `torch.load`, `pickle`. Readers written in C or Rust (safetensors, HDF5) are
not told of; for those the texts in the source, the neighbours of opened files and the loaded
arrays stand in (`_state`). What a library reads for itself while it is imported is left out:
it would depend on who imported it first.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from fieldmark.code import is_users

SYSTEM = ("/dev", "/etc", "/proc", "/sys", "/usr/lib", "/usr/share")
STARTS = ("_thread.start_new_thread", "_thread.start_joinable_thread")
UNHEARD = (".gguf", ".h5", ".hdf5", ".onnx", ".safetensors", ".tflite")
"""what C and Rust readers open unheard"""


@dataclass(slots=True)
class Opened:
    """What one thread, and those it started, opened."""

    threads: list[threading.Thread]
    read: dict[str, None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def files(self, folder: Path) -> list[Path]:
        """Files of the user's that were read and not written, and unheard ones beside them.
        `folder` is the model's own: what lies below it always counts.
        """
        read = {Path(os.path.realpath(text)) for text in self.read}
        paths = {path for path in self.unwritten(read) if _counts(path, folder)}
        folders = {path.parent for path in paths if path.suffix != ".py"}
        beside = {each for place in folders for each in place.iterdir()}
        return sorted(paths | {path for path in beside if path.suffix in UNHEARD})

    def unwritten(self, paths: set[Path]) -> set[Path]:
        written = {Path(os.path.realpath(text)) for text in self.written}
        return {path for path in paths - written if path.is_file()}


def _counts(path: Path, folder: Path) -> bool:
    if path.is_relative_to(folder):
        return True
    is_hidden = any(part.startswith(".") for part in path.parts)
    is_system = any(path.is_relative_to(place) for place in (*SYSTEM, sys.prefix, sys.base_prefix))
    return not is_hidden and not is_system and is_users(path)


_WATCHES: list[Opened] = []
_LOCK = threading.Lock()


@contextlib.contextmanager
def watch() -> Iterator[Opened]:
    """Notes what is opened inside."""
    _install()
    opened = Opened([threading.current_thread()])
    with _LOCK:
        _WATCHES.append(opened)
    try:
        yield opened
    finally:
        with _LOCK:
            _WATCHES.remove(opened)


@lru_cache(maxsize=1)
def _install() -> None:
    """Once in a process: Python has no way to take an audit hook back."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _WATCHES or event not in ("open", *STARTS):
        return
    here = threading.current_thread()
    for opened in [each for each in _WATCHES if here in each.threads]:
        if event in STARTS:
            started = getattr(arguments[0], "__self__", None)
            opened.threads += [started] if isinstance(started, threading.Thread) else []
        elif isinstance(arguments[0], str | bytes | os.PathLike):
            _note(opened, os.path.abspath(os.fsdecode(arguments[0])), *arguments[1:3])  # noqa: PTH100


def _note(opened: Opened, path: str, mode: str | None, flags: int) -> None:
    is_read = set(mode) <= set("rbtU") if mode else not flags & (os.O_WRONLY | os.O_RDWR)
    if not is_read:
        opened.written.add(path)
    elif path.endswith(".pyc"):
        with contextlib.suppress(ValueError, NotImplementedError):
            opened.read[importlib.util.source_from_cache(path)] = None
    elif path.endswith(".py") or not _is_import():
        opened.read[path] = None


def _is_import() -> bool:
    """Is a library being imported that reads a file for itself?"""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return True
        if not name.startswith("<") and is_users(Path(name)):
            return False
        frame = frame.f_back
    return False
