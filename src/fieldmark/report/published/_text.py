"""How are comparisons with published numbers shown?"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fieldmark.report.cells import MISSING
from fieldmark.report.columns import align
from fieldmark.report.published._match import AGREES, DIFFERS, NOT_COMPARABLE, Match


def plain_published(match: Match) -> dict[str, Any]:
    """What programs read: one flat mapping of JSON values."""
    score = match.row.score
    scale = 100.0 if score.is_fraction else 1.0

    def known(value: float | None) -> float | None:
        return None if value is None or math.isnan(value) else value

    theirs = {f"published_{name}": value for name, value in asdict(match.published).items()}
    return {
        "model": match.row.model,
        "task": match.row.run.spec.task_name,
        "metric": score.metric,
        "ours": known(match.ours),
        "low": known(None if score.low is None else scale * score.low),
        "high": known(None if score.high is None else scale * score.high),
        "difference": known(match.difference),
        "interval_covers": match.covers,
        "verdict": match.verdict,
        "why": match.why,
        **theirs,
        "run": match.row.run.id,
    }


def published_text(matches: Sequence[Match], width: int = 80) -> str:
    """A table per source, and what the verdicts add up to."""
    if not matches:
        return (
            "None of these scores has a published counterpart: no source asked the same model the "
            "same task in the same way."
        )
    sections = []
    for source in dict.fromkeys(each.published.source for each in matches):
        mine = [each for each in matches if each.published.source == source]
        first = mine[0].published
        sections += [f"{source}, {first.date}, {first.address}", *_lines(mine), ""]
    return "\n".join([*sections, *textwrap.wrap(_sum(matches), width)])


def _lines(matches: Sequence[Match]) -> list[str]:
    names = ["model", "task", "metric", "ours", "theirs", "difference", "verdict"]
    body = [
        [
            each.row.model,
            each.row.run.spec.task_name,
            each.row.score.metric,
            _ours(each),
            f"{each.published.value:.1f}",
            MISSING if each.verdict == NOT_COMPARABLE else _signed(each.difference),
            f"{each.verdict}: {each.why}" if each.why else each.verdict,
        ]
        for each in matches
    ]
    return align(names, body, right=("ours", "theirs", "difference"))


def _ours(match: Match) -> str:
    score = match.row.score
    if math.isnan(match.ours):
        return MISSING
    if score.low is None or score.high is None:
        return f"{match.ours:.1f}"
    scale = 100.0 if score.is_fraction else 1.0
    return f"{match.ours:.1f} [{scale * score.low:.1f}, {scale * score.high:.1f}]"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _sum(matches: Sequence[Match]) -> str:
    verdicts = [each.verdict for each in matches]
    counts = [f"{verdicts.count(each)} {each}" for each in (AGREES, DIFFERS, NOT_COMPARABLE)]
    return (
        f"{', '.join(counts)}. A score agrees when it lies within the source's tolerance, or its "
        "interval holds the published number."
    )
