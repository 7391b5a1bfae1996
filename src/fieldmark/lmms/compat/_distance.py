"""How many edits lie between two sequences?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def edit_distance(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Levenshtein's distance: insertions, deletions and replacements, each 1."""
    above = list(range(len(second) + 1))
    for i, one in enumerate(first, start=1):
        row = [i]
        for j, other in enumerate(second, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (one != other)))
        above = row
    return above[-1]
