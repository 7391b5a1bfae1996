"""Run of a local model: how are many questions put to it in batches, and kept?

As with a model behind an address: what the journal holds is not asked again, every answer is
written to it as its batch ends, failures are neither kept nor scored, and too many stop the run.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fieldmark.chat.budget import Budget, Cost
from fieldmark.chat.journal import AnswerJournal, Ledger, request_key
from fieldmark.chat.local.generate import GeneratedText, generate
from fieldmark.chat.local.prompt import RenderedPrompt
from fieldmark.chat.local.score import Batches, Scored, score_items
from fieldmark.chat.messages import Answer, Request, Usage
from fieldmark.chat.send.options import Options, Steps
from fieldmark.errors import DataError, UsageError
from fieldmark.files import canonical_json

if TYPE_CHECKING:
    from fieldmark.chat.local.model import LocalModel

BATCHES_AHEAD = 8
"""requests are looked at so many batches at a time, so that those of like length go together"""


@dataclass(slots=True)
class PendingQuestion:
    """A prompt and all requests that ask just it."""

    prompt: RenderedPrompt | None
    """None = nothing stands before the given continuations"""
    key: str
    requests: list[Request]

    @property
    def continuations(self) -> tuple[str, ...]:
        """What is to be scored; () = the model is to write an answer."""
        return self.requests[0].continuations

    @property
    def size(self) -> tuple[int, int]:
        return (0, 0) if self.prompt is None else self.prompt.size


class _NoneFits(Exception):
    """Nothing more may be asked."""


class LocalLine:
    """A model on this machine, asked in batches: `options.concurrency`, where set, is their size.

    A prompt that the model cannot take fails alone, and a batch that does not fit into memory is
    halved. A budget of tokens is overshot by one batch at most.
    """

    def __init__(
        self, model: LocalModel, options: Options, journal: AnswerJournal | None, budget: Budget
    ) -> None:
        if options.batch:
            raise UsageError(
                f"model {model.name!r} runs on this machine, which has no batch API: "
                "leave --batch out."
            )
        self.model, self.options, self.journal = model, options, journal
        self.budget = budget
        self.renewed: set[str] = set()
        self.has_answered = True  # it is there: what fails is the question
        size = options.concurrency or model.engine.batch_size
        self.batches = Batches(size, model.engine.device)

    def __enter__(self) -> LocalLine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def steps(
        self, requests: Iterable[Request], on_answer: Callable[[Request, Answer], bool]
    ) -> Steps:
        """As `ModelConnection.steps`; the pause comes when the batches under way have ended."""
        is_due = False

        def hear(request: Request, answer: Answer) -> None:
            nonlocal is_due
            is_due = on_answer(request, answer) or is_due

        self.ledger, coming = Ledger(self, hear), iter(requests)
        self.tally = self.ledger.tally
        try:
            while window := list(itertools.islice(coming, BATCHES_AHEAD * self.batches.size)):
                for group in [*_grouped(self._open(window)), None]:
                    if group is not None:
                        is_scored = bool(group[0].continuations)
                        (self._score_group if is_scored else self._ask_group)(group)
                    if is_due:
                        is_due = False
                        yield
        except _NoneFits as spent:
            self.tally.stopped = str(spent)
        return self.tally

    def _open(self, window: Iterable[Request]) -> list[PendingQuestion]:
        """What is left to ask after the journal; unreadable pictures and prompts fail here."""
        questions: dict[str, PendingQuestion] = {}
        for request in window:
            request = request.with_settings(self.model.settings(request.settings))
            try:
                pictures = [
                    self.model.engine.album.identify(picture) for picture in request.pictures
                ]
                is_scored = bool(request.continuations)
                render = self.model.prompt if is_scored else self.model.engine.render
                prompt = render(request.messages)
            except DataError as error:
                self._deliver(request, Answer("failed", error=str(error), attempts=0))
                continue
            key = request_key(request, pictures, self._address(request))
            if (kept := self.ledger.find(key, request)) is not None:
                self._deliver(request, kept)
            elif key in questions:
                questions[key].requests.append(request)
            else:
                questions[key] = PendingQuestion(prompt, key, [request])
        return list(questions.values())

    def _address(self, request: Request) -> dict[str, str]:
        """Where long texts are cut depends on the context."""
        is_bare = not request.messages and bool(request.continuations)
        more = {"context": str(self.model.context)} if is_bare else {}
        return {**self.model.address, **more}

    def _score_group(self, group: Sequence[PendingQuestion]) -> None:
        model = self.model
        items = [(question.prompt, question.continuations) for question in group]
        scores = score_items(model.engine, self.batches, items, model.context, self._check_budget)
        for number, scored in scores:
            self._finish(group[number], self._scored(scored))

    def _ask_group(self, group: Sequence[PendingQuestion]) -> None:
        settings, room = group[0].requests[0].settings, self.model.context

        def work(batch: Sequence[PendingQuestion]) -> list[Answer]:
            self._check_budget()
            start = time.monotonic()
            prompts = [question.prompt for question in batch if question.prompt is not None]
            seeds = [question.key for question in batch]
            written = generate(self.model.engine, prompts, settings, seeds, room)
            taken = time.monotonic() - start
            self.tally.peak_in_flight = max(self.tally.peak_in_flight, len(batch))
            return [self._answer(text, taken) for text in written]

        for question, answer in self.batches.run(group, work):
            if isinstance(answer, Exception):
                answer = Answer("failed", error=str(answer))
            self._finish(question, answer)

    def _finish(self, question: PendingQuestion, answer: Answer) -> None:
        self.tally.n_attempts += 1
        answer = dataclasses.replace(answer, key=question.key)
        self.budget.book(answer, Cost())
        request, *others = question.requests
        self.ledger.keep(question.key, request, answer)
        self._deliver(request, answer)
        for twin in others:
            self._deliver(twin, dataclasses.replace(answer, is_replayed=answer.is_answer))

    def _check_budget(self) -> None:
        if not self.budget.fits(one := Cost(tokens_in=1)):
            raise _NoneFits(self.budget.refusal(one))

    def _answer(self, written: GeneratedText, taken_s: float) -> Answer:
        return Answer(
            "ok" if written.is_ended else "length",
            text=written.text,
            finish_reason="stop" if written.is_ended else "length",
            usage=Usage(written.tokens_in, written.tokens_out),
            latency_s=taken_s,
            logprobs=written.logprobs,
            **self._known(),
        )

    def _scored(self, scored: Scored) -> Answer:
        if scored.error is not None:
            return Answer("failed", error=str(scored.error))
        return Answer(
            "ok",
            usage=Usage(scored.n_read),
            latency_s=scored.taken_s,
            likelihoods=tuple(scored.likelihoods),
            **self._known(),
        )

    def _known(self) -> dict[str, Any]:
        """What is the same for all answers of the model."""
        return {"usd": 0.0, "model": self.model.id, "fingerprint": self.model.backend}

    def _deliver(self, request: Request, answer: Answer) -> None:
        if reason := self.ledger.deliver(request, answer):
            raise self.ledger.closing_line(reason)


def _grouped(questions: Iterable[PendingQuestion]) -> Iterator[list[PendingQuestion]]:
    """Groups with the same settings, with or without pictures, the long prompts first: what does
    not fit into memory shows early.
    """
    ordered = sorted(questions, key=lambda question: (_kind(question), question.size), reverse=True)
    for _, group in itertools.groupby(ordered, key=_kind):
        yield list(group)


def _kind(question: PendingQuestion) -> tuple[str, bool]:
    if question.continuations:
        return "", False  # whatever is to be scored: the scorer puts like with like
    settings = question.requests[0].settings
    return canonical_json(settings.given()), bool(question.prompt and question.prompt.pictures)
