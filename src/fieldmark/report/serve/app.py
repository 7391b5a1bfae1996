"""Which address shows what?

The site's own files, made when they are asked for, and `/events`: a line when the results have
changed or runs have moved on. Nothing can be changed from here, and no address names a file.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fieldmark.report.serve.guard import HEADERS, Guard
from fieldmark.report.serve.live import LiveResults
from fieldmark.report.site.charts import vega_script
from fieldmark.report.site.pages import FOLDER, index_page, page_files

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
    routes = [Route(path, _made(*how)) for path, how in fixed.items()]
    routes += [
        Route("/data/{name}.js", _found(results.column_file, _JS)),
        Route("/thumbs/{folder}/{name}.webp", _found(results.thumbnail, _WEBP)),
        Route("/events", partial(_events, results)),
    ]
    guards = [Middleware(_Headers), Middleware(Guard, host=host, token=token)]
    return Starlette(routes=routes, middleware=guards)


def _index(results: LiveResults) -> bytes:
    page = index_page(results.summary())
    return page.replace(b"</body>", b'<script src="live.js"></script>\n</body>')


def _made(make: Callable[[], bytes], kind: str) -> Callable[[Request], object]:
    async def answer(_: Request) -> Response:
        return Response(await run_in_threadpool(make), media_type=kind)

    return answer


def _found(find: Callable[[str], bytes | None], kind: str) -> Callable[[Request], object]:
    async def answer(request: Request) -> Response:
        content = await run_in_threadpool(find, request.path_params["name"])
        if content is None:
            return PlainTextResponse("There is nothing of that name.", 404)
        return Response(content, media_type=kind)

    return answer


async def _events(results: LiveResults, request: Request) -> Response:
    return StreamingResponse(_news(request, results), media_type="text/event-stream")


async def _news(request: Request, results: LiveResults) -> AsyncIterator[str]:
    version, told, silent = results.version(), "", 0
    while not await request.is_disconnected():
        standing = json.dumps(await run_in_threadpool(results.progress))
        now = results.version()
        lines = []
        if standing != told:
            lines.append(f"event: progress\ndata: {standing}\n\n")
        if now != version:
            lines.append(f"event: results\ndata: {json.dumps(now)}\n\n")
        version, told = now, standing
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
