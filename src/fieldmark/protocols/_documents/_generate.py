"""What does a model write about each document?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fieldmark.chat import Answer, AnswerSettings, ChatModel, LocalModel, Request, prepare
from fieldmark.protocols._documents._prompts import Setup, build_prompt
from fieldmark.protocols._documents._shots import answer_of
from fieldmark.protocols._documents._wanted import repeats_of
from fieldmark.protocols._sending import Sending
from fieldmark.store import OK


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What came back about one document."""

    row: int
    input: str
    """what was asked, in words"""
    responses: tuple[tuple[Any, ...], ...] = ()
    """per request, what came back in each repeat: text, rounds of text, or (log-prob, greedy)"""
    answers: tuple[Answer, ...] = ()
    """everything that was sent back, for money, time and errors"""
    choices: tuple[str, ...] = ()
    how: str = ""
    """how a choice was made, where the model could not tell likelihoods"""
    is_read: bool = True
    """False: something was said, and none of the choices was meant"""

    @property
    def outcome(self) -> str:
        """A document is scored when all of its requests were answered."""
        outcomes = [answer.outcome for answer in self.answers]
        worst = [each for each in ("failed", "refused") if each in outcomes]
        return worst[0] if worst else OK if self.is_read else "unparsed"


def generate(setup: Setup, sending: Sending) -> list[Reply]:
    """One request per document and repeat."""
    came: dict[tuple[int, int], Answer] = {}
    asked: dict[int, str] = {}

    def keep(request: Request, answer: Answer) -> None:
        came[request.info, request.repeat] = answer
        if request.repeat == 0:
            sending.progress.advance()

    title = setup.part.task.task
    sending.send(title, _requests(setup, sending, asked), keep)
    return [_reply(setup, row, asked[row], came) for row in setup.part.rows]


def _requests(setup: Setup, sending: Sending, asked: dict[int, str]) -> Iterator[Request]:
    for row in setup.part.rows:
        prompt = build_prompt(setup, row)
        asked[row] = prompt.text
        for repeat in range(repeats_of(setup.task)):
            settings = settings_of(setup, sending, repeat)
            yield Request(str(row), prompt.messages, settings, repeat, row)


def settings_of(setup: Setup, sending: Sending, repeat: int = 0) -> AnswerSettings:
    """Repeats differ in their seed: with one seed an endpoint would say the same every time."""
    settings = sending.model.settings(setup.generation.settings)
    own = settings.seed
    return settings if own is None or not repeat else replace(settings, seed=own + repeat)


def _reply(setup: Setup, row: int, asked: str, came: Mapping[tuple[int, int], Answer]) -> Reply:
    answers = tuple(came[row, repeat] for repeat in range(repeats_of(setup.task)))
    return Reply(row, asked, (tuple(each.text for each in answers),), answers)


def seen_by_mock(setup: Setup, model: ChatModel | LocalModel) -> dict[str, str]:
    """For `chat/mock/…`: SHA-256 of the pictures as they are sent → the target in words."""
    found: dict[str, str] = {}
    for row in setup.part.rows if model.is_mock else ():
        prompt = build_prompt(setup, row)
        last = Request("", prompt.messages[-1:])
        key = "+".join(prepare(each, model.picture_limits).sha256 for each in last.pictures)
        found[key] = answer_of(setup.fields, setup.part.document(row), row)
    return found
