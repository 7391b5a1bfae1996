"""How is a score written?

`71.3 ± 1.8 (n=412)`: fractions as percent with one decimal, anything else with three figures. The
parts of a cell stand under each other within a column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fieldmark.report.columns import pad, text_width
from fieldmark.report.rows import Row
from fieldmark.store import Score

MISSING = "–"
UNDEFINED = "undefined"
UNANSWERED, WEAK = "†", "‡"


def number(value: float, score: Score) -> str:
    """The value in the score's own unit.

    >>> number(0.7128, Score("accuracy", 0.7128)), number(3.14159, Score("x", 0, is_fraction=False))
    ('71.3', '3.14')
    """
    return f"{100 * value:.1f}" if score.is_fraction else f"{value:.3g}"


def arrow(score: Score) -> str:
    return "↑" if score.higher_is_better else "↓"


def interval_cell(score: Score) -> str:
    if score.low is None or score.high is None:
        return MISSING
    return f"[{number(score.low, score)}, {number(score.high, score)}]"


def marks(row: Row) -> str:
    signs = (UNANSWERED if row.outcomes else "") + (WEAK if row.score.warning else "")
    return (f" {row.tier}" if row.tier else "") + signs


def column_of_cells(rows: Sequence[Row | None]) -> list[str]:
    """The cells of a column from top to bottom, with their pieces and marks aligned."""
    pieces = [_pieces(row.score) if row else None for row in rows]
    known = [each for each in pieces if each]
    widths = [max(map(text_width, column)) for column in zip(*known, strict=True)]
    n_marks = max((len(marks(row)) for row in rows if row), default=0)
    absent = pad(pad(MISSING, widths[0] if widths else 0, is_right=True), sum(widths))
    return [
        ("".join(map(pad, each, widths, (True, True, True, False))) if each else absent)
        + (marks(row) if row else "").ljust(n_marks)
        for row, each in zip(rows, pieces, strict=True)
    ]


def _pieces(score: Score) -> tuple[str, str, str, str]:
    """Value, sign, half-width and count."""
    count = f" (n={score.n:,})"
    if math.isnan(score.value):
        return UNDEFINED, "", "", count
    value = number(score.value, score)
    if score.low is None or score.high is None:
        return value, "", "", count
    return value, " ± ", number((score.high - score.low) / 2, score), count
