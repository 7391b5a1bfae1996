"""For tests of `ask`: a mock that is asked, servers that say what a test wants, what was kept."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from fieldmark.chat import MockServer
from fieldmark.experiments import (
    ExecuteOptions,
    evaluate,
    execute,
    make_jobs,
    make_plan,
    single_axes,
)
from fieldmark.progress import Silent
from fieldmark.settings import Settings

TASK, WREN = "world-species", "chat/mock/wren?skill=0.7"


def ask(settings: Settings, model: str = WREN, task: str = TASK, **axes: Any) -> Any:
    return evaluate(model, task, settings=settings, **axes)


def facts_of(found: Any) -> list[dict[str, Any]]:
    return [json.loads(text) for text in found.predictions["info"]]


def wholes(scores: Any) -> dict[str, float]:
    return {score.metric: score.value for score in scores if not score.part}


def journalled(settings: Settings) -> Counter[str]:
    """Key → how many times its answer came from the endpoint."""
    lines = [
        line
        for path in (settings.results / "journal").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return Counter(json.loads(line)["key"] for line in lines)


class Parrot(MockServer):
    """Says given texts in turn, and keeps what it was asked and with which key."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.texts, self.bodies, self.keys = texts, list[dict[str, Any]](), set[str]()

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        self.keys.add(request.headers.get("Authorization", ""))
        return await super()._answer(request, data)

    def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
        found = super().reply(data, digest)
        text = self.texts[len(self.bodies) % len(self.texts)]
        self.bodies.append(json.loads(data))
        found["choices"][0]["message"]["content"] = text
        return found


class Doorman(MockServer):
    """Lets nobody in, and says aloud which key was shown."""

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "")
        error = {"error": {"message": f"Incorrect API key provided: {shown}", "code": 401}}
        return web.json_response(error, status=401)


def texts_of(body: dict[str, Any]) -> str:
    parts = [message["content"] for message in body["messages"]]
    return "\n".join(
        each if isinstance(each, str) else "\n".join(p["text"] for p in each if "text" in p)
        for each in parts
    )


def n_pictures(body: dict[str, Any]) -> int:
    return json.dumps(body).count('"image_url": {')


def carry_out(settings: Settings, model: str, how: ExecuteOptions, **axes: Any) -> Any:
    plan = make_plan(make_jobs([(model, "")], [(TASK, "")], single_axes(axes)), settings)
    return execute(plan, settings, Silent(), how)


def command(world: Path, *more: str) -> list[str]:
    return ["run", "--task", TASK, "--data", f"world={world}", *more]
