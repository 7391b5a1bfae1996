"""Answers (parsing, outcomes, rates): how does what a chat model answers become predictions?

What could not be asked or read is an outcome of its own; the rates of these outcomes, and the price
of an answer, stand beside the score.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl

from fieldmark.chat import Answer, Built, Item, Parsed, parse_answer
from fieldmark.protocols.ask.items import PartQuestion, read_trait
from fieldmark.stats import wilson
from fieldmark.store import ANSWERED_RATE, NOT_SENT, OK, PartRecord, Score

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
class ParsedAnswer:
    """One answer, read."""

    item: Item
    built: Built
    repeat: int
    answer: Answer
    parsed: Parsed | None
    """None where there was no answer to read"""

    @classmethod
    def not_sent(cls, item: Item, built: Built, repeat: int, why: str) -> ParsedAnswer:
        return cls(item, built, repeat, Answer("failed", error=f"{NOT_SENT}: {why}"), None)

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


def read_answer(item: Item, built: Built, repeat: int, answer: Answer) -> ParsedAnswer:
    if not answer.is_answer:
        return ParsedAnswer(item, built, repeat, answer, None)
    parsed = parse_answer(built, answer.text, is_cut=answer.outcome == "length")
    return ParsedAnswer(item, built, repeat, answer, parsed)


def rows_of_part(
    question: PartQuestion, answers: Iterable[ParsedAnswer], trait: str = ""
) -> pl.DataFrame:
    """One row per item and repeat; turns of the options become one answer."""
    rows = []
    in_order = sorted(answers, key=ParsedAnswer.place)
    for (item, repeat), turns in groupby(in_order, key=lambda answer: answer.place()[:2]):
        if item in question.rows:
            rows.append(_row(question.rows[item], repeat, list(turns), trait))
    return pl.DataFrame(rows, schema=FRAME, orient="row")


def _row(
    target_and_unit: tuple[str | None, str | None],
    repeat: int,
    turns: Sequence[ParsedAnswer],
    trait: str,
) -> tuple[Any, ...]:
    target, unit = target_and_unit
    deciding = turns[0]
    if len(turns) > 1 and not trait:
        deciding = turns[decide([turn.label for turn in turns], target)]
    label = read_trait(deciding.labels, trait) if trait else deciding.label
    outcome = deciding.outcome if label is not None or deciding.outcome != OK else "unparsed"
    info = json.dumps(_info(turns, deciding), ensure_ascii=False, sort_keys=True)
    return deciding.item.id, target, unit, label, None, repeat, outcome, info


def decide(labels: Sequence[str | None], target: str | None) -> int:
    """Which of several turns stands for all of them. Right means right in all turns: a wrong one
    decides; after it, one that said nothing.
    """
    wrong = [n for n, label in enumerate(labels) if label not in (None, target)]
    silent = [n for n, label in enumerate(labels) if label is None]
    return [*wrong, *silent, 0][0]


def _info(turns: Sequence[ParsedAnswer], deciding: ParsedAnswer) -> dict[str, Any]:
    """What is kept of an answer: its words first of all, so that it can be read again."""
    answer = deciding.answer
    cost = spent([turn.answer for turn in turns])
    info: dict[str, Any] = {
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        **{name: cost[name] for name in ("tokens_in", "tokens_out", "usd")},
        "latency_s": round(answer.latency_s, 3),
        "attempts": sum(turn.answer.attempts for turn in turns),
        "error": answer.error,
        "answer_outcome": "" if answer.outcome == "ok" else answer.outcome,
        **deciding.built.info,
    }
    if deciding.parsed is not None:
        info |= how_read(deciding.parsed)
    if len(turns) > 1:
        info["turns"] = [[turn.answer.outcome, turn.answer.text] for turn in turns]
    return {
        name: value
        for name, value in info.items()
        if value not in (None, "", 0, []) or (name == "position_of_truth" and value == 0)
    }


def how_read(parsed: Parsed) -> dict[str, Any]:
    """The place that decided, or why none did; and whether it is running text."""
    how = parsed.how if parsed.label is not None else parsed.why
    return {"how": how, "is_loose": True} if parsed.is_loose else {"how": how}


def spent(answers: Sequence[Answer]) -> dict[str, Any]:
    """What requests cost, and how many were answered; `usd` is None where a price is unknown."""
    usages = [answer.usage for answer in answers if answer.usage is not None]
    prices = [answer.usd for answer in answers if answer.is_answer]
    return {
        "n_requests": len(answers),
        "n_answers": sum(answer.is_answer for answer in answers),
        "tokens_in": sum(usage.tokens_in for usage in usages),
        "tokens_out": sum(usage.tokens_out for usage in usages),
        "usd": None if None in prices else sum(price for price in prices if price is not None),
    }


def summed_up(answers: Sequence[ParsedAnswer]) -> dict[str, Any]:
    """What a part cost, and what became of its requests."""
    fewer = Counter(answer.built.why_fewer for answer in answers if answer.built.why_fewer)
    summary = spent([answer.answer for answer in answers])
    if fewer:
        shown = [answer.built.k_used for answer in answers]
        summary["fewer_examples_because"] = dict(sorted(fewer.items()))
        summary["examples_shown"] = [min(shown), max(shown)]
    if left_out := {name for answer in answers for name in answer.answer.left_out}:
        summary["not_taken"] = sorted(left_out)
    return summary


def answer_rates(predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Score]:
    """usd_per_answer (where every price is known), the rates of items by what became of them, and
    of the answers that were read, how many in running text.
    """
    read = predictions.filter(pl.col("outcome") == OK)["info"]
    n_loose = int(read.str.json_path_match("$.is_loose").eq("true").sum())
    rates = outcome_rates(Counter(predictions["outcome"].to_list()), parts)
    return [*rates, _rate("loose_rate", n_loose, len(read), is_good=False)]


def outcome_rates(outcomes: Mapping[str, int], parts: Sequence[PartRecord]) -> list[Score]:
    """The same, of answers that were counted by their outcomes."""
    n, n_failed = sum(outcomes.values()), outcomes.get("failed", 0)
    n_answered = n - n_failed
    scores = [
        _rate(ANSWERED_RATE, outcomes.get(OK, 0), n, is_good=True),
        _rate("failure_rate", n_failed, n, is_good=False),
        _rate("refusal_rate", outcomes.get("refused", 0), n_answered, is_good=False),
        _rate("parse_success_rate", outcomes.get(OK, 0), n_answered, is_good=True),
    ]
    # The first repeat of a part holds the price of all its repeats. One answer may give several
    # predictions (traits), or several answers one (turned options): what is paid for is answers.
    paid = [part.info for part in parts if part.repeat == 0 and part.info]
    usd = [info["usd"] for info in paid if "usd" in info]
    n_paid = sum(info.get("n_answers", 0) for info in paid)
    if n_paid and None not in usd:
        scores.append(
            Score(
                "usd_per_answer",
                sum(usd) / n_paid,
                n=n_paid,
                method="paid",
                higher_is_better=False,
                is_fraction=False,
            )
        )
    return scores


def _rate(name: str, n_hit: int, n: int, is_good: bool) -> Score:
    if not n:
        return Score(name, float("nan"), n=0, higher_is_better=is_good)
    ends = wilson(n_hit, n)
    return Score(
        name,
        n_hit / n,
        low=ends.low,
        high=ends.high,
        n=n,
        n_units=n,
        method=ends.method,
        higher_is_better=is_good,
    )
