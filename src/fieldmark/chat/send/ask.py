"""Asking many questions: `ask_now` for one list, `ModelConnection` for several.

The event loop runs in a thread of its own, so that code with a loop (a notebook) and code without
ask in the same way. Requests are drawn and answers are delivered in the caller's thread: both may
touch what belongs to it (SQLite connections do) and each other.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fieldmark.chat.budget import Budget
from fieldmark.chat.journal import AnswerJournal
from fieldmark.chat.messages import Answer, Request
from fieldmark.chat.send.options import DEFAULT, AskTotals, OnAnswer, Options, ignore
from fieldmark.chat.send.sender import Sender

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel

Steps = Generator[None, None, AskTotals]
_SOON_S = 0.01
"""how long a sender waits before it asks again for a request that is not there yet"""
_AT_ONCE = 8
"""requests that are drawn together: each change of threads costs some 0.05 ms"""


def ask_now(
    requests: Iterable[Request],
    model: ChatModel,
    options: Options = DEFAULT,
    journal: AnswerJournal | None = None,
    budget: Budget | None = None,
    on_answer: OnAnswer = ignore,
) -> AskTotals:
    """Asks every request and calls `on_answer(request, answer)` as answers come, in no order.

    Answers in the journal are given without asking. Raises `ModelError` when asking on is useless
    (wrong key, unknown model, too many failures); the journal keeps what came before.
    """
    with ModelConnection(model, options, journal, budget) as connection:
        return connection.ask_all(requests, on_answer)


class ModelConnection:
    """A sender held open over several calls: connections, limits and token counts last.

    with ModelConnection(chat_model("chat/mock/wren")) as connection:
        connection.ask_all(requests, on_answer)
    """

    def __init__(
        self,
        model: ChatModel,
        options: Options = DEFAULT,
        journal: AnswerJournal | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._parts = (model, options, journal, budget)
        self._sender: Sender | None = None

    def __enter__(self) -> ModelConnection:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._sender = _sender_class(self._parts[1])(*self._parts)
            self._run(self._sender.__aenter__())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._run(self.sender.__aexit__())
        finally:
            self._close()

    @property
    def sender(self) -> Sender:
        assert self._sender is not None, "a connection is opened with `with`"
        return self._sender

    def ask_all(self, requests: Iterable[Request], on_answer: OnAnswer) -> AskTotals:
        """As `ask_now`."""

        def keep(request: Request, answer: Answer) -> bool:
            on_answer(request, answer)
            return False

        steps = self.steps(requests, keep)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                totals: AskTotals = end.value
                return totals

    def steps(
        self,
        requests: Iterable[Request | None],
        on_answer: Callable[[Request, Answer], bool],
    ) -> Steps:
        """`ask_all` that pauses each time `on_answer` returns True: then the caller has something
        to do. What is in flight goes on meanwhile, and nothing new is sent; the tally is returned.

        `requests` may give None where there is no request just now; it is asked again.
        """
        events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        source, answered = iter(requests), list[tuple[Request, Answer]]()

        def hand_over() -> None:
            events.put(answered.copy())
            answered.clear()

        def note(request: Request, answer: Answer) -> None:
            if not answered:  # with all that come in the same turn of the loop
                self._loop.call_soon(hand_over)
            answered.append((request, answer))

        async def begin() -> asyncio.Task[AskTotals]:
            task = asyncio.create_task(self.sender.ask_all(_drawn(events), note))
            # After a `hand_over` that was called earlier: the loop keeps the order of its calls.
            task.add_done_callback(lambda _: events.put(None))
            return task

        task: asyncio.Task[AskTotals] = self._run(begin())
        try:
            while (event := events.get()) is not None:
                if isinstance(event, asyncio.Future):
                    self._loop.call_soon_threadsafe(_give, event, *_next_of(source))
                    continue
                for request, answer in event:
                    if on_answer(request, answer):
                        yield
        finally:
            if not task.done():
                self._loop.call_soon_threadsafe(task.cancel)
                self._run(asyncio.wait({task}))
        return task.result()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _drawn(events: queue.SimpleQueue[Any]) -> AsyncIterator[Request]:
    """The requests, which the caller's thread draws when they are needed."""
    loop, is_over = asyncio.get_running_loop(), False
    while not is_over:
        coming: asyncio.Future[tuple[list[Request | None], bool]] = loop.create_future()
        events.put(coming)
        requests, is_over = await coming
        for request in requests:
            if request is None:
                await asyncio.sleep(_SOON_S)
            else:
                yield request


def _next_of(source: Iterator[Request | None]) -> tuple[Any, BaseException | None]:
    """The next requests and whether they were the last; or what went wrong."""
    requests: list[Request | None] = []
    try:
        for request in source:
            requests.append(request)
            if request is None or len(requests) == _AT_ONCE:
                return (requests, False), None
    except Exception as error:  # noqa: BLE001 - the sender raises it when all in flight has ended
        return None, error
    return (requests, True), None


def _give(coming: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if coming.done():  # the sender has stopped meanwhile
        return
    if error is None:
        coming.set_result(value)
    else:
        coming.set_exception(error)


def _sender_class(options: Options) -> type[Sender]:
    if not options.batch:
        return Sender
    from fieldmark.chat.batch.sender import BatchSender

    return BatchSender
