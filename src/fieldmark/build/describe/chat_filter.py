"""Chat filter (extraction by a language model): which words of a text tell what can be seen?

The sentences of a text are numbered, and the model answers with quotes from them, which are looked
up (`quotes`): so nothing invented can be kept. An answer with a false quote is asked for once more,
with what was wrong in it; what is false then is dropped and counted. A text with an answer that
cannot be read is an error, not an empty text.

Requests go through any chat model of this package. Answers are journalled as they come, so the same
text is never paid for twice, and a run that was killed or ran out of money goes on from there. The
instruction stands before the text, so that servers which keep the beginning of a prompt (prefix
caching) compute it once.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.build.describe.quotes import (
    MAX_CHARACTERS,
    MAX_SENTENCES,
    QuotedSpans,
    SentenceBlock,
    cut_text,
    merged,
    read_quotes,
)
from fieldmark.build.describe.sentences import Span, split_sentences
from fieldmark.chat import (
    Answer,
    AnswerSettings,
    AskSession,
    Budget,
    ChatModel,
    Estimate,
    Estimator,
    LocalModel,
    Options,
    Request,
    Text,
    assistant,
    estimate,
    user,
)
from fieldmark.progress import Progress, Silent

PROMPT = """\
You read sentences of encyclopedia articles about organisms. Keep what tells how the organism looks
in an ordinary photo: form, colour, pattern, texture, the number, place, shape and relative size of
its outer parts, its posture at rest, its habit of growth, the parts it lacks, and how sexes, ages,
seasons or similar species differ in these. Flowers, fruits, shells, mushrooms, larvae and young are
part of the organism.

Leave out:
- sizes and weights alone, and comparisons of size alone;
- what needs a microscope or a knife: spores, cells, skull, teeth, inner organs, counts of fin rays;
- eggs, nests, webs, tracks, galls, food, hosts and the place where it lives;
- voice, smell, taste, behaviour, range, use, chemistry, genes, names and where they come from;
- statements that it is variable, distinctive or like another species, if they do not say in what.
A colour or a body part that is only mentioned is no description: "It feeds on red berries."

Answer with JSON: {"spans": [{"sentence": NUMBER, "quote": "WORDS"}]}. A quote is copied letter by
letter from the sentence of that number: all of it, or the part that tells the look if the rest is
about something else. Quote whole words, and a "not" or "lacks" with what it denies. List nothing
that is to be left out; {"spans": []} if nothing is kept.

An example.
Sentences:
1. The bird was named after the crest of a helmet.
2. Males, which weigh 20 g and sing from May on, have a slate-blue back and a white eyebrow.
3. The tail is deeply forked.
4. Its nest is a cup of green moss.
Answer:
{"spans": [{"sentence": 2, "quote": "have a slate-blue back and a white eyebrow"}, \
{"sentence": 3, "quote": "The tail is deeply forked."}]}

Now these."""
SENTENCES = "Sentences:"
AGAIN = """\
Not all of these quotes can be used:
{problems}
Answer again with JSON for the same sentences, every quote copied letter by letter."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spans": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sentence": {"type": "integer"}, "quote": {"type": "string"}},
                "required": ["sentence", "quote"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["spans"],
    "additionalProperties": False,
}
ROOM_TO_THINK = 16_384
"""tokens, for models that think before they answer"""
_AT_ONCE = 20
"""sentences without a text that are asked about together"""
_PROBLEMS_TOLD = 10
PROMPT_HASH = draws.digest(
    PROMPT, SENTENCES, AGAIN, json.dumps(SCHEMA), MAX_CHARACTERS, MAX_SENTENCES, _PROBLEMS_TOLD
).hex()
"""changes when the wording does"""


@dataclass(frozen=True, slots=True)
class FilteredText:
    """What became of a text."""

    key: str
    spans: tuple[Span, ...]
    """what is kept, in the order of the text"""
    error: str = ""
    """why the text has no outcome yet; "" = it has"""
    n_dropped: int = 0
    """quotes that were in no sentence, also when asked for again"""


@dataclass(slots=True)
class FilterTotals:
    """What became of all texts, and what it took."""

    n_texts: int = 0
    n_errors: int = 0
    n_requests: int = 0
    n_replayed: int = 0
    """of the requests, those whose answer was in the journal"""
    n_asked_again: int = 0
    """of the requests, those that followed an answer with a false quote"""
    n_kept: int = 0
    """spans"""
    n_dropped: int = 0
    """false quotes that were dropped"""
    usd: float = 0.0


@dataclass(slots=True, eq=False)
class _OpenText:
    """A text whose blocks are being asked about."""

    key: str
    n_left: int
    spans: list[Span] = field(default_factory=list)
    error: str = ""
    n_dropped: int = 0

    def add(self, quoted: QuotedSpans) -> None:
        self.n_left -= 1
        self.spans += quoted.spans
        self.error = self.error or quoted.error
        self.n_dropped += len(quoted.problems)

    def result(self) -> FilteredText:
        spans = () if self.error else merged(self.spans)
        return FilteredText(self.key, spans, self.error, self.n_dropped)


@dataclass(slots=True)
class ChatFilter:
    """Keeps the visible part of texts by asking a chat model."""

    model: ChatModel | LocalModel
    journal: Path
    """folder of the answers"""
    options: Options = Options()
    budget: Budget = field(default_factory=Budget)
    asks_errors_again: bool = False
    """answers of the journal that cannot be read are not taken: the question is put once more"""
    totals: FilterTotals = field(default_factory=FilterTotals)

    @property
    def identity(self) -> dict[str, str]:
        """What decides what is kept, for the record."""
        return {
            "model": self.model.name,
            "fingerprint": self.model.fingerprint,
            "prompt": PROMPT_HASH,
        }

    def filter(
        self, texts: Iterable[tuple[str, str]], progress: Progress | None = None
    ) -> Generator[FilteredText]:
        """One outcome for each (key, text), as they come. ModelError when money or tokens run out,
        after all that is complete was given.
        """
        cut_texts = ((key, cut_text(text, split_sentences(text))) for key, text in texts)
        return self._ask(cut_texts, progress or Silent())

    def keep(self, sentences: Sequence[str]) -> list[bool | None]:
        """Is something of each sentence kept? None where that could not be found out."""
        starts = range(0, len(sentences), _AT_ONCE)
        texts = ((str(n), SentenceBlock.of_sentences(sentences[n : n + _AT_ONCE])) for n in starts)
        kept: list[bool | None] = [None] * len(sentences)
        for result in self._ask(((key, [block]) for key, block in texts), Silent()):
            begin = int(result.key)
            block = SentenceBlock.of_sentences(sentences[begin : begin + _AT_ONCE])
            for n, start in enumerate(block.starts) if not result.error else ():
                end = start + len(block.sentences[n])
                kept[begin + n] = any(start <= span.start < end for span in result.spans)
        return kept

    def estimate(self, texts: Iterable[tuple[str, str]]) -> Estimate:
        """What asking about these texts takes; sends nothing."""
        blocks = (cut_text(text, split_sentences(text)) for _, text in texts)
        requests = ((self._first_request("", block), ()) for some in blocks for block in some)
        return estimate(requests, Estimator(self.model.card))

    def _ask(
        self, texts: Iterable[tuple[str, list[SentenceBlock]]], progress: Progress
    ) -> Generator[FilteredText]:
        ready: deque[FilteredText] = deque()
        again: list[Request] = []

        def requests() -> Iterator[Request]:
            for key, blocks in texts:
                opened = _OpenText(key, len(blocks))
                if not blocks:
                    ready.append(opened.result())
                for n, block in enumerate(blocks):
                    yield self._first_request(f"{key}#{n}", block, opened)

        def hear(request: Request, answer: Answer) -> bool:
            opened, block, before = request.info
            quoted = read_quotes(answer, block)
            self._count(answer, before is not None)
            if quoted.problems and before is None:
                again.append(_second_request(request, answer, quoted))
                return False
            is_worse = before is not None and bool(quoted.error) and answer.is_answer
            opened.add(before if is_worse else quoted)
            if not opened.n_left:
                ready.append(opened.result())
            return bool(ready)

        with AskSession(
            self.model, self._sending(), self.journal, self.budget, progress
        ) as session:
            for questions in (requests(), again):
                with closing(session.steps(questions, hear, "filter")) as steps:
                    for _ in chain(steps, (None,)):
                        while ready:
                            self._note(ready[0])
                            progress.advance()
                            yield ready.popleft()

    def _first_request(
        self, name: str, block: SentenceBlock, opened: _OpenText | None = None
    ) -> Request:
        numbered = (f"{n}. {sentence}" for n, sentence in enumerate(block.sentences, 1))
        message = user(Text(PROMPT, ends_shared=True), "\n".join([SENTENCES, *numbered]))
        settings = AnswerSettings(max_output_tokens=self._room(block), schema=SCHEMA)
        return Request(name, (message,), settings, info=(opened, block, None))

    def _room(self, block: SentenceBlock) -> int:
        """Tokens that quote everything; three letters a token are few in English."""
        card = self.model.card
        room = 100 + sum(len(sentence) // 3 + 14 for sentence in block.sentences)
        room += ROOM_TO_THINK if card.thinks else 0
        return min(room, card.max_output or room)

    def _sending(self) -> Options:
        def is_unread(request: Request, answer: Answer) -> bool:
            return bool(read_quotes(answer, request.info[1]).error)

        again = is_unread if self.asks_errors_again else None
        return replace(self.options, is_asked_again=again)

    def _count(self, answer: Answer, is_last: bool) -> None:
        self.totals.n_requests += 1
        self.totals.n_replayed += answer.is_replayed
        self.totals.n_asked_again += is_last
        self.totals.usd += 0.0 if answer.is_replayed else answer.usd or 0.0

    def _note(self, result: FilteredText) -> None:
        self.totals.n_texts += 1
        self.totals.n_errors += bool(result.error)
        self.totals.n_kept += len(result.spans)
        self.totals.n_dropped += result.n_dropped


def _second_request(request: Request, answer: Answer, quoted: QuotedSpans) -> Request:
    """The same question, with the answer so far and what is wrong with it."""
    opened, block, _ = request.info
    lines = [f"- {problem}" for problem in quoted.problems[:_PROBLEMS_TOLD]]
    wrong = user(AGAIN.format(problems="\n".join(lines)))
    messages = (*request.messages, assistant(answer.text), wrong)
    return Request(f"{request.id}?", messages, request.settings, info=(opened, block, quoted))
