"""Rate limiter (token bucket), and adaptive concurrency (additive increase, sharp decrease).

`TokenBucket` keeps requests and tokens per minute, whatever the concurrency: one queue, of which
only the head waits, and it looks again after waking. In any window of 60 s at most `per_minute`
pass: what the bucket holds at once (`burst`) is taken off the rate it refills with.

`AdaptiveConcurrency` is how many requests may be in flight at once. It doubles per clean round as
long as answers do not get slower by it (a server that answers one at a time only lets them queue),
and after a 429 grows a little per round. It is cut once per episode (requests sent before the cut
cannot cut again) by a 429, and by answers that come too late or nearly so: then to what the server
answered within the time limit. Nobody sends before Retry-After, or the reset of an exhausted
`x-ratelimit-*` allowance, has passed. Requests that try again go before new ones.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import math
import re
import statistics
import time
from collections import deque
from collections.abc import Mapping

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
                f"one request needs about {n:,.0f} {self._what}, but the limit is "
                f"{self._per_minute:,.0f} a minute: raise the limit, or make requests smaller."
            )
        async with self._queue:
            if n > self._burst:  # the largest request must fit; the rate falls by as much
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


START, START_LOCAL, LEAST, MOST = 8, 2, 1, 64
_CUT = 0.7
"""of the limit that is left after a 429"""
_GROWTH = 0.05
"""of the limit that is added per clean round once there was a 429"""
_BUSY = 0.8
"""growth needs proof that the limit was used"""
_SLOWER = 1.6
"""doubling that makes answers take so many times as long was not worth it"""
_LATE = 0.5
"""answers that take this share of the time limit are a warning: more would come too late"""
_FIRST_HOLD = 8
"""rounds until doubling is tried again where it was not worth it; then twice as many"""
_MOST_PAUSE_S = 60.0

log = logging.getLogger(__name__)


class AdaptiveConcurrency:
    """How many requests may be in flight."""

    def __init__(
        self, clock: Clock, most: int = MOST, start: int = START, timeout_s: float = math.inf
    ) -> None:
        self._clock, self.most, self._timeout_s = clock, most, timeout_s
        self.limit = min(start, most)
        self.in_flight = 0
        self.peak = 0
        """most in flight at any time"""
        self.episodes = 0
        """cuts so far"""
        self._seen_peak = 0
        self._latencies: list[float] = []
        """of the answers of this round"""
        self._lower: tuple[int, float] | None = None
        """the limit before the last doubling, and how long answers took under it"""
        self._hold, self._next_hold = 0, _FIRST_HOLD
        self._is_doubling = True
        self._limit_since = self._paused_until = -math.inf
        self._answered_at: deque[float] = deque(maxlen=4 * MOST)
        self._again: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()

    async def enter(self, is_again: bool = False) -> int:
        """Waits for a place and takes it; gives the episode the request belongs to."""
        while True:
            await self._wait_out_pause()
            if self.in_flight < self.limit and (is_again or not self._again):
                break
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue = self._again if is_again else self._new
            queue.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting in queue:
                    queue.remove(waiting)
                else:  # woken and cancelled at once: the place goes to the next
                    self._wake()
                raise
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        self._seen_peak = max(self._seen_peak, self.in_flight)
        return self.episodes

    def leave(self) -> None:
        self.in_flight -= 1
        self._wake()

    def succeeded(self, episode: int, latency_s: float) -> None:
        """Counts towards a round; a clean, busy round may let the limit grow."""
        now = self._clock.now()
        self._answered_at.append(now)
        if episode != self.episodes:
            return  # sent before the last cut
        if latency_s > _LATE * self._timeout_s and self.limit > LEAST:
            self._cut(self._in_time(), f"answers take {latency_s:.0f} s")
            return
        if now - latency_s < self._limit_since:
            return  # sent under the limit before: it says nothing about this one
        self._latencies.append(latency_s)
        if len(self._latencies) >= max(self.limit, 4):
            self._end_round()

    def faltered(self) -> None:
        """An error that is not about rates: no growth in this round."""
        self._latencies.clear()

    def refused(self, episode: int, wait_s: float | None) -> None:
        """A 429 of a request of this episode."""
        self._latencies.clear()
        self.pause(wait_s or 0.0)
        if episode == self.episodes:
            self._is_doubling = False
            self._cut(math.floor(self.limit * _CUT), "429")

    def came_late(self, episode: int) -> None:
        """No answer in time. The server may still be computing what nobody waits for: it gets the
        time that one answer takes, for each of them.
        """
        self._latencies.clear()
        in_time, now = self._in_time(), self._clock.now()
        resting_s = max(0.0, self._paused_until - now) + self._timeout_s / max(1, 2 * in_time)
        self.pause(min(_MOST_PAUSE_S, resting_s))
        if episode == self.episodes:
            self._cut(in_time, "no answer in time")

    def pause(self, wait_s: float) -> None:
        """Nobody sends for so long."""
        if wait_s > 0:
            self._paused_until = max(self._paused_until, self._clock.now() + wait_s)

    def heed(self, headers: Mapping[str, str], tokens: int = 0) -> None:
        """Waits out an allowance that is used up; `tokens` is what a request takes."""
        self.pause(min(_MOST_PAUSE_S, wait_for_allowance_s(headers, tokens)))

    def _in_time(self) -> int:
        """Half of what was answered within one time limit: so many can wait for one another."""
        since = self._clock.now() - self._timeout_s
        return sum(moment >= since for moment in self._answered_at) // 2

    def _cut(self, to: int, why: str) -> None:
        self.episodes += 1
        self._latencies.clear()
        self._lower = None
        self._hold, self._next_hold = self._next_hold, 2 * self._next_hold
        before = self.limit
        self.limit = max(LEAST, min(to, math.floor(self.limit * _CUT)))
        self._limit_since = self._clock.now()
        if self.limit < before:
            log.info("%s: %d requests at a time instead of %d", why, self.limit, before)

    def _end_round(self) -> None:
        took = statistics.median(self._latencies)
        was_busy = self._seen_peak >= _BUSY * self.limit
        self._latencies.clear()
        self._seen_peak = self.in_flight
        if self._lower is not None and took > _SLOWER * self._lower[1]:
            self.limit, self._lower, self._limit_since = self._lower[0], None, self._clock.now()
            self._hold, self._next_hold = self._next_hold, 2 * self._next_hold
            log.debug("more at a time is not faster: back to %d", self.limit)
            return
        self._hold -= 1
        if not was_busy or self.limit >= self.most or self._hold > 0:
            return
        # Slow start, then additive increase and multiplicative decrease (TCP: Jacobson 1988).
        if self._is_doubling:
            self._lower = (self.limit, took)
            self.limit = min(self.most, 2 * self.limit)
        else:
            self.limit = min(self.most, self.limit + max(1, round(self.limit * _GROWTH)))
        self._limit_since = self._clock.now()
        log.debug("%d requests at a time", self.limit)
        self._wake()

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


_ALLOWANCES = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", False),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", True),
    ("x-ratelimit-remaining", "x-ratelimit-reset", False),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset", False),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset", True),
)
"""what is left, when it is whole again, and whether it counts tokens"""
_SPANS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"([\d.]+)(ms|s|m|h|d)")


def wait_for_allowance_s(headers: Mapping[str, str], tokens: int = 0) -> float:
    """How long until the next request may be sent, by the allowances that a reply tells of.

    >>> wait_for_allowance_s({"x-ratelimit-remaining-requests": "0",
    ...                       "x-ratelimit-reset-requests": "1m2.5s"})
    62.5
    """
    waits = [0.0]
    for left, reset, is_tokens in _ALLOWANCES:
        if left in headers and reset in headers:
            try:
                is_used_up = float(headers[left]) < max(1, tokens if is_tokens else 1)
                waits += [_until(headers[reset])] if is_used_up else []
            except ValueError:
                continue
    return max(waits)


def _until(text: str) -> float:
    """Seconds: `12`, `1m2.5s`, a moment (RFC 3339), or seconds or milliseconds since 1970."""
    spans = _SPAN.findall(text)
    if spans and "".join(map("".join, spans)) == text:
        return sum(float(number) * _SPANS[unit] for number, unit in spans)
    if "T" in text:
        moment = datetime.datetime.fromisoformat(text).timestamp()
    else:
        moment = float(text)
        if moment < 1e8:
            return max(0.0, moment)
        moment /= 1000 if moment > 1e11 else 1  # milliseconds
    return max(0.0, moment - time.time())
