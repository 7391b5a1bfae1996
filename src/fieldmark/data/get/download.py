"""Download of one file: one request that brings it nearer to its end, whatever the server does.

Bytes go to `NAME.part`; the journal `NAME.part.jsonl` says what they are the beginning of. Only a
file that is whole and has the right checksum gets its name. What turned out wrong is kept as
`NAME.bad`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from fieldmark import draws
from fieldmark.data.get.http import (
    LOST,
    MAX_REDIRECTS,
    HttpResponse,
    RangePastEnd,
    Refused,
    ask,
    host_of,
    open_session,
)
from fieldmark.data.get.verify import Download, DownloadResult, Pace, fault
from fieldmark.errors import DataError
from fieldmark.http_reader import HttpLimits, blocks, error_text
from fieldmark.journal import append_row, read_rows
from fieldmark.progress import Progress

MB = 1_000_000
SPARE_BYTES = 200 * MB
"""left free on the disk by a body of unstated length"""


class Stopped(Exception):
    """The download has ended; who still reads a file may stop."""


class ByteCounter:
    """Bytes of all files, shown as megabytes.

    Never shows more than the total, which may be too small a guess.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.n_bytes = self._total_mb = self._shown_mb = 0
        self.is_stopped = False

    def start(self, label: str, total_bytes: int) -> None:
        self.n_bytes = self._shown_mb = 0
        self._total_mb = -(-total_bytes // MB)
        self.progress.start(f"{label} (MB)", self._total_mb)

    def add(self, n: int) -> None:
        self.n_bytes += n
        step = min(self.n_bytes // MB, self._total_mb) - self._shown_mb
        if step > 0:
            self._shown_mb += step
            self.progress.advance(step)

    def stop_if_asked(self, _n: int = 0) -> None:
        if self.is_stopped:
            raise Stopped


def size(n_bytes: float) -> str:
    """
    >>> size(950), size(3_400_000), size(7.2e9)
    ('950 B', '3.4 MB', '7.2 GB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:.1f} {unit}"
    return f"{n_bytes:.0f} B"


@dataclass(frozen=True, slots=True)
class _PartInfo:
    """What the bytes of a part are the beginning of."""

    url: str = ""
    validator: str = ""
    total: int | None = None
    is_pieced: bool = False
    """came in several answers"""
    is_open: bool = False
    """the server stated no length: it may have been cut off"""


async def attempt(
    session: aiohttp.ClientSession, file: Download, url: str, pace: Pace, counter: ByteCounter
) -> int:
    """One request; the size of the finished file. Raises `Refused`, or what a broken line raises.

    Whatever arrived is kept for the next attempt.
    """
    about, start = _resume_point(file, url)
    ends = file.exact_bytes if file.exact_bytes is not None else about.total
    if not (start and start == ends):
        about = await _request(session, file, url, pace, counter)
    with _writing(file):
        return await asyncio.to_thread(_finish, file, about, counter)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder}  cannot be made ({error.strerror}): choose another folder."
        ) from error


def _resume_point(file: Download, url: str) -> tuple[_PartInfo, int]:
    """What is here already, if the server can go on from it; else nothing."""
    about = _PartInfo()
    for row in read_rows(file.about):
        with contextlib.suppress(TypeError):  # of another version
            about = _PartInfo(**row)
    start = size_here(file.part)
    is_provable = about.url == url and bool(about.validator)
    # Bytes of a mirror are worth keeping only where a checksum will tell whether they fit.
    if start and (is_provable or (file.has_checksum and about.url)):
        return about, start
    return _PartInfo(), 0


async def _request(
    session: aiohttp.ClientSession, file: Download, url: str, pace: Pace, counter: ByteCounter
) -> _PartInfo:
    """Streams to the part; tells what it is now."""
    about, start = _resume_point(file, url)
    validator = about.validator if about.url == url else ""
    limits = HttpLimits(None, pace.timeout_s, pace.timeout_s, max_redirects=MAX_REDIRECTS)
    try:
        async with ask(session, url, start, validator, limits) as answer:
            if start and answer.start == 0:
                start = 0  # ranges are not served, or the file is another one now: all of it comes
            _refuse_odd(file, answer, start, about if about.url == url else _PartInfo())
            with _writing(file):
                part = file.part.open("ab" if start else "wb", buffering=0)
            with part:
                # The bytes of another file are gone before the new description stands.
                is_open = answer.total is None
                about = _PartInfo(url, answer.validator, answer.total, start > 0, is_open)
                append_row(file.about, asdict(about))
                watch = _StallWatch(pace, counter)
                await _copy(file, answer, part, start, watch, limits)
            return about
    except RangePastEnd as end:
        if start and end.total == start:
            return replace(about, is_open=False)
        _discard(file)
        raise


def _refuse_odd(file: Download, answer: HttpResponse, start: int, about: _PartInfo) -> None:
    """Refuses an answer that cannot be the file, before any of it is written."""
    if answer.start != start:
        _discard(file)
        raise Refused("sent a different part of the file", helps=True)
    is_other = about.total is not None and answer.total not in (None, about.total)
    if start and (is_other or (about.validator and answer.validator not in ("", about.validator))):
        _discard(file)
        raise Refused("has another file now: starting over", helps=True)
    content = answer.body.content_type
    if content.startswith("text/html") and file.target.suffix.lower() not in (".html", ".htm"):
        raise Refused("sent a web page instead of the file", helps=False)
    expected = file.exact_bytes
    if not file.has_checksum and None not in (expected, answer.total) and expected != answer.total:
        raise Refused(f"has a file of {answer.total:,} bytes, expected {expected:,}", helps=False)
    free = shutil.disk_usage(file.target.parent).free
    if answer.total is not None and answer.total - start > free:
        needs = f"needs {size(answer.total - start)} more"
        raise Refused(f"{needs}, but only {size(free)} are free on that disk", helps=False)


class _StallWatch:
    """Ends a transfer that only drips, has no end, or fills the disk."""

    def __init__(self, pace: Pace, counter: ByteCounter) -> None:
        self.pace, self.counter = pace, counter
        self.since, self.n_since = time.monotonic(), 0

    def on_bytes(self, n: int) -> None:
        self.counter.add(n)
        self.n_since += n
        passed = time.monotonic() - self.since
        if passed < self.pace.stall_s:
            return
        if self.n_since < self.pace.least_rate * passed:
            raise Refused(f"sends {self.n_since / passed:.0f} bytes a second", helps=True)
        self.since, self.n_since = time.monotonic(), 0


async def _copy(
    file: Download,
    answer: HttpResponse,
    part: IO[bytes],
    start: int,
    watch: _StallWatch,
    limits: HttpLimits,
) -> None:
    done, total, most = start, answer.total, file.most_bytes(watch.pace)
    room = shutil.disk_usage(file.target.parent).free - SPARE_BYTES
    protocol = answer.body.connection.protocol if answer.body.connection is not None else None
    try:
        async for block in blocks(answer.body, limits):
            with _writing(file):
                view = memoryview(block)
                while view:
                    view = view[part.write(view) :]
            done += len(block)
            watch.on_bytes(len(block))
            if most is not None and done > most:
                expected = "expected" if file.n_bytes is not None else "allowed"
                raise Refused(f"sends more than the {expected} {most:,} bytes", helps=False)
            if total is None and done - start > room:
                raise Refused("sends more than fits on that disk", helps=False)
    except aiohttp.ClientPayloadError:
        if total is None:
            raise
        # Fewer bytes than announced: told below, with how many.
    with _writing(file):
        await asyncio.to_thread(os.fsync, part.fileno())
    if total is not None and done < total:
        raise Refused(f"sent {done - start:,} of {total - start:,} bytes", helps=True)
    is_told = file.has_checksum or file.exact_bytes is not None
    # aiohttp ends the body at the stated length, and takes what follows for a broken next reply.
    has_more = protocol is not None and isinstance(protocol.exception(), HttpProcessingError)
    if has_more and not is_told:
        _discard(file)
        raise Refused(f"sends more than the {total:,} bytes it stated", helps=True)


def _finish(file: Download, about: _PartInfo, counter: ByteCounter) -> int:
    """Gives the file its name if it is right; sets it aside, or starts over, if not."""
    why = fault(file, file.part, counter.stop_if_asked)
    n_bytes = file.part.stat().st_size
    if not why and n_bytes == 0 and not file.has_checksum and file.n_bytes != 0:
        why = "it is empty"
    if not why:
        file.part.replace(file.target)
        file.about.unlink(missing_ok=True)
        return n_bytes
    if about.is_open:
        raise Refused(f"sent a wrong file, or not all of it: {why}", helps=True)
    if about.is_pieced:
        _discard(file)  # the parts may not belong together: whole and fresh, it may be right
        raise Refused(f"sent parts that do not make one file: {why}", helps=True)
    file.part.replace(file.bad)
    file.about.unlink(missing_ok=True)
    raise Refused(f"sent a wrong file, kept as {file.bad.name}: {why}", helps=False)


def _discard(file: Download) -> None:
    file.part.unlink(missing_ok=True)
    file.about.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(file: Download) -> Iterator[None]:
    """A disk that is full or read-only ends everything; it must not pass for a broken line."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{file.target}  cannot be written ({error.strerror or error}): what was fetched is "
            "kept; fix this and run the same command again."
        ) from error


# --- Download queue: a few files at once, retries with exponential backoff, mirrors
#
# Each worker brings one file to its end before it takes the next. A wait that a server asks for
# (`Retry-After`) is kept by that worker.


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
    longest, n_failed = size_here(file.part), 0
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
        if (n_here := size_here(file.part)) >= longest + NEWS:
            longest, n_failed = n_here, 0
        n_failed += 1
        if not helps or n_failed >= pace.n_tries:
            return reason
        # Doubling, and spread so that files that failed together do not come back together.
        spread = draws.number("wait", url, n_failed) / 2**64
        wait_s = pace.backoff_s * float(1 << (n_failed - 1)) * (0.5 + spread)
        if asked_s is not None:
            wait_s = asked_s + spread * pace.backoff_s
        await asyncio.sleep(min(wait_s, pace.longest_wait_s))


def size_here(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
