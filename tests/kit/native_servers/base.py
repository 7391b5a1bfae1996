"""What the three servers have in common: counting, answers, batches that end on request."""

from __future__ import annotations

import abc
import asyncio
import base64
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

KEY = "a-key-of-the-tests-0123456789"
TOKENS_OF_IMAGE = 100
Fate = Callable[[int], str]
Json = dict[str, Any]


class Refused(Exception):
    """A request the vendor would not take."""

    def __init__(self, status: int, text: str, kind: str = "", **headers: str) -> None:
        super().__init__(text)
        self.status, self.text, self.kind, self.headers = status, text, kind, headers


@dataclass
class SubmittedBatch:
    id: str
    name: str
    """what the client called it, where it can"""
    keys: list[str]
    bodies: list[Json]
    made_at: float = field(default_factory=time.time)
    state: str = "running"
    """running, ended, expired, failed or cancelled"""


class NativeServer(abc.ABC):
    """What the three have in common: counting, answers, batches that end when a test says so."""

    path = "/v1"

    def __init__(self, say: Callable[[str], str] | None = None) -> None:
        self.say = say or (lambda question: "Answer: A")
        self.bodies: list[Json] = []
        """every question that was answered at once"""
        self.n_calls: Counter[str] = Counter()
        self.batches: dict[str, SubmittedBatch] = {}
        self.fate: Fate = lambda number: "succeeded"
        """of the n-th request of a batch: succeeded, errored, refused or expired"""
        self.refuse: Callable[[str], Refused | None] = lambda call: None
        """what is refused whatever it says, by call"""
        self.hangs_after: set[str] = set()
        """calls that are carried out but never answered"""
        self._numbers = itertools.count(1)
        self._prefixes: set[str] = set()
        self._runner: web.ServerRunner | None = None
        self._is_leaving = asyncio.Event()

    async def start(self, port: int = 0) -> str:
        self._is_leaving = asyncio.Event()
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}{self.path}"

    async def stop(self) -> None:
        self._is_leaving.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def end_batches(self, state: str = "ended") -> None:
        for batch in self.batches.values():
            if batch.state == "running":
                batch.state = state

    def n_asked(self) -> int:
        """Questions paid for, at once or in batches that ended."""
        return len(self.bodies) + sum(len(b.keys) for b in self.batches.values())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        request._client_max_size = 1 << 30
        if not request.path.startswith(f"{self.path}/"):
            return self.error(Refused(404, f"no such path: {request.path}", "not_found"))
        try:
            self.check_key(request)
            call, reply = await self.route(request, request.path[len(self.path) + 1 :])
        except Refused as refused:
            return self.error(refused)
        if call in self.hangs_after:
            await self._is_leaving.wait()
        return reply

    def count(self, call: str) -> None:
        self.n_calls[call] += 1
        if refused := self.refuse(call):
            raise refused

    def new_batch(self, prefix: str, name: str, rows: Sequence[tuple[str, Json]]) -> SubmittedBatch:
        keys = [key for key, _ in rows]
        if len(set(keys)) < len(keys):
            raise Refused(400, "custom_id must be unique within a batch", "invalid_request_error")
        batch = SubmittedBatch(
            f"{prefix}{next(self._numbers):04}", name, keys, [body for _, body in rows]
        )
        self.batches[batch.id] = batch
        return batch

    def find_batch(self, name: str) -> SubmittedBatch:
        if name not in self.batches:
            raise Refused(404, f"no batch {name}", "not_found_error")
        return self.batches[name]

    def fates(self, batch: SubmittedBatch) -> list[str]:
        if batch.state == "expired":
            return ["expired"] * len(batch.keys)
        return [self.fate(number) for number in range(len(batch.keys))]

    @abc.abstractmethod
    async def route(self, request: web.BaseRequest, path: str) -> tuple[str, web.StreamResponse]:
        """What kind of call it is, and its reply."""

    @abc.abstractmethod
    def check_key(self, request: web.BaseRequest) -> None:
        """Raises `Refused` for a wrong one."""

    @abc.abstractmethod
    def error(self, refused: Refused) -> web.Response:
        """How the vendor says it."""


async def read_json(request: web.BaseRequest) -> Json:
    if request.content_type != "application/json":
        raise Refused(415, f"unsupported content type {request.content_type}", "invalid_request")
    try:
        body = json.loads(await request.read())
    except ValueError:
        raise Refused(400, "the body is not valid JSON", "invalid_request_error") from None
    assert isinstance(body, dict)
    return body


def only(where: str, block: Any, *known: str, required: Sequence[str] = ()) -> Json:
    """Refuses keys nobody documents and misses those that must be there."""
    if not isinstance(block, dict):
        raise Refused(400, f"{where}: Input should be an object", "invalid_request_error")
    for key in block:
        if key not in known:
            raise Refused(
                400, f"{where}.{key}: Extra inputs are not permitted", "invalid_request_error"
            )
    for key in required:
        if key not in block:
            raise Refused(400, f"{where}.{key}: Field required", "invalid_request_error")
    return block


def check_image(data: Any, media_type: Any) -> None:
    try:
        raw = base64.b64decode(data, validate=True)
    except (ValueError, TypeError):
        raise Refused(400, "image: invalid base64 data", "invalid_request_error") from None
    starts = {
        "image/jpeg": b"\xff\xd8",
        "image/png": b"\x89PNG",
        "image/gif": b"GIF8",
        "image/webp": b"RIFF",
    }
    if media_type not in starts or not raw.startswith(starts[media_type]):
        raise Refused(400, f"image: not {media_type}", "invalid_request_error")


def jsonl(lines: Sequence[Json]) -> web.Response:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return web.Response(text=text, content_type="application/x-jsonl")


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
