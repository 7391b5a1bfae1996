"""Sender: asks many requests concurrently, within every limit, without losing one answer.

A `Sender` holds what lasts: connections, concurrency, rate limiters, token counts, budget and
journal. `Dispatch` is one call of it: requests are drawn one by one into a bounded window; images
are read and encoded inside it, so memory does not grow with their number. Inside: journal first,
then a place among those in flight, then the rate limiters, then the budget, then the HTTP client.
An answer is journalled before anyone sees it. What went wrong and whether to ask again is for
`retry` to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fieldmark.chat.budget import Budget, Cost
from fieldmark.chat.journal import AnswerJournal, Ledger, request_key
from fieldmark.chat.messages import Answer, Request
from fieldmark.chat.send.http_client import HttpClient
from fieldmark.chat.send.options import (
    FEW,
    AskTotals,
    OnAnswer,
    Options,
    is_local,
)
from fieldmark.chat.send.pictures import PictureCache, PicturePreparer, SentPicture
from fieldmark.chat.send.rate_limiter import (
    START,
    START_LOCAL,
    AdaptiveConcurrency,
    TokenBucket,
)
from fieldmark.chat.send.retry import Fault, backoff_s
from fieldmark.errors import BatchPending, DataError, UsageError
from fieldmark.progress import duration

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel

_WINDOW = 16
"""requests beyond the most in flight that may be prepared ahead"""


INTERRUPTED = "interrupted"
UNTRIED = 4
"""most requests in flight under a cap before the first answer tells what one costs"""


class Dispatch:
    """One call of `ask_all`."""

    def __init__(self, sender: Sender, on_answer: OnAnswer) -> None:
        self.sender, self.ledger = sender, Ledger(sender, on_answer)
        self.tally = self.ledger.tally
        self.error: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: set[asyncio.Task[Any]] = set()
        self._window = asyncio.Semaphore(sender.concurrency.most + _WINDOW)
        self._asking: dict[str, asyncio.Future[None]] = {}
        self._charged = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        return self.error is not None or bool(self.tally.stopped)

    async def ask_all(self, requests: AsyncIterator[Request]) -> AskTotals:
        try:
            await self.feed(requests)
        finally:
            await self.finish()
        if not self.is_stopping and (reason := self.ledger.why_unanswered()):
            self._give_up_run(reason)
        if self.error is not None:
            raise self.error
        self.ledger.release()
        return self.tally

    async def feed(self, requests: AsyncIterator[Request]) -> None:
        while not self.is_stopping:
            await self._window.acquire()
            request = None if self.is_stopping else await anext(requests, None)
            if request is None:
                self._window.release()
                return
            task = asyncio.create_task(self._process(request))
            self._tasks.add(task)
            task.add_done_callback(self._task_done)

    async def finish(self) -> None:
        """Waits for what is in flight, as it is paid for. A run that is cancelled sends nothing
        more; cancelled once more, it gives up what is in flight.
        """
        current = asyncio.current_task()
        is_cancelled = current is not None and current.cancelling() > 0
        if is_cancelled:
            self.stop(None, INTERRUPTED)
        while self._tasks:
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError:
                if is_cancelled:
                    for task in self._tasks:
                        task.cancel()
                is_cancelled = True
                self.stop(None, INTERRUPTED)
        self.tally.peak_in_flight = self.sender.concurrency.peak
        if is_cancelled:
            raise asyncio.CancelledError

    def stop(self, error: BaseException | None, reason: str) -> None:
        """No new request, no new attempt; what is on the wire may still bring its answer."""
        if not self.is_stopping:
            self.error, self.tally.stopped = error, reason
            for task in self._idle:
                task.cancel()

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._window.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error, str(error))

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """A stretch in which stopping may end a request: nothing of it is on the wire."""
        task = asyncio.current_task()
        assert task is not None
        if self.is_stopping:
            raise asyncio.CancelledError
        self._idle.add(task)
        try:
            yield
        finally:
            self._idle.discard(task)

    async def _process(self, request: Request) -> None:
        if request.continuations:
            raise UsageError(
                f"model {self.sender.model.name!r} gives no likelihoods of given answers: "
                "expected a request without continuations."
            )
        request = request.with_settings(self.sender.model.settings(request.settings))
        try:
            with self._interruptible():
                pictures = await self.sender.preparer.all(request.pictures)
        except DataError as error:
            self._deliver(request, Answer("failed", error=str(error), attempts=0))
            return
        if reason := self._picture_error(pictures):
            self._deliver(request, Answer("failed", error=reason, attempts=0))
            return
        key = request_key(request, pictures, self.sender.model.address)
        with self._interruptible():
            while key in self._asking:  # the same question twice: the second reads the journal
                await asyncio.shield(self._asking[key])
        if (kept := self.ledger.find(key, request)) is not None:
            self._deliver(request, kept)
        else:
            await self._ask(request, pictures, key)

    def _picture_error(self, pictures: Sequence[SentPicture]) -> str:
        """Why the endpoint would refuse these pictures; asking would only cost."""
        model, total = self.sender.model, sum(len(picture.base64) for picture in pictures)
        most, most_bytes = model.limit("max_images"), model.limit("max_request_bytes")
        if pictures and not model.card.sees:
            raise UsageError(f"model {model.name!r} cannot see images: choose one that can.")
        if most is not None and len(pictures) > most:
            return f"{len(pictures)} pictures, but the endpoint takes at most {most}"
        if most_bytes is not None and total > most_bytes:
            return f"{total:,} bytes of pictures, but the endpoint takes at most {most_bytes:,}"
        return ""

    async def _ask(self, request: Request, pictures: Sequence[SentPicture], key: str) -> None:
        journal = self.sender.journal
        if journal is not None and (batch := journal.waiting.get(key)):
            raise BatchPending(
                f"model {self.sender.model.name!r}: question {request.id!r} waits in {batch}. Run "
                "the same command with --batch to fetch the answer, or to see how far it is."
            )
        # No await since the journal was asked, so no second question of this key came between.
        done = asyncio.get_running_loop().create_future()
        self._asking[key] = done
        guess = self.sender.estimator.guess(request, pictures)
        try:
            answer = await self._retry(request, pictures, key, guess)
            self.ledger.keep(key, request, answer)
        finally:
            del self._asking[key]
            done.set_result(None)
        self._deliver(request, answer)

    async def _reserve(self, request: Request, guess: int) -> int:
        """Promises what the request will cost; ends the run when that can no longer fit."""
        budget, estimator = self.sender.budget, self.sender.estimator

        def cost_now() -> Cost:
            return estimator.cost(request.settings, guess)

        def must_wait() -> bool:
            is_many = budget.n_reserved >= UNTRIED and estimator.is_untried
            return (budget.is_capped and is_many) or not budget.fits(cost_now())

        # What is in flight may turn out cheaper than promised: the run ends only when nothing is.
        while must_wait():
            if not budget.n_reserved:
                self.stop(None, budget.refusal(cost_now()))
                raise asyncio.CancelledError
            self._charged.clear()
            with self._interruptible():
                await self._charged.wait()
        return budget.reserve(cost_now)

    def _charge(self, number: int, result: Answer | Fault | None) -> None:
        """None: given up while it was in flight."""
        may_be_charged = result is None or (isinstance(result, Fault) and result.may_be_charged)
        answer = result if isinstance(result, Answer) else None
        late = self.sender.budget.charge(number, answer, may_be_charged)
        if late is not None and self.sender.journal is not None:
            self.sender.journal.add_late(late)
        self._charged.set()

    async def _retry(
        self, request: Request, pictures: Sequence[SentPicture], key: str, guess: int
    ) -> Answer:
        """Tries until there is an answer, or until trying again is no use."""
        options, began = self.sender.options, self.sender.options.clock.now()
        attempt = other_faults = 0
        while True:
            attempt += 1
            result = await self._attempt(request, pictures, guess, key, attempt)
            if isinstance(result, Answer):
                return result
            other_faults += not (result.is_rate or result.is_mended)
            wait_s = backoff_s(key, attempt, options.backoff_s, options.backoff_cap_s)
            wait_s = max(wait_s, result.wait_s or 0.0)
            spent_s = options.clock.now() - began
            is_over = result.is_rate and spent_s + wait_s > options.patience_s
            is_over = is_over or other_faults >= self._most_tries(result)
            if result.verdict != "again" or self._nobody_answers(result) or is_over:
                return self._give_up(result, attempt, key)
            with self._interruptible():
                await options.clock.sleep(wait_s)

    def _nobody_answers(self, fault: Fault) -> bool:
        """Ends the run where one fault follows another and nothing was ever answered."""
        sender = self.sender
        is_nobody = fault.code is None or not self.tally.n_replayed
        if sender.has_answered or not is_nobody or fault.is_rate or fault.is_mended:
            return False
        sender.n_faults += 1 if fault.is_lasting else 0.25
        if sender.n_faults < 2 * FEW:
            return False
        self._give_up_run(fault.text[:1].upper() + fault.text[1:])
        return True

    def _most_tries(self, fault: Fault) -> int:
        """Fewer where one question alone is too slow, or a server of the user's own has gone."""
        is_alone_late = fault.is_late and self.sender.concurrency.limit == 1
        is_gone = fault.is_unreachable and is_local(self.sender.model.base_url)
        most = self.sender.options.max_attempts
        return min(most, FEW) if is_alone_late or is_gone else most

    async def _attempt(
        self,
        request: Request,
        pictures: Sequence[SentPicture],
        guess: int,
        key: str,
        attempt: int,
    ) -> Answer | Fault:
        sender, concurrency = self.sender, self.sender.concurrency
        with self._interruptible():
            episode = await concurrency.enter(is_again=attempt > 1)
        result: Answer | Fault | None = None
        try:
            tokens = sender.estimator.tokens_in(guess)
            tokens += sender.estimator.likely_out(request.settings)
            with self._interruptible():
                await sender.tpm.take(tokens)
                await sender.rpm.take()
            promise = await self._reserve(request, guess)
            try:
                self.tally.n_attempts += 1
                result = await sender.client.send(
                    request, pictures, key=key, attempts=attempt, resized=resize_notes(pictures)
                )
                if isinstance(result, Answer):
                    sender.estimator.learn(guess, result)
            finally:
                self._charge(promise, result)
        finally:
            concurrency.leave()
        if isinstance(result, Answer):
            sender.has_answered = True
            concurrency.succeeded(episode, result.latency_s)
            if result.usage is not None:
                sender.tpm.charge(result.usage.total - tokens)
        elif result.is_rate:
            self.tally.n_rate_limited += 1
            result = self._stop_on_long_wait(result)
            concurrency.refused(episode, result.wait_s)
        elif result.is_late:
            concurrency.came_late(episode)
        else:
            concurrency.faltered()
        return result

    def _stop_on_long_wait(self, fault: Fault) -> Fault:
        """A server that asks for hours (a daily quota) ends the run: waiting would look hung."""
        if (fault.wait_s or 0.0) <= self.sender.options.patience_s:
            return fault
        text = f"{fault.text}; it asks to wait {duration(fault.wait_s or 0.0)}"
        return Fault("stop", text, fault.code)

    def _give_up(self, fault: Fault, attempts: int, key: str) -> Answer:
        """The end of a request without a reply."""
        if fault.verdict == "refused":
            return Answer(
                "refused", finish_reason="content_filter", error=fault.text, attempts=attempts,
                key=key, usd=0.0,
            )  # fmt: skip
        if fault.verdict == "stop":
            note = f". {self.sender.model.key_note()}" if fault.code == 401 else ""
            self._give_up_run(f"{fault.text.rstrip('.')}{note}")
        return Answer("failed", error=fault.text, attempts=attempts, key=key)

    def _deliver(self, request: Request, answer: Answer) -> None:
        if reason := self.ledger.deliver(request, answer):
            self._give_up_run(reason)

    def _give_up_run(self, reason: str) -> None:
        self.stop(self.ledger.closing_line(reason), reason)


def resize_notes(pictures: Sequence[SentPicture]) -> tuple[str, ...]:
    return tuple(f"{picture.sha256[:16]} {picture.note}" for picture in pictures if picture.note)


class Sender:
    """An open connection to one model; what it learnt (limits, tokens) lasts over several runs."""

    def __init__(
        self, model: ChatModel, options: Options, journal: AnswerJournal | None, budget: Budget
    ) -> None:
        self.model, self.options, self.journal = model, options, journal
        self.budget = budget
        budget.check(model.card)
        self.estimator = budget.estimator(model.card)
        self.renewed: set[str] = set()
        self.has_answered = False
        self.n_faults = 0.0
        """before that; one of a server that is overloaded counts a quarter"""
        # A number that the user gave is where to begin, and the most; local servers begin low.
        most = options.concurrency or options.max_concurrency
        start = START_LOCAL if is_local(model.base_url) and not model.is_mock else START
        start = options.concurrency or start
        self.concurrency = AdaptiveConcurrency(options.clock, most, start, options.timeout_s)
        self.rpm = TokenBucket(options.rpm, options.clock, "requests")
        self.tpm = TokenBucket(options.tpm, options.clock, "tokens")
        self.client = HttpClient(model, options, self._heed)
        shelf = options.pictures or PictureCache(model.picture_limits)
        self.preparer = PicturePreparer(shelf)

    async def __aenter__(self) -> Sender:
        await self.client.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        self.preparer.close()
        if self.journal is not None:
            self.journal.sync()

    def _heed(self, headers: Mapping[str, str]) -> None:
        self.concurrency.heed(headers, self.estimator.usual_tokens)

    async def ask_all(self, requests: AsyncIterator[Request], on_answer: OnAnswer) -> AskTotals:
        """Asks everything and calls `on_answer` for each as it comes, in no order.

        Returns when all have an outcome or a cap was reached (`AskTotals.stopped`); raises
        `ModelError` when asking on is useless. Answers that came before are kept in either case.
        """
        return await Dispatch(self, on_answer).ask_all(requests)
