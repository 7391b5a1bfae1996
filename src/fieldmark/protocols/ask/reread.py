"""Re-parsing: how are stored answers of a chat model read again, by the parser of today?

A part keeps what its options were called (`reading_of`), a row its words and the order of its
options: no model, key or data is needed. Open answers are matched with all names of a dataset,
which no part keeps: they stay as they were read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

import polars as pl

from fieldmark.chat import Option, Parsed, parse_text
from fieldmark.protocols._predictions import Reread
from fieldmark.protocols.ask.answers import ParsedAnswer, decide, how_read, outcome_of
from fieldmark.protocols.ask.items import read_trait
from fieldmark.store import OK, PartRecord

FREE = "count"
"""the form of answer that has no options and yet needs no names to be read"""
_OF_A_TURN = ("answer_outcome", "error", "finish_reason", "how", "position_of_truth")


def reading_of(answers: Iterable[ParsedAnswer], trait: str = "") -> dict[str, Any]:
    """What a part must keep so that its answers can be read again; {} where that is too much."""
    options: dict[str, list[str]] = {}
    form, has_letters = "", False
    for answer in answers:
        form = answer.built.form
        for option in answer.built.options:
            options.setdefault(option.label, [option.name, *option.aliases])
            has_letters = has_letters or bool(option.letter)
    if not options and form != FREE:
        return {}
    kept = {"form": form, "options": dict(sorted(options.items())), "trait": trait}
    return {"reading": {**kept, "letters": has_letters}}


def reread(answers: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Reread]:
    """The parts that keep what their options were called, where an answer changes."""
    changed = []
    for part in parts:
        reading = (part.info or {}).get("reading")
        if reading is None:
            continue
        is_mine = (pl.col("part") == part.part) & (pl.col("repeat") == part.repeat)
        old = answers.filter(is_mine)
        new = read_again(old, reading)
        is_other = [old[name].ne_missing(new[name]) for name in ("prediction", "outcome", "info")]
        if any(column.any() for column in is_other):
            changed.append(Reread(part, new, int((is_other[0] | is_other[1]).sum())))
    return changed


def read_again(rows: pl.DataFrame, reading: Mapping[str, Any]) -> pl.DataFrame:
    """The rows of a part with prediction, outcome and info as they are read today."""
    fresh = [_read_row(row, reading) for row in rows.iter_rows(named=True)]
    columns = ("prediction", "outcome", "info")
    new = pl.DataFrame(fresh, schema=dict.fromkeys(columns, pl.String), orient="row")
    return rows.with_columns(new[name] for name in columns)


def _read_row(row: Mapping[str, Any], reading: Mapping[str, Any]) -> tuple[str | None, str, str]:
    info = json.loads(row["info"] or "{}")
    turns = info.get("turns") or [[info.get("answer_outcome", OK), info.get("text", "")]]
    orders = _orders(info, len(turns))
    parsed = [_parse(turn, order, reading) for turn, order in zip(turns, orders, strict=True)]
    read = [_named(turn[0], answer, reading) for turn, answer in zip(turns, parsed, strict=True)]
    n = decide([label for label, _ in read], row["target"])
    if orders[n] != info.get("options", []):
        info = _of_turn(info, n, turns[n], orders[n])
    deciding = parsed[n]
    kept = {name: value for name, value in info.items() if name != "is_loose"}
    fresh = how_read(deciding) if deciding is not None else {}
    return *read[n], json.dumps({**kept, **fresh}, ensure_ascii=False, sort_keys=True)


def _orders(info: Mapping[str, Any], n_turns: int) -> list[list[str]]:
    """The labels as each turn showed them; the row has those of the one that decided."""
    order = list(info.get("options", ()))
    if n_turns == 1:
        return [order]
    back = info.get("rotation", 0)
    turned = ((n - back) % n_turns for n in range(n_turns))
    return [[*order[turn:], *order[:turn]] for turn in turned]


def _parse(turn: Sequence[str], order: Sequence[str], reading: Mapping[str, Any]) -> Parsed | None:
    sent_back, text = turn
    if sent_back == "failed":
        return None
    letters = ascii_uppercase if reading["letters"] else [""] * len(order)
    named = [(label, *reading["options"][label]) for label in order]
    options = [
        Option(label, name, letter, tuple(aliases))
        for (label, name, *aliases), letter in zip(named, letters, strict=False)
    ]
    return parse_text(text, options, reading["form"], is_cut=sent_back == "length")


def _named(
    sent_back: str, parsed: Parsed | None, reading: Mapping[str, Any]
) -> tuple[str | None, str]:
    """The prediction and the outcome of one answer."""
    outcome = outcome_of(sent_back, parsed)
    if outcome != OK or parsed is None:
        return None, outcome
    trait = reading["trait"]
    return (read_trait(parsed.labels, trait) if trait else parsed.label), OK


def _of_turn(
    info: Mapping[str, Any], n: int, turn: Sequence[str], order: Sequence[str]
) -> dict[str, Any]:
    """What the row says of its answer, when another turn decides than did before."""
    kept = {name: value for name, value in info.items() if name not in _OF_A_TURN}
    truth = info.get("position_of_truth")
    if truth is not None:
        kept["position_of_truth"] = order.index(info["options"][truth])
    answered = {"answer_outcome": turn[0]} if turn[0] != OK else {}
    return {**kept, **answered, "text": turn[1], "options": list(order), "rotation": n}
