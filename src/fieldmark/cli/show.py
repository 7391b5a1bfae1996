"""Printing (tables, JSON): how are lists shown to people and to programs?

Data go to standard output, talk to standard error. Nothing else in `cli` prints.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import textwrap
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from fieldmark.errors import readable
from fieldmark.words import STEERING
from fieldmark.words import counted as counted
from fieldmark.words import printable as printable


def show_rows(
    rows: Sequence[Mapping[str, Any]],
    as_json: bool,
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """A table with a heading, or a JSON list; `right` names the columns of numbers, `spare` those
    that are left out, one by one, on a screen that is too narrow (not where rows differ in draws).
    """
    if as_json:
        print_json(rows)
        return None
    if not rows:
        return None
    from fieldmark.report import align

    names = list(rows[0])
    body = [[_text(row[name]) for name in names] for row in rows]
    limit = screen_width()
    differing = {name for name in ("seed", "n_train") if len({row.get(name) for row in rows}) > 1}
    spare = [name for name in spare if name not in differing]
    if limit is not None and spare and max(map(len, align(names, body, right))) > limit:
        empty = [name for name in names if all(_text(row[name]) in ("", "-") for row in rows)]
        left_out = empty or spare[:1]
        narrow = [{k: v for k, v in row.items() if k not in left_out} for row in rows]
        return show_rows(narrow, False, right, spare if empty else spare[1:])
    for line in align(names, body, right, limit):
        show(line)
    return None


def print_json(value: Any) -> None:
    show_json(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def show_json(text: str, end: str = "\n") -> None:
    """JSON, for standard output: what would steer a terminal is spelled as JSON does it."""
    safe = STEERING.sub(lambda one: "\n" if one[0] == "\n" else f"\\u{ord(one[0]):04x}", text)
    print(safe, end=end, flush=True)


def show(text: str, end: str = "\n") -> None:
    """Data, for standard output. What others wrote cannot steer the terminal."""
    print(printable(text, "\n\t"), end=end, flush=True)


def show_sentence(text: str) -> None:
    """Words among the data; on a terminal no word is broken at its edge."""
    is_screen = screen_width() is not None
    show("\n".join(folded(line) if is_screen else line for line in text.split("\n")))


def talk(text: str) -> None:
    """Messages, for standard error; on a terminal no word is broken at its edge."""
    text = readable(printable(text, "\n\t"))
    if sys.stderr.isatty():
        text = "\n".join(folded(line) for line in text.split("\n"))
    print(text, file=sys.stderr)


def tell(line: str, to: TextIO) -> None:
    """A sentence. On a terminal no word is broken at its edge; names keep their double blanks."""
    line = printable(line)
    print(folded(line) if to.isatty() else line, file=to, flush=True)


def folded(line: str) -> str:
    """On as many lines as the terminal needs, all as far in; names and paths stay whole."""
    if len(line) <= width():
        return line
    inner = line[: len(line) - len(line.lstrip())]
    lines = textwrap.wrap(
        line, width(), subsequent_indent=inner, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


class _LogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        talk(self.format(record))


def spell_out() -> None:
    """Makes the log and unexpected errors talk as well: they quote servers and files."""
    logging.lastResort = _LogHandler(logging.WARNING)
    sys.excepthook = lambda *error: talk("".join(traceback.format_exception(*error)).rstrip())


def steer(codes: str) -> None:
    """Control characters of our own, for a terminal."""
    print(codes, end="", flush=True)


def rehearsal(model: str, what: str) -> str:
    """What is said of work that a mock did."""
    return f"This was a rehearsal: {model} is a mock. Do not use its {what}."


def width() -> int:
    """Characters in a line of the terminal."""
    return shutil.get_terminal_size().columns


def screen_width() -> int | None:
    """The same where data go to a terminal; None where they go to a file or a program."""
    return width() if sys.stdout.isatty() else None


def folder_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def size(n_bytes: float) -> str:
    """
    >>> size(950), size(3_400_000), size(7.2e9)
    ('950 B', '3.4 MB', '7.2 GB')
    """
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit in ("B", "kB") else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))
