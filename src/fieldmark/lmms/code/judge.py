"""The judge (LLM as a judge): who is asked about answers while a task is scored, and at what cost?

Only the model the user named: `--judge MODEL`, else the endpoint in `JUDGE_BASE_URL` with the key
in `JUDGE_API_KEY` and, to put another model in the place of the one the task names,
`JUDGE_MODEL_NAME`. What it is asked goes the way of all requests: within the caps of the command,
and into the journal, so that no judgement is paid twice. Resamples of documents ask nobody: they
get the judgements that were made.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fieldmark import draws
from fieldmark.chat import (
    Answer,
    AnswerSettings,
    AskSession,
    Budget,
    ChatModel,
    Message,
    MessagePart,
    Options,
    Picture,
    Request,
    Text,
    chat_model,
)
from fieldmark.errors import FieldmarkError
from fieldmark.lmms.code.dialogue import JudgeSilent, NoJudgement
from fieldmark.lmms.code.inside import ask_outside, is_inside, n_calls
from fieldmark.store import canonical_json

URL, KEY, MODEL = "JUDGE_BASE_URL", "JUDGE_API_KEY", "JUDGE_MODEL_NAME"
ROLES: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


@dataclass(eq=False)
class Judge:
    """One judge of a command: its model, what it may cost, and what it has said."""

    model: ChatModel | None = None
    """None: as the environment says"""
    journal: Path | None = None
    sending: Options = Options()
    budget: Budget = field(default_factory=Budget)
    _answers: dict[tuple[str, int], Answer] = field(default_factory=dict)
    """by request and by how often the same call of code had asked it before"""
    _n_answers: Counter[str] = field(default_factory=Counter)
    _asked: Counter[str] = field(default_factory=Counter)
    _call: int = 0
    """of task code, and how often it asked the same"""
    _sessions: dict[str, AskSession] = field(default_factory=dict)
    _closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _lock: Any = field(default_factory=threading.Lock)

    def ask(
        self,
        messages: Sequence[Any],
        settings: AnswerSettings,
        named: str,
        call: int = 0,
        is_resampling: bool = False,
    ) -> Answer:
        """The judge's answer; `named` is the model that the task would ask. While documents are
        resampled nobody is asked.
        """
        model = self.model or model_of_environment(named)
        question = canonical_json([model.address, list(messages), repr(settings)])
        key = draws.digest(question).hex()
        with self._lock:
            if call != self._call:
                self._call, self._asked = call, Counter()
            number, self._asked[key] = self._asked[key], self._asked[key] + 1
            if is_resampling and self._n_answers[key]:
                number %= self._n_answers[key]
            if (key, number) not in self._answers:
                if is_resampling:
                    raise NoJudgement("a resample would ask the judge what it was not asked before")
                request = Request(f"judge {key[:12]}", _messages(messages), settings, number)
                self._answers[key, number] = self._send(model, request)
                self._n_answers[key] += 1
            return self._answers[key, number]

    def _send(self, model: ChatModel, request: Request) -> Answer:
        answers: list[Answer] = []
        try:
            self._session(model).ask([request], lambda _, answer: answers.append(answer))
        except FieldmarkError as error:
            raise JudgeSilent(f"the judge {model.name!r} cannot be asked: {error}") from error
        (answer,) = answers
        if not answer.is_answer:
            raise JudgeSilent(f"the judge {model.name!r} gave no answer: {answer.error}")
        return answer

    def _session(self, model: ChatModel) -> AskSession:
        if model.name not in self._sessions:
            session = AskSession(model, self.sending, self.journal, self.budget)
            self._sessions[model.name] = self._closing.enter_context(session)
        return self._sessions[model.name]

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the connections; what was said is still known."""
        self._closing.close()
        self._sessions.clear()


_judges: list[Judge] = []
"""those of this process; who is asked is the last"""
_resampling: list[None] = []


@contextlib.contextmanager
def judging(judge: Judge) -> Iterator[Judge]:
    """Task code that asks a judge asks this one."""
    _judges.append(judge)
    try:
        yield judge
    finally:
        _judges.remove(judge)
        judge.__exit__()


def ask_judge(messages: Sequence[Any], settings: AnswerSettings, named: str) -> Answer:
    """The judge's answer; `named` is the model that the task would ask."""
    question = (messages, settings, named, n_calls(), bool(_resampling))
    if is_inside():
        answer: Answer = ask_outside("judge", *question)
        return answer
    with contextlib.nullcontext(_judges[-1]) if _judges else judging(Judge()) as judge:
        return judge.ask(*question)


@contextlib.contextmanager
def resampling() -> Iterator[None]:
    """While documents are resampled no judge is asked."""
    _resampling.append(None)
    try:
        yield
    finally:
        _resampling.pop()


def model_of_environment(named: str) -> ChatModel:
    """The model behind `JUDGE_BASE_URL`; `named` is what the task calls its judge."""
    url, name = os.environ.get(URL, "").rstrip("/"), os.environ.get(MODEL) or named
    if not url:
        raise NoJudgement(
            f"this task asks a judge ({name}): name one with --judge MODEL, or set {URL} to an "
            f"endpoint that speaks OpenAI's protocol, {KEY} to its key, and {MODEL} for another "
            "model"
        )
    try:
        model = chat_model(f"chat/custom/{name}?base_url={url}&key_env={KEY}")
    except FieldmarkError as error:
        raise NoJudgement(f"{URL}={url}: {error}") from error
    return replace(model, must_have_key=False)  # a server of this machine may want none


def _messages(messages: Sequence[Any]) -> tuple[Message, ...]:
    return tuple(_message(message) for message in messages)


def _message(message: Mapping[str, Any]) -> Message:
    role, content = str(message.get("role", "user")), message.get("content") or ""
    if role not in ROLES:
        raise NoJudgement(f"the task's message for the judge has the role {role!r}")
    parts = [content] if isinstance(content, str) else content
    return Message(ROLES[role], tuple(map(_part, parts)))


def _part(part: Any) -> MessagePart:
    if isinstance(part, str):
        return Text(part)
    if part.get("type") == "text":
        return Text(str(part.get("text", "")))
    image = part.get("image_url")
    url = str(image.get("url", "") if isinstance(image, Mapping) else image)
    try:
        if url.startswith("data:"):
            return Picture(base64.b64decode(url.partition(",")[2], validate=True))
    except (binascii.Error, ValueError):
        pass
    raise NoJudgement(f"the task shows the judge something else than its pictures ({url[:60]!r})")
