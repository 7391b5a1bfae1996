"""Whose turn is it, when every host may only be asked so often?

A host has few requests open at once, some time between two of them, and a rest where it asked for
one. A turn that must wait goes back into the line, so no thread ever sleeps beside work.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from fieldmark.data._get._http import host_of
from fieldmark.data._get._job import Job, Pace


@dataclass(slots=True)
class Turn:
    """A job and how far it got: which address, how many failures there, why the others failed."""

    job: Job
    mirror: int = 0
    n_failed: int = 0
    best: int = 0
    """the longest part so far"""
    not_before: float = 0.0
    reasons: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.job.urls[self.mirror]

    @property
    def host(self) -> str:
        return host_of(self.url)


class Line:
    """The turns that wait, by host. `take` blocks until one may go; None = all is done."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._waiting: dict[str, list[tuple[float, int, Turn]]] = {}
        self._busy: Counter[str] = Counter()
        self._free_at: dict[str, float] = {}
        self._n_open = self._serial = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def add(self, job: Job) -> None:
        with self._changed:
            self._n_open += 1
            self._put(Turn(job))

    def take(self) -> Turn | None:
        with self._changed:
            while self._n_open and not self._is_closed:
                now = time.monotonic()
                turn = self._ready(now)
                if turn is not None:
                    return turn
                self._changed.wait(max(self._next_at() - now, 0.005))
            return None

    def give_back(self, turn: Turn, host: str, is_over: bool, rest_s: float = 0.0) -> None:
        """Ends a turn at `host`: for good, or to wait for another. `rest_s`: nobody asks it."""
        with self._changed:
            self._busy[host] -= 1
            if rest_s:
                until = time.monotonic() + rest_s
                self._free_at[host] = max(until, self._free_at.get(host, 0.0))
            if is_over:
                self._n_open -= 1
            else:
                self._put(turn)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _put(self, turn: Turn) -> None:
        self._serial += 1
        heap = self._waiting.setdefault(turn.host, [])
        heapq.heappush(heap, (turn.not_before, self._serial, turn))

    def _ready(self, now: float) -> Turn | None:
        for host in list(self._waiting):
            if self._at(host) <= now:
                _, _, turn = heapq.heappop(self._waiting[host])
                heap = self._waiting.pop(host)
                if heap:
                    self._waiting[host] = heap  # last in the row of hosts: each gets its turn
                self._busy[host] += 1
                self._free_at[host] = now + self._pace.delay_s
                return turn
        return None

    def _at(self, host: str) -> float:
        """When this host's next turn may go."""
        if self._busy[host] >= self._pace.per_host:
            return float("inf")
        return max(self._waiting[host][0][0], self._free_at.get(host, 0.0))

    def _next_at(self) -> float:
        soonest = min(map(self._at, self._waiting), default=float("inf"))
        return min(soonest, time.monotonic() + 1.0)
