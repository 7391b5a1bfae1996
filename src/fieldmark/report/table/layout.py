"""Text layout: how is a score written, and how do rows of text become straight columns?

`71.3 ± 1.8 (n=412)`, `6.2 [0.4, 40.0] (n=16)`: fractions as percent with one decimal, anything else
with three figures. The parts of a cell stand under each other within a column. Widths are those of
a terminal: East Asian characters take two places, combining ones none. No text is ever cut; a line
may become longer than the screen.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING

from fieldmark.words import score_words

if TYPE_CHECKING:
    from fieldmark.report.rows import Row
    from fieldmark.store import Score

GAP = "  "
_CONTROL = dict.fromkeys((*range(32), 127), " ")


def text_width(text: str) -> int:
    """Places the text takes on a terminal.

    >>> text_width("fox"), text_width("狐"), text_width("e\u0301")
    (3, 2, 1)
    """
    return len(text) if text.isascii() else sum(map(_places, text))


@cache
def _places(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, width: int, is_right: bool = False) -> str:
    """The text with spaces up to the width, on the left of it where it `is_right`."""
    spaces = " " * (width - text_width(text))
    return spaces + text if is_right else text + spaces


def align(
    names: Sequence[str],
    body: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    width: int | None = None,
) -> list[str]:
    """Lines of a table with a heading; `right` names the columns of numbers.

    A heading may have several lines; they end at the bottom. Line breaks and tabs in the body
    become spaces. Where the table is wider than `width`, text goes on below, between words; where
    that is not enough, the widest text of a row has a line of its own above it.
    """
    head = _stack(names)
    rows = [[cell.translate(_CONTROL) for cell in row] for row in body]
    if width is not None and rows:
        rows = _folded(head, rows, [name not in right for name in names], width)
    widths = [max(map(text_width, column)) for column in zip(*head, *rows, strict=True)]
    sides = [name in right for name in names]
    if width is not None and len(names) > 1 and sum(widths) + len(GAP) * (len(names) - 1) > width:
        texts = [at for at, name in enumerate(names) if name not in right]
        at = max(texts, key=widths.__getitem__, default=0)
        others = [[*row[:at], *row[at + 1 :]] for row in body]
        rest = align([*names[:at], *names[at + 1 :]], others, right, width - len(GAP))
        if len(rest) == len(head) + len(body):  # else it is too wide either way
            return _with_headlines(names[at], [row[at] for row in body], rest)
    return [GAP.join(map(pad, row, widths, sides)).rstrip() for row in (*head, *rows)]


def _with_headlines(name: str, firsts: Sequence[str], rest: Sequence[str]) -> list[str]:
    """A column as lines of their own, one for neighbours that are the same."""
    n_head = len(rest) - len(firsts)
    lines = [*name.split("\n"), *(f"{GAP}{line}" for line in rest[:n_head])]
    for at, (first, line) in enumerate(zip(firsts, rest[n_head:], strict=True)):
        if not at or firsts[at - 1] != first:
            lines.append(first.translate(_CONTROL))
        lines.append(f"{GAP}{line}")
    return lines


def _folded(
    head: Sequence[Sequence[str]], rows: list[list[str]], is_text: Sequence[bool], width: int
) -> list[list[str]]:
    """The rows with their widest texts on several lines each, as far as the width asks for it."""
    columns = list(zip(*head, *rows, strict=True))
    widths = [max(map(text_width, column)) for column in columns]
    least = [
        max(text_width(word) for cell in column for word in (cell.split() or [""]))
        for column in columns
    ]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    for index in sorted(range(len(widths)), key=lambda index: least[index] - widths[index]):
        if is_text[index] and excess > 0:
            taken = min(excess, widths[index] - least[index])
            widths[index], excess = widths[index] - taken, excess - taken
    folded = []
    for row in rows:
        cells = [
            (wrap(cell, max(w, 1), break_long_words=False, break_on_hyphens=False) or [""])
            if does_fold
            else [cell]
            for cell, w, does_fold in zip(row, widths, is_text, strict=True)
        ]
        folded += [list(line) for line in zip_longest(*cells, fillvalue="")]
    return folded


def _stack(names: Sequence[str]) -> list[list[str]]:
    """The heading's lines from top to bottom, each with one text per column."""
    parts = [name.split("\n") for name in names]
    height = max(map(len, parts), default=0)
    filled = [[""] * (height - len(lines)) + lines for lines in parts]
    return [list(line) for line in zip(*filled, strict=True)]


# --- scores ---


MISSING = "–"
UNDEFINED = "undefined"
SILENT, NO_INTERVAL = "†", "‡"


def number(value: float, score: Score) -> str:
    """The value in the score's own unit."""
    return score_words(value, score.is_fraction)


def known(value: float | None) -> float | None:
    """None for what is not defined, which JSON has no number for."""
    return None if value is None or math.isnan(value) else value


def arrow(score: Score) -> str:
    return "↑" if score.higher_is_better else "↓"


def interval_cell(score: Score) -> str:
    if score.low is None or score.high is None:
        return MISSING
    return f"[{number(score.low, score)}, {number(score.high, score)}]"


def marks(row: Row) -> str:
    signs = (SILENT if row.outcomes else "") + (NO_INTERVAL if row.score.warning else "")
    return (f" {row.tier}" if row.tier else "") + signs


def column_of_cells(rows: Sequence[Row | None]) -> list[str]:
    """The cells of a column from top to bottom, with their pieces and marks aligned."""
    pieces = [_pieces(row.score) if row else None for row in rows]
    filled = [piece for piece in pieces if piece]
    half = max((len(margin) for _, margin, _ in filled if margin.startswith("±")), default=0) - 2
    filled = [(value, _aligned(margin, half), n) for value, margin, n in filled]
    widths = [max(map(text_width, column)) for column in zip(*filled, strict=True)]
    n_marks = max((len(marks(row)) for row in rows if row), default=0)
    absent = pad(pad(MISSING, widths[0] if widths else 0, is_right=True), sum(widths))
    cells = iter("".join(map(pad, piece, widths, (True, False, False))) for piece in filled)
    return [
        (next(cells) if row else absent) + (marks(row) if row else "").ljust(n_marks)
        for row in rows
    ]


def _aligned(margin: str, half: int) -> str:
    """With a blank before it, and figures after ± at the right."""
    if not margin.startswith("± "):
        return f" {margin}" * bool(margin)
    return f" ± {margin[2:].rjust(half)}"


def is_lopsided(row: Row) -> bool:
    """Is its margin shown as an interval?"""
    return _pieces(row.score)[1].startswith("[")


def _pieces(score: Score) -> tuple[str, str, str]:
    """Value, margin and count."""
    count = f" (n={score.n:,})"
    if math.isnan(score.value):
        return UNDEFINED, "", count
    value = number(score.value, score)
    if score.low is None or score.high is None:
        return value, "", count
    return value, margin_text(score.value, score.low, score.high, score), count


def margin_text(value: float, low: float, high: float, score: Score) -> str:
    """Half the interval; both ends where that would leave 0–100.

    >>> from fieldmark.store import Score
    >>> margin_text(0.713, 0.7, 0.73, Score("a", 0)), margin_text(0.062, 0.004, 0.4, Score("a", 0))
    ('± 1.5', '[0.4, 40.0]')
    """
    half = (high - low) / 2
    if score.is_fraction and not half <= value <= 1 - half:
        return f"[{number(low, score)}, {number(high, score)}]"
    return f"± {number(half, score)}"
