"""Download queue: a few files at once, retries with exponential backoff, mirrors.

Each worker brings one file to its end before it takes the next. A wait that a server asks for
(`Retry-After`) is kept by that worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import aiohttp

from fieldmark import draws
from fieldmark.data.get.download import ByteCounter, attempt, make_folder
from fieldmark.data.get.http import LOST, Refused, host_of, open_session
from fieldmark.data.get.verify import Download, DownloadResult, Pace
from fieldmark.http_reader import error_text

NEWS = 1 << 16
"""bytes an attempt must add to count as progress: a server that drips ends some day"""


def fetch_all(
    files: Sequence[Download],
    pace: Pace,
    counter: ByteCounter,
    done: Callable[[DownloadResult], None],
) -> None:
    """Fetches all; `done` is called once per file. Raises what a disk raises."""
    for folder in dict.fromkeys(file.target.parent for file in files):
        make_folder(folder)
    if files:
        asyncio.run(_fetch_all(files, pace, counter, done))


async def _fetch_all(
    files: Sequence[Download],
    pace: Pace,
    counter: ByteCounter,
    done: Callable[[DownloadResult], None],
) -> None:
    async with open_session() as session:

        async def work(waiting: Iterator[Download]) -> None:
            for file in waiting:
                done(await _fetch(session, file, pace, counter))

        waiting = iter(files)
        workers = [asyncio.create_task(work(waiting)) for _ in range(pace.parallel)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            counter.is_stopped = True
            raise
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


async def _fetch(
    session: aiohttp.ClientSession, file: Download, pace: Pace, counter: ByteCounter
) -> DownloadResult:
    """At the first address that has it."""
    reasons = []
    for url in file.urls:
        outcome = await _fetch_from(session, url, file, pace, counter)
        if isinstance(outcome, int):
            return DownloadResult(file, "fetched", n_bytes=outcome)
        reasons.append(f"{host_of(url)} {outcome}")
    return DownloadResult(file, "failed", "; ".join(reasons))


async def _fetch_from(
    session: aiohttp.ClientSession, url: str, file: Download, pace: Pace, counter: ByteCounter
) -> int | str:
    """The size of the finished file, or why this address does not give it."""
    longest, n_failed = _n_here(file), 0
    while True:
        asked_s = None
        try:
            return await attempt(session, file, url, pace, counter)
        except Refused as refused:
            reason, helps, asked_s = str(refused), refused.helps, refused.wait_s
        except TimeoutError:
            reason, helps = f"did not answer within {pace.timeout_s:g} s", True
        except LOST as lost:
            reason, helps = f"lost the connection ({error_text(lost)})", True
        if (n_here := _n_here(file)) >= longest + NEWS:
            longest, n_failed = n_here, 0
        n_failed += 1
        if not helps or n_failed >= pace.n_tries:
            return reason
        await asyncio.sleep(_wait_s(url, n_failed, pace, asked_s))


def _n_here(file: Download) -> int:
    return file.part.stat().st_size if file.part.is_file() else 0


def _wait_s(url: str, n_failed: int, pace: Pace, asked_s: float | None) -> float:
    """Doubling, and spread so that files that failed together do not come back together."""
    spread = draws.number("wait", url, n_failed) / 2**64
    wait_s = pace.backoff_s * float(1 << (n_failed - 1)) * (0.5 + spread)
    if asked_s is not None:
        wait_s = asked_s + spread * pace.backoff_s
    return min(wait_s, pace.longest_wait_s)
