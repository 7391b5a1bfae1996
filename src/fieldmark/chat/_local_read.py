"""What do the logits of one batch say of given tokens?

Padding stands on the right, where no token of the prompt can see it and no position moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from fieldmark.chat._local_engine import Engine, Unfit
from fieldmark.chat._local_prompt import Prompt
from fieldmark.chat._messages import Likelihood

Ids = tuple[int, ...]
_CHUNK = 256
"""positions whose logits are widened to float32 at once: a vocabulary of 150,000 takes 150 MB"""


@dataclass(frozen=True, slots=True)
class Row:
    """One reading: a prompt with some tokens after it, and the continuations it decides."""

    prompt: Prompt | None
    head: Ids
    """what stands in the prompt's place where there is none"""
    read: Ids
    asked: tuple[tuple[tuple[int, int], Ids], ...]
    """(number of the item, of the continuation) and its tokens"""

    @property
    def item(self) -> int:
        return self.asked[0][0][0]

    @property
    def kind(self) -> int:
        """Rows of one kind can be read together."""
        return 0 if self.prompt is None else 1 + bool(self.prompt.pictures)

    @property
    def size(self) -> tuple[int, ...]:
        if self.prompt is None:
            return len(self.head) + len(self.read), self.item
        return (*self.prompt.size, self.item, len(self.read))


def read_rows(
    engine: Engine, rows: Sequence[Row], room: int | None
) -> list[tuple[tuple[Likelihood, ...], int]]:
    """Per row the likelihoods of what it asks, and how many tokens were read; `room` = context."""
    inputs, lengths = _encoded(engine, rows)
    if rows[0].prompt is not None:
        _refuse_long(rows, lengths, room)
    _append(inputs, lengths, [row.read for row in rows], engine.pad_id)
    spans = [range(n - 1, n + len(row.read)) for n, row in zip(lengths, rows, strict=True)]
    logits, place = _logits(engine, inputs, spans)
    found = [
        _judge(logits[number, place[span[0]] : place[span[-1]] + 1], row)
        for number, (span, row) in enumerate(zip(spans, rows, strict=True))
    ]
    return [(each, span.stop) for each, span in zip(found, spans, strict=True)]


def _encoded(engine: Engine, rows: Sequence[Row]) -> tuple[Any, list[int]]:
    """The tensors of what stands before, and how many tokens each has."""
    prompts = [row.prompt for row in rows if row.prompt is not None]
    if prompts:
        inputs = engine.encode(prompts, "right")
        return inputs, [int(each) for each in inputs["attention_mask"].sum(1)]
    ids = torch.full((len(rows), max(len(row.head) for row in rows)), engine.pad_id)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row.head)] = torch.tensor(row.head)
        mask[number, : len(row.head)] = 1
    inputs = transformers.BatchFeature({"input_ids": ids, "attention_mask": mask})
    return inputs, [len(row.head) for row in rows]


def _refuse_long(rows: Sequence[Row], lengths: Sequence[int], room: int | None) -> None:
    longest = max(length + len(row.read) + 1 for length, row in zip(lengths, rows, strict=True))
    if room is not None and longest > room:
        raise Unfit(
            f"a prompt with its answer of {longest:,} tokens exceeds the context of {room:,}"
        )


def _logits(engine: Engine, inputs: Any, spans: Sequence[range]) -> tuple[Any, dict[int, int]]:
    """Logits of the positions in any span, and where each position stands among them."""
    kept = sorted({position for span in spans for position in span})
    place = {position: number for number, position in enumerate(kept)}
    if engine.can_trim_logits:
        index = torch.tensor(kept, device=engine.device)
        return engine.forward(engine.place(inputs), logits_to_keep=index), place
    return engine.forward(engine.place(inputs))[:, kept], place


def _judge(logits: Any, row: Row) -> tuple[Likelihood, ...]:
    """The continuations' likelihoods by the logits (positions × vocabulary) of their places."""
    parts = (chunk.float() for chunk in logits.split(_CHUNK))
    totals, best = zip(*((part.logsumexp(-1), part.argmax(-1)) for part in parts), strict=True)
    total, likeliest = torch.cat(totals).double(), torch.cat(best)
    found = []
    for _, ids in row.asked:
        index = torch.tensor(ids, device=logits.device)
        own = logits[: len(ids)].gather(1, index[:, None])[:, 0].double()
        is_greedy = bool((likeliest[: len(ids)] == index).all())
        found.append(Likelihood(float((own - total[: len(ids)]).sum()), is_greedy, len(ids)))
    return tuple(found)


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
