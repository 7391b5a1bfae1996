"""HTTP client with limits: how is anything read that a server outside sends?

A server may send a body without end, a small one that unpacks to gigabytes, a header line every
minute, `100 Continue` for ever, or a redirect to a machine that only we can reach. Every reader of
this package (chat, `data get`, `describe`, weights) goes through `open_response` and `blocks`, or
through `read_reply`, which is both; `HttpLimits` says how much and how long. Built on aiohttp,
which bounds header lines and unpacks in bounded steps. Retries are the caller's affair.
"""

from __future__ import annotations

import asyncio
import email.utils
import ipaddress
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

MB = 1_000_000
SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How much a server may send, and how long it may take."""

    most_bytes: int | None = 64 * MB
    """of the body, unpacked; None = no limit, for who writes it to a disk and counts there"""
    headers_s: float = 60.0
    """from the request to the last line of the header, redirects and `100 Continue` included"""
    idle_s: float = 60.0
    """silence within the body"""
    total_s: float | None = 300.0
    """for all of it (`read_reply`)"""
    max_redirects: int = 0
    """0: an answer that redirects is returned as it is"""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole reply, whatever its status."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class ReplyTooLarge(aiohttp.ClientError):
    """The body goes on after the limit; asking again will not help."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"a reply of more than {most_bytes / MB:g} MB")
        self.most_bytes = most_bytes


class RedirectRefused(aiohttp.ClientError):
    """A redirect that is not followed; asking again will not help."""


async def read_reply(
    session: aiohttp.ClientSession,
    method: str,
    url: str | URL,
    limits: HttpLimits,
    **options: Any,
) -> HttpReply:
    """One request and its whole reply. Raises aiohttp's errors, `TimeoutError`, `ReplyTooLarge`."""
    async with (
        asyncio.timeout(limits.total_s),
        open_response(session, method, url, limits, **options) as response,
    ):
        parts = [block async for block in blocks(response, limits)]
        return HttpReply(response.status, response.headers, b"".join(parts))


@asynccontextmanager
async def open_response(
    session: aiohttp.ClientSession,
    method: str,
    url: str | URL,
    limits: HttpLimits,
    **options: Any,
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A response whose header has come. What its body is read with: `blocks`."""
    follows = limits.max_redirects > 0
    try:
        async with asyncio.timeout(limits.headers_s):
            response = await session.request(
                method,
                url,
                allow_redirects=follows,
                max_redirects=limits.max_redirects + 1,
                middlewares=(_RedirectGuard(),) if follows else (),
                **options,
            )
    except (aiohttp.NonHttpUrlRedirectClientError, aiohttp.InvalidUrlRedirectClientError) as error:
        target = str(error.args[0])
        scheme = target.partition(":")[0].lower()
        where = "no address" if scheme in SCHEMES or ":" not in target else f"a {scheme}: address"
        raise RedirectRefused(f"redirects to {where} ({target[:100]!r})") from error
    except aiohttp.TooManyRedirects as error:
        raise RedirectRefused("redirects without end") from error
    except UnicodeError as error:  # of a name that no resolver takes, such as a..org
        raise RedirectRefused("redirects to an address that cannot be read") from error
    async with response:
        yield response


async def blocks(response: aiohttp.ClientResponse, limits: HttpLimits) -> AsyncIterator[bytes]:
    """The body, unpacked, in pieces of at most a megabyte or so."""
    n_bytes, most = 0, limits.most_bytes
    while True:
        async with asyncio.timeout(limits.idle_s):
            block = await response.content.readany()
        if not block:
            return
        n_bytes += len(block)
        if most is not None and n_bytes > most:
            response.close()
            raise ReplyTooLarge(most)
        yield block


class _RedirectGuard:
    """Middleware: refuses hops from https to http, and from the public internet to private ones.

    A page of the internet must not reach what only this machine can: its own services, a
    router, a cloud's metadata. Who starts on a private network may stay there.
    """

    def __init__(self) -> None:
        self._last: URL | None = None

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        before, self._last = self._last, request.url
        if before is not None and before.scheme == "https" and request.url.scheme == "http":
            raise RedirectRefused("redirects from https to http, which is not followed")
        is_by_proxy = request.proxy is not None  # which alone knows where hosts are
        if before is not None and not is_by_proxy and before.host != request.url.host:
            host = request.url.host or ""
            if await _is_private(host) and not await _is_private(before.host or ""):
                raise RedirectRefused(f"redirects to {host}, a private address")
        return await handler(request)


async def _is_private(host: str) -> bool:
    return any(not ipaddress.ip_address(address).is_global for address in await addresses_of(host))


async def addresses_of(host: str) -> list[str]:
    """IP addresses of a host; none where it has none, which the request itself will tell."""
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]).partition("%")[0] for entry in entries]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds the server wants us to wait; None where it does not say."""
    in_ms = _seconds(headers.get("retry-after-ms", ""))
    if in_ms is not None:
        return in_ms / 1000
    text = headers.get("Retry-After", "").strip()
    plain = _seconds(text)
    if plain is not None or not text:
        return plain
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def error_text(error: BaseException) -> str:
    """One line of what went wrong with a connection, without control characters."""
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    line = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return "".join(char if char.isprintable() else "?" for char in line.strip())[:200]
