"""Do our scores agree with the published ones?

Agreement needs the same model, task, variant, protocol, metric and test set. A difference within
the tolerance, or an interval that covers the published number, is agreement; where something of
the question differs, no verdict is given but the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fieldmark.report.providers import is_valued
from fieldmark.report.published._load import Published, published
from fieldmark.report.rows import Row

AGREES, DIFFERS, NOT_COMPARABLE = "agrees", "differs", "not comparable"
_ODD_SIZE = 0.05
"""share by which the number of test items may differ: some sizes are known only roughly"""


@dataclass(frozen=True, slots=True)
class Match:
    """One score of ours beside one that was published."""

    row: Row
    published: Published
    ours: float
    """in points, as the published value; NaN: not defined"""
    difference: float
    """ours minus theirs"""
    covers: bool | None
    """does our interval hold the published value? None: no interval"""
    verdict: str
    """"agrees", "differs" or "not comparable" """
    why: str = ""
    """of a verdict that is not agreement, or what to keep in mind"""


def match_published(rows: Iterable[Row], numbers: Sequence[Published] | None = None) -> list[Match]:
    """Every row beside every published number of the same model and task, whatever its variant."""
    known = published() if numbers is None else numbers
    by_place: dict[tuple[str, str], list[Published]] = {}
    for number in known:
        for model in number.models:
            by_place.setdefault((model, number.task.partition("@")[0]), []).append(number)
    return [
        _match(row, number)
        for row in rows
        if not row.score.part and not is_valued(row.run)
        for number in by_place.get((row.run.spec.model, row.run.spec.task), [])
        if number.protocol == row.run.spec.protocol.partition("/")[0]
    ]


def _match(row: Row, number: Published) -> Match:
    score = row.score
    scale = 100.0 if score.is_fraction else 1.0
    ours = scale * score.value
    difference = ours - number.value
    covers = None
    if score.low is not None and score.high is not None:
        covers = scale * score.low <= number.value <= scale * score.high
    reason = _why_not(row, number)
    if reason:
        return Match(row, number, ours, difference, covers, NOT_COMPARABLE, reason)
    if abs(difference) <= number.tolerance or covers:
        return Match(row, number, ours, difference, covers, AGREES, number.note)
    why = f"by more than {number.tolerance:g} points"
    return Match(
        row, number, ours, difference, covers, DIFFERS, "; ".join(filter(None, (why, number.note)))
    )


def _why_not(row: Row, number: Published) -> str:
    """The first reason against a comparison; "" = there is none."""
    spec, score = row.run.spec, row.score
    if spec.task_name != number.task:
        return f"theirs is {number.task}"
    if score.metric != number.metric:
        return f"theirs is {number.metric}"
    if math.isnan(score.value):
        return "ours is not defined"
    if spec.n_train is not None or spec.n_test is not None:
        return "ours used a part of the images"
    if number.n_items and abs(score.n - number.n_items) > _ODD_SIZE * number.n_items:
        return f"ours tested {score.n:,} items, theirs {number.n_items:,}"
    return f"theirs is faulty: {number.faulty}" if number.faulty else ""
