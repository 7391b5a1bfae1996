"""Rate limiter (token bucket), and adaptive concurrency (additive increase, sharp decrease).

`TokenBucket` keeps requests and tokens per minute, whatever the concurrency: one queue, of which
only the head waits, and it looks again after waking. In any window of 60 s at most `per_minute`
pass: what the bucket holds at once (`burst`) is taken off the rate it refills with.

`AdaptiveConcurrency` is how many requests may be in flight at once. Fixed, or found out: doubling
per clean round until the first 429, then a little more per round; a 429 cuts once per episode
(requests sent before the cut cannot cut again), and nobody sends before Retry-After has passed.
Errors that are not 429 only halt growth. Requests that try again go before new ones.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque

from fieldmark.chat.send.options import Clock
from fieldmark.errors import UsageError

_BURST_S = 0.25
"""so much of the rate may come at once: catches up after late wake-ups. No more, because vendors
enforce a minute's limit by the second."""
_LEAST_RATE = 0.02
"""of the limit: what is left for refilling when one request is as large as a minute's allowance"""


class TokenBucket:
    """At most `per_minute` units in any 60 s; None lets everything pass."""

    def __init__(self, per_minute: float | None, clock: Clock, what: str = "units") -> None:
        self._per_minute, self._clock, self._what = per_minute, clock, what
        self._burst = max(1.0, (per_minute or 0) / 60 * _BURST_S)
        self._level, self._stamp = self._burst, clock.now()
        self._queue = asyncio.Lock()

    async def take(self, n: float = 1.0) -> None:
        """Returns when `n` units may be spent, and has spent them."""
        if self._per_minute is None:
            return
        if n > self._per_minute:
            raise UsageError(
                f"one request needs about {n:,.0f} {self._what}, the limit is "
                f"{self._per_minute:,.0f} a minute: raise the limit or ask for less."
            )
        async with self._queue:
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
        """Until n units are there. Less than 0.1 ms is rounding, and would be waited for anew."""
        self._refill()
        lack = n - self._level
        return 0.0 if lack <= 1e-9 else max(lack / self._rate, 1e-4)

    @property
    def _rate(self) -> float:
        """Units a second. A full bucket passes `burst` at once and then refills for 60 s, so
        burst + 60 rate <= per_minute keeps every window of 60 s within the limit.
        """
        assert self._per_minute is not None
        return max(self._per_minute - self._burst, self._per_minute * _LEAST_RATE) / 60

    def _refill(self) -> None:
        now = self._clock.now()
        self._level = min(self._burst, self._level + (now - self._stamp) * self._rate)
        self._stamp = now


START, LEAST, MOST = 8, 1, 64
_CUT = 0.7
"""of the limit that is left after a 429"""
_GROWTH = 0.05
"""of the limit that is added per clean round once there was a 429"""
_BUSY = 0.8
"""growth needs proof that the limit was used"""

log = logging.getLogger(__name__)


class AdaptiveConcurrency:
    """How many requests may be in flight."""

    def __init__(self, clock: Clock, fixed: int | None = None, most: int = MOST) -> None:
        self._clock = clock
        self.is_fixed = fixed is not None
        self.limit = fixed if fixed is not None else min(START, most)
        self.most = self.limit if self.is_fixed else most
        self.in_flight = 0
        self.peak = 0
        """most in flight at any time"""
        self.episodes = 0
        """429 episodes so far"""
        self._seen_peak = self._clean = 0
        self._is_starting = True
        self._paused_until = -math.inf
        self._again: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()

    async def enter(self, is_again: bool = False) -> int:
        """Waits for a place and takes it; gives the episode the request belongs to."""
        while True:
            await self._wait_out_pause()
            if self._has_room(is_again):
                break
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue = self._again if is_again else self._new
            queue.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting in queue:
                    queue.remove(waiting)
                else:
                    self._wake()
                raise
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        self._seen_peak = max(self._seen_peak, self.in_flight)
        return self.episodes

    def leave(self) -> None:
        self.in_flight -= 1
        self._wake()

    def succeeded(self) -> None:
        """Counts towards a round; a clean, busy round lets the limit grow."""
        self._clean += 1
        if self.is_fixed or self._clean < max(self.limit, 4):
            return
        if self._seen_peak >= _BUSY * self.limit and self.limit < self.most:
            step = self.limit if self._is_starting else max(1, round(self.limit * _GROWTH))
            self.limit = min(self.most, self.limit + step)
            log.debug("concurrency %d", self.limit)
            self._wake()
        self._clean, self._seen_peak = 0, self.in_flight

    def faltered(self) -> None:
        """An error that is not about rates: no growth in this round."""
        self._clean = 0

    def refused(self, episode: int, wait_s: float | None) -> None:
        """A 429 of a request of this episode."""
        self._clean = 0
        if wait_s is not None:
            self._paused_until = max(self._paused_until, self._clock.now() + wait_s)
        if episode != self.episodes:
            return
        self.episodes += 1
        self._is_starting = False
        if not self.is_fixed:
            self.limit = max(LEAST, math.floor(self.limit * _CUT))
            log.info("429: concurrency down to %d", self.limit)

    def _has_room(self, is_again: bool) -> bool:
        return self.in_flight < self.limit and (is_again or not self._again)

    def _wake(self) -> None:
        """As many of those waiting as there are places; each looks again when it runs."""
        free = self.limit - self.in_flight
        for queue in (self._again, self._new):
            while free > 0 and queue:
                waiting = queue.popleft()
                if not waiting.done():
                    waiting.set_result(None)
                    free -= 1

    async def _wait_out_pause(self) -> None:
        while (wait_s := self._paused_until - self._clock.now()) > 0:
            await self._clock.sleep(wait_s)
