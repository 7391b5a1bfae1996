"""What becomes of each request of a run?

Requests are drawn one by one into a bounded window; images are read and encoded inside it, so
memory does not grow with their number. Inside: journal first, then budget, then a slot, then the
rate buckets, then the wire. An answer is journalled before anyone sees it. What went wrong and
whether to ask again is `_faults`' judgement.


How are many questions asked fast, within every limit, without losing one answer?

A `Sender` holds what lasts: connections, slots, rate buckets, token counts, budget and journal.
What becomes of each request of a run is decided in `_asking`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any

from fieldmark.chat.budget import Budget, Cost, Estimator
from fieldmark.chat.journal import Journal, request_key
from fieldmark.chat.messages import Answer, Request
from fieldmark.chat.send.endpoint import ChatModel
from fieldmark.chat.send.http_client import Wire
from fieldmark.chat.send.options import DEFAULT, OnAnswer, Options, Tally
from fieldmark.chat.send.pictures import Preparer, SentPicture
from fieldmark.chat.send.rate_limiter import Bucket, Slots
from fieldmark.chat.send.retry import Fault, backoff_s
from fieldmark.errors import DataError, ModelError, UsageError
from fieldmark.progress import duration

Requests = Iterable[Request] | AsyncIterable[Request]
_WINDOW = 16
"""requests beyond the most in flight that may be prepared ahead"""


class Run:
    """One call of `ask_all`."""

    def __init__(self, sender: Sender, on_answer: OnAnswer) -> None:
        self.sender, self.on_answer = sender, on_answer
        self.tally = Tally()
        self.error: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: set[asyncio.Task[Any]] = set()
        self._window = asyncio.Semaphore(sender.slots.most + _WINDOW)
        self._asking: dict[str, asyncio.Future[None]] = {}
        self._n_reserved = 0
        self._settled = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        return self.error is not None or bool(self.tally.stopped)

    async def feed(self, requests: Requests) -> None:
        stream = _stream(requests)
        while not self.is_stopping:
            await self._window.acquire()
            request = None if self.is_stopping else await anext(stream, None)
            if request is None:
                self._window.release()
                return
            task = asyncio.create_task(self._one(request))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def finish(self) -> None:
        """Waits for what is in flight; on the way out of a cancelled run, ends it."""
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            for task in self._tasks:
                task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self.tally.peak_in_flight = self.sender.slots.peak

    def stop(self, error: BaseException | None, reason: str) -> None:
        """No new request, no new attempt; what is on the wire may still bring its answer."""
        if not self.is_stopping:
            self.error, self.tally.stopped = error, reason
            for task in self._idle:
                task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._window.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error, str(error))

    def _waiting(self) -> _Waiting:
        return _Waiting(self)

    async def _one(self, request: Request) -> None:
        if request.continuations:
            raise UsageError(
                f"model {self.sender.model.name!r} does not tell how likely given answers are: "
                "expected a request without continuations."
            )
        if self.sender.model.max_tokens is not None:
            settings = self.sender.model.settings(request.settings)
            request = dataclasses.replace(request, settings=settings)
        try:
            with self._waiting():
                pictures = await self.sender.preparer.all(request.pictures)
        except DataError as error:
            self._give(request, Answer("failed", error=str(error), attempts=0))
            return
        if misfit := self._misfit(pictures):
            self._give(request, Answer("failed", error=misfit, attempts=0))
            return
        key = request_key(request, pictures, self.sender.model.address)
        with self._waiting():
            while key in self._asking:  # the same question twice: the second reads the journal
                await asyncio.shield(self._asking[key])
        if not self._replay(request, key):
            await self._ask(request, pictures, key)

    def _misfit(self, pictures: Sequence[SentPicture]) -> str:
        """Why the endpoint would refuse these pictures; asking would only cost."""
        model, total = self.sender.model, sum(len(each.base64) for each in pictures)
        most, most_bytes = model.limit("max_images"), model.limit("max_request_bytes")
        if pictures and not model.card.sees:
            raise UsageError(f"model {model.name!r} takes no images: choose one that sees.")
        if most is not None and len(pictures) > most:
            return f"{len(pictures)} pictures, the endpoint takes {most}"
        if most_bytes is not None and total > most_bytes:
            return f"{total:,} bytes of pictures, the endpoint takes {most_bytes:,} a request"
        return ""

    def _replay(self, request: Request, key: str) -> bool:
        journal = self.sender.journal
        kept = journal.get(key) if journal is not None else None
        if kept is not None:
            self._give(request, kept)
        return kept is not None

    async def _ask(self, request: Request, pictures: Sequence[SentPicture], key: str) -> None:
        done = asyncio.get_running_loop().create_future()
        self._asking[key] = done
        tokens_in = self.sender.estimator.request(request, pictures)
        cost = self.sender.estimator.cost(request, tokens_in)
        answer: Answer | None = None
        try:
            if not await self._afford(cost):
                return
            try:
                answer = await self._persist(request, pictures, key, tokens_in)
            finally:
                self._settle(cost, answer)
            self._keep(request, key, answer)
        finally:
            del self._asking[key]
            done.set_result(None)
        self._give(request, answer)

    async def _afford(self, cost: Cost) -> bool:
        """Reserves the cost; False when it can no longer fit and the run has to end."""
        budget = self.sender.budget
        while not budget.fits(cost):
            if not self._n_reserved:
                self.stop(None, f"the budget is used up ({budget.words})")
                return False
            self._settled.clear()
            with self._waiting():
                await self._settled.wait()
        budget.reserve(cost)
        self._n_reserved += 1
        return True

    def _settle(self, cost: Cost, answer: Answer | None) -> None:
        self.sender.budget.settle(cost, answer)
        self._n_reserved -= 1
        self._settled.set()

    async def _persist(
        self, request: Request, pictures: Sequence[SentPicture], key: str, tokens_in: int
    ) -> Answer:
        """Tries until there is an answer, or until trying again is no use."""
        options, began, other_faults = self.sender.options, self.sender.options.clock.now(), 0
        for attempt in range(1, 10_000):
            result = await self._attempt(request, pictures, tokens_in, key, attempt)
            if isinstance(result, Answer):
                return result
            other_faults += not result.is_rate
            wait_s = backoff_s(key, attempt, options.backoff_s, options.backoff_cap_s)
            wait_s = max(wait_s, result.wait_s or 0.0)
            spent_s = options.clock.now() - began
            is_over = result.is_rate and spent_s + wait_s > options.patience_s
            if result.verdict != "again" or is_over or other_faults >= options.max_attempts:
                return self._ruled(result, attempt, key)
            with self._waiting():
                await options.clock.sleep(wait_s)
        raise AssertionError("patience ends before ten thousand attempts")

    async def _attempt(
        self,
        request: Request,
        pictures: Sequence[SentPicture],
        tokens_in: int,
        key: str,
        attempt: int,
    ) -> Answer | Fault:
        sender, slots = self.sender, self.sender.slots
        with self._waiting():
            episode = await slots.enter(is_again=attempt > 1)
        try:
            reserved = tokens_in + sender.estimator.likely_out(request.settings)
            with self._waiting():
                await sender.tpm.take(reserved)
                await sender.rpm.take()
            self.tally.n_attempts += 1
            result = await sender.wire.send(
                request, pictures, key=key, attempts=attempt, resized=_notes(pictures)
            )
        finally:
            slots.leave()
        if isinstance(result, Answer):
            slots.succeeded()
            if result.usage is not None:
                sender.estimator.learn(tokens_in, result.usage)
                sender.tpm.charge(result.usage.total - reserved)
        elif result.is_rate:
            self.tally.n_rate_limited += 1
            result = self._bearable(result)
            slots.refused(episode, result.wait_s)
        else:
            slots.faltered()
        return result

    def _bearable(self, fault: Fault) -> Fault:
        """A server that asks for hours (a daily quota) ends the run: waiting would look hung."""
        if (fault.wait_s or 0.0) <= self.sender.options.patience_s:
            return fault
        text = f"{fault.text}; it asks to wait {duration(fault.wait_s or 0.0)}"
        return Fault("stop", text, fault.code)

    def _ruled(self, fault: Fault, attempts: int, key: str) -> Answer:
        """The end of a request without a reply."""
        if fault.verdict == "refused":
            return Answer(
                "refused", finish_reason="content_filter", error=fault.text, attempts=attempts,
                key=key, usd=0.0,
            )  # fmt: skip
        if fault.verdict == "stop":
            self.stop(ModelError(self._told(fault.text)), fault.text)
        return Answer("failed", error=fault.text, attempts=attempts, key=key)

    def _keep(self, request: Request, key: str, answer: Answer) -> None:
        if self.sender.journal is not None and answer.is_answer:
            self.sender.journal.add(key, request, answer)

    def _give(self, request: Request, answer: Answer) -> None:
        self.tally.add(answer)
        self.on_answer(request, answer)
        options, failed = self.sender.options, self.tally.outcomes.get("failed", 0)
        in_a_row = self.tally.failures_in_a_row
        if in_a_row >= options.max_failures_in_a_row:
            text = f"{in_a_row} requests in a row failed, the last: {answer.error}"
            self.stop(ModelError(self._told(text)), text)
        elif failed > options.max_failures:
            text = f"{failed} requests failed, the last: {self.tally.last_error}"
            self.stop(ModelError(self._told(text)), text)

    def _told(self, text: str) -> str:
        kept = self.tally.n - self.tally.outcomes.get("failed", 0)
        told = f"model {self.sender.model.name!r}: {text.rstrip('.')}. "
        again = "run the same command again to go on" if self.sender.journal else "nothing is kept"
        return told + f"{kept:,} answers came before; {again}."


class _Waiting:
    """A stretch in which stopping may end a request: nothing of it is on the wire."""

    __slots__ = ("_run", "_task")

    def __init__(self, run: Run) -> None:
        self._run, self._task = run, asyncio.current_task()

    def __enter__(self) -> None:
        assert self._task is not None
        if self._run.is_stopping:
            raise asyncio.CancelledError
        self._run._idle.add(self._task)

    def __exit__(self, *_: object) -> None:
        assert self._task is not None
        self._run._idle.discard(self._task)


def _notes(pictures: Sequence[SentPicture]) -> tuple[str, ...]:
    return tuple(f"{each.sha256[:16]} {each.note}" for each in pictures if each.note)


async def _stream(requests: Requests) -> AsyncIterator[Request]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request


class Sender:
    """An open line to one model; what it learnt (limits, tokens) lasts over several runs."""

    def __init__(
        self,
        model: ChatModel,
        options: Options = DEFAULT,
        journal: Journal | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.model, self.options, self.journal = model, options, journal
        self.budget = budget or Budget()
        self.budget.check(model.card)
        self.estimator = Estimator(model.card)
        self.slots = Slots(options.clock, options.concurrency, options.max_concurrency)
        self.rpm = Bucket(options.rpm, options.clock, "requests")
        self.tpm = Bucket(options.tpm, options.clock, "tokens")
        self.wire = Wire(model, options)
        self.preparer = Preparer(model.picture_limits)

    async def __aenter__(self) -> Sender:
        await self.wire.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.wire.close()
        self.preparer.close()
        if self.journal is not None:
            self.journal.sync()

    async def ask_all(self, requests: Requests, on_answer: OnAnswer) -> Tally:
        """Asks everything and calls `on_answer` for each as it comes, in no order.

        Returns when all have an outcome or a cap was reached (`Tally.stopped`); raises `ModelError`
        when asking on is useless. Answers that came before are kept in either case.
        """
        run = Run(self, on_answer)
        try:
            await run.feed(requests)
        finally:
            await run.finish()
        if run.error is not None:
            raise run.error
        return run.tally
