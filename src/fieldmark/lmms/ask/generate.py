"""Generation: what does a model write about each document, in one round or several?

In the documented round protocol `doc_to_text` (or `doc_to_messages`) is called again with what was
answered so far and gives (visuals, text, is it over, outputs, info), or only the next text. All
documents take their next round together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fieldmark.chat import Answer, AnswerSettings, ChatModel, LocalModel, Message, Request, prepare
from fieldmark.errors import UsageError
from fieldmark.lmms.ask.prompts import Setup, build_prompt, read_messages, user_message
from fieldmark.lmms.ask.shots import answer_of
from fieldmark.store import OK

MOST_ROUNDS = 32
"""a task that never ends is broken"""


@dataclass(frozen=True, slots=True, eq=False)
class DocumentReply:
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
        worst = [outcome for outcome in ("failed", "refused") if outcome in outcomes]
        return worst[0] if worst else OK if self.is_read else "unparsed"


class RequestSender(Protocol):
    """`AskSession`, or what stands for it in the sandbox."""

    @property
    def model(self) -> ChatModel | LocalModel: ...

    @property
    def progress(self) -> Any: ...

    def ask(
        self, requests: Iterable[Request], on_answer: Callable[[Request, Answer], None], title: str
    ) -> Any: ...


def ask_all(
    setup: Setup, sending: RequestSender, requests: Iterable[Request]
) -> dict[tuple[int, int], Answer]:
    """The answers by `info` of their requests: the document, and which of its requests it is."""
    came: dict[tuple[int, int], Answer] = {}

    def keep(request: Request, answer: Answer) -> None:
        came[request.info] = answer
        if request.info[1] == 0:
            sending.progress.advance()

    sending.ask(requests, keep, setup.task.task)
    return came


def generate(setup: Setup, sending: RequestSender) -> list[DocumentReply]:
    """One request per document and repeat."""
    prompt_of: dict[int, str] = {}
    came = ask_all(setup, sending, _requests(setup, sending, prompt_of))
    return [_reply(setup, row, prompt_of[row], came) for row in setup.part.rows]


def _requests(setup: Setup, sending: RequestSender, prompt_of: dict[int, str]) -> Iterator[Request]:
    for row in setup.part.rows:
        prompt = build_prompt(setup, row)
        prompt_of[row] = prompt.text
        for repeat in range(setup.task.n_repeats):
            settings = settings_of(setup, sending, repeat)
            yield Request(str(row), prompt.messages, settings, repeat, (row, repeat))


def settings_of(setup: Setup, sending: RequestSender, repeat: int = 0) -> AnswerSettings:
    """Repeats differ in their seed: with one seed an endpoint would say the same every time."""
    settings = sending.model.settings(setup.generation.settings)
    seed = settings.seed
    return settings if seed is None or not repeat else replace(settings, seed=seed + repeat)


def _reply(
    setup: Setup, row: int, prompt: str, came: Mapping[tuple[int, int], Answer]
) -> DocumentReply:
    answers = tuple(came[row, repeat] for repeat in range(setup.task.n_repeats))
    return DocumentReply(row, prompt, (tuple(answer.text for answer in answers),), answers)


def seen_by_mock(setup: Setup, model: ChatModel | LocalModel) -> dict[str, str]:
    """For `chat/mock/…`: SHA-256 of the pictures as they are sent → the target in words."""
    targets: dict[str, str] = {}
    for row in setup.part.rows if model.is_mock else ():
        prompt = build_prompt(setup, row)
        last = Request("", prompt.messages[-1:])
        key = "+".join(prepare(picture, model.picture_limits).sha256 for picture in last.pictures)
        targets[key] = answer_of(setup.fields, setup.part.document(row), row)
    return targets


@dataclass(slots=True, eq=False)
class _Conversation:
    """One document's conversation. What is said next is made when it is sent: it holds pictures."""

    row: int
    input: str = ""
    outputs: list[str] = field(default_factory=list)
    info: Any = None
    answers: list[Answer] = field(default_factory=list)
    is_over: bool = False


def converse(setup: Setup, sending: RequestSender) -> list[DocumentReply]:
    talks = {row: _Conversation(row) for row in setup.part.rows}
    for number in range(MOST_ROUNDS + 1):
        going = [talk for talk in talks.values() if not talk.is_over]
        if not going:
            break
        sending.ask(
            _round_requests(setup, sending, going, number),
            lambda request, answer: _hear(talks[request.info], answer),
            f"{setup.part.task.task}, round {number + 1}",
        )
    sending.progress.advance(len(talks))
    return [
        DocumentReply(talk.row, talk.input, ((talk.outputs,),), tuple(talk.answers))
        for talk in talks.values()
    ]


def _hear(talk: _Conversation, answer: Answer) -> None:
    talk.answers.append(answer)
    talk.is_over = answer.outcome in ("failed", "refused")
    if not talk.is_over:
        talk.outputs.append(answer.text)


def _round_requests(
    setup: Setup, sending: RequestSender, going: Iterable[_Conversation], number: int
) -> Iterator[Request]:
    for talk in going:
        turn = _go_on(setup, talk, number) if number else _begin(setup, talk)
        if turn is None:
            talk.is_over = True
            continue
        if number == MOST_ROUNDS:
            where = setup.part.task.line_of("doc_to_text")
            raise UsageError(f"{where}  document {talk.row} did not end after {number} rounds.")
        yield Request(f"{talk.row}#{number}", turn, settings_of(setup, sending), info=talk.row)


def _begin(setup: Setup, talk: _Conversation) -> tuple[Message, ...]:
    prompt = build_prompt(setup, talk.row)
    talk.input = prompt.text
    return prompt.messages


def _go_on(setup: Setup, talk: _Conversation, number: int) -> tuple[Message, ...] | None:
    """What the task says next to what was answered; None: it is over."""
    doc = setup.part.document(talk.row, media=True)
    given = setup.fields.next_round(doc, number, talk.outputs, talk.info, talk.row)
    if isinstance(given, str):
        return (user_message(setup, (), given),)
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) not in (4, 5):
        kind = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
        raise UsageError(
            f"{setup.task.line_of('doc_to_text')}  document {talk.row}: round {number + 1} gave "
            f"{kind}: expected (visuals, text, is it over, outputs, info), or the next text."
        )
    *shown, is_over, outputs, talk.info = given
    talk.outputs = list(outputs if outputs is not None else talk.outputs)
    return None if is_over else _turn(setup, shown)


def _turn(setup: Setup, shown: list[Any]) -> tuple[Message, ...]:
    if len(shown) == 1:
        return read_messages(shown[0], setup.part.task)
    visuals, text = shown
    return (user_message(setup, visuals, text),)
