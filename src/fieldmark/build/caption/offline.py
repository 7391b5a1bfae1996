"""Offline batches (bisection, quarantine): how does one bad photo fail alone, not with its batch?

Requests go to an engine in batches of hundreds. A batch that hangs or kills the engine is halved
until the photo to blame is alone; it ends as an error, and is remembered in a file, so that no
later run meets it again. Answers are journalled as with any other model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from fieldmark.build.caption.engine_process import (
    HANG_S,
    EngineLost,
    EngineProcess,
    MakeEngine,
)
from fieldmark.chat import (
    Answer,
    AnswerSettings,
    AskTotals,
    Journal,
    LocalModel,
    Message,
    Picture,
    Request,
    prepare,
)
from fieldmark.chat.journal import request_key
from fieldmark.chat.prices import Card
from fieldmark.chat.send.pictures import NO_LIMITS, PictureLimits, SentPicture
from fieldmark.errors import DataError, ModelError, StoreError

BATCH = 256
_MOST_LOST, _MOST_LOST_AT_FIRST = 64, 12
"""batches lost one after the other, halves counted: it is the engine, not a photo; fewer are enough
where nothing was ever answered
"""
Pending = tuple[Request, Request, str]
"""the request, the same with its pictures read, and its key"""


@dataclass(frozen=True, slots=True)
class OfflineModel:
    """A model that is asked in batches, in a process of its own."""

    name: str
    id: str
    make: MakeEngine
    arguments: tuple[Any, ...]
    address: dict[str, str]
    """what the journal's key knows the model by"""
    max_tokens: int | None = None
    picture_limits: PictureLimits = NO_LIMITS
    hang_s: float = HANG_S
    batch_size: int = BATCH
    is_mock: bool = False

    @property
    def card(self) -> Card:
        return Card(provider="offline", id=self.id, usd_in=0.0, usd_out=0.0)

    def settings(self, settings: AnswerSettings) -> AnswerSettings:
        return settings.with_room(self.max_tokens)


class Quarantine:
    """Requests that hung or killed an engine, by key; one line each, added by any worker."""

    def __init__(self, path: Path, is_lifted: bool = False) -> None:
        """Lifted, it tries again what it knows; what is still bad is added once more."""
        self.path = path
        self.reasons: dict[str, str] = {}
        for line in path.read_bytes().splitlines() if path.is_file() and not is_lifted else []:
            try:
                entry = json.loads(line)
                self.reasons[entry["key"]] = entry["reason"]
            except (ValueError, KeyError, TypeError):
                continue  # cut off by a kill: it is met once more

    def add(self, key: str, request: Request, reason: str) -> None:
        self.reasons[key] = reason
        line = json.dumps({"key": key, "id": request.id, "reason": reason}) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self.path}  cannot be written: {error.strerror}.") from error


@dataclass(slots=True)
class OfflineConnection:
    """As `ModelConnection`, for a model that is asked in batches."""

    model: OfflineModel
    journal: Journal
    quarantine: Quarantine
    engine: EngineProcess = field(init=False)
    _n_lost: int = 0
    """batches in a row"""
    _has_answered: bool = False
    _suspects: list[tuple[str, Request, str]] = field(default_factory=list)
    """to be remembered when the engine has shown that it works on others"""

    def __post_init__(self) -> None:
        own = self.model
        self.engine = EngineProcess(own.make, own.arguments, own.name, own.hang_s)

    def __enter__(self) -> OfflineConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def steps(
        self, requests: Iterable[Request], on_answer: Callable[[Request, Answer], bool]
    ) -> Generator[None, None, AskTotals]:
        """Asks everything; the next batch is read while the engine is at this one."""
        tally, coming = AskTotals(), iter(requests)

        def deliver(request: Request, answer: Answer) -> None:
            tally.add(answer)
            on_answer(request, answer)

        batch = self._gather(coming, deliver)
        while batch:
            self._begin(batch)
            following = self._gather(coming, deliver)
            for (request, _, key), answer in self._answers(batch, is_sent=True):
                if answer.is_answer:
                    self.journal.add(key, request, answer)
                deliver(request, replace(answer, key=key))
            yield
            batch = following or self._gather(coming, deliver)
        return tally

    def _gather(
        self, coming: Iterator[Request], deliver: Callable[[Request, Answer], None]
    ) -> list[Pending]:
        """A batch of what neither the journal nor the quarantine knows."""
        batch: list[Pending] = []
        while len(batch) < self.model.batch_size:
            window = list(islice(coming, self.model.batch_size - len(batch)))
            if not window:
                return batch
            for request in window:
                self._look(request, batch, deliver)
        return batch

    def _look(
        self, request: Request, batch: list[Pending], deliver: Callable[[Request, Answer], None]
    ) -> None:
        request = request.with_settings(self.model.settings(request.settings))
        try:
            sent = [prepare(picture, self.model.picture_limits) for picture in request.pictures]
        except DataError as error:
            deliver(request, Answer("failed", error=str(error), attempts=0))
            return
        key = request_key(request, sent, self.model.address)
        if (kept := self.journal.get(key)) is not None:
            deliver(request, kept)
        elif reason := self.quarantine.reasons.get(key):
            deliver(request, _poison(reason))
        else:
            batch.append((request, _with_bytes(request, sent), key))

    def _begin(self, batch: Sequence[Pending]) -> bool:
        """Sends a batch; False = the engine was lost before it could take it, a new one may."""
        try:
            self.engine.send([bare for _, bare, _ in batch])
        except EngineLost:
            self._count_lost("died between two batches")
            return self._begin(batch)
        return True

    def _answers(
        self, batch: Sequence[Pending], is_sent: bool = False, is_alone: bool = False
    ) -> Iterator[tuple[Pending, Answer]]:
        """Each request with its answer; what is to blame for the loss of a batch fails."""
        if not is_sent:
            self._begin(batch)
        try:
            answers = self.engine.answers(len(batch))
        except EngineLost as error:
            self._count_lost(str(error))
            yield from self._bisect(batch, str(error), is_alone)
        else:
            self._n_lost, self._has_answered = 0, True
            self._convict()
            yield from zip(batch, answers, strict=True)

    def _bisect(
        self, batch: Sequence[Pending], how: str, is_alone: bool
    ) -> Iterator[tuple[Pending, Answer]]:
        if len(batch) > 1:
            half = len(batch) // 2
            yield from self._answers(batch[:half], is_alone=half == 1)
            yield from self._answers(batch[half:], is_alone=len(batch) - half == 1)
        elif not is_alone:  # it came alone: once may be bad luck
            yield from self._answers(batch, is_alone=True)
        else:
            request, _, key = batch[0]
            self._suspects.append((key, request, how))
            if self._has_answered:
                self._convict()
            yield batch[0], _poison(how)

    def _convict(self) -> None:
        for suspect in self._suspects:
            self.quarantine.add(*suspect)
        self._suspects.clear()

    def _count_lost(self, how: str) -> None:
        self._n_lost += 1
        if self._n_lost > (_MOST_LOST if self._has_answered else _MOST_LOST_AT_FIRST):
            raise ModelError(
                f"model {self.model.name!r} was lost {self._n_lost} times in a row, the last time "
                f"it {how}: captions that came before are kept."
            )


def _poison(how: str) -> Answer:
    return Answer("failed", error=f"poison: the engine {how}", attempts=0)


def _with_bytes(request: Request, sent: Sequence[SentPicture]) -> Request:
    """The request as the engine's process gets it: with the pictures themselves."""
    from base64 import b64decode

    pictures = iter(sent)

    def part(own: Any) -> Any:
        return Picture(b64decode(next(pictures).base64)) if isinstance(own, Picture) else own

    messages = tuple(
        Message(message.role, tuple(part(own) for own in message.parts))
        for message in request.messages
    )
    return Request(request.id, messages, request.settings, request.repeat)


# --- models of transformers ---


def isolated(model: LocalModel, precision: str, batch_size: int | None = None) -> OfflineModel:
    """A local model in a process of its own; its weights are read there alone."""
    arguments = (model.name, str(model.engine.device), precision)
    return OfflineModel(
        model.name, model.id, hf_engine, arguments, model.address, model.max_tokens,
        model.picture_limits, batch_size=batch_size or model.engine.batch_size,
    )  # fmt: skip


def hf_engine(name: str, device: str, precision: str) -> HfEngine:
    """Called in the engine's own process; the files are here already."""
    from fieldmark.chat import local_model

    return HfEngine(local_model(name, device, precision, offline=True))


class HfEngine:
    def __init__(self, model: LocalModel) -> None:
        self._model = model

    def answer_batch(self, requests: Sequence[Request], tell: Callable[[], None]) -> list[Answer]:
        answers: dict[tuple[str, int], Answer] = {}

        def keep(request: Request, answer: Answer) -> None:
            answers[request.id, request.repeat] = answer
            tell()

        self._model.ask_all(requests, keep)
        return [answers[request.id, request.repeat] for request in requests]
