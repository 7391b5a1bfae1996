"""TOML with line numbers: what does a file hold, and on which line does each key stand?

The parser of TOML gives values without places, so the lines are found by a reader of its own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldmark.errors import UsageError, at, meant_path

_TOML_WORDS = {
    "Cannot overwrite a value": "a key is given twice: keep one",
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
    except RecursionError:
        raise UsageError(f"{path}  is nested too deep: write it flatter.") from None
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"line (\d+)", str(error))
        line = int(match[1]) if match else max(1, len(text.splitlines()))
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        problem = _TOML_WORDS.get(message, message[:1].lower() + message[1:])
        raise UsageError(at(path, line, f"is not valid TOML: {problem}.")) from error
    return Located(path, data, toml_lines(text))


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if path.is_symlink():
            raise UsageError(f"{path}  is a link to a file that does not exist.") from None
        raise UsageError(f"{path}  does not exist.{meant_path(path)}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}  is a folder; a file is needed.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise UsageError(at(path, line, f"is not UTF-8 text ({byte}): save it as UTF-8.")) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}  cannot be read: {reason}.") from None


# --- lines of TOML ---


Key = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=""")
_TOKEN = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|\n|\S""", re.DOTALL
)


def toml_lines(text: str) -> dict[Key, int]:
    lines: dict[Key, int] = {}
    table: Key = ()
    counts: dict[Key, int] = {}
    quote = ""
    rows = text.splitlines(keepends=True)
    for number, line in enumerate(rows, start=1):
        if quote:
            quote = "" if line.count(quote) % 2 else quote
            continue
        header = _HEADER.match(line)
        if header:
            table = _split_key(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
            lines.setdefault(table[:1], number)
        elif match := _KEY.match(line):
            key = (*table, *_split_key(match[1]))
            lines.setdefault(key, number)
            if line[match.end() :].lstrip(" \t").startswith("["):
                value = "".join([line[match.end() :], *rows[number:]])
                lines.update({(*key, index): number + down for index, down in _entries(value)})
        quote = next((mark for mark in ('"""', "'''") if line.count(mark) % 2), "")
    return lines


def _entries(value: str) -> Iterator[tuple[int, int]]:
    """The number of each entry of the list that a text begins with, and how many lines down."""
    depth, index, offset, is_new = 0, 0, 0, True
    for token in (match[0] for match in _TOKEN.finditer(value)):
        if token in "[{":
            if depth == 1 and is_new:
                yield index, offset
                is_new = False
            depth += 1
        elif token in "]}":
            depth -= 1
            if depth == 0:
                return
        elif token == "," and depth == 1:
            index, is_new = index + 1, True
        elif depth == 1 and is_new and token != "\n" and not token.startswith("#"):
            yield index, offset
            is_new = False
        offset += token.count("\n")


def _split_key(text: str) -> Key:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


# --- is a file or folder there? Names come from task files and rows of data: one that no file can
# have (too long, a null byte, a home folder nobody has) is one that is not there.


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


# --- KEY=VALUE words of a command line: what would a TOML file say?


def toml_value(text: str) -> Any:
    """As it would stand in a TOML file; whatever is no such value is text.

    >>> toml_value("3"), toml_value("[1, 2]"), toml_value("a word")
    (3, [1, 2], 'a word')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def set_dotted(table: dict[str, Any], key: str, text: str) -> None:
    """Sets `a.b.c`, making the tables on the way; ValueError names one that is a value already.

    >>> table = {"a": {"b": 1}}
    >>> set_dotted(table, "a.c", "true"); table
    {'a': {'b': 1, 'c': True}}
    """
    *outer, last = key.split(".")
    for name in outer:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ValueError(name)
    table[last] = toml_value(text)
