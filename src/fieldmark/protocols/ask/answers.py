"""How do the answers of a chat model become predictions?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl

from fieldmark.chat import Answer, Built, Item, Parsed, parse_answer
from fieldmark.protocols.ask.items import PartQuestion, read_trait
from fieldmark.store import OK

FRAME = {
    "id": pl.String,
    "target": pl.String,
    "unit": pl.String,
    "prediction": pl.String,
    "score": pl.Float64,
    "repeat": pl.Int64,
    "outcome": pl.String,
    "info": pl.String,
}


@dataclass(frozen=True, slots=True)
class Said:
    """One answer, read."""

    item: Item
    built: Built
    repeat: int
    answer: Answer
    parsed: Parsed | None
    """None where there was no answer to read"""

    @classmethod
    def too_long(cls, item: Item, built: Built, repeat: int) -> Said:
        text = "not sent: the question alone is larger than the model takes"
        return cls(item, built, repeat, Answer("failed", error=text), None)

    def place(self) -> tuple[str, int, int]:
        return self.item.id, self.repeat, self.built.rotation

    @property
    def outcome(self) -> str:
        return outcome_of(self.answer.outcome, self.parsed)

    @property
    def label(self) -> str | None:
        return self.parsed.label if self.parsed is not None and self.outcome == OK else None

    @property
    def labels(self) -> Sequence[str] | None:
        return self.parsed.labels if self.parsed is not None and self.outcome == OK else None


def outcome_of(sent_back: str, parsed: Parsed | None) -> str:
    """ok, refused, length, unparsed or failed, from what came back and what was read in it."""
    if sent_back in ("failed", "refused") or parsed is None:
        return sent_back
    if parsed.outcome == "parsed":
        return OK
    return "length" if sent_back == "length" else parsed.outcome


def read_answer(item: Item, built: Built, repeat: int, answer: Answer) -> Said:
    if not answer.is_answer:
        return Said(item, built, repeat, answer, None)
    parsed = parse_answer(built, answer.text, is_cut=answer.outcome == "length")
    return Said(item, built, repeat, answer, parsed)


def rows_of_part(asked: PartQuestion, said: Iterable[Said], trait: str = "") -> pl.DataFrame:
    """One row per item and repeat; turns of the options become one answer."""
    rows = []
    in_order = sorted(said, key=Said.place)
    for (item, repeat), turns in groupby(in_order, key=lambda each: each.place()[:2]):
        if item in asked.rows:
            rows.append(_row(asked.rows[item], repeat, list(turns), trait))
    return pl.DataFrame(rows, schema=FRAME, orient="row")


def _row(
    asked: tuple[str | None, str | None], repeat: int, turns: Sequence[Said], trait: str
) -> tuple[Any, ...]:
    target, unit = asked
    deciding = _deciding(turns, target, trait)
    label = read_trait(deciding.labels, trait) if trait else deciding.label
    outcome = deciding.outcome if label is not None or deciding.outcome != OK else "unparsed"
    info = json.dumps(_info(turns, deciding), ensure_ascii=False, sort_keys=True)
    return deciding.item.id, target, unit, label, None, repeat, outcome, info


def _deciding(turns: Sequence[Said], target: str | None, trait: str) -> Said:
    """Right means right in all turns. A wrong one decides; after it, one that said nothing."""
    if trait or len(turns) == 1:
        return turns[0]
    return turns[decide([each.label for each in turns], target)]


def decide(labels: Sequence[str | None], target: str | None) -> int:
    """Which of several turns stands for all of them."""
    wrong = [n for n, label in enumerate(labels) if label not in (None, target)]
    silent = [n for n, label in enumerate(labels) if label is None]
    return [*wrong, *silent, 0][0]


def _info(turns: Sequence[Said], deciding: Said) -> dict[str, Any]:
    """What is kept of an answer: its words first of all, so that it can be read again."""
    answer = deciding.answer
    cost = spent([each.answer for each in turns])
    found: dict[str, Any] = {
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        **{name: cost[name] for name in ("tokens_in", "tokens_out", "usd")},
        "latency_s": round(answer.latency_s, 3),
        "attempts": sum(each.answer.attempts for each in turns),
        "error": answer.error,
        "answer_outcome": "" if answer.outcome == "ok" else answer.outcome,
        **deciding.built.info,
    }
    if deciding.parsed is not None:
        found["how"] = deciding.parsed.how or deciding.parsed.why
    if len(turns) > 1:
        found["turns"] = [[each.answer.outcome, each.answer.text] for each in turns]
    return {
        name: value
        for name, value in found.items()
        if value not in (None, "", 0, []) or (name == "position_of_truth" and value == 0)
    }


def spent(answers: Sequence[Answer]) -> dict[str, Any]:
    """What requests cost, and how many were answered; `usd` is None where a price is unknown."""
    usages = [each.usage for each in answers if each.usage is not None]
    prices = [each.usd for each in answers if each.is_answer]
    return {
        "n_requests": len(answers),
        "n_answers": len(prices),
        "tokens_in": sum(each.tokens_in for each in usages),
        "tokens_out": sum(each.tokens_out for each in usages),
        "usd": None if None in prices else sum(each for each in prices if each is not None),
    }


def summed_up(said: Sequence[Said]) -> dict[str, Any]:
    """What a part cost, and what became of its requests."""
    fewer = Counter(each.built.why_fewer for each in said if each.built.why_fewer)
    found = spent([each.answer for each in said])
    if fewer:
        found["fewer_examples_because"] = dict(sorted(fewer.items()))
    return found
