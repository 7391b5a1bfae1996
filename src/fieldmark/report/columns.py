"""How do rows of text become straight columns?

Widths are those of a terminal: East Asian characters take two places, combining ones none. No text
is ever cut; a line may become longer than the screen.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

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
    names: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[str] = ()
) -> list[str]:
    """Lines of a table with a heading; `right` names the columns of numbers.

    A heading may have several lines; they end at the bottom. Line breaks and tabs in the body
    become spaces.
    """
    head = _stack(names)
    rows = [[cell.translate(_CONTROL) for cell in row] for row in body]
    widths = [max(map(text_width, column)) for column in zip(*head, *rows, strict=True)]
    sides = [name in right for name in names]
    return [GAP.join(map(pad, row, widths, sides)).rstrip() for row in (*head, *rows)]


def _stack(names: Sequence[str]) -> list[list[str]]:
    """The heading's lines from top to bottom, each with one text per column."""
    parts = [name.split("\n") for name in names]
    height = max(map(len, parts), default=0)
    filled = [[""] * (height - len(each)) + each for each in parts]
    return [list(line) for line in zip(*filled, strict=True)]
