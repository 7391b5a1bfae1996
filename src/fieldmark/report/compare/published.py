"""Published scores, typed in with their sources, and how ours compare with them.

One TOML file per source, in `published_scores/`. A column names the task (with its variant) that
asks the same question here, the metric, and how far apart two honest runs may lie; a column or
model known to be wrong at its source says why. Agreement needs the same model, task, variant,
protocol, metric and test set, and a difference within the tolerance. Our interval never makes
agreement: it says how other images might have turned out, and both tested the same. Where the
questions or the numbers of images differ, the reason is given and no verdict.
"""

from __future__ import annotations

import math
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fieldmark.report.providers import is_valued
from fieldmark.report.rows import Row
from fieldmark.report.run_labels import main_protocol
from fieldmark.report.table.layout import MISSING, align, known

FOLDER = Path(__file__).parent / "published_scores"


@dataclass(frozen=True, slots=True)
class Published:
    """One number of one source."""

    source: str
    date: str
    """year-month-day as far as known"""
    address: str
    column: str
    """as the source heads it"""
    model: str
    """as the source calls it"""
    value: float
    """in points, 0 to 100"""
    task: str
    """ours, with its variant: "newt@biobench2026"; "" where there is none"""
    models: tuple[str, ...]
    """ours; empty where it cannot be loaded here"""
    protocol: str
    metric: str
    tolerance: float
    """points that two honest runs may differ by"""
    n_items: int | None = None
    """tested by the source, where known"""
    faulty: str = ""
    """why the number itself is not to be trusted"""
    note: str = ""


@cache
def published() -> tuple[Published, ...]:
    """Every number of every source, in the order of files, models and columns."""
    return tuple(number for path in sorted(FOLDER.glob("*.toml")) for number in _read(path))


def _read(path: Path) -> Iterator[Published]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    names = data["scores"]["columns"]
    for model, values in data["scores"]["of"].items():
        for name, value in zip(names, values, strict=True):
            if not math.isnan(value):
                yield _number(data, model, name, value)


def _number(data: Mapping[str, Any], model: str, name: str, value: float) -> Published:
    column = data["columns"][name]
    faults = (column.get("faulty", ""), data.get("faulty_models", {}).get(model, ""))
    return Published(
        source=data["name"],
        date=data["date"],
        address=data["address"],
        column=name,
        model=model,
        value=float(value),
        task=column.get("task", ""),
        models=tuple(data["models"][model]),
        protocol=column.get("protocol", data.get("protocol", "")),
        metric=column["metric"],
        tolerance=float(column.get("tolerance", 0.0)),
        n_items=column.get("n_items"),
        faulty="; ".join(fault for fault in faults if fault),
        note=column.get("note", ""),
    )


# --- comparison ---


AGREES, DIFFERS, NOT_COMPARABLE = "agrees", "differs", "not comparable"
_ODD_SIZE = 0.05
"""share by which the number of test items may differ: some sizes are known only roughly"""
_ROUNDING = 1e-9
"""points: 78.2 − 77.0 is no more than 1.2"""


@dataclass(frozen=True, slots=True)
class Match:
    """One score of ours beside one that was published."""

    row: Row
    published: Published
    ours: float
    """in points, as the published value; NaN: not defined"""
    difference: float
    """ours minus theirs"""
    verdict: str
    """"agrees", "differs" or "not comparable" """
    why: str
    """the rule that was applied and what to keep in mind, or why none could be"""


def match_published(rows: Iterable[Row], numbers: Sequence[Published] | None = None) -> list[Match]:
    """Every row beside every published number of the same model and task, whatever its variant."""
    all_numbers = published() if numbers is None else numbers
    by_place: dict[tuple[str, str], list[Published]] = {}
    for number in all_numbers:
        for model in number.models:
            by_place.setdefault((model, number.task.partition("@")[0]), []).append(number)
    return [
        _match(row, number)
        for row in rows
        if not row.score.part and not is_valued(row.run)
        for number in by_place.get((row.run.spec.model, row.run.spec.task), [])
        if number.protocol == main_protocol(row.run.spec)
    ]


def _match(row: Row, number: Published) -> Match:
    ours = row.score.scale * row.score.value
    difference = ours - number.value
    reason = _why_not(row, number)
    if reason:
        return Match(row, number, ours, difference, NOT_COMPARABLE, reason)
    is_within = abs(difference) <= number.tolerance + _ROUNDING
    rule = f"{'within' if is_within else 'by more than'} {number.tolerance:g} points"
    why = "; ".join(filter(None, (rule, _images(row.score.n, number.n_items), number.note)))
    return Match(row, number, ours, difference, AGREES if is_within else DIFFERS, why)


def _images(n: int, n_theirs: int | None) -> str:
    """Whether both tested the same items, as far as their number tells; "" = they did."""
    if n_theirs is None:
        return "assumed to be the same photos: their number is not published"
    return "" if n == n_theirs else f"ours tested {n:,} photos, theirs {n_theirs:,}"


def _why_not(row: Row, number: Published) -> str:
    """The first reason against a comparison; "" = there is none."""
    spec, score = row.run.spec, row.score
    if row.is_synthetic:
        return "ours are drawings, not these photos"
    if row.task_name != number.task:
        return f"theirs is {number.task}"
    if score.metric != number.metric:
        return f"theirs is {number.metric}"
    if math.isnan(score.value):
        return "ours is not defined"
    if spec.n_train is not None or spec.n_test is not None:
        return "ours used a part of the images"
    if number.n_items and abs(score.n - number.n_items) > _ODD_SIZE * number.n_items:
        return _images(score.n, number.n_items)
    return f"theirs is faulty: {number.faulty}" if number.faulty else ""


# --- text ---


def plain_published(match: Match) -> dict[str, Any]:
    """What programs read: one flat mapping of JSON values."""
    score = match.row.score
    scale = score.scale

    theirs = {f"published_{name}": value for name, value in asdict(match.published).items()}
    return {
        "model": match.row.model,
        "task": match.row.task_name,
        "metric": score.metric,
        "ours": known(match.ours),
        "low": known(None if score.low is None else scale * score.low),
        "high": known(None if score.high is None else scale * score.high),
        "difference": known(match.difference),
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
    for source in dict.fromkeys(match.published.source for match in matches):
        of_source = [match for match in matches if match.published.source == source]
        citation = of_source[0].published
        sections += [f"{source}, {citation.date}, {citation.address}", *_lines(of_source), ""]
    return "\n".join([*sections, *textwrap.wrap(_sum(matches), width)])


def _lines(matches: Sequence[Match]) -> list[str]:
    names = ["model", "task", "metric", "ours", "theirs", "difference", "verdict"]
    body = [
        [
            match.row.model,
            match.row.task_name,
            match.row.score.metric,
            _ours(match),
            f"{match.published.value:.1f}",
            MISSING if match.verdict == NOT_COMPARABLE else _signed(match.difference),
            f"{match.verdict}: {match.why}",
        ]
        for match in matches
    ]
    return align(names, body, right=("ours", "theirs", "difference"))


def _ours(match: Match) -> str:
    score = match.row.score
    if math.isnan(match.ours):
        return MISSING
    if score.low is None or score.high is None:
        return f"{match.ours:.1f}"
    scale = score.scale
    return f"{match.ours:.1f} [{scale * score.low:.1f}, {scale * score.high:.1f}]"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _sum(matches: Sequence[Match]) -> str:
    verdicts = [match.verdict for match in matches]
    counts = [
        f"{verdicts.count(verdict)} {verdict}" for verdict in (AGREES, DIFFERS, NOT_COMPARABLE)
    ]
    return (
        f"{', '.join(counts)}. A score agrees when it lies within the source's tolerance; our "
        "interval does not count, as both tested the same images."
    )
