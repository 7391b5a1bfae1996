"""Download queue: a few files at once, retries with exponential backoff, mirrors.

Each thread brings one file to its end before it takes the next. A wait that a server asks for
(`Retry-After`) is kept by that thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from fieldmark import draws
from fieldmark.data.get.download import ByteCounter, Stopped, attempt, make_folder
from fieldmark.data.get.http import LOST, Refused, host_of
from fieldmark.data.get.verify import Download, DownloadResult, Pace

NEWS = 1 << 16
"""bytes an attempt must add to count as progress: a server that drips ends some day"""


def fetch_all(
    files: Sequence[Download],
    pace: Pace,
    counter: ByteCounter,
    done: Callable[[DownloadResult], None],
) -> None:
    """Fetches all; `done` is called once per file, one at a time. Raises what a disk raises."""
    waiting: queue.SimpleQueue[Download] = queue.SimpleQueue()
    for file in files:
        make_folder(file.target.parent)
        waiting.put(file)
    errors: list[Exception] = []
    telling = threading.Lock()

    def work() -> None:
        try:
            while not counter.is_stopped:
                result = _fetch(waiting.get_nowait(), pace, counter)
                with telling:
                    done(result)
        except (queue.Empty, Stopped):
            pass
        except Exception as error:  # noqa: BLE001 - the thread's border: the caller raises it
            errors.append(error)
            counter.stop()

    threads = [
        threading.Thread(target=work, daemon=True)  # a dead line must not delay Ctrl-C
        for _ in range(min(pace.parallel, len(files)))
    ]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and not errors:
            for thread in threads:
                thread.join(0.2)
    except KeyboardInterrupt:
        counter.stop()
        raise
    if errors:
        raise errors[0]


def _fetch(file: Download, pace: Pace, counter: ByteCounter) -> DownloadResult:
    """At the first address that has it."""
    reasons = []
    for url in file.urls:
        outcome = _fetch_from(url, file, pace, counter)
        if isinstance(outcome, int):
            return DownloadResult(file, "fetched", n_bytes=outcome)
        reasons.append(f"{host_of(url)} {outcome}")
    return DownloadResult(file, "failed", "; ".join(reasons))


def _fetch_from(url: str, file: Download, pace: Pace, counter: ByteCounter) -> int | str:
    """The size of the finished file, or why this address does not give it."""
    longest, n_failed = _n_here(file), 0
    while True:
        asked_s = None
        try:
            return attempt(file, url, pace, counter)
        except Refused as refused:
            reason, helps, asked_s = str(refused), refused.helps, refused.wait_s
        except LOST as lost:
            reason, helps = f"lost the connection ({lost or type(lost).__name__})", True
        if (n_here := _n_here(file)) >= longest + NEWS:
            longest, n_failed = n_here, 0
        n_failed += 1
        if not helps or n_failed >= pace.n_tries:
            return reason
        counter.wait(_wait_s(url, n_failed, pace, asked_s))


def _n_here(file: Download) -> int:
    return file.part.stat().st_size if file.part.is_file() else 0


def _wait_s(url: str, n_failed: int, pace: Pace, asked_s: float | None) -> float:
    """Doubling, and spread so that files that failed together do not come back together."""
    spread = draws.number("wait", url, n_failed) / 2**64
    wait_s = pace.backoff_s * float(1 << (n_failed - 1)) * (0.5 + spread)
    if asked_s is not None:
        wait_s = asked_s + spread * pace.backoff_s
    return min(wait_s, pace.longest_wait_s)
