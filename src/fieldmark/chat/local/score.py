"""Scoring given answers: how likely is each continuation of a prompt (log-likelihood)?

The summed log-probability of each continuation's tokens, written by themselves right after the
prompt, as the model would write them; without the token that would end the answer. A continuation
of n tokens needs n - 1 of them read: continuations that share their beginning share the reading,
and single letters need the prompt alone. Padding stands on the right, where no token of the prompt
can see it and no position moves.

What has no prompt is read after the token that begins a text, in windows where it is longer than
the context: every token is predicted once, and the last window reaches as far back as it can. So
lm-evaluation-harness cuts texts for its rolling log-likelihood.

`Batches` halves a batch that does not fit into memory and keeps the smaller size for all that
follow. A batch that the model refuses is gone through one by one, so that a bad prompt fails alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import transformers

from fieldmark.chat.local.engine import Engine, PromptRefused
from fieldmark.chat.local.prompt import RenderedPrompt
from fieldmark.chat.messages import Likelihood
from fieldmark.devices import free_memory, is_out_of_memory
from fieldmark.errors import DataError, OutOfMemory, UsageError


@dataclass(frozen=True, slots=True)
class Window:
    head: tuple[int, ...]
    """read first, predicted by none of this window; at least one token"""
    ids: tuple[int, ...]
    """predicted; all but the last are read too"""


def windows(begin: int, ids: Sequence[int], room: int | None) -> Iterator[Window]:
    """Windows in which at most `room` tokens are read; none for an empty text.

    >>> [(window.head, window.ids) for window in windows(0, (1, 2, 3, 4, 5), 3)]
    [((0,), (1, 2, 3)), ((2, 3), (4, 5))]
    """
    whole, most = (begin, *ids), room or len(ids) + 1
    for start in range(0, len(ids), most):
        end = min(start + most, len(ids))
        start_of_window = max(0, end - most)
        yield Window(whole[start_of_window : start + 1], whole[start + 1 : end + 1])


LOG = logging.getLogger(__name__)
Entry = TypeVar("Entry")
Result = TypeVar("Result")


class Batches:
    """Goes through many items a batch at a time."""

    def __init__(self, size: int, device: Any) -> None:
        if size < 1:
            raise UsageError(f"batch_size = {size}, expected at least 1.")
        self.size, self.device = size, device

    def run(
        self, items: Sequence[Entry], work: Callable[[Sequence[Entry]], Sequence[Result]]
    ) -> Iterator[tuple[Entry, Result | Exception]]:
        """Every item with what `work` made of it, or with why it could not."""
        done = 0
        while done < len(items):
            batch = items[done : done + self.size]
            results, error = _tried(work, batch)
            if isinstance(error, OutOfMemory) and len(batch) > 1:
                size = len(batch)
                self.size = max(1, size // 2)
                LOG.warning(
                    "%s is out of memory for %d at once: now %d", self.device, size, self.size
                )
                free_memory(self.device)
                continue
            if error is None:
                yield from zip(batch, results, strict=True)
            elif len(batch) > 1:
                for item in batch:
                    yield from self.run([item], work)
            else:
                yield batch[0], error
            done += len(batch)


def _tried(
    work: Callable[[Sequence[Entry]], Sequence[Result]], batch: Sequence[Entry]
) -> tuple[Sequence[Result], Exception | None]:
    """What was made, or why not; the error that is passed on holds no tensors of its frames."""
    try:
        return work(batch), None
    except PromptRefused as error:
        return (), DataError(f"{error}.")
    except DataError as error:
        return (), error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return (), OutOfMemory("the device has too little memory for this prompt alone.")


Ids = tuple[int, ...]
_CHUNK = 256
"""positions whose logits are widened to float32 at once: a vocabulary of 150,000 takes 150 MB"""


@dataclass(frozen=True, slots=True)
class ScoringRow:
    """One reading: a prompt with some tokens after it, and the continuations it decides."""

    prompt: RenderedPrompt | None
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
    engine: Engine, rows: Sequence[ScoringRow], room: int | None
) -> list[tuple[tuple[Likelihood, ...], int]]:
    """Per row the likelihoods of what it asks, and how many tokens were read; `room` = context."""
    inputs, lengths = _encoded(engine, rows)
    if rows[0].prompt is not None:
        _refuse_long(rows, lengths, room)
    _append(inputs, lengths, [row.read for row in rows], engine.pad_id)
    spans = [range(n - 1, n + len(row.read)) for n, row in zip(lengths, rows, strict=True)]
    logits, row_of = _logits(engine, inputs, spans)
    likelihoods = [
        _judge(logits[number, row_of[span[0]] : row_of[span[-1]] + 1], row)
        for number, (span, row) in enumerate(zip(spans, rows, strict=True))
    ]
    return [(likelihood, span.stop) for likelihood, span in zip(likelihoods, spans, strict=True)]


def _encoded(engine: Engine, rows: Sequence[ScoringRow]) -> tuple[Any, list[int]]:
    """The tensors of what stands before, and how many tokens each has."""
    prompts = [row.prompt for row in rows if row.prompt is not None]
    if prompts:
        inputs = engine.encode(prompts, "right")
        return inputs, inputs["attention_mask"].sum(1).tolist()
    ids = torch.full((len(rows), max(len(row.head) for row in rows)), engine.pad_id)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row.head)] = torch.tensor(row.head)
        mask[number, : len(row.head)] = 1
    inputs = transformers.BatchFeature({"input_ids": ids, "attention_mask": mask})
    return inputs, [len(row.head) for row in rows]


def _refuse_long(rows: Sequence[ScoringRow], lengths: Sequence[int], room: int | None) -> None:
    longest = max(length + len(row.read) + 1 for length, row in zip(lengths, rows, strict=True))
    if room is not None and longest > room:
        raise PromptRefused(
            f"a prompt with its answer of {longest:,} tokens exceeds the context of {room:,}"
        )


def _logits(engine: Engine, inputs: Any, spans: Sequence[range]) -> tuple[Any, dict[int, int]]:
    """Logits of the positions in any span, and where each position stands among them."""
    kept = sorted({position for span in spans for position in span})
    row_of = {position: number for number, position in enumerate(kept)}
    if engine.can_trim_logits:
        index = torch.tensor(kept, device=engine.device)
        return engine.forward(engine.to_device(inputs), logits_to_keep=index), row_of
    return engine.forward(engine.to_device(inputs))[:, kept], row_of


def _judge(logits: Any, row: ScoringRow) -> tuple[Likelihood, ...]:
    """The continuations' likelihoods by the logits (positions × vocabulary) of their places."""
    parts = (chunk.float() for chunk in logits.split(_CHUNK))
    totals, best = zip(*((part.logsumexp(-1), part.argmax(-1)) for part in parts), strict=True)
    total, likeliest = torch.cat(totals).double(), torch.cat(best)
    likelihoods = []
    for _, ids in row.asked:
        index = torch.tensor(ids, device=logits.device)
        token_logprob = logits[: len(ids)].gather(1, index[:, None])[:, 0].double()
        is_greedy = bool((likeliest[: len(ids)] == index).all())
        likelihoods.append(
            Likelihood(float((token_logprob - total[: len(ids)]).sum()), is_greedy, len(ids))
        )
    return tuple(likelihoods)


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


ScoreItem = tuple[RenderedPrompt | None, Sequence[str]]
"""what is read first, None = nothing, and the continuations"""


@dataclass(slots=True)
class Scored:
    """What came of an item so far."""

    n_left: int
    """rows that are still to be read"""
    likelihoods: list[Likelihood]
    n_read: int = 0
    """tokens, the prompt once per row"""
    taken_s: float = 0.0
    error: Exception | None = None

    def add(self, row: ScoringRow, likelihoods: Sequence[Likelihood]) -> None:
        for ((_, key), _), new in zip(row.asked, likelihoods, strict=True):
            old = self.likelihoods[key]
            self.likelihoods[key] = Likelihood(
                old.logprob + new.logprob,
                old.is_greedy and new.is_greedy,
                old.n_tokens + new.n_tokens,
            )


def score_items(
    engine: Engine,
    batches: Batches,
    items: Sequence[ScoreItem],
    room: int | None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Scored]]:
    """Each item's number with its likelihoods, when its last row is read; long ones first.

    `room` is the context; `check` is called before each batch, and what it raises ends the work.
    """
    rows: list[ScoringRow] = []
    scores: list[Scored] = []
    for number, (prompt, continuations) in enumerate(items):
        item_rows, error = _rows(engine, number, prompt, continuations, room)
        rows += item_rows
        scores.append(Scored(len(item_rows), [Likelihood(0.0, True, 0)] * len(continuations)))
        if not item_rows:
            scores[-1].error = error
            yield number, scores[-1]

    def read(batch: Sequence[ScoringRow]) -> list[tuple[tuple[Likelihood, ...], int, float]]:
        check()
        start = time.monotonic()
        readings = read_rows(engine, batch, room)
        taken_s = time.monotonic() - start
        return [(likelihoods, n_read, taken_s) for likelihoods, n_read in readings]

    rows.sort(key=lambda row: row.size, reverse=True)
    for kind in sorted({row.kind for row in rows}, reverse=True):
        for row, reading in batches.run([row for row in rows if row.kind == kind], read):
            scored = scores[row.item]
            scored.n_left -= 1
            if isinstance(reading, Exception):
                scored.error = scored.error or reading
            else:
                scored.add(row, reading[0])
                scored.n_read += reading[1]
                scored.taken_s += reading[2]
            if not scored.n_left:
                yield row.item, scored


def _rows(
    engine: Engine,
    number: int,
    prompt: RenderedPrompt | None,
    continuations: Sequence[str],
    room: int | None,
) -> tuple[list[ScoringRow], UsageError | None]:
    """What is read for an item, or why it cannot be."""
    tokens = [_tokens(engine, continuation) for continuation in continuations]
    if prompt is None:
        bare = [
            ScoringRow(None, window.head, window.ids[:-1], (((number, turn), window.ids),))
            for turn, ids in enumerate(tokens)
            for window in windows(engine.begin_id, ids, room)
        ]
        return bare, None
    for continuation, ids in zip(continuations, tokens, strict=True):
        if not ids:
            text = f"continuation {continuation!r} has no tokens: expected some text."
            return [], UsageError(text)
    return _shared_rows(number, prompt, tokens), None


def _shared_rows(number: int, prompt: RenderedPrompt, tokens: Sequence[Ids]) -> list[ScoringRow]:
    """As few readings as decide all continuations: one whose beginning another reads needs none."""
    reads: list[Ids] = []
    for head in sorted({ids[:-1] for ids in tokens}, key=len, reverse=True):
        if not any(longer[: len(head)] == head for longer in reads):
            reads.append(head)
    continuations_of: dict[Ids, list[tuple[tuple[int, int], Ids]]] = {read: [] for read in reads}
    for turn, ids in enumerate(tokens):
        read = next(longest for longest in reads if longest[: len(ids) - 1] == ids[:-1])
        continuations_of[read].append(((number, turn), ids))
    return [ScoringRow(prompt, (), read, tuple(continuations_of[read])) for read in reads]


def _tokens(engine: Engine, text: str) -> Ids:
    # Without `verbose=False` a text longer than the context brings a warning; windows take it.
    made = engine.tokeniser(text, add_special_tokens=False, verbose=False)
    return tuple(made["input_ids"])
