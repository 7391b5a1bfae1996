"""Web server (Starlette, uvicorn): which address shows what, to whom, and until when?

The site's own files, made when they are asked for, and `/events`: a line when the results have
changed or runs have moved on. Nothing can be changed from here, and no address names a file.

Whoever has the token may look, on this machine too: other users share its loopback address. There a
page must also have been opened under this machine's own name (another site that points its name
here is refused). A connection that sends no whole request in time is closed, and so is the one
that has waited longest where there are too many.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fieldmark.errors import UsageError
from fieldmark.report.serve.live import LiveResults
from fieldmark.report.site.pages import FOLDER, index_page, page_files
from fieldmark.report.site.summary import vega_script

TOKEN = "FIELDMARK_TOKEN"


@dataclass(frozen=True, slots=True)
class ServeAddress:
    """An address, and the token that it asks for."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free"""
    token: str = ""

    @classmethod
    def for_host(cls, host: str, port: int) -> ServeAddress:
        """The token is FIELDMARK_TOKEN, or a new one."""
        return cls(host, port, os.environ.get(TOKEN) or secrets.token_urlsafe(24))


def serve(results: LiveResults, address: ServeAddress, on_ready: Callable[[str], None]) -> None:
    """Answers until interrupted; `on_ready` gets the address to open."""
    import uvicorn

    listening = _bound_socket(address)
    port = listening.getsockname()[1]
    app = make_app(results, address.host, address.token)
    settings = uvicorn.Config(
        app, http=BoundedHttp, log_level="error", access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(settings)
    name = f"[{address.host}]" if ":" in address.host else address.host
    if name in ("0.0.0.0", "[::]"):
        name = socket.gethostname()
    ending = f"?token={quote(address.token, safe='')}" if address.token else ""
    on_ready(f"http://{name}:{port}/{ending}")
    server.run(sockets=[listening])


def _bound_socket(address: ServeAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        listening.listen()  # from here on a browser waits, and is not refused
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot listen on {address.host} port {address.port} ({reason}): choose another "
            "--port, or leave it out for a free one."
        ) from error
    return listening


HEADERS_S = 10.0
"""for a whole request header, of the first request and of each that follows on a connection"""
MOST_CONNECTIONS = 200


class BoundedHttp(H11Protocol):
    """A connection with a time-out for request headers, of which there are only so many."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        others = [one for one in self.connections if isinstance(one, BoundedHttp)]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            waiting = {one: one._deadline.when() for one in others if one._deadline is not None}
            oldest = min(waiting, key=lambda one: waiting[one], default=self)
            oldest.transport.abort()
        self._wait_for_header()

    def data_received(self, data: bytes) -> None:
        self._wait_for_header()
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_header(self) -> None:
        if self._deadline is None and not self._is_answering():
            self._deadline = self.loop.call_later(HEADERS_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


# --- addresses ---


LOOK_EVERY_S = 1.0
ALIVE_EVERY = 15
"""looks without news, after which a word is sent all the same: proxies close silent connections"""
_JS, _CSS, _HTML, _WEBP = "text/javascript", "text/css", "text/html", "image/webp"


def make_app(results: LiveResults, host: str = "127.0.0.1", token: str = "") -> Starlette:
    """The whole server; `token` "" lets in whoever is on this machine."""
    files = page_files()
    fixed: dict[str, tuple[Callable[[], bytes], str]] = {
        "/": (lambda: _index(results), _HTML),
        "/index.html": (lambda: _index(results), _HTML),
        "/app.js": (lambda: files["app.js"], _JS),
        "/style.css": (lambda: files["style.css"], _CSS),
        "/live.js": (lambda: (FOLDER / "live.js").read_bytes(), _JS),
        "/vega.js": (vega_script, _JS),
        "/data/summary.js": (results.summary_file, _JS),
        "/data/charts.js": (results.charts_file, _JS),
    }
    routes = [Route(path, _page_handler(*how)) for path, how in fixed.items()]
    routes += [
        Route("/data/{name}.js", _lookup_handler(results.data_file, _JS)),
        Route("/thumbs/{folder}/{name}.webp", _lookup_handler(results.thumbnail, _WEBP)),
        Route("/events", partial(_events, results)),
    ]
    guards = [Middleware(_Headers), Middleware(Guard, host=host, token=token)]
    return Starlette(routes=routes, middleware=guards)


def _index(results: LiveResults) -> bytes:
    page = index_page(results.summary())
    return page.replace(b"</body>", b'<script src="live.js"></script>\n</body>')


def _page_handler(make: Callable[[], bytes], kind: str) -> Callable[[Request], object]:
    async def answer(_: Request) -> Response:
        return Response(await run_in_threadpool(make), media_type=kind)

    return answer


def _lookup_handler(find: Callable[[str], bytes | None], kind: str) -> Callable[[Request], object]:
    async def answer(request: Request) -> Response:
        content = await run_in_threadpool(find, request.path_params["name"])
        if content is None:
            return PlainTextResponse("There is no page or file of that name.", 404)
        return Response(content, media_type=kind)

    return answer


async def _events(results: LiveResults, request: Request) -> Response:
    return StreamingResponse(_event_lines(request, results), media_type="text/event-stream")


async def _event_lines(request: Request, results: LiveResults) -> AsyncIterator[str]:
    version, sent, silent = results.version(), "", 0
    while not await request.is_disconnected():
        standing = json.dumps(await run_in_threadpool(results.progress))
        now = results.version()
        lines = []
        if standing != sent:
            lines.append(f"event: progress\ndata: {standing}\n\n")
        if now != version:
            lines.append(f"event: results\ndata: {json.dumps(now)}\n\n")
        version, sent = now, standing
        silent = 0 if lines else silent + 1
        if silent >= ALIVE_EVERY:
            lines, silent = [": still here\n\n"], 0
        for line in lines:
            yield line
        await asyncio.sleep(LOOK_EVERY_S)


class _Headers:
    """Puts the headers of safety on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        await self.app(scope, receive, with_headers)


# --- who may look ---


COOKIE = "fieldmark-token"
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
        "script-src 'self' 'unsafe-eval'; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'none'"
    ),  # vega compiles its expressions by eval
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}


def _cookie_name(scope: Scope) -> str:
    """Cookies know no ports: two servers on one machine must not take each other's."""
    return f"{COOKIE}-{(scope.get('server') or ('', 0))[1]}"


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(each) for each in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Guard:
    """Lets requests through to the app, or answers 403."""

    app: ASGIApp
    host: str
    """the address that is listened on"""
    token: str = ""
    """"" lets in everybody"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._is_our_name(headers.get("host", "")):
            text = "This name is not the server's: open the address that `fieldmark serve` printed."
            await PlainTextResponse(text, 403)(scope, receive, send)
            return
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if self.token and token and secrets.compare_digest(token.encode(), self.token.encode()):
            # Two slashes would be the name of another host.
            answer = RedirectResponse("/" + scope["path"].lstrip("/\\"), 303)
            answer.set_cookie(_cookie_name(scope), self.token, httponly=True, samesite="strict")
            await answer(scope, receive, send)
            return
        if self.token and not self._has_token(headers, _cookie_name(scope)):
            text = "A token is needed: open the whole address that `fieldmark serve` printed."
            await PlainTextResponse(text, 403)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _is_our_name(self, given: str) -> bool:
        """By whatever name, beyond this machine; else only names of this machine itself."""
        if not is_loopback(self.host):
            return True
        name = given.rpartition(":")[0] if not given.endswith("]") and ":" in given else given
        return is_loopback(name.strip("[]"))

    def _has_token(self, headers: Headers, cookie_name: str) -> bool:
        cookie = SimpleCookie(headers.get("cookie", "")).get(cookie_name)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        return any(
            secrets.compare_digest(given.encode(), self.token.encode())
            for given in (cookie.value if cookie else "", bearer)
        )
