"""How much does asking cost this side of the wire, against the usual clients?

    python benchmarks/chat.py [--no-rivals] [--quick]

A server on loopback, in a process of its own, answers at once. Every request carries a 64 kB JPEG
of its own; 64 are under way at a time; ours writes its journal, the rivals (the openai SDK and
litellm, installed in a throw-away environment where they can be had) keep nothing. CPU ms per
request of the asking process is the figure that other work on the machine disturbs least; of each
client the best of three runs counts. The bare loop is what anyone would write: aiohttp, base64,
`json.dumps`, and a line of JSON for every answer. Then 20,000 small requests: memory and time per
request must not grow with their number.
"""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

import aiohttp
from PIL import Image

from _chat_server import Server
from _quick import Flags, finish
from fieldmark.chat import (
    AnswerJournal,
    AnswerSettings,
    Options,
    Picture,
    Request,
    ask_now,
    chat_model,
    user,
)
from fieldmark.draws import generator

CONCURRENCY, JPEG_BYTES = 64, 64_000
BAR_RATE, BAR_CPU_MS, BAR_BARE, BAR_RATIO, BAR_IMPORT_S = 600, 1.5, 1.7, 5.0, 0.5
RIVALS = Path(__file__).with_name("_chat_rivals.py")


def make_jpeg() -> bytes:
    """A photo-like JPEG of 64 kB."""
    for side in range(60, 2000, 4):
        pixels = generator("photo").integers(0, 255, (side, side, 3), dtype="uint8")
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, "JPEG", quality=85)
        if len(target.getvalue()) >= JPEG_BYTES:
            return target.getvalue()
    raise AssertionError("noise of 2000 px is larger than 64 kB")


def serve(pipe: Connection) -> None:
    async def run() -> None:
        server = Server()
        pipe.send(await server.start())
        while not pipe.poll():
            await asyncio.sleep(0.05)
        await server.stop()
        pipe.send({**server.seen, "cpu_s": time.process_time()})

    asyncio.run(run())


@contextmanager
def serving() -> Iterator[tuple[str, dict[str, float]]]:
    """The address of a server in another process; its counts, when it has ended."""
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    theirs.close()  # so that a server that dies ends the wait for it
    stats: dict[str, float] = {}
    try:
        yield mine.recv(), stats
    finally:
        mine.send("stop")
        stats.update(mine.recv())
        process.join()


def requests(n: int, photo: bytes | None) -> Iterator[Request]:
    """The pictures differ in their last bytes, so nothing can be remembered between them."""
    settings = AnswerSettings(max_output_tokens=32)
    for number in range(n):
        words = f"Question {number}: which species is this?"
        if photo is None:
            yield Request(f"{number}", (user(words),), settings)
        else:
            data = photo + number.to_bytes(4, "big")
            yield Request(f"{number}", (user(words, Picture(data)),), settings)


def ask(n: int, photo: bytes | None) -> tuple[float, float, float]:
    """Requests per second, CPU ms per request with the journal, and the server's."""
    folder = Path(tempfile.mkdtemp())
    try:
        with serving() as (url, stats):
            model = chat_model(f"chat/vllm/bench?base_url={url}")
            options = Options(concurrency=CONCURRENCY)
            ask_now(requests(50, photo), model, options)
            with AnswerJournal(folder) as journal:
                began, cpu = time.perf_counter(), time.process_time()
                tally = ask_now(requests(n, photo), model, options, journal)
                lasted, used = time.perf_counter() - began, time.process_time() - cpu
        assert tally.outcomes == {"ok": n} and stats["max_in_flight"] <= CONCURRENCY
        return n / lasted, 1000 * used / n, 1000 * stats["cpu_s"] / stats["n_requests"]
    finally:
        shutil.rmtree(folder)


def ask_bare(n: int, photo: bytes) -> float:
    """CPU ms per request of a loop without limits, retries and prices, that keeps its answers."""

    async def run(url: str, journal: IO[str]) -> None:
        left, gate = iter(range(n)), asyncio.Semaphore(CONCURRENCY)

        async def one(number: int) -> None:
            async with gate:
                image = base64.b64encode(photo + number.to_bytes(4, "big")).decode()
                parts = [
                    {"type": "text", "text": f"Question {number}: which species is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{image}"}},
                ]
                messages = [{"role": "user", "content": parts}]
                body = json.dumps({"model": "bench", "max_tokens": 32, "messages": messages})
                async with session.post(f"{url}/chat/completions", data=body) as response:
                    answer = await response.json()
                journal.write(json.dumps({"number": number, "answer": answer}) + "\n")
                journal.flush()

        async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:
            await asyncio.gather(*map(one, left))

    with serving() as (url, _), tempfile.TemporaryFile("w") as journal:
        asyncio.run(run(url, journal))
        cpu = time.process_time()
        asyncio.run(run(url, journal))
        return 1000 * (time.process_time() - cpu) / n


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def long_run(n: int) -> str:
    """Four quarters of one run: memory and CPU time after each."""
    folder, marks = Path(tempfile.mkdtemp()), list[tuple[float, float]]()
    done = 0

    def note(*_: object) -> None:
        nonlocal done
        done += 1
        if done % (n // 4) == 0:
            marks.append((resident_mb(), time.process_time()))

    with serving() as (url, _), AnswerJournal(folder) as journal:
        model = chat_model(f"chat/vllm/bench?base_url={url}")
        began = time.process_time()
        ask_now(requests(n, None), model, Options(concurrency=CONCURRENCY), journal, on_answer=note)
    shutil.rmtree(folder)
    ends = [began, *(cpu for _, cpu in marks)]
    cpu_ms = [4000 * (b - a) / n for a, b in itertools.pairwise(ends)]
    grown = marks[-1][0] - marks[0][0]
    quarters = ", ".join(f"{each:.2f}" for each in cpu_ms)
    print(f"{n:,} requests: CPU ms per request by quarter {quarters}; memory +{grown:.1f} MB")
    return f"{n:,} requests +{grown:.1f} MB after the first quarter"


def import_s() -> tuple[float, float]:
    """CPU seconds to import the package, and to have everything for the first request."""

    def measure(code: str) -> float:
        timed = f"import time; a = time.process_time(); {code}; print(time.process_time() - a)"
        runs = [subprocess.run([sys.executable, "-c", timed], capture_output=True, check=True)
                for _ in range(3)]  # fmt: skip
        return min(float(run.stdout) for run in runs)

    return measure("import fieldmark.chat"), measure("from fieldmark.chat import ask_now")


def rivals(n: int, photo: bytes) -> dict[str, tuple[float, float]]:
    """The same questions through the openai SDK and litellm, each in a fresh process."""
    folder = Path(tempfile.mkdtemp())
    found: dict[str, tuple[float, float]] = {}
    try:
        for name in ("openai", "litellm"):
            python = install(name, folder / name)
            if python is None:
                print(f"{name}: cannot be installed here, skipped")
                continue
            (folder / "photo.jpg").write_bytes(photo)
            with serving() as (url, _):
                command = [
                    python,
                    RIVALS,
                    name,
                    url,
                    folder / "photo.jpg",
                    str(n),
                    str(CONCURRENCY),
                ]
                run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            if run.returncode:
                print(f"{name}: failed, skipped ({run.stderr.strip().splitlines()[-1:]})")
                continue
            figures = json.loads(run.stdout.strip().splitlines()[-1])
            found[name] = figures["rate"], figures["cpu_ms"]
            print(
                f"{name} {figures['version']}: {figures['rate']:.0f} requests/s, "
                f"{figures['cpu_ms']:.2f} CPU ms per request, import {figures['import_s']:.1f} s"
            )
    finally:
        shutil.rmtree(folder)
    return found


def install(name: str, folder: Path) -> Path | None:
    """A Python with the package; None where it cannot be had."""
    uv = shutil.which("uv")
    if uv is None:
        return None
    try:
        for command in (
            [uv, "venv", "--quiet", "--python", sys.executable, folder],
            [uv, "pip", "install", "--quiet", "--python", folder / "bin/python", name],
        ):
            subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=300)
    except (subprocess.SubprocessError, OSError):
        return None
    return folder / "bin/python"


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--no-rivals", action="store_true", help="install nothing")
    given = flags.parse(no_rivals=True)
    n, n_small, n_rounds = (100, 400, 1) if given.quick else (3000, 20_000, 3)
    package_s, all_s = import_s()
    print(f"import fieldmark.chat {package_s:.2f} s CPU, ready to send {all_s:.2f} s")
    photo = make_jpeg()
    runs = [ask(n, photo) for _ in range(n_rounds)]
    rate, cpu_ms = max(run[0] for run in runs), min(run[1] for run in runs)
    print(
        f"fieldmark: {rate:.0f} requests/s, {cpu_ms:.2f} CPU ms per request with the journal "
        f"(the server's: {min(run[2] for run in runs):.2f}, its start included)"
    )
    bare_ms = min(ask_bare(n, photo) for _ in range(n_rounds))
    print(f"a bare loop with journal: {bare_ms:.2f} CPU ms per request")
    memory = long_run(n_small)
    others = {} if given.no_rivals else rivals(n // 5, photo)
    ratios = ", ".join(f"{cpu / cpu_ms:.1f}× {name}" for name, (_, cpu) in others.items())
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    figure = (
        f"chat: {rate:.0f} requests/s, {cpu_ms:.2f} CPU ms, {cpu_ms / bare_ms:.2f}× a bare loop "
        f"with journal, less CPU than {ratios or 'no rival measured'}, {memory}, "
        f"peak {peak_mb:.0f} MB, import {package_s:.2f} s"
    )
    bars = {
        f"≥ {BAR_RATE} requests/s": rate >= BAR_RATE,
        f"≤ {BAR_CPU_MS} CPU ms": cpu_ms <= BAR_CPU_MS,
        f"≤ {BAR_BARE}× a bare loop": cpu_ms <= BAR_BARE * bare_ms,
        f"import ≤ {BAR_IMPORT_S} s": package_s <= BAR_IMPORT_S,
    }
    for name, (_, cpu) in others.items():
        bars[f"≥ {BAR_RATIO:.0f}× {name}"] = cpu >= BAR_RATIO * cpu_ms
    return finish(figure, bars, given.quick)


if __name__ == "__main__":
    sys.exit(main())
