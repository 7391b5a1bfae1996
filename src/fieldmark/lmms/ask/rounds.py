"""How does a conversation go on whose next question depends on what was said?

The documented round protocol: `doc_to_text` (or `doc_to_messages`) is called again with what was
answered so far and gives (visuals, text, is it over, outputs, info), or only the next text. All
documents take their next round together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fieldmark.chat import Answer, Message, Request
from fieldmark.errors import UsageError
from fieldmark.lmms.ask.generate import Reply, settings_of
from fieldmark.lmms.ask.prompts import Setup, build_prompt, read_messages, said
from fieldmark.protocols import Sending

MOST_ROUNDS = 32
"""a task that never ends is broken"""


@dataclass(slots=True, eq=False)
class _Talk:
    """One document's conversation. What is said next is made when it is sent: it holds pictures."""

    row: int
    input: str = ""
    outputs: list[str] = field(default_factory=list)
    info: Any = None
    answers: list[Answer] = field(default_factory=list)
    is_over: bool = False


def converse(setup: Setup, sending: Sending) -> list[Reply]:
    talks = {row: _Talk(row) for row in setup.part.rows}
    for number in range(MOST_ROUNDS + 1):
        going = [talk for talk in talks.values() if not talk.is_over]
        if not going:
            break
        sending.send(
            f"{setup.part.task.task}, round {number + 1}",
            _requests(setup, sending, going, number),
            lambda request, answer: _hear(talks[request.info], answer),
        )
    sending.progress.advance(len(talks))
    return [
        Reply(talk.row, talk.input, ((talk.outputs,),), tuple(talk.answers))
        for talk in talks.values()
    ]


def _hear(talk: _Talk, answer: Answer) -> None:
    talk.answers.append(answer)
    talk.is_over = answer.outcome in ("failed", "refused")
    if not talk.is_over:
        talk.outputs.append(answer.text)


def _requests(
    setup: Setup, sending: Sending, going: Iterable[_Talk], number: int
) -> Iterator[Request]:
    for talk in going:
        turn = _go_on(setup, talk, number) if number else _begin(setup, talk)
        if turn is None:
            talk.is_over = True
            continue
        if number == MOST_ROUNDS:
            where = setup.part.task.place_of("doc_to_text")
            raise UsageError(f"{where}  document {talk.row} is not over after {number} rounds.")
        yield Request(f"{talk.row}#{number}", turn, settings_of(setup, sending), info=talk.row)


def _begin(setup: Setup, talk: _Talk) -> tuple[Message, ...]:
    prompt = build_prompt(setup, talk.row)
    talk.input = prompt.text
    return prompt.messages


def _go_on(setup: Setup, talk: _Talk, number: int) -> tuple[Message, ...] | None:
    """What the task says next to what was answered; None: it is over."""
    doc = setup.part.document(talk.row, media=True)
    given = setup.fields.next_round(doc, number, talk.outputs, talk.info, talk.row)
    if isinstance(given, str):
        return (said(setup, (), given),)
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) not in (4, 5):
        found = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
        raise UsageError(
            f"{setup.task.place_of('doc_to_text')}  document {talk.row}: round {number + 1} gave "
            f"{found}: expected (visuals, text, is it over, outputs, info), or the next text."
        )
    *shown, is_over, outputs, talk.info = given
    talk.outputs = list(outputs if outputs is not None else talk.outputs)
    return None if is_over else _turn(setup, shown)


def _turn(setup: Setup, shown: list[Any]) -> tuple[Message, ...]:
    if len(shown) == 1:
        return read_messages(shown[0], setup.part.task.place_of("doc_to_messages"))
    visuals, text = shown
    return (said(setup, visuals, text),)
