"""Reading free text: answers in the styles of current models, written without sight of the parser.

`truth` is what a careful reader takes from the text, null where there is no clear single answer.
The seen half may be looked at while the parser is mended. The sealed half may not: its failures
are told in numbers only, so that nobody mends the parser answer by answer.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import AskRules, Option, make_question, parse_text

HALVES = ("seen", "sealed")
MOST_WRONG = 0.01
"""share of all answers of a half that may be read as something they do not say"""

Row = dict[str, Any]


@cache
def rows_of(half: str) -> tuple[Row, ...]:
    text = (Path(__file__).parent / f"reading_{half}.jsonl").read_text(encoding="utf-8")
    return tuple(json.loads(line) for line in text.splitlines())


def readable(row: Row) -> Any:
    """The options of a row as the parser takes them: of an open question, the taxa."""
    options = [Option(**{**o, "aliases": tuple(o["aliases"])}) for o in row["options"]]
    if row["form"] != "open":
        return options
    table = [{"target": o.label, "name": o.name, "common": o.aliases[0]} for o in options]
    rules = AskRules("open", scientific="name", common="common")
    return make_question("reading", rules, table).taxa


def verdict(row: Row) -> str:
    """right, abstained or wrong; where there is no clear answer, abstaining is right."""
    parsed = parse_text(row["text"], readable(row), row["form"], is_cut=row["is_cut"])
    if parsed.label is None:
        return "right" if row["truth"] is None else "abstained"
    if row["truth"] is None:
        return "wrong"
    if row["form"] == "labels":
        return "right" if set(parsed.labels) == set(row["truth"]) else "wrong"
    return "right" if parsed.label == row["truth"] else "wrong"


def summary(rows: list[Row], half: str) -> str:
    """Counts; for the half that may be seen also by style, and the answers themselves."""
    counts = Counter(verdict(row) for row in rows)
    lines = [", ".join(f"{counts[name]} {name}" for name in ("right", "abstained", "wrong"))]
    if half == "sealed":
        return lines[0]
    by_style: dict[str, Counter[str]] = {}
    for row in rows:
        by_style.setdefault(row["style"], Counter())[verdict(row)] += 1
    lines += [f"{style}: {dict(by_style[style])}" for style in sorted(by_style)]
    wrong = [row for row in rows if verdict(row) == "wrong"]
    lines += [f"{row['id']} is {row['truth']!r}: {row['text'][:200]!r}" for row in wrong]
    return "\n".join(lines)


@pytest.mark.parametrize("half", HALVES)
def test_the_asked_form_is_always_read(half: str) -> None:
    asked = [row for row in rows_of(half) if row["asked_form"]]
    n_right = sum(verdict(row) == "right" for row in asked)
    if n_right < len(asked):
        pytest.fail(summary(asked, half), pytrace=False)


@pytest.mark.parametrize("half", HALVES)
def test_hardly_any_answer_is_read_as_what_it_does_not_say(half: str) -> None:
    rows = list(rows_of(half))
    n_wrong = sum(verdict(row) == "wrong" for row in rows)
    if n_wrong >= MOST_WRONG * len(rows):
        pytest.fail(summary(rows, half), pytrace=False)


@pytest.mark.parametrize("half", HALVES)
def test_not_everything_is_abstained_from(half: str) -> None:
    """Loose answers too: a parser that reads the asked form only is not worth having."""
    loose = [row for row in rows_of(half) if not row["asked_form"] and row["truth"] is not None]
    n_right = sum(verdict(row) == "right" for row in loose)
    if n_right < 0.4 * len(loose):
        pytest.fail(summary(loose, half), pytrace=False)


def test_the_sets_are_large_mostly_loose_and_apart() -> None:
    rows = [row for half in HALVES for row in rows_of(half)]
    assert len(rows) >= 400
    assert min(len(rows_of(half)) for half in HALVES) >= 200
    assert sum(not row["asked_form"] for row in rows) >= 0.6 * len(rows)
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["form"] for row in rows} == {"choice", "yes_no", "labels", "count", "open"}
