"""How does a conversation go on whose next question depends on what was said?

The documented round protocol: `doc_to_text` (or `doc_to_messages`) is called again with what was
answered so far and gives (visuals, text, is it over, outputs, info), or only the next text. All
documents take their next round together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fieldmark.chat import Answer, Message, Request
from fieldmark.errors import UsageError
from fieldmark.protocols._documents._generate import Reply, seen_by_mock, settings_of
from fieldmark.protocols._documents._prompts import Setup, build_prompt, read_messages, said
from fieldmark.protocols._sending import Sending

MOST_ROUNDS = 32
"""a task that never ends is broken"""


@dataclass(slots=True, eq=False)
class _Talk:
    """One document's conversation."""

    row: int
    input: str = ""
    next: tuple[Message, ...] | None = None
    """None: it is over"""
    outputs: list[str] = field(default_factory=list)
    info: Any = None
    answers: list[Answer] = field(default_factory=list)


def converse(setup: Setup, sending: Sending) -> list[Reply]:
    talks = {row: _begin(setup, row) for row in setup.part.rows}
    how = seen_by_mock(setup, sending)
    for number in range(MOST_ROUNDS + 1):
        going = [talk for talk in talks.values() if talk.next is not None]
        if not going:
            break
        if number == MOST_ROUNDS:
            where = setup.part.task.place_of("doc_to_text")
            raise UsageError(
                f"{where}  document {going[0].row} is not over after {MOST_ROUNDS} rounds."
            )
        sending.send(
            f"{setup.part.task.task}, round {number + 1}",
            _requests(setup, sending, going, number),
            lambda request, answer: talks[request.info].answers.append(answer),
            how,
        )
        for talk in going:
            _go_on(setup, talk, number + 1)
    sending.progress.advance(len(talks))
    return [
        Reply(talk.row, talk.input, ((talk.outputs,),), tuple(talk.answers))
        for talk in talks.values()
    ]


def _begin(setup: Setup, row: int) -> _Talk:
    prompt = build_prompt(setup, row)
    return _Talk(row, prompt.text, prompt.messages)


def _requests(setup: Setup, sending: Sending, going: list[_Talk], number: int) -> Iterator[Request]:
    for talk in going:
        assert talk.next is not None
        name = f"{talk.row}#{number}"
        yield Request(name, talk.next, settings_of(setup, sending), info=talk.row)


def _go_on(setup: Setup, talk: _Talk, number: int) -> None:
    """Puts the answer to the others and asks the task what to say next."""
    answer = talk.answers[-1]
    if answer.outcome in ("failed", "refused"):
        talk.next = None
        return
    talk.outputs.append(answer.text)
    doc = setup.part.document(talk.row, media=True)
    given = setup.fields.next_round(doc, number, talk.outputs, talk.info, talk.row)
    if isinstance(given, tuple) and len(given) in (4, 5):
        *shown, is_over, outputs, talk.info = given
        talk.outputs = list(outputs if outputs is not None else talk.outputs)
        talk.next = None if is_over else _turn(setup, shown)
    elif isinstance(given, str):
        talk.next = (said(setup, (), given),)
    else:
        talk.next = None


def _turn(setup: Setup, shown: list[Any]) -> tuple[Message, ...]:
    if len(shown) == 1:
        return read_messages(shown[0], setup.part.task.place_of("doc_to_messages"))
    visuals, text = shown
    return (said(setup, visuals, text),)
