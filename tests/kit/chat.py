"""For tests of chat: a camera, a server that runs beside a test, a clock that needs no time."""

from __future__ import annotations

import asyncio
import heapq
import io
import json
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from PIL import Image

from fieldmark.chat import (
    Answer,
    AnswerJournal,
    Budget,
    ChatModel,
    MockScript,
    MockServer,
    Options,
    Picture,
    Request,
    user,
)
from fieldmark.chat.send.options import AskTotals, Clock
from fieldmark.chat.send.sender import Sender
from fieldmark.draws import generator

FAST = Options(backoff_s=0.002, backoff_cap_s=0.05, timeout_s=10)


def make_jpeg(seed: int, size: tuple[int, int] = (40, 30), **save: Any) -> bytes:
    """A photo of noise; other seeds, other bytes."""
    pixels = generator("photo", seed).integers(0, 255, (size[1], size[0], 3), dtype="uint8")
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "JPEG", **save)
    return target.getvalue()


def make_jpegs(n: int) -> list[bytes]:
    """Photos that differ in their bytes only, at the price of one."""
    photo = make_jpeg(0, (8, 8))
    return [photo[:14] + (number + 1).to_bytes(4, "big") + photo[18:] for number in range(n)]


def ask_about(number: int, data: bytes | None = None) -> Request:
    parts = () if data is None else (Picture(data),)
    return Request(f"item-{number}", (user(f"Question {number}?\n- wren\n- robin", *parts),))


def collect(into: dict[str, Answer]) -> Any:
    def keep(request: Request, answer: Answer) -> None:
        assert request.id not in into, "one outcome each"
        into[request.id] = answer

    return keep


async def ask_all(
    requests: Iterable[Request] | AsyncIterator[Request],
    model: ChatModel,
    options: Options,
    journal: AnswerJournal | None = None,
    budget: Budget | None = None,
    on_answer: Any = lambda *_: None,
) -> AskTotals:
    """As `ask_now`, in the loop that a test's server and clock run in."""

    async def drawn() -> AsyncIterator[Request]:
        for request in requests:
            yield request

    async with Sender(model, options, journal, budget or Budget()) as sender:
        stream = drawn() if isinstance(requests, Iterable) else requests
        return await sender.ask_all(stream, on_answer)


class WindowPeak:
    """The most that fell into any window of so many seconds."""

    def __init__(self, window_s: float) -> None:
        self.window_s, self.most = window_s, 0
        self._window: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, now: float, n: int) -> None:
        self._window.append((now, n))
        self._sum += n
        while self._window[0][0] <= now - self.window_s:
            self._sum -= self._window.popleft()[1]
        self.most = max(self.most, self._sum)


class ServerCounts:
    """What the server saw, so that a sender's promises can be proved."""

    def __init__(self) -> None:
        self.in_flight = self.max_in_flight = self.n_requests = self.n_tokens = 0
        self.faults: Counter[str] = Counter()
        self.per_second, self.per_minute = WindowPeak(1.0), WindowPeak(60.0)
        self.tokens_per_minute = WindowPeak(60.0)

    @contextmanager
    def flight(self) -> Iterator[None]:
        self.n_requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        now = time.monotonic()
        self.per_second.add(now, 1)
        self.per_minute.add(now, 1)
        try:
            yield
        finally:
            self.in_flight -= 1

    def spend(self, tokens: int) -> None:
        self.n_tokens += tokens
        self.tokens_per_minute.add(time.monotonic(), tokens)

    def facts(self) -> dict[str, Any]:
        return {
            "n_requests": self.n_requests,
            "max_in_flight": self.max_in_flight,
            "max_per_second": self.per_second.most,
            "max_per_minute": self.per_minute.most,
            "max_tokens_per_minute": self.tokens_per_minute.most,
            "n_tokens": self.n_tokens,
            "faults": dict(self.faults),
        }


class CountingServer(MockServer):
    """Counts on its side what the sender promises, and keeps bodies where a test wants them."""

    def __init__(
        self, script: MockScript | None = None, labels: Any = None, answers: Any = None
    ) -> None:
        super().__init__(script, labels, answers)
        self.counts, self.keeps_bodies = ServerCounts(), False
        self.bodies: list[dict[str, Any]] = []
        """every body that came, in order; only where it keeps them"""
        self.answered: Counter[str] = Counter()
        """body → how many paid answers left"""

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        with self.counts.flight():
            if self.keeps_bodies:
                self.bodies.append(json.loads(data))
            return await super()._answer(request, data)

    def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
        made = super().reply(data, digest)
        if digest:
            self.answered[digest] += 1
        return made

    def _tokens(self, *parts: Any) -> dict[str, int]:
        tokens = super()._tokens(*parts)
        self.counts.spend(tokens["total_tokens"])
        return tokens

    def _fail(self, request: web.BaseRequest, fault: str) -> web.Response:
        self.counts.faults[fault.replace("_", " ")] += 1
        return super()._fail(request, fault)

    def stats(self) -> dict[str, Any]:
        return {
            **self.counts.facts(),
            "n_distinct": len(self.asked),
            "n_answered": self.answered.total(),
            "n_answered_twice": sum(n - 1 for n in self.answered.values()),
        }


def with_server(
    script: MockScript,
    work: Callable[[CountingServer, str], Awaitable[Any]],
    labels: Any = None,
    answers: Any = None,
) -> Any:
    """Runs `work(server, model name)` beside a server that is gone afterwards."""

    async def both() -> Any:
        server = CountingServer(script, labels, answers)
        server.is_recording = True
        url = await server.start()
        try:
            return await work(server, f"chat/mock/wren?base_url={url}")
        finally:
            await server.stop()

    return asyncio.run(both())


class FakeTime:
    """Time that jumps to the next sleeper whenever nothing else can run."""

    def __init__(self) -> None:
        self.t = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._n = 0
        self.clock = Clock(now=lambda: self.t, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._n += 1
        heapq.heappush(self._sleepers, (self.t + seconds, self._n, waiting))
        await waiting

    async def run(self, *work: Awaitable[Any]) -> list[Any]:
        done = asyncio.ensure_future(asyncio.gather(*work))
        while not done.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if self._sleepers and not done.done():
                self.t, _, waiting = heapq.heappop(self._sleepers)
                if not waiting.done():
                    waiting.set_result(None)
        return await done


@contextmanager
def running(server: MockServer) -> Iterator[str]:
    """The server in a thread of its own; gives its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
