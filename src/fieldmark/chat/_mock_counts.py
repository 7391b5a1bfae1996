"""What did the server see? Counted there, so that a sender's promises can be proved."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Peak:
    """The most that fell into any window of so many seconds."""

    def __init__(self, window_s: float) -> None:
        self.window_s, self.most = window_s, 0
        self._held: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, now: float, n: int) -> None:
        self._held.append((now, n))
        self._sum += n
        while self._held[0][0] <= now - self.window_s:
            self._sum -= self._held.popleft()[1]
        self.most = max(self.most, self._sum)


class Counts:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.in_flight = self.max_in_flight = self.n_requests = self.n_tokens = 0
        self.faults: Counter[str] = Counter()
        self.per_second, self.per_minute = Peak(1.0), Peak(60.0)
        self.tokens_per_minute = Peak(60.0)

    @contextmanager
    def flight(self) -> Iterator[None]:
        self.n_requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        now = self._now()
        self.per_second.add(now, 1)
        self.per_minute.add(now, 1)
        try:
            yield
        finally:
            self.in_flight -= 1

    def spend(self, tokens: int) -> None:
        self.n_tokens += tokens
        self.tokens_per_minute.add(self._now(), tokens)

    def note(self, fault: str) -> None:
        self.faults[fault] += 1

    def facts(self) -> dict[str, Any]:
        return {
            "n_requests": self.n_requests,
            "max_in_flight": self.max_in_flight,
            "max_per_second": self.per_second.most,
            "max_per_minute": self.per_minute.most,
            "max_tokens_per_minute": self.tokens_per_minute.most,
            "n_tokens": self.n_tokens,
            "faults": dict(self.faults),
        }
