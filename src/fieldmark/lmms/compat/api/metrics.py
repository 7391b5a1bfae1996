"""`lmms_eval.api.metrics`, as far as task code calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fieldmark.lmms.compat._distance import edit_distance

__all__ = ["anls", "levenshtein_distance"]


def levenshtein_distance(s1: Sequence[Any], s2: Sequence[Any]) -> int:
    """Insertions, deletions and replacements that make one sequence the other."""
    return edit_distance(s1, s2)


def anls(
    references: Sequence[str], predictions: Sequence[Any], thresh_hold: float = 0.5
) -> dict[str, float]:
    """The best likeness of the prediction and a reference; 0 below the threshold."""
    first = predictions[0]
    said: str = first if isinstance(first, str) else first[0]
    likeness = 1 - min(_unlikeness(each, said) for each in references)
    return {"anls": likeness if likeness >= thresh_hold else 0}


def _unlikeness(reference: str, said: str) -> float:
    longest = max(len(reference.upper()), len(said.upper()))
    if longest == 0:
        return 0.0
    return edit_distance(_flat(reference), _flat(said)) / longest


def _flat(text: str) -> str:
    return " ".join(text.lower().split())
