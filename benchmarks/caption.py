"""Does captioning keep a server busy over shard borders, in memory that does not grow with shards?

    python benchmarks/caption.py [--quick]

1. A server on loopback, in a process of its own, takes 64 requests at a time and half a
   second for each: 128 answers a second at most, fewer on a machine that is busy. What it really
   gives is measured by a bare loop that sends the same photos and keeps nothing. Captions come
   from many shards, journal and checks included.
2. Peak memory (VmHWM) of the whole command over a shard of 100 MB and one of 2 GB. What grows is
   some 700 bytes an image (keys that were seen, places of answers in the journal), not the images.
"""

from __future__ import annotations

import asyncio
import io
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from PIL import Image

from _chat_server import Server
from _quick import Flags, finish
from fieldmark.chat import (
    MockScript,
    Options,
    Picture,
    Request,
    ask_now,
    chat_model,
    user,
)
from fieldmark.draws import generator

CONCURRENCY, LATENCY_S = 64, 0.5
BAR_RATE, BAR_MEMORY = 0.90, 1.15
RUN = """
import sys
from fieldmark.cli import main
code = main(sys.argv[1:])
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1]
print("peak_kb", peak)
sys.exit(code)
"""
FACTS = {
    "kingdom": "Animalia", "phylum": "Chordata", "class": "Aves", "order": "Passeriformes",
    "family": "Corvidae", "genus": "Corvus", "species": "corax", "common_name": "Common Raven",
}  # fmt: skip


def serve(pipe: Connection, latency_s: float) -> None:
    times: list[float] = []

    def describe(*_: Any) -> str:
        times.append(time.monotonic())
        return "Corvus corax with glossy black plumage and a heavy arched bill on bare ground."

    async def run() -> None:
        server = Server(MockScript(latency_s=latency_s), answers=describe)
        pipe.send(await server.start())
        while not pipe.poll():
            await asyncio.sleep(0.05)
        await server.stop()
        pipe.send({**server.seen, "seconds": times[-1] - times[0]})

    asyncio.run(run())


@contextmanager
def serving(latency_s: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of a server in another process; its counts, when it has ended."""
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, latency_s))
    process.start()
    theirs.close()  # so that a server that dies ends the wait for it
    stats: dict[str, Any] = {}
    try:
        yield mine.recv(), stats
    finally:
        mine.send("stop")
        stats.update(mine.recv())
        process.join()


def photo(n_bytes: int) -> bytes:
    """A JPEG of about so many bytes."""
    for side in range(40, 2000, 8):
        pixels = generator("photo").integers(0, 255, (side, side, 3), dtype="uint8")
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, "JPEG", quality=85)
        if len(target.getvalue()) >= n_bytes:
            return target.getvalue()
    raise AssertionError("noise of 2000 px is large")


def write_shard(path: Path, n: int, jpeg: bytes, start: int = 0) -> None:
    """Photos differ in what their header says of their resolution, and so in their bytes."""
    words = json.dumps(FACTS).encode()
    with tarfile.open(path, "w") as archive:
        for number in range(start, start + n):
            own = jpeg[:14] + (number + 1).to_bytes(4, "big") + jpeg[18:]
            for name, data in (("jpg", own), ("json", words)):
                info = tarfile.TarInfo(f"{path.stem}-{number:07}.{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def caption(url: str, shards: Path, out: Path, concurrency: int) -> tuple[float, float, float]:
    """Seconds of the whole command, its CPU seconds, and its peak memory in MB."""
    command = [
        sys.executable, "-c", RUN, "caption", str(shards), "--out", str(out), "--quiet",
        "--model", f"chat/vllm/bench?base_url={url}", "--concurrency", str(concurrency),
    ]  # fmt: skip
    before = os.times().children_user + os.times().children_system
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    lasted = time.perf_counter() - began
    assert done.returncode == 0, done.stderr
    cpu = os.times().children_user + os.times().children_system - before
    return lasted, cpu, int(done.stdout.split()[-1]) / 1000


def bare_rate(n: int, jpeg: bytes) -> float:
    """Answers a second that the server gives to who does nothing but ask."""

    def requests() -> Iterator[Request]:
        for number in range(n):
            own = jpeg[:14] + (number + 1).to_bytes(4, "big") + jpeg[18:]
            yield Request(f"{number}", (user("Describe it. " * 100, Picture(own), "Species: A b"),))

    with serving(LATENCY_S) as (url, stats):
        ask_now(requests(), chat_model(f"chat/vllm/bench?base_url={url}"), Options(CONCURRENCY))
    return (n - CONCURRENCY) / stats["seconds"]


def rate(n_shards: int, n: int) -> float:
    """Answers a second from the first to the last, as a share of what the server can give."""
    folder = Path(tempfile.mkdtemp())
    try:
        jpeg = photo(15_000)
        (folder / "in").mkdir()
        for number in range(n_shards):
            write_shard(folder / "in" / f"s-{number:03}.tar", n, jpeg, number * n)
        before = bare_rate(n_shards * n // 8, jpeg)
        with serving(LATENCY_S) as (url, stats):
            lasted, cpu, peak = caption(url, folder / "in", folder / "out", CONCURRENCY)
        bare = (before + bare_rate(n_shards * n // 8, jpeg)) / 2
    finally:
        shutil.rmtree(folder)
    total, limit = n_shards * n, CONCURRENCY / LATENCY_S
    assert stats["n_requests"] == total and stats["max_in_flight"] <= CONCURRENCY, stats
    own = (total - CONCURRENCY) / stats["seconds"]  # the first 64 come all at once
    share = own / bare
    print(
        f"{total:,} images in {n_shards} shards: {own:.0f} answers/s, a bare loop {bare:.0f}, the "
        f"server's latency allows {limit:.0f}; with start-up {total / lasted:.0f}; "
        f"{1000 * cpu / total:.2f} CPU ms per image, peak {peak:.0f} MB"
    )
    return share


def memory(sizes_mb: tuple[int, int]) -> float:
    """Peak memory over the larger shard, as a multiple of that over the smaller one."""
    jpeg, peaks = photo(100_000), []
    for size_mb in sizes_mb:
        folder = Path(tempfile.mkdtemp())
        try:
            n = size_mb * 1_000_000 // len(jpeg)
            write_shard(folder / "s.tar", n, jpeg)
            with serving(0.0) as (url, _):
                lasted, _, peak = caption(url, folder / "s.tar", folder / "out", 16)
        finally:
            shutil.rmtree(folder)
        peaks.append(peak)
        print(f"a shard of {size_mb:,} MB, {n:,} images: peak {peak:.0f} MB, {n / lasted:.0f}/s")
    return peaks[1] / peaks[0]


def main() -> int:
    quick = Flags(__doc__).parse().quick
    share = rate(*((8, 80) if quick else (60, 200)))
    growth = memory((2, 4) if quick else (100, 2000))
    figure = (
        f"caption: {share:.1%} of the server's rate at concurrency {CONCURRENCY}; "
        f"peak memory of the larger shard x {growth:.2f}"
    )
    bars = {
        f"≥ {BAR_RATE:.0%} of the rate": share >= BAR_RATE,
        f"≤ x {BAR_MEMORY} memory": growth <= BAR_MEMORY,
    }
    return finish(figure, bars, quick)


if __name__ == "__main__":
    sys.exit(main())
