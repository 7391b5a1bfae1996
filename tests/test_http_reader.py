"""A server cannot fill the memory, hold a reader for ever, or send it where only we can go."""

from __future__ import annotations

import asyncio
import gzip
import time
from dataclasses import replace

import aiohttp
import pytest

from fieldmark import http_reader
from fieldmark.http_reader import HttpLimits, HttpReply, RedirectRefused, ReplyTooLarge, read_reply
from kit.raw_server import OK, Script, raw_server, redirect, repeating, sending

LIMITS = HttpLimits(most_bytes=1_000_000, headers_s=0.5, idle_s=0.5, total_s=2.0, max_redirects=3)


def read(script: Script, limits: HttpLimits = LIMITS) -> HttpReply:
    with raw_server(script) as url:
        return ask(url, limits)


def ask(url: str, limits: HttpLimits = LIMITS) -> HttpReply:
    async def run() -> HttpReply:
        async with aiohttp.ClientSession() as session:
            return await read_reply(session, "GET", url, limits)

    return asyncio.run(run())


def test_a_whole_reply_is_read() -> None:
    reply = read(sending(OK, b"Content-Length: 3\r\nX-A: b\r\n\r\nabc"))
    assert (reply.status, reply.data, reply.headers["x-a"]) == (200, b"abc", "b")


def test_a_body_without_end_is_cut_at_the_limit() -> None:
    with pytest.raises(ReplyTooLarge, match="more than 1 MB"):
        read(repeating(OK + b"\r\n", b"x" * 65536))


def test_what_counts_is_the_unpacked_size() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    head = OK + f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    with pytest.raises(ReplyTooLarge):
        read(sending(head, bomb))


HEADERS = repeating(OK, b"X-A: b\r\n", 0.05)
SILENCE = repeating(OK + b"Content-Length: 9\r\n\r\n", b"", 0.05)
DRIPS = repeating(OK + b"Content-Length: 900000\r\n\r\n", b"x", 0.05)


@pytest.mark.parametrize(
    ("script", "total_s"),
    [
        pytest.param(repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), None, id="100 Continue"),
        pytest.param(HEADERS, None, id="dripped header"),
        pytest.param(SILENCE, None, id="silence"),
        pytest.param(DRIPS, 2.0, id="drip"),
    ],
)
def test_nothing_lasts_longer_than_stated(script: Script, total_s: float | None) -> None:
    limits = replace(LIMITS, total_s=total_s)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        read(script, limits)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "lines",
    [b"Content-Length: 1" + b"0" * 30, b"X: " + b"a" * 100_000, b"X: y\r\n" * 50_000],
    ids=["absurd length", "long line", "many lines"],
)
def test_headers_are_bounded(lines: bytes) -> None:
    with pytest.raises(aiohttp.ClientError):
        read(sending(OK, lines, b"\r\n\r\n", b"x"))


@pytest.mark.parametrize(
    ("to", "text"),
    [
        ("file:///etc/passwd", r"redirects to a file: address \('file:///etc/passwd'\)"),
        ("ftp://127.0.0.1/x", r"redirects to a ftp: address \('ftp://127.0.0.1/x'\)"),
        ("http://[::1", r"redirects to no address \('http://\[::1'\)"),
        ("http://", r"redirects to no address"),
        ("/", "redirects without end"),
    ],
)
def test_redirects_that_lead_nowhere_are_named(to: str, text: str) -> None:
    with pytest.raises(RedirectRefused, match=text):
        read(redirect(to))


def test_redirects_are_not_followed_unless_asked() -> None:
    assert read(redirect("file:///etc/passwd"), HttpLimits()).status == 302


@pytest.mark.parametrize(("public", "refused"), [("localhost", True), ("nowhere", False)])
def test_the_internet_cannot_send_us_to_a_private_address(
    monkeypatch: pytest.MonkeyPatch, public: str, refused: bool
) -> None:
    true_addresses = http_reader.addresses_of

    async def addresses(host: str) -> list[str]:
        return ["93.184.216.34"] if host == public else await true_addresses(host)

    monkeypatch.setattr(http_reader, "addresses_of", addresses)

    secret = sending(OK + b"Content-Length: 6\r\n\r\nsecret")
    with raw_server(secret) as inner, raw_server(redirect(inner)) as outer:
        url = outer.replace("127.0.0.1", "localhost")
        if not refused:
            assert ask(url).data == b"secret"
            return
        with pytest.raises(RedirectRefused, match=r"redirects to 127.0.0.1, a private address"):
            ask(url)


def test_redirects_from_https_to_http_are_refused() -> None:
    guard = http_reader._RedirectGuard()

    class Request:
        proxy = None

        def __init__(self, url: str) -> None:
            self.url = http_reader.URL(url)

    async def handler(_request: object) -> str:
        return "sent"

    async def hop(*urls: str) -> None:
        for url in urls:
            assert await guard(Request(url), handler) == "sent"  # type: ignore[arg-type]

    with pytest.raises(RedirectRefused, match="from https to http"):
        asyncio.run(hop("https://a.org/", "http://a.org/"))


def test_what_a_server_says_is_one_line_of_text() -> None:
    with pytest.raises(aiohttp.ClientError) as error:
        read(sending(b"\x1b[31mFTP\x07 ok\r\n\r\n"))
    text = http_reader.error_text(error.value)
    assert text.isprintable()
