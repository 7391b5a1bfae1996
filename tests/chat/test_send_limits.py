"""Replies that have no end, or hold what they must not, and servers that ask for a pause."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fieldmark.chat import Answer, AnswerJournal, MockServer, chat_model
from fieldmark.chat.send import http_client
from fieldmark.chat.send.retry import judge_reply
from kit.chat import FAST, ask_about, ask_all, collect

SECRET = "sk-abcdef0123456789abcdef"


class Odd(MockServer):
    """Answers some questions in another way; counts what it is asked."""

    n = 0

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        self.n += 1
        odd = await self.odd(request, data)
        return await super()._answer(request, data) if odd is None else odd

    async def odd(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse | None:
        return None


class Endless(Odd):
    async def odd(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse | None:
        if b"Question 1?" not in data:
            return None
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * (1 << 16))


class Bomb(Odd):
    async def odd(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse | None:
        if b"Question 1?" not in data:
            return None
        packed = gzip.compress(b" " * (1 << 24), 9)
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})


class Overloaded(Odd):
    """Every other request gets this status, and is told when to come back."""

    status = 503

    async def odd(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse | None:
        if self.n % 2:
            return None
        return web.Response(status=self.status, headers={"Retry-After": "0.01"}, text="busy")


class Busy(Odd):
    """Takes two at a time."""

    in_flight = 0

    async def odd(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse | None:
        if self.in_flight >= 2:
            return web.Response(status=529, headers={"Retry-After": "0.05"}, text="busy")
        self.in_flight += 1
        await asyncio.sleep(0.02)
        self.in_flight -= 1
        return None


def asked(server: MockServer, n: int, journal: AnswerJournal | None = None, **how: Any) -> Any:
    """The answers, and the tally."""
    found: dict[str, Answer] = {}

    async def work() -> Any:
        name = f"chat/custom/m?base_url={await server.start()}"
        try:
            requests = [ask_about(number) for number in range(n)]
            options = dataclasses.replace(FAST, **how)
            return await ask_all(requests, chat_model(name), options, journal, None, collect(found))
        finally:
            await server.stop()

    return found, asyncio.run(work())


@pytest.mark.parametrize("server", [Endless, Bomb])
def test_a_reply_that_is_too_large_is_one_failed_item(
    server: type[MockServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MOST_REPLY_BYTES", 1_000_000)
    found, tally = asked(server(), 4)
    assert tally.outcomes == {"ok": 3, "failed": 1}
    assert found["item-1"].error == "a reply of more than 1 MB"
    assert found["item-1"].attempts == 1, "the next would be as large"


def test_an_overloaded_server_that_names_a_pause_uses_up_no_try() -> None:
    found, tally = asked(Overloaded(), 30, concurrency=1, max_attempts=1)
    assert {answer.outcome for answer in found.values()} == {"ok"}
    assert tally.n_rate_limited == 29


def test_an_overloaded_server_slows_the_line() -> None:
    """60 answers took 161 requests."""
    server = Busy()
    found, _ = asked(server, 60)
    assert len(found) == 60 and server.n < 100


@pytest.mark.parametrize(("code", "is_rate"), [(429, True), (503, True), (529, True), (500, False)])
def test_a_pause_that_is_named_is_about_rates(code: int, is_rate: bool) -> None:
    assert judge_reply(code, {"Retry-After": "3"}, b"busy").is_rate == is_rate
    assert judge_reply(code, {}, b"busy").is_rate == (code == 429)


def test_a_key_that_an_answer_quotes_is_in_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Telltale(MockServer):
        def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
            message = {"content": f"Your key is {SECRET}.", "reasoning_content": SECRET}
            return {"choices": [{"message": message, "finish_reason": "stop"}], "model": SECRET}

    monkeypatch.setenv("CHAT_API_KEY", SECRET)
    with AnswerJournal(tmp_path) as journal:
        found, _ = asked(Telltale(), 1, journal)
    assert found["item-0"].text == "Your key is ***."
    (path,) = tmp_path.glob("*.jsonl")
    assert SECRET not in path.read_text() and "Your key is ***." in path.read_text()
