"""Exact match, ANLS and edit distance: how near is a text to what was wanted?

ANLS is the average normalised Levenshtein similarity (Biten et al. 2019,
https://arxiv.org/abs/1905.13648), here of one document.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

from fieldmark.errors import UsageError

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


def exact_match(
    references: Sequence[object],
    predictions: Sequence[object],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> float:
    """The share of predictions that equal one of the references, without what does not count.

    `ignore_punctuation` and `ignore_numbers` drop ASCII punctuation and digits.
    """
    if not predictions:
        return 0.0
    patterns = [_compiled(pattern) for pattern in regexes_to_ignore or ()]

    def plain(value: object) -> str:
        text = str(value)
        for pattern in patterns:
            text = pattern.sub("", text)
        text = text.lower() if ignore_case else text
        text = text.translate(_NO_PUNCTUATION) if ignore_punctuation else text
        return text.translate(_NO_DIGITS) if ignore_numbers else text

    wanted = {plain(reference) for reference in references}
    return sum(plain(prediction) in wanted for prediction in predictions) / len(predictions)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"regexes_to_ignore: {pattern!r} is not a regular expression: {error}."
        ) from error


def anls(
    references: Sequence[object], predictions: Sequence[object], thresh_hold: float = 0.5
) -> float:
    """How alike the first prediction and the nearest reference are; 0 below the threshold.

    Case and runs of white space do not count, but the distance is divided by the length of the
    texts as they stand.
    """
    if not references or not predictions:
        return 0.0
    prediction = str(predictions[0])
    best = max(_likeness(str(reference), prediction, thresh_hold) for reference in references)
    return best if best >= thresh_hold else 0.0


def _likeness(wanted: str, prediction: str, least: float) -> float:
    # In capitals, as the metric's authors count: ß has two.
    length = max(len(wanted.upper()), len(prediction.upper()))
    if not length:
        return 1.0
    a, b = (" ".join(text.lower().split()) for text in (wanted, prediction))
    if 1 - abs(len(a) - len(b)) / length < least:  # no alignment can be closer than that
        return 0.0
    return 1 - levenshtein(a, b) / length


def levenshtein(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Edit distance: the fewest letters (or words) to insert, delete or replace."""
    if len(a) > len(b):
        a, b = b, a
    before = list(range(len(a) + 1))
    for row, letter in enumerate(b, 1):
        here = [row]
        for place, other in enumerate(a):
            change = before[place] + (letter != other)
            here.append(min(change, before[place + 1] + 1, here[-1] + 1))
        before = here
    return before[-1]
