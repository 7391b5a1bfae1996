"""How are requests and tokens per minute kept, whatever the concurrency?

A bucket of tokens with one queue: only its head waits, and it looks again after waking. In any
window of 60 s at most `per_minute` pass: what the bucket holds at once (`burst`) is taken off the
rate it refills with.
"""

from __future__ import annotations

import asyncio

from fieldmark.chat._clock import Clock
from fieldmark.errors import UsageError

_BURST_S = 0.25
"""so much of the rate may come at once: catches up after late wake-ups. No more, because vendors
enforce a minute's limit by the second."""
_LEAST_RATE = 0.02
"""of the limit: what is left for refilling when one request is as large as a minute's allowance"""


class Bucket:
    """At most `per_minute` units in any 60 s; None lets everything pass."""

    def __init__(self, per_minute: float | None, clock: Clock, what: str = "units") -> None:
        self._per_minute, self._clock, self._what = per_minute, clock, what
        self._burst = max(1.0, (per_minute or 0) / 60 * _BURST_S)
        self._level, self._stamp = self._burst, clock.now()
        self._line = asyncio.Lock()

    async def take(self, n: float = 1.0) -> None:
        """Returns when `n` units may be spent, and has spent them."""
        if self._per_minute is None:
            return
        if n > self._per_minute:
            raise UsageError(
                f"one request needs about {n:,.0f} {self._what}, the limit is "
                f"{self._per_minute:,.0f} a minute: raise the limit or ask for less."
            )
        async with self._line:
            if n > self._burst:
                self._burst = n
            while (wait_s := self._wait_s(n)) > 0:
                await self._clock.sleep(wait_s)
            self._level -= n

    def charge(self, n: float) -> None:
        """Takes what a request turned out to need beyond its reservation."""
        if self._per_minute is not None and n > 0:
            self._refill()
            self._level -= n

    def _wait_s(self, n: float) -> float:
        self._refill()
        lack = n - self._level
        return 0.0 if lack <= 1e-9 else max(lack / self._rate, 1e-4)

    @property
    def _rate(self) -> float:
        assert self._per_minute is not None
        return max(self._per_minute - self._burst, self._per_minute * _LEAST_RATE) / 60

    def _refill(self) -> None:
        now = self._clock.now()
        self._level = min(self._burst, self._level + (now - self._stamp) * self._rate)
        self._stamp = now
