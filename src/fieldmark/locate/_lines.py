"""On which line of a TOML file does each key, and each entry of a list, stand?

The parser of TOML gives values without places, so the lines are found by a reader of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
