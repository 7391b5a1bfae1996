"""How likely are given answers to a prompt?

The summed log-probability of each continuation's tokens, written by themselves right after the
prompt, as the model would write them; without the token that would end the answer.

A continuation of n tokens needs n - 1 of them read: continuations that share their beginning share
the reading, and single letters need the prompt alone. What has no prompt is read after the token
that begins a text, in windows where it is longer than the context (`_local_windows`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fieldmark.chat._local_batch import Batches
from fieldmark.chat._local_engine import Engine
from fieldmark.chat._local_prompt import Prompt
from fieldmark.chat._local_read import Ids, Row, read_rows
from fieldmark.chat._local_windows import windows
from fieldmark.chat._messages import Likelihood
from fieldmark.errors import UsageError

Item = tuple[Prompt | None, Sequence[str]]
"""what is read first, None = nothing, and the continuations"""


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of a row."""

    found: tuple[Likelihood, ...] = ()
    n_read: int = 0
    taken_s: float = 0.0
    error: str = ""


@dataclass(slots=True)
class Scored:
    """What came of an item so far."""

    n_left: int
    """rows that are still to be read"""
    likelihoods: list[Likelihood]
    n_read: int = 0
    """tokens, the prompt once per row"""
    taken_s: float = 0.0
    error: str = ""

    def add(self, row: Row, reading: Reading) -> None:
        self.n_left -= 1
        self.n_read += reading.n_read
        self.taken_s += reading.taken_s
        self.error = self.error or reading.error
        for ((_, place), _), new in zip(row.asked, reading.found, strict=False):
            old = self.likelihoods[place]
            self.likelihoods[place] = Likelihood(
                old.logprob + new.logprob,
                old.is_greedy and new.is_greedy,
                old.n_tokens + new.n_tokens,
            )


def _go_on() -> None:
    """Nothing forbids the next batch."""


@dataclass(frozen=True, slots=True)
class Scorer:
    engine: Engine
    batches: Batches
    room: int | None
    """the context"""
    check: Callable[[], None] = field(default=_go_on)
    """called before each batch; what it raises ends the work"""

    def score(
        self, items: Sequence[Item], failed: Callable[[Row, str], Reading] | None = None
    ) -> Iterator[tuple[int, Scored]]:
        """Each item's number with its likelihoods, when its last row is read; long ones first.

        Without `failed` the first item that cannot be read raises.
        """
        rows: list[Row] = []
        sums: list[Scored] = []
        for number, item in enumerate(items):
            own, error = self._rows(number, item, is_strict=failed is None)
            rows += own
            sums.append(Scored(len(own), [Likelihood(0.0, True, 0)] * len(item[1]), error=error))
            if not own:
                yield number, sums[-1]
        rows.sort(key=lambda row: row.size, reverse=True)
        for kind in sorted({row.kind for row in rows}, reverse=True):
            same = [row for row in rows if row.kind == kind]
            for row, reading in self.batches.run(same, self._read, failed):
                sums[row.item].add(row, reading)
                if not sums[row.item].n_left:
                    yield row.item, sums[row.item]

    def _rows(self, number: int, item: Item, is_strict: bool) -> tuple[list[Row], str]:
        prompt, continuations = item
        if prompt is None:
            return self._bare_rows(number, continuations), ""
        try:
            return _shared_rows(self.engine, number, prompt, continuations), ""
        except UsageError as error:
            if is_strict:
                raise
            return [], str(error)

    def _bare_rows(self, number: int, texts: Sequence[str]) -> list[Row]:
        begin = self.engine.begin_id
        return [
            Row(None, each.head, each.ids[:-1], (((number, place), each.ids),))
            for place, text in enumerate(texts)
            for each in windows(begin, _tokens(self.engine, text), self.room)
        ]

    def _read(self, rows: Sequence[Row]) -> list[Reading]:
        self.check()
        start = time.monotonic()
        found = read_rows(self.engine, rows, self.room)
        taken = time.monotonic() - start
        return [Reading(each, n_read, taken) for each, n_read in found]


def score_prompts(
    engine: Engine, items: Sequence[Item], batch_size: int, room: int | None
) -> list[list[Likelihood]]:
    """Per item the likelihood of each of its continuations."""
    scorer = Scorer(engine, Batches(batch_size, engine.device), room)
    found = dict(scorer.score(items))
    return [found[number].likelihoods for number in range(len(items))]


def _shared_rows(
    engine: Engine, number: int, prompt: Prompt, continuations: Sequence[str]
) -> list[Row]:
    tokens = [_some_tokens(engine, each) for each in continuations]
    reads: list[Ids] = []
    for head in sorted({ids[:-1] for ids in tokens}, key=len, reverse=True):
        if not any(longer[: len(head)] == head for longer in reads):
            reads.append(head)
    asked: dict[Ids, list[tuple[tuple[int, int], Ids]]] = {read: [] for read in reads}
    for place, ids in enumerate(tokens):
        read = next(each for each in reads if each[: len(ids) - 1] == ids[:-1])
        asked[read].append(((number, place), ids))
    return [Row(prompt, (), read, tuple(asked[read])) for read in reads]


def _some_tokens(engine: Engine, continuation: str) -> Ids:
    ids = _tokens(engine, continuation)
    if not ids:
        raise UsageError(f"continuation {continuation!r} has no tokens: expected some text.")
    return ids


def _tokens(engine: Engine, text: str) -> Ids:
    # Without `verbose=False` a text longer than the context brings a warning; windows take it.
    made = engine.tokeniser(text, add_special_tokens=False, verbose=False)
    return tuple(made["input_ids"])
