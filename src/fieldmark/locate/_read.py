"""What does a file hold, and where do its keys stand?"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldmark.errors import UsageError, at, closest
from fieldmark.locate._lines import Key, toml_lines

_TOML_WORDS = {
    "Cannot overwrite a value": "a key stands twice, keep one",
    "Invalid value": "a value cannot be read (text needs quotes)",
    "Invalid statement": "a `key = value` line was expected",
}


@dataclass(frozen=True, slots=True)
class Located:
    """The content of a file and where its keys stand."""

    path: Path
    data: dict[str, Any]
    lines: dict[Key, int]
    files: dict[str | int, Path] = field(default_factory=dict)
    """the first step of a key that stands in another file, because it was included → that file"""
    notes: tuple[str, ...] = ()
    """what is odd about the file, with its place, one line each"""

    def line(self, key: Sequence[str | int]) -> int | None:
        """The line of the key, or of the nearest thing around it."""
        for length in range(len(key), 0, -1):
            if tuple(key[:length]) in self.lines:
                return self.lines[tuple(key[:length])]
        return None

    def where(self, key: Sequence[str | int]) -> str:
        line, file = self.line(key), self.file(key)
        return f"{file}:{line}" if line else str(file)

    def file(self, key: Sequence[str | int]) -> Path:
        """The file the key stands in."""
        return self.files.get(key[0], self.path) if key else self.path


def read_toml(path: Path) -> Located:
    text = read_text(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        told = _TOML_WORDS.get(message, message[:1].lower() + message[1:])
        raise UsageError(at(path, line, f"is not valid TOML: {told}.")) from error
    return Located(path, data, toml_lines(text))


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if path.is_symlink():
            raise UsageError(f"{path}  is a link to a file that does not exist.") from None
        raise UsageError(f"{path}  does not exist.{_close_file(path)}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}  is a folder; a file is needed.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise UsageError(at(path, line, f"is not UTF-8 text ({byte}): save it as UTF-8.")) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}  cannot be read: {reason}.") from None


def _close_file(path: Path) -> str:
    """A hint at the file of the same kind that was probably meant."""
    try:
        names = [each.name for each in path.parent.iterdir() if each.suffix == path.suffix]
    except OSError:
        return ""
    near = closest(path.name, names, most=1)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
