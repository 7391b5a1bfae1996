"""The rivals of `benchmarks/chat.py`, run by it in an environment of their own.

python _chat_rivals.py openai|litellm BASE_URL PHOTO N CONCURRENCY
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches prices when imported


def messages(number: int, photo: bytes) -> list[dict[str, Any]]:
    url = "data:image/jpeg;base64," + base64.b64encode(photo + number.to_bytes(4, "big")).decode()
    words = {"type": "text", "text": f"Question {number}: which species is this?"}
    return [{"role": "user", "content": [words, {"type": "image_url", "image_url": {"url": url}}]}]


def caller(name: str, url: str) -> Callable[[list[dict[str, Any]]], Awaitable[Any]]:
    if name == "openai":
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        return lambda said: client.chat.completions.create(
            model="bench", messages=said, max_tokens=32, temperature=0
        )
    import litellm

    return lambda said: litellm.acompletion(
        model="openai/bench", api_base=url, api_key="none", messages=said, max_tokens=32,
        temperature=0, num_retries=0,
    )  # fmt: skip


async def ask(call: Any, photo: bytes, n: int, concurrency: int) -> None:
    slots = asyncio.Semaphore(concurrency)

    async def one(number: int) -> None:
        async with slots:
            reply = await call(messages(number, photo))
        assert reply.choices[0].message.content

    await asyncio.gather(*(one(number) for number in range(n)))


async def measure(name: str, url: str, photo: bytes, n: int, concurrency: int) -> dict[str, Any]:
    cpu = time.process_time()
    call = caller(name, url)
    import_s = time.process_time() - cpu
    await ask(call, photo, 50, concurrency)
    rates, costs = [], []
    for _ in range(3):
        began, cpu = time.perf_counter(), time.process_time()
        await ask(call, photo, n, concurrency)
        rates.append(n / (time.perf_counter() - began))
        costs.append(1000 * (time.process_time() - cpu) / n)
    return {
        "rate": max(rates),
        "cpu_ms": min(costs),
        "import_s": import_s,
        "version": version(name),
    }


if __name__ == "__main__":
    who, where, path, count, at_once = sys.argv[1:]
    data = Path(path).read_bytes()
    print(json.dumps(asyncio.run(measure(who, where, data, int(count), int(at_once)))))
