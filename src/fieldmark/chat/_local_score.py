"""How likely are given answers to a prompt?

The summed log-probability of each continuation's tokens, written by themselves right after the
prompt, as the model would write them; without the token that would end the answer. Padding stands
on the right, where no token of the prompt can see it and no position moves.

A continuation of n tokens needs n - 1 of them read: continuations that share their beginning share
the reading, and single letters need the prompt alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fieldmark.chat._local_batch import Batches
from fieldmark.chat._local_engine import Engine, Unfit
from fieldmark.chat._local_prompt import Prompt
from fieldmark.errors import UsageError

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One reading: a prompt with some tokens after it, and the continuations it decides."""

    prompt: Prompt
    read: Ids
    asked: tuple[tuple[tuple[int, int], Ids], ...]
    """(number of the prompt, of the continuation) and its tokens"""


def score_prompts(
    engine: Engine, items: Sequence[tuple[Prompt, Sequence[str]]], batch_size: int, room: int | None
) -> list[list[float]]:
    """Per prompt the log-probability of each of its continuations."""
    rows = [row for number, item in enumerate(items) for row in _rows(engine, number, *item)]
    rows.sort(key=lambda row: (*row.prompt.size, len(row.read)))
    scores = [[0.0] * len(continuations) for _, continuations in items]
    for has_pictures in (False, True):
        same = [row for row in rows if bool(row.prompt.pictures) == has_pictures]
        batches = Batches(batch_size, engine.device)
        for row, values in batches.run(same, lambda batch: _read(engine, batch, room)):
            for ((item, number), _), value in zip(row.asked, values, strict=True):
                scores[item][number] = value
    return scores


def _rows(engine: Engine, number: int, prompt: Prompt, continuations: Sequence[str]) -> list[Row]:
    tokens = [_tokens(engine, each) for each in continuations]
    reads: list[Ids] = []
    for head in sorted({ids[:-1] for ids in tokens}, key=len, reverse=True):
        if not any(longer[: len(head)] == head for longer in reads):
            reads.append(head)
    asked: dict[Ids, list[tuple[tuple[int, int], Ids]]] = {read: [] for read in reads}
    for place, ids in enumerate(tokens):
        read = next(each for each in reads if each[: len(ids) - 1] == ids[:-1])
        asked[read].append(((number, place), ids))
    return [Row(prompt, read, tuple(asked[read])) for read in reads]


def _tokens(engine: Engine, continuation: str) -> Ids:
    ids = tuple(engine.tokeniser(continuation, add_special_tokens=False)["input_ids"])
    if not ids:
        raise UsageError(f"continuation {continuation!r} has no tokens: expected some text.")
    return ids


def _read(engine: Engine, rows: Sequence[Row], room: int | None) -> list[list[float]]:
    inputs = engine.encode([row.prompt for row in rows], "right")
    lengths = [int(each) for each in inputs["attention_mask"].sum(1)]
    longest = max(length + len(row.read) + 1 for length, row in zip(lengths, rows, strict=True))
    if room is not None and longest > room:
        raise Unfit(
            f"a prompt with its answer of {longest:,} tokens exceeds the context of {room:,}"
        )
    _append(inputs, lengths, [row.read for row in rows], engine.pad_id)
    spans = [range(n - 1, n + len(row.read)) for n, row in zip(lengths, rows, strict=True)]
    kept = sorted({position for span in spans for position in span})
    place = {position: number for number, position in enumerate(kept)}
    if engine.can_trim_logits:
        index = torch.tensor(kept, device=engine.device)
        logits = engine.forward(engine.place(inputs), logits_to_keep=index)
    else:
        logits = engine.forward(engine.place(inputs))[:, kept]
    return [
        _sums(logits[number, place[span[0]] : place[span[-1]] + 1], row)
        for number, (span, row) in enumerate(zip(spans, rows, strict=True))
    ]


def _sums(logits: Any, row: Row) -> list[float]:
    logprobs = logits.float().log_softmax(-1)
    sums = []
    for _, ids in row.asked:
        index = torch.tensor(ids, device=logprobs.device)[:, None]
        sums.append(float(logprobs[: len(ids)].gather(1, index).double().sum()))
    return sums


def _append(inputs: Any, lengths: Sequence[int], tails: Sequence[Ids], pad_id: int) -> None:
    """Puts tokens after each prompt, in every tensor that has a value per token."""
    shape = inputs["input_ids"].shape
    width = max(n + len(tail) for n, tail in zip(lengths, tails, strict=True))
    for name, value in list(inputs.items()):
        if not torch.is_tensor(value) or value.shape != shape:
            continue
        wide = value.new_full((shape[0], width), pad_id if name == "input_ids" else 0)
        for row, (n, tail) in enumerate(zip(lengths, tails, strict=True)):
            wide[row, :n] = value[row, :n]
            if name == "input_ids":
                wide[row, n : n + len(tail)] = torch.tensor(tail, dtype=value.dtype)
            elif name == "attention_mask":
                wide[row, n : n + len(tail)] = 1
        inputs[name] = wide
