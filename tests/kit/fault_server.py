"""Servers that fail as endpoints do, in OpenAI's form, on loopback; and a command asked of them.

    server = FaultServer("every fourth")
    with running(server) as url:
        outcome = run_fieldmark(folder, f"chat/custom/mine?base_url={url}", "--n-test", "24")

The server counts on its side: requests that came, answers written, answers for callers who had hung
up, requests at work over time. `is_mended` makes it a server that answers everything.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

RIGHT_KEY = "the-right-key"
TOKENS_PER_PICTURE = 50_000
USD_IN, USD_OUT = 2.0, 8.0
PRICES = f"""[[chat_models]]
provider = "custom"
id = "mine"
usd_in = {USD_IN}
usd_out = {USD_OUT}
"""
"""for `fieldmark.toml`; a picture of 50,000 tokens costs 10 cents"""
SORRY = "I'm sorry, but I can't help with identifying what is shown in this picture."
FAULTS = (
    "none",
    "every fourth",
    "wrong key",
    "wrong key (500)",
    "wrong key (400)",
    "unknown model",
    "refusing",
    "text only",
    "cut off",
    "unreadable",
    "max_completion_tokens",
    "hangs up on every fourth",
    "one at a time",
    "lying estimate",
)


@dataclass(slots=True)
class FaultServer:
    """One server with one fault."""

    fault: str = "none"
    delay_s: tuple[float, float] = (0.0, 0.0)
    """shortest and longest time an answer takes"""
    port: int = 0
    """0 = any that is free"""
    is_mended: bool = False
    n_requests: int = 0
    n_answers: int = 0
    """written with status 200"""
    n_unheard: int = 0
    """among the answers, those whose caller had hung up"""
    tokens_in: int = 0
    tokens_out: int = 0
    """billed"""
    max_in_flight: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    """when the first and the last request came"""
    busy_s: float = 0.0
    """requests at work, summed over the time until the last one came"""
    questions: list[str] = field(default_factory=list)
    """different bodies, in the order they first came"""
    _in_flight: int = 0
    _changed_at: float = 0.0
    _pending_s: float = 0.0
    """at work since the last arrival: counted when the next one comes"""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _runner: web.ServerRunner | None = None

    def __post_init__(self) -> None:
        if self.fault not in FAULTS:
            raise ValueError(f"{self.fault!r} is none of {', '.join(FAULTS)}")

    async def start(self) -> str:
        self._runner = web.ServerRunner(web.Server(self._serve))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}/v1"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def reset(self) -> None:
        """Counts from 0 again; which question is which is remembered."""
        self.n_requests = self.n_answers = self.n_unheard = self.max_in_flight = 0
        self.tokens_in = self.tokens_out = 0

    @property
    def usd(self) -> float:
        """What the provider charges at the prices of `PRICES`."""
        return (self.tokens_in * USD_IN + self.tokens_out * USD_OUT) / 1e6

    @property
    def mean_in_flight(self) -> float:
        """While requests were still coming: the tail of a run says nothing about its pace."""
        return self.busy_s / max(self.last_at - self.first_at, 1e-9)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if not request.path.endswith("/chat/completions"):
            return _error(404, f"{request.path} is not served here", "not_found")
        self._note(1)
        try:
            data = await request.read()
            return await self._answer(request, json.loads(data))
        finally:
            self._note(-1)

    def _note(self, change: int) -> None:
        now = time.monotonic()
        if change > 0:
            self.first_at = self.first_at or now
            self.n_requests += 1
            self.busy_s += self._pending_s + self._in_flight * (now - self._changed_at)
            self._pending_s, self.last_at = 0.0, now
        else:
            self._pending_s += self._in_flight * (now - self._changed_at)
        self._changed_at = now
        self._in_flight += change
        self.max_in_flight = max(self.max_in_flight, self._in_flight)

    async def _answer(self, request: web.BaseRequest, body: dict[str, Any]) -> web.Response:
        number = self._number(body)
        fault = "none" if self.is_mended else self.fault
        if failure := self._failure(fault, number, request, body):
            return failure
        if fault == "one at a time":
            async with self._turn:
                await asyncio.sleep(self.delay_s[1])
        else:
            await asyncio.sleep(self._delay(number))
        self.n_answers += 1
        self.n_unheard += request.transport is None or request.transport.is_closing()
        reply = _reply(fault, body)
        self.tokens_in += reply["usage"]["prompt_tokens"]
        self.tokens_out += reply["usage"]["completion_tokens"]
        return web.json_response(reply)

    def _number(self, body: dict[str, Any]) -> int:
        """Which question this is, however it is phrased: 0 for the first."""
        digest = hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()
        if digest not in self.questions:
            self.questions.append(digest)
        return self.questions.index(digest)

    def _delay(self, number: int) -> float:
        shortest, longest = self.delay_s
        share = int(self.questions[number][:4], 16) / 0xFFFF
        return shortest + share * (longest - shortest)

    def _failure(
        self, fault: str, number: int, request: web.BaseRequest, body: dict[str, Any]
    ) -> web.Response | None:
        key = request.headers.get("Authorization", "")
        if fault == "every fourth" and number % 4 == 3:
            return _error(400, "Could not process this request", "invalid_request_error")
        if fault.startswith("wrong key") and key != f"Bearer {RIGHT_KEY}":
            status = {"wrong key (500)": 500, "wrong key (400)": 400}.get(fault, 401)
            return _error(status, "Authentication Error, invalid API key passed", "auth_error")
        if fault == "hangs up on every fourth" and number % 4 == 3 and request.transport:
            request.transport.close()
        if fault == "max_completion_tokens" and "max_tokens" in body:
            text = "Unsupported parameter: 'max_tokens' is not supported with this model."
            text = f"{text} Use 'max_completion_tokens' instead."
            return _error(400, text, "unsupported_parameter")
        if fault == "unknown model":
            text = f"The model `{body['model']}` does not exist or you do not have access to it."
            return _error(404, text, "model_not_found")
        if fault == "text only" and "image_url" in json.dumps(body["messages"]):
            return _error(500, "image input is not supported by this model", "server_error")
        return None


def _error(status: int, text: str, code: str) -> web.Response:
    error = {"message": text, "type": code, "param": None, "code": code}
    return web.json_response({"error": error}, status=status)


def _first_option(body: dict[str, Any]) -> str:
    """Its letter, or its name where options have none; else a number or "yes", as is asked for."""
    messages = json.dumps(body["messages"], ensure_ascii=False)
    shown = re.findall(r"Options:\\n(?:([A-Z])\. |- (.*?)\\n)", messages)
    if shown:
        return next(filter(None, shown[-1]))
    return "7" if "whole number" in messages else "yes"


def _reply(fault: str, body: dict[str, Any]) -> dict[str, Any]:
    asks_json = "response_format" in body or "JSON object" in json.dumps(body["messages"])
    answer, reason = _first_option(body), "stop"
    text = json.dumps({"answer": answer}) if asks_json else f"Answer: {answer}"
    if fault == "refusing":
        text = SORRY
    if fault == "unreadable":
        text = "What a lovely picture!"
    if fault == "cut off":
        text, reason = "Looking at the plumage of this animal, I notice that the", "length"
    n_in = TOKENS_PER_PICTURE if fault == "lying estimate" else 300
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": n_in, "completion_tokens": 5, "total_tokens": n_in + 5},
    }


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What a command left behind, as a person at a terminal sees it."""

    code: int
    output: str
    lasted_s: float

    @property
    def last_line(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def run_fieldmark(
    folder: Path, *arguments: str, key: str = "", timeout_s: float = 120
) -> CommandOutcome:
    """A command in a process of its own, in that folder. What it prints comes in its order."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FIELDMARK_", "CHAT_API"))}
    own = {"FIELDMARK_CACHE": str(folder / "cache"), "XDG_CONFIG_HOME": str(folder / "config")}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "fieldmark", *arguments],
        cwd=folder, env=kept | own | ({"CHAT_API_KEY": key} if key else {}), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False,
    )  # fmt: skip
    return CommandOutcome(done.returncode, done.stdout, time.monotonic() - began)
