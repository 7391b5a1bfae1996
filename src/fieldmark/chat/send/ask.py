"""Asking many questions: `ask_all` in an event loop, `ask_now` or `ModelConnection` without."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from fieldmark.chat.budget import Budget
from fieldmark.chat.journal import Journal
from fieldmark.chat.messages import Answer, Request
from fieldmark.chat.send.options import DEFAULT, AskTotals, OnAnswer, Options, ignore
from fieldmark.chat.send.sender import Requests, Sender

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel

Steps = Generator[None, None, AskTotals]


async def ask_all(
    requests: Requests,
    model: ChatModel,
    options: Options = DEFAULT,
    journal: Journal | None = None,
    budget: Budget | None = None,
    on_answer: OnAnswer = ignore,
) -> AskTotals:
    """Asks every request and calls `on_answer(request, answer)` as answers come, in no order.

    Answers in the journal are given without asking. Raises `ModelError` when asking on is useless
    (wrong key, unknown model, too many failures); the journal keeps what came before.
    """
    async with Sender(model, options, journal, budget) as sender:
        return await sender.ask_all(requests, on_answer)


def ask_now(
    requests: Requests,
    model: ChatModel,
    options: Options = DEFAULT,
    journal: Journal | None = None,
    budget: Budget | None = None,
    on_answer: OnAnswer = ignore,
) -> AskTotals:
    """`ask_all` for code without an event loop; `on_answer` is called in the caller's thread."""
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
        journal: Journal | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._parts = (model, options, journal, budget)
        self._loop: _OwnLoop | _ThreadLoop = _ThreadLoop() if _is_in_loop() else _OwnLoop()
        self._sender: Sender | None = None

    def __enter__(self) -> ModelConnection:
        self._loop.open()
        try:
            self._sender = _sender_class(self._parts[1])(*self._parts)
            self._loop.run(self._sender.__aenter__())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._loop.run(self.sender.__aexit__())
        finally:
            self._loop.close()

    @property
    def sender(self) -> Sender:
        assert self._sender is not None, "a connection is opened with `with`"
        return self._sender

    def ask_all(self, requests: Requests, on_answer: OnAnswer) -> AskTotals:
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

    def steps(self, requests: Requests, on_answer: Callable[[Request, Answer], bool]) -> Steps:
        """`ask_all` that pauses each time `on_answer` returns True: then the caller has something
        to do, in its own thread. Nothing is sent or received meanwhile; the tally is returned.
        """
        return self._loop.steps(self.sender, requests, on_answer)


def _sender_class(options: Options) -> type[Sender]:
    if not options.batch:
        return Sender
    from fieldmark.chat.batch.sender import BatchSender

    return BatchSender


class _OwnLoop:
    """A loop in this thread."""

    def open(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Any) -> Any:
        return self._runner.run(_awaited(work))

    def steps(
        self, sender: Sender, requests: Requests, on_answer: Callable[[Request, Answer], bool]
    ) -> Steps:
        """The loop stands still between steps; what comes in meanwhile waits in its sockets."""
        pause = asyncio.Event()

        def hear(request: Request, answer: Answer) -> None:
            if on_answer(request, answer):
                pause.set()

        async def begin() -> asyncio.Task[AskTotals]:
            return asyncio.create_task(sender.ask_all(requests, hear))

        work: asyncio.Task[AskTotals] = self.run(begin())
        try:
            while not work.done():
                self.run(_until(pause, work))
                yield
        finally:
            if not work.done():
                work.cancel()
                self.run(asyncio.wait({work}))
        return work.result()

    def close(self) -> None:
        self._runner.close()


class _ThreadLoop:
    """A loop in another thread, for notebooks, whose own thread runs one already.

    Answers travel back through a queue, so that `on_answer` may touch what belongs to the caller's
    thread (SQLite connections do).
    """

    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop).result()

    def steps(
        self, sender: Sender, requests: Requests, on_answer: Callable[[Request, Answer], bool]
    ) -> Steps:
        arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        work = sender.ask_all(requests, lambda *pair: arrived.put(pair))
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(lambda _: arrived.put(None))
        try:
            while (pair := arrived.get()) is not None:
                if on_answer(*pair):
                    yield
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _awaited(work: Any) -> Any:
    return await work


async def _until(pause: asyncio.Event, work: asyncio.Task[AskTotals]) -> None:
    """Until there is something to do for the caller, or nothing more to come."""
    waiting = asyncio.create_task(pause.wait())
    try:
        await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        pause.clear()


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
