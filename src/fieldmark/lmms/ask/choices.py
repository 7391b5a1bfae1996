"""Likelihoods (summed log-probabilities): how likely does a model find given answers?

A model on this machine gives the summed log-probability of each. One behind an address does not: it
is asked to choose by letter, and the letters' log-probabilities, or else what it wrote, stand for
likelihoods. A result says which of the two it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fieldmark.chat import (
    Answer,
    LocalModel,
    Option,
    Request,
    letter_choice,
    letter_question,
    letter_scores,
    letter_settings,
)
from fieldmark.errors import UsageError
from fieldmark.lmms.ask.generate import DocumentReply, RequestSender, ask_all, settings_of
from fieldmark.lmms.ask.prompts import Prompt, Setup, build_prompt, choices_of

BY_LETTER = "chosen by letter: log-probabilities of the letters"
BY_TEXT = "chosen by letter: read from the text"
_ALONE = "#alone"
"""a request for choices without any context"""


def weigh(setup: Setup, sending: RequestSender) -> list[DocumentReply]:
    """Likelihoods of the choices, of the target, or of a text by itself."""
    if isinstance(sending.model, LocalModel):
        return _likelihoods(setup, sending)
    return _letters(setup, sending)


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """One reading of the model: a context and what may follow it."""

    prompt: Prompt | None
    continuations: tuple[str, ...]
    is_alone: bool = False

    @property
    def words(self) -> str:
        return self.prompt.text if self.prompt else self.continuations[0]

    @property
    def bare(self) -> _Reading:
        """Without messages, which hold pictures."""
        return replace(self, prompt=self.prompt and Prompt(self.prompt.text, ()))


def _likelihoods(setup: Setup, sending: RequestSender) -> list[DocumentReply]:
    sent: dict[int, list[_Reading]] = {}

    def requests() -> Iterator[Request]:
        for row in setup.part.rows:
            questions = _questions(setup, row)
            sent[row] = [question.bare for question in questions]
            for number, question in enumerate(questions):
                name = f"{row}{_ALONE}" if question.is_alone else f"{row}#{number}"
                messages = question.prompt.messages if question.prompt else ()
                info, likely = (row, number), question.continuations
                yield Request(name, messages, info=info, continuations=likely)

    came = ask_all(setup, sending, requests())
    return [_reply(row, sent[row], came) for row in setup.part.rows]


def _reply(
    row: int, sent: Sequence[_Reading], came: Mapping[tuple[int, int], Answer]
) -> DocumentReply:
    """Conditional likelihoods first, then those without context."""
    answers = tuple(came[row, number] for number in range(len(sent)))
    pairs = [
        ((likelihood.logprob, likelihood.is_greedy),)
        for answer in answers
        for likelihood in answer.likelihoods
    ]
    return DocumentReply(row, sent[0].words, tuple(pairs), answers, sent[0].continuations)


def _questions(setup: Setup, row: int) -> list[_Reading]:
    fields, doc = setup.fields, setup.part.document(row)
    if setup.task.output_type == "loglikelihood_rolling":
        return [_Reading(None, (str(fields.target(doc, row)),))]
    if setup.task.output_type == "loglikelihood":
        return [_Reading(build_prompt(setup, row), (str(fields.target(doc, row)),))]
    choices = choices_of(setup, row)
    between = setup.task.target_delimiter
    if has_many_inputs(setup, row):
        answer = (f"{between}{fields.target(doc, row)}",)
        return [_Reading(build_prompt(setup, row, choice), answer) for choice in choices]
    readings = [
        _Reading(build_prompt(setup, row), tuple(f"{between}{choice}" for choice in choices))
    ]
    if any(item.name == "acc_mutual_info" for item in setup.task.metric_list or ()):
        readings.append(_Reading(None, tuple(choices), is_alone=True))
    return readings


def has_many_inputs(setup: Setup, row: int) -> bool:
    """Is the text a number, so that the choices are contexts and the target follows each?"""
    return isinstance(setup.fields.text(setup.part.document(row), row), int)


def _letters(setup: Setup, sending: RequestSender) -> list[DocumentReply]:
    question_of: dict[int, tuple[str, tuple[Option, ...]]] = {}

    def requests() -> Iterator[Request]:
        for row in setup.part.rows:
            settings = letter_settings(settings_of(setup, sending))
            if has_many_inputs(setup, row):
                raise UsageError(
                    f"{setup.task.line_of('doc_to_text')}  the choices of this task are "
                    "questions, which needs a model that gives likelihoods (hf-chat/…)."
                )
            prompt = build_prompt(setup, row)
            choices = choices_of(setup, row)
            question, options = letter_question(prompt.messages[-1].parts, choices)
            question_of[row] = (question[-1].text, options)
            yield Request(str(row), (*prompt.messages[:-1], *question), settings, info=(row, 0))

    came = ask_all(setup, sending, requests())
    return [_lettered(row, *question_of[row], came[row, 0]) for row in setup.part.rows]


def _lettered(row: int, prompt: str, options: Sequence[Option], answer: Answer) -> DocumentReply:
    scores: Sequence[float] | None = letter_scores(answer, options)
    how = BY_LETTER if scores is not None else BY_TEXT
    chosen = letter_choice(answer, options)
    if scores is None and chosen is not None:
        scores = [0.0 if number == chosen else -math.inf for number in range(len(options))]
    shown = tuple(option.name for option in options)
    reply = DocumentReply(row, prompt, (), (answer,), shown, how)
    if scores is None:
        return replace(reply, is_read=False)
    pairs: list[tuple[Any, ...]] = [
        ((score, number == chosen),) for number, score in enumerate(scores)
    ]
    return replace(reply, responses=tuple(pairs))
