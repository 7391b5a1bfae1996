"""How does ordinary code, without an event loop of its own, ask many questions?"""

from __future__ import annotations

import asyncio
import queue
import threading
from types import TracebackType
from typing import Any

from fieldmark.chat._budget import Budget
from fieldmark.chat._journal import Journal
from fieldmark.chat._model import ChatModel
from fieldmark.chat._options import DEFAULT, OnAnswer, Options, Tally, ignore
from fieldmark.chat._sender import Requests, Sender


async def ask_all(
    requests: Requests,
    model: ChatModel,
    options: Options = DEFAULT,
    journal: Journal | None = None,
    budget: Budget | None = None,
    on_answer: OnAnswer = ignore,
) -> Tally:
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
) -> Tally:
    """`ask_all` for code without an event loop; `on_answer` is called in the caller's thread."""
    with Line(model, options, journal, budget) as line:
        return line.ask_all(requests, on_answer)


class Line:
    """A sender held open over several calls: connections, limits and token counts last.

    with Line(chat_model("chat/mock/wren")) as line:
        line.ask_all(requests, on_answer)
    """

    def __init__(
        self,
        model: ChatModel,
        options: Options = DEFAULT,
        journal: Journal | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._parts = (model, options, journal, budget)
        self._loop: _Here | _Aside = _Aside() if _is_in_loop() else _Here()
        self._sender: Sender | None = None

    def __enter__(self) -> Line:
        self._loop.open()
        try:
            self._sender = Sender(*self._parts)
            self._loop.run(self._sender.__aenter__())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self.sender.__aexit__(kind, error, None))
        finally:
            self._loop.close()

    @property
    def sender(self) -> Sender:
        assert self._sender is not None, "a line is opened with `with`"
        return self._sender

    def ask_all(self, requests: Requests, on_answer: OnAnswer) -> Tally:
        return self._loop.ask(self.sender, requests, on_answer)


class _Here:
    """A loop in this thread."""

    def open(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Any) -> Any:
        return self._runner.run(_awaited(work))

    def ask(self, sender: Sender, requests: Requests, on_answer: OnAnswer) -> Tally:
        tally: Tally = self.run(sender.ask_all(requests, on_answer))
        return tally

    def close(self) -> None:
        self._runner.close()


class _Aside:
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

    def ask(self, sender: Sender, requests: Requests, on_answer: OnAnswer) -> Tally:
        came: queue.SimpleQueue[Any] = queue.SimpleQueue()
        work = sender.ask_all(requests, lambda *pair: came.put(pair))
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(lambda _: came.put(None))
        try:
            while (pair := came.get()) is not None:
                on_answer(*pair)
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


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
