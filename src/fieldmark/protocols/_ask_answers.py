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
from fieldmark.protocols._ask_items import Asked, read_trait
from fieldmark.store import OK

_FRAME = {
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
        """ok, refused, length, unparsed or failed."""
        if self.answer.outcome in ("failed", "refused") or self.parsed is None:
            return self.answer.outcome
        if self.parsed.outcome == "parsed":
            return OK
        return "length" if self.answer.outcome == "length" else self.parsed.outcome

    @property
    def label(self) -> str | None:
        return self.parsed.label if self.parsed is not None and self.outcome == OK else None

    @property
    def labels(self) -> Sequence[str] | None:
        return self.parsed.labels if self.parsed is not None and self.outcome == OK else None


def read_answer(item: Item, built: Built, repeat: int, answer: Answer) -> Said:
    if not answer.is_answer:
        return Said(item, built, repeat, answer, None)
    parsed = parse_answer(built, answer.text, is_cut=answer.outcome == "length")
    return Said(item, built, repeat, answer, parsed)


def rows_of_part(asked: Asked, said: Iterable[Said], trait: str = "") -> pl.DataFrame:
    """One row per item and repeat; turns of the options become one answer."""
    rows = []
    in_order = sorted(said, key=Said.place)
    for (item, repeat), turns in groupby(in_order, key=lambda each: each.place()[:2]):
        if item in asked.rows:
            rows.append(_row(asked.rows[item], repeat, list(turns), trait))
    return pl.DataFrame(rows, schema=_FRAME, orient="row")


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
    """Right means right in all turns: the first that is not decides."""
    if trait or len(turns) == 1:
        return turns[0]
    return next((each for each in turns if each.label != target), turns[0])


def _info(turns: Sequence[Said], deciding: Said) -> dict[str, Any]:
    """What is kept of an answer: its words first of all, so that it can be read again."""
    answer = deciding.answer
    usage = answer.usage
    found: dict[str, Any] = {
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "tokens_in": usage.tokens_in if usage else None,
        "tokens_out": usage.tokens_out if usage else None,
        "usd": answer.usd,
        "latency_s": round(answer.latency_s, 3),
        "attempts": answer.attempts,
        "error": answer.error,
        **deciding.built.info,
    }
    if deciding.parsed is not None:
        found["how"] = deciding.parsed.how or deciding.parsed.why
    if len(turns) > 1:
        found["turns"] = [each.answer.text for each in turns]
    return {name: value for name, value in found.items() if value not in (None, "", 0, [])}


def summed_up(said: Sequence[Said]) -> dict[str, Any]:
    """What a part cost, and what became of its requests."""
    prices = [each.answer.usd for each in said if each.answer.is_answer]
    usages = [each.answer.usage for each in said if each.answer.usage is not None]
    fewer = Counter(each.built.why_fewer for each in said if each.built.why_fewer)
    found: dict[str, Any] = {
        "n_requests": len(said),
        "n_answers": len(prices),
        "tokens_in": sum(each.tokens_in for each in usages),
        "tokens_out": sum(each.tokens_out for each in usages),
        "usd": None if None in prices else sum(each for each in prices if each is not None),
    }
    if fewer:
        found["fewer_examples_because"] = dict(sorted(fewer.items()))
    return found
