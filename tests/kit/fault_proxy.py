"""A proxy on loopback that fails as wikis and networks do, in front of a server that does not.

    proxy = FaultProxy(endpoint, ["429", "", "reset"])      # by request, from the first one on
    proxy = FaultProxy(endpoint, drawn({"503": 0.2, "gzip": 0.1}, seed=1))
    with running(proxy) as url: ...

`arrivals` are the times at which requests came, by the clock it is given.
"""

from __future__ import annotations

import asyncio
import email.utils
import gzip
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from fieldmark import draws
from fieldmark.chat.send.options import Clock

FAULTS = (
    "429",  # + Retry-After in seconds
    "429 date",  # Retry-After as a date
    "429 bare",  # no Retry-After
    "503",
    "403",
    "404",
    "maxlag",  # status 200, an error of the API, Retry-After
    "ratelimited",  # likewise, without Retry-After
    "blocked",  # likewise, for good
    "drip",  # a byte now and then, for ever
    "gzip",  # compressed, the end is lacking
    "cut",  # fewer bytes than announced
    "reset",
    "page",  # HTML, status 200
)
DRIP_EVERY_S = 0.02
_TOO_MANY = "Too many requests. See <a href='https://example.org'>limits</a>."
_FORBIDDEN = "<html><head><title>x</title></head><p>Please set a user agent</p></html>"
_PLAIN: dict[str, tuple[int, str]] = {
    "429": (429, _TOO_MANY),
    "429 date": (429, _TOO_MANY),
    "429 bare": (429, _TOO_MANY),
    "503": (503, "upstream is down"),
    "403": (403, _FORBIDDEN),
    "404": (404, "Not Found"),
    "page": (200, "<html><p>Welcome to the hotel's network</p></html>"),
}
_ERRORS = {
    "maxlag": "Waiting for db1: 7.2 seconds lagged.",
    "ratelimited": "You've exceeded your rate limit.",
    "blocked": "You have been blocked from using the API.",
}

Script = Sequence[str] | Callable[[int], str]


def drawn(shares: Mapping[str, float], seed: int) -> Callable[[int], str]:
    """A fault for each request number by chance, the same for the same seed."""

    def fault_of(number: int) -> str:
        luck = draws.number("fault proxy", seed, number) / 2**64
        for fault, share in shares.items():
            luck -= share
            if luck < 0:
                return fault
        return ""

    return fault_of


class LeapClock:
    """Time that passes only by sleeping, at once."""

    def __init__(self) -> None:
        self.t = 0.0
        self.clock = Clock(now=lambda: self.t, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.t = max(self.t, self.t + seconds)
        await asyncio.sleep(0)


class FaultProxy:
    """Passes requests on, but for those that its script has a fault for."""

    def __init__(
        self,
        target: str,
        script: Script,
        retry_after_s: int = 3,
        headers: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.target, self.retry_after_s = target, retry_after_s
        self.headers = dict(headers or {})
        """added to what is passed on"""
        self._fault_of = (
            script if callable(script) else lambda n: script[n] if n < len(script) else ""
        )
        self._clock = clock or Clock()
        self.arrivals: list[float] = []
        self.faults: list[str] = []
        """of each request; "" = it was passed on"""
        self.max_in_flight = self._in_flight = 0
        self._runner: web.ServerRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> str:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}{urlsplit(self.target).path}"

    async def stop(self) -> None:
        assert self._session is not None and self._runner is not None
        await self._runner.cleanup()
        await self._session.close()

    @property
    def n_passed(self) -> int:
        return self.faults.count("")

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        fault = self._fault_of(len(self.faults))
        assert not fault or fault in FAULTS, fault
        self.arrivals.append(self._clock.now())
        self.faults.append(fault)
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            return await self._answer(request, fault)
        finally:
            self._in_flight -= 1

    async def _answer(self, request: web.BaseRequest, fault: str) -> web.StreamResponse:
        if fault in _PLAIN:
            status, text = _PLAIN[fault]
            headers = self._retry_after(fault)
            return web.Response(status=status, text=text, headers=headers, content_type="text/html")
        if fault in _ERRORS:
            error = {"error": {"code": fault, "info": _ERRORS[fault]}}
            headers = {"MediaWiki-API-Error": fault} | self._retry_after(fault)
            return web.json_response(error, headers=headers)
        status, headers, body = await self._pass_on(request)
        if fault == "drip":
            return await self._drip(request, body)
        if fault == "gzip":
            packed = gzip.compress(body)
            headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
            return web.Response(body=packed[: len(packed) * 2 // 3], headers=headers)
        if fault == "cut":
            await self._write_half(request, body)
        if fault in ("cut", "reset"):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.Response(status=status, body=body, headers=headers)

    def _retry_after(self, fault: str) -> dict[str, str]:
        if fault in ("429", "maxlag"):
            return {"Retry-After": str(self.retry_after_s)}
        if fault == "429 date":
            date = email.utils.formatdate(time.time() + self.retry_after_s, usegmt=True)
            return {"Retry-After": date}
        return {}

    async def _pass_on(self, request: web.BaseRequest) -> tuple[int, dict[str, str], bytes]:
        assert self._session is not None
        kept = ("User-Agent", "Content-Type", "Accept-Encoding", "Promise-Non-Write-API-Action")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        data: Any = await request.read()
        url = f"{self.target}?{request.query_string}" if request.query_string else self.target
        async with self._session.request(
            request.method, url, data=data or None, headers=headers | self.headers
        ) as reply:
            passed = ("Content-Type", "Content-Encoding", "Retry-After")
            answered = {name: reply.headers[name] for name in passed if name in reply.headers}
            return reply.status, answered, await reply.read()

    async def _drip(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for start in range(len(body)):
            await response.write(body[start : start + 1])
            await asyncio.sleep(DRIP_EVERY_S)
        return response

    async def _write_half(self, request: web.BaseRequest, body: bytes) -> None:
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
