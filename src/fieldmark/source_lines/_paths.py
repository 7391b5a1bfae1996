"""Is a file or folder there, whatever its name looks like?

Names come from task files and rows of data: one that no file can have (too long, a null byte, a
home folder nobody has) is one that is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def is_file(path: Path) -> bool:
    return _asked(path.is_file)


def is_folder(path: Path) -> bool:
    return _asked(path.is_dir)


def is_there(path: Path) -> bool:
    return _asked(path.exists)


def _asked(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except (OSError, ValueError):
        return False


def with_home(text: str) -> Path:
    """The path with `~` filled in, where there is such a home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)
