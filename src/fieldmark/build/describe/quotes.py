"""Verbatim quotes: where in a text do the words stand that a language model says it quotes?

A quote counts only where it stands in its sentence letter by letter, in whole words ("spotted" is
no quote of "unspotted", nor "5 cm" of "1.5 cm"), and without losing a negation beside it ("has a
crest" is no quote of "no male has a crest"). Places are computed here, never taken from an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from fieldmark.build.describe.sentences import Span
from fieldmark.chat import Answer
from fieldmark.chat.parse.text import strip_reasoning
from fieldmark.chat.parse.values import AMBIGUOUS, read_json

MAX_CHARACTERS, MAX_SENTENCES = 3_000, 30
"""of one request, which then fits into a context of 4,096 tokens with its answer; a longer text is
cut at sentence borders into several"""
_SPACE = re.compile(r"\s")
_WORD = re.compile(r"\w+(?:(?:[-‐‑–'’]|(?<=\d)[.,](?=\d))\w+)*")
_NEGATED = re.compile(
    r"\b(not|no|never|nor|neither|without|lacks?|lacking|cannot|hardly|scarcely)\b"
    r"(?: (?!but\b)[\w-]+){0,2} ?\Z|\b(\w+n['’]t)(?: \w+){0,2} ?\Z",
    re.IGNORECASE,
)
_DENIED = re.compile(r" ?(?:is|are|was|were|being) (not|absent|lacking|missing)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SentenceBlock:
    """Some sentences of a text that follow each other: what one request shows."""

    sentences: tuple[str, ...]
    """as shown: every kind of space is one blank, so that places stay the same"""
    starts: tuple[int, ...]
    """where each begins in the text"""

    @classmethod
    def of_text(cls, text: str, spans: Sequence[Span]) -> SentenceBlock:
        texts = (text[span.start : span.end] for span in spans)
        return cls(
            tuple(_SPACE.sub(" ", part) for part in texts), tuple(span.start for span in spans)
        )

    @classmethod
    def of_sentences(cls, sentences: Sequence[str]) -> SentenceBlock:
        """Of sentences that do not come from one text."""
        ends = accumulate(len(sentence) for sentence in sentences)
        spans = [Span(end - len(part), end) for part, end in zip(sentences, ends, strict=True)]
        return cls.of_text("".join(sentences), spans)

    def place(self, number: int, quote: str) -> Span | str:
        """Where a quote stands in the text, or what is wrong with it."""
        name, problem = json.dumps(quote, ensure_ascii=False), ""
        if not 1 <= number <= len(self.sentences):
            return f"{name}: there is no sentence {number}"
        sentence, at = self.sentences[number - 1], -1
        while quote.strip() and (at := sentence.find(quote, at + 1)) >= 0:
            start = at + len(quote) - len(quote.lstrip())
            end = start + len(quote.strip())
            problem = _loss(sentence, start, end)
            if not problem:
                return Span(self.starts[number - 1] + start, self.starts[number - 1] + end)
        return f"{name} {problem or 'is not in'} sentence {number}"


def _loss(sentence: str, start: int, end: int) -> str:
    """What a quote from here to there leaves out that it must not; "" = nothing."""
    if end - start == len(sentence):
        return ""
    words = (word.span() for word in _WORD.finditer(sentence))
    if any(first < start < last or first < end < last for first, last in words):
        return "cuts a word of"
    negation = _NEGATED.search(sentence[:start]) or _DENIED.match(sentence, end)
    return f"leaves out {next(filter(None, negation.groups()))!r} of" if negation else ""


def cut_text(text: str, sentences: Sequence[Span]) -> list[SentenceBlock]:
    """The blocks of a text, as few as hold it."""
    blocks: list[list[Span]] = []
    for span in sentences:
        is_full = not blocks or len(blocks[-1]) >= MAX_SENTENCES
        if is_full or span.end - blocks[-1][0].start > MAX_CHARACTERS:
            blocks.append([])
        blocks[-1].append(span)
    return [SentenceBlock.of_text(text, block) for block in blocks]


@dataclass(frozen=True, slots=True)
class QuotedSpans:
    """What an answer quotes, and what is wrong with the rest."""

    spans: tuple[Span, ...]
    problems: tuple[str, ...] = ()
    error: str = ""
    """why nothing could be read; "" = it could"""


def read_quotes(answer: Answer, block: SentenceBlock) -> QuotedSpans:
    """The places of an answer's quotes."""
    if error := _unreadable(answer):
        return QuotedSpans((), error=error)
    text = strip_reasoning(answer.text)
    entries = AMBIGUOUS if text is None else read_json(text)
    if not isinstance(entries, list):
        return QuotedSpans((), error="the answer is not the JSON that was asked for")
    located = [block.place(*_entry(entry)) for entry in entries]
    spans = [one for one in located if isinstance(one, Span)]
    return QuotedSpans(merged(spans), tuple(one for one in located if isinstance(one, str)))


def _unreadable(answer: Answer) -> str:
    if answer.outcome == "failed":
        return answer.error or "the request failed"
    if answer.outcome == "refused":
        return "the model refused to answer"
    return "the answer was cut off" if answer.outcome == "length" else ""


def _entry(entry: object) -> tuple[int, str]:
    """Sentence and quote; number 0, which no sentence has, where it is neither."""
    if not isinstance(entry, dict):
        return 0, str(entry)
    number, quote = str(entry.get("sentence")), entry.get("quote")
    is_number = number.isascii() and number.isdigit() and len(number) < 9
    return int(number) if is_number else 0, quote if isinstance(quote, str) else ""


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """In the order of the text, those that overlap as one."""
    whole: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if whole and span.start < whole[-1].end:
            whole[-1] = Span(whole[-1].start, max(whole[-1].end, span.end))
        else:
            whole.append(span)
    return tuple(whole)
