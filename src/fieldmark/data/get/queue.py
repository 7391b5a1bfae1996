"""Download queue: many files at once, retries with exponential backoff, mirrors, limits per host.

A host has few requests open at once, some time between two of them, and a rest where it asked for
one. A file that must wait goes back into the queue, so no thread ever sleeps beside work.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fieldmark import draws
from fieldmark.data.get.download import ByteCounter, Stopped, attempt, make_folder
from fieldmark.data.get.http import LOST, Refused, host_of
from fieldmark.data.get.verify import Download, DownloadResult, Pace


@dataclass(slots=True)
class QueuedDownload:
    """A file and how far it got: at which address, with how many failures."""

    file: Download
    mirror: int = 0
    n_failed: int = 0
    best: int = 0
    """the longest part so far"""
    not_before: float = 0.0
    reasons: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.file.urls[self.mirror]

    @property
    def host(self) -> str:
        return host_of(self.url)


class HostQueue:
    """The files that wait, by host. `take` blocks until one may go; None = all is done."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._waiting: dict[str, list[tuple[float, int, QueuedDownload]]] = {}
        self._busy: Counter[str] = Counter()
        self._free_at: dict[str, float] = {}
        self._n_open = self._serial = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def add(self, file: Download) -> None:
        with self._changed:
            self._n_open += 1
            self._put(QueuedDownload(file))

    def take(self) -> QueuedDownload | None:
        with self._changed:
            while self._n_open and not self._is_closed:
                now = time.monotonic()
                queued = self._ready(now)
                if queued is not None:
                    return queued
                self._changed.wait(max(self._next_at() - now, 0.005))
            return None

    def give_back(
        self, queued: QueuedDownload, host: str, is_over: bool, rest_s: float = 0.0
    ) -> None:
        """Ends an attempt at `host`: for good, or to wait for another. `rest_s`: nobody asks it."""
        with self._changed:
            self._busy[host] -= 1
            if rest_s:
                until = time.monotonic() + rest_s
                self._free_at[host] = max(until, self._free_at.get(host, 0.0))
            if is_over:
                self._n_open -= 1
            else:
                self._put(queued)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _put(self, queued: QueuedDownload) -> None:
        self._serial += 1
        heap = self._waiting.setdefault(queued.host, [])
        heapq.heappush(heap, (queued.not_before, self._serial, queued))

    def _ready(self, now: float) -> QueuedDownload | None:
        for host in list(self._waiting):
            if self._at(host) <= now:
                _, _, queued = heapq.heappop(self._waiting[host])
                heap = self._waiting.pop(host)
                if heap:
                    self._waiting[host] = heap  # last in the row of hosts: each gets its turn
                self._busy[host] += 1
                self._free_at[host] = now + self._pace.delay_s
                return queued
        return None

    def _at(self, host: str) -> float:
        """When this host's next file may go."""
        if self._busy[host] >= self._pace.per_host:
            return float("inf")
        return max(self._waiting[host][0][0], self._free_at.get(host, 0.0))

    def _next_at(self) -> float:
        soonest = min(map(self._at, self._waiting), default=float("inf"))
        return min(soonest, time.monotonic() + 1.0)


NEWS = 1 << 16
"""bytes an attempt must add to count as progress: a server that drips ends some day"""


def fetch_all(
    files: Sequence[Download],
    pace: Pace,
    counter: ByteCounter,
    done: Callable[[DownloadResult], None],
) -> None:
    """Fetches all; `done` is called once per file, one at a time. Raises what a disk raises."""
    workers = _Workers(pace, counter, done)
    for file in files:
        make_folder(file.target.parent)
        workers.queue.add(file)
    threads = [
        threading.Thread(target=workers.work, daemon=True)  # a dead line must not delay Ctrl-C
        for _ in range(min(pace.parallel, len(files)))
    ]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and not workers.errors:
            for thread in threads:
                thread.join(0.2)
    except KeyboardInterrupt:
        counter.stop()
        workers.queue.close()
        raise
    if workers.errors:
        raise workers.errors[0]


class _Workers:
    """What the threads of one download share."""

    def __init__(
        self, pace: Pace, counter: ByteCounter, done: Callable[[DownloadResult], None]
    ) -> None:
        self.pace, self.counter, self.done = pace, counter, done
        self.queue = HostQueue(pace)
        self.errors: list[Exception] = []
        self._telling = threading.Lock()

    def work(self) -> None:
        try:
            while (queued := self.queue.take()) is not None:
                self._go(queued)
        except Stopped:
            pass
        except Exception as error:  # noqa: BLE001 - the thread's border: the caller raises it
            self.errors.append(error)
            self.counter.stop()
            self.queue.close()

    def _go(self, queued: QueuedDownload) -> None:
        host, rest_s = queued.host, 0.0
        try:
            n_bytes = attempt(queued.file, queued.url, self.pace, self.counter)
            result: DownloadResult | None = DownloadResult(queued.file, "fetched", n_bytes=n_bytes)
        except Refused as refused:
            wait_s = self._wait(queued, refused.wait_s)
            rest_s = wait_s if refused.is_host else 0.0
            result = self._failed(queued, str(refused), refused.helps, wait_s)
        except LOST as lost:
            words = str(lost) or type(lost).__name__
            result = self._failed(
                queued, f"lost the connection ({words})", True, self._wait(queued)
            )
        if result is not None:
            with self._telling:
                self.done(result)
        self.queue.give_back(queued, host, result is not None, rest_s)

    def _failed(
        self, queued: QueuedDownload, reason: str, helps: bool, wait_s: float
    ) -> DownloadResult | None:
        """The end of it, or None where it goes on: here again, or at the next mirror."""
        size = queued.file.part.stat().st_size if queued.file.part.is_file() else 0
        if size >= queued.best + NEWS:
            queued.best, queued.n_failed = size, 0
        queued.n_failed += 1
        if helps and queued.n_failed < self.pace.n_tries:
            queued.not_before = time.monotonic() + wait_s
            return None
        queued.reasons.append(f"{host_of(queued.url)} {reason}")
        if queued.mirror + 1 == len(queued.file.urls):
            return DownloadResult(queued.file, "failed", "; ".join(queued.reasons))
        queued.mirror += 1
        queued.n_failed, queued.not_before = 0, 0.0
        return None

    def _wait(self, queued: QueuedDownload, asked_s: float | None = None) -> float:
        """Doubling, and spread so that files that failed together do not come back together."""
        spread = draws.number("wait", queued.url, queued.n_failed) / 2**64
        wait_s = self.pace.backoff_s * float(1 << queued.n_failed) * (0.5 + spread)
        if asked_s is not None:
            wait_s = asked_s + spread * self.pace.backoff_s
        return min(wait_s, self.pace.longest_wait_s)
