"""Connection to an endpoint (event loop in a thread): how does code without a loop use the sender?

The event loop runs in a thread of its own, so that code with a loop (a notebook) and code without
ask in the same way. Requests are drawn and answers are delivered in the caller's thread: both may
touch what belongs to it (SQLite connections do) and each other.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fieldmark.chat.budget import Budget
from fieldmark.chat.journal import AnswerJournal
from fieldmark.chat.messages import Answer, Request
from fieldmark.chat.send.options import AskTotals, Options, Steps
from fieldmark.chat.send.sender import Sender
from fieldmark.words import counted

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel

_AT_ONCE = 8
"""requests that are drawn together: each change of threads costs some 0.05 ms"""


class ModelConnection:
    """A sender held open over several calls: connections, limits and token counts last."""

    def __init__(
        self, model: ChatModel, options: Options, journal: AnswerJournal | None, budget: Budget
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

    def steps(
        self, requests: Iterable[Request], on_answer: Callable[[Request, Answer], bool]
    ) -> Steps:
        """Asks all, and pauses each time `on_answer` returns True. What is in flight goes on
        meanwhile, and nothing new is sent; the tally is returned.
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
                self._end(task)
        return task.result()

    def _end(self, task: asyncio.Task[AskTotals]) -> None:
        """Sends nothing more, and waits for what is in flight; Ctrl-C meanwhile gives that up."""
        model, options, _, budget = self._parts
        if budget.n_reserved:
            coming = counted(budget.n_reserved, "answer")
            options.tell(
                f"{model.name}: waiting for {coming} on the way. Press Ctrl-C again to stop "
                "without them; they may still be charged."
            )
        try:
            self._loop.call_soon_threadsafe(task.cancel)
            self._run(asyncio.wait({task}))
        finally:
            self._loop.call_soon_threadsafe(task.cancel)
            self._run(asyncio.wait({task}))

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
        coming: asyncio.Future[tuple[list[Request], bool]] = loop.create_future()
        events.put(coming)
        requests, is_over = await coming
        for request in requests:
            yield request


def _next_of(source: Iterator[Request]) -> tuple[Any, BaseException | None]:
    """The next requests and whether they were the last; or what went wrong."""
    requests: list[Request] = []
    try:
        for request in source:
            requests.append(request)
            if len(requests) == _AT_ONCE:
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
