"""Do rate buckets and slots hold under any concurrency? In invented time."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import time
from bisect import bisect_right
from typing import Any

import pytest

from fieldmark.chat.send.rate_limiter import (
    AdaptiveConcurrency,
    TokenBucket,
    wait_for_allowance_s,
)
from fieldmark.errors import UsageError
from kit.chat import FakeTime


def most_in_window(events: list[tuple[float, float]], window_s: float = 60.0) -> float:
    times = [at for at, _ in events]
    sums = [0.0]
    for _, n in events:
        sums.append(sums[-1] + n)
    starts = range(len(times))
    return max(sums[bisect_right(times, times[i] + window_s - 1e-9)] - sums[i] for i in starts)


def drain(per_minute: float, costs: list[list[float]]) -> list[tuple[float, float]]:
    """As many takers at once as there are lists; when each amount was let through."""
    time, passed = FakeTime(), []
    bucket = TokenBucket(per_minute, time.clock)

    async def taker(amounts: list[float]) -> None:
        for n in amounts:
            await bucket.take(n)
            passed.append((time.t, n))

    asyncio.run(time.run(*(taker(amounts) for amounts in costs)))
    return passed


@pytest.mark.parametrize(("per_minute", "takers"), [(10, 90), (60, 200), (600, 256), (3.5, 8)])
def test_defect_mllms_limiter_lets_no_waiter_slip_through(per_minute: float, takers: int) -> None:
    passed = drain(per_minute, [[1.0] * 4] * takers)
    assert len(passed) == 4 * takers
    assert most_in_window(passed) <= per_minute
    lasted = passed[-1][0] - passed[0][0]
    assert (len(passed) - 1) / lasted * 60 >= 0.8 * per_minute or per_minute < 10


def test_tokens_of_any_size_keep_within_the_limit() -> None:
    costs = [[float(50 + 97 * (i * j % 11)) for j in range(6)] for i in range(64)]
    passed = drain(10_000, costs)
    assert most_in_window(passed) <= 10_000


def test_a_request_larger_than_a_minutes_allowance_is_told() -> None:
    with pytest.raises(UsageError, match="needs about 500 units, but the limit is 100"):
        drain(100, [[500.0]])


def test_what_a_request_took_beyond_its_reservation_is_charged_later() -> None:
    time = FakeTime()
    bucket = TokenBucket(600, time.clock)

    async def work() -> None:
        await bucket.take(1)
        bucket.charge(100)
        await bucket.take(1)

    asyncio.run(time.run(work()))
    assert time.t > 8


def test_no_limit_waits_for_nothing() -> None:
    time = FakeTime()
    asyncio.run(time.run(TokenBucket(None, time.clock).take(1e9)))
    assert time.t == 0


class Crowd:
    """So many requests against slots, each of them taking a while."""

    def __init__(self, **options: Any) -> None:
        self.time = FakeTime()
        self.concurrency = AdaptiveConcurrency(self.time.clock, **options)
        self.sent: list[float] = []
        self.limits: list[int] = []

    async def one(self, number: int, refuse: Any) -> None:
        is_again = False
        while True:
            episode = await self.concurrency.enter(is_again)
            self.sent.append(self.time.t)
            await self.time.clock.sleep(1.0)
            wait_s = refuse(number, self)
            self.concurrency.leave()
            if wait_s is None:
                self.concurrency.succeeded(episode, 1.0)
                self.limits.append(self.concurrency.limit)
                return
            self.concurrency.refused(episode, wait_s)
            self.limits.append(self.concurrency.limit)
            is_again = True

    def run(self, n: int, refuse: Any = lambda number, crowd: None) -> Crowd:
        asyncio.run(self.time.run(*(self.one(number, refuse) for number in range(n))))
        return self


def test_slots_start_slowly_and_double_until_the_bound() -> None:
    crowd = Crowd(most=50).run(600)
    assert crowd.limits[0] == 8 and crowd.concurrency.limit == 50
    assert crowd.concurrency.peak == 50


def test_a_start_at_the_bound_stays_there() -> None:
    crowd = Crowd(most=5, start=5).run(200)
    assert set(crowd.limits) == {5} and crowd.concurrency.peak == 5


def test_one_cut_per_episode_of_429() -> None:
    refused: set[int] = set()

    def first_forty(number: int, crowd: Crowd) -> float | None:
        if 100 <= number < 140 and number not in refused:
            refused.add(number)
            return 3.0
        return None

    crowd = Crowd(most=64).run(400, first_forty)
    assert len(refused) == 40
    assert crowd.concurrency.episodes <= 4, "forty refusals at once are few episodes"
    assert min(crowd.limits[50:]) >= 8


def test_nobody_sends_before_retry_after_has_passed() -> None:
    told: list[float] = []

    def once(number: int, crowd: Crowd) -> float | None:
        if not told:
            told.append(crowd.time.t)
            return 30.0
        return None

    crowd = Crowd(most=16).run(40, once)
    asked_in_pause = [t for t in crowd.sent if told[0] + 1 < t < told[0] + 30 - 1e-6]
    assert not asked_in_pause


def test_slots_grow_again_after_a_cut_one_by_one() -> None:
    refused: list[int] = []

    def once(number: int, crowd: Crowd) -> float | None:
        if crowd.concurrency.limit >= 32 and not refused:
            refused.append(number)
            return 0.5
        return None

    crowd = Crowd(most=64).run(2000, once)
    after = crowd.limits[crowd.limits.index(max(crowd.limits[:200])) + 1 :]
    steps = [b - a for a, b in itertools.pairwise(after) if b > a]
    assert steps and max(steps) <= 4


class SerialServer:
    """Answers one at a time, also those that nobody waits for any more."""

    def __init__(self, answer_s: float, timeout_s: float, n: int, n_places: int = 1, **more: Any):
        self.time, self.answer_s, self.timeout_s = FakeTime(), answer_s, timeout_s
        self.slots = AdaptiveConcurrency(self.time.clock, timeout_s=timeout_s, **more)
        self.free_at = [0.0] * n_places
        self.n_sent = self.n_answered = 0
        asyncio.run(self.time.run(*(self.one() for _ in range(n))))

    async def one(self) -> None:
        for attempt in range(8):
            episode = await self.slots.enter(is_again=attempt > 0)
            self.n_sent += 1
            now, place = self.time.t, self.free_at.index(min(self.free_at))
            self.free_at[place] = max(now, self.free_at[place]) + self.answer_s
            takes = self.free_at[place] - now
            await self.time.clock.sleep(min(takes, self.timeout_s))
            self.slots.leave()
            if takes <= self.timeout_s:
                self.n_answered += 1
                self.slots.succeeded(episode, takes)
                return
            self.slots.came_late(episode)


@pytest.mark.parametrize(("answer_s", "timeout_s"), [(0.4, 18.0), (0.4, 2.0), (7.0, 180.0)])
def test_a_server_that_answers_one_at_a_time_is_not_flooded(
    answer_s: float, timeout_s: float
) -> None:
    server = SerialServer(answer_s, timeout_s, n=300, start=2)
    assert server.n_answered == server.n_sent == 300
    assert server.time.t == pytest.approx(300 * answer_s, rel=0.02), "it was kept busy"


def test_too_many_at_once_for_a_serial_server_are_cut_to_what_it_answers_in_time() -> None:
    server = SerialServer(0.4, 2.0, n=300, start=64)
    assert server.n_answered == 300
    assert server.n_sent < 300 + 2 * 64, "few were computed for nothing"
    assert server.time.t < 2 * 300 * 0.4


def test_a_server_with_many_places_gets_all_of_them() -> None:
    server = SerialServer(1.0, 180.0, n=1200, n_places=32, start=2)
    assert 32 <= server.slots.limit <= 64
    assert server.time.t < 1.5 * 1200 / 32


def test_growth_is_tried_again_after_a_slow_beginning() -> None:
    def slow_at_first(crowd: Crowd) -> float:
        return 1.0 if crowd.time.t > 60 else 1.0 * crowd.concurrency.in_flight

    crowd = Crowd(most=64, start=2)

    async def one() -> None:
        episode = await crowd.concurrency.enter()
        takes = slow_at_first(crowd)
        await crowd.time.clock.sleep(takes)
        crowd.concurrency.leave()
        crowd.concurrency.succeeded(episode, takes)

    asyncio.run(crowd.time.run(*(one() for _ in range(3000))))
    assert crowd.concurrency.limit == 64


@pytest.mark.parametrize(
    ("headers", "tokens", "wait_s"),
    [
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "20s"}, 0, 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, 0, 0.12),
        ({"x-ratelimit-remaining-tokens": "800", "x-ratelimit-reset-tokens": "6m0s"}, 900, 360),
        ({"x-ratelimit-remaining-tokens": "800", "x-ratelimit-reset-tokens": "6m0s"}, 700, 0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "7"}, 0, 7),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, 0, 0),
        ({"x-ratelimit-remaining": "none", "x-ratelimit-reset": "7"}, 0, 0),
    ],
)
def test_an_allowance_that_is_used_up_is_waited_for(
    headers: dict[str, str], tokens: int, wait_s: float
) -> None:
    assert wait_for_allowance_s(headers, tokens) == pytest.approx(wait_s)


def test_resets_may_be_moments() -> None:
    now = time.time()
    at = datetime.datetime.fromtimestamp(now + 30, datetime.UTC).isoformat()
    left = "anthropic-ratelimit-requests-remaining"
    for name, reset, moment in (
        (left, "anthropic-ratelimit-requests-reset", at),
        ("x-ratelimit-remaining", "x-ratelimit-reset", str(round(1000 * (now + 30)))),
    ):
        assert wait_for_allowance_s({name: "0", reset: moment}) == pytest.approx(30, abs=2)


def test_cancelled_waiters_leave_no_hole() -> None:
    time = FakeTime()
    slots = AdaptiveConcurrency(time.clock, most=1)

    async def work() -> None:
        await slots.enter()
        waiting = [asyncio.ensure_future(slots.enter()) for _ in range(5)]
        await asyncio.sleep(0)
        slots.leave()
        waiting[0].cancel()
        for _ in range(20):  # whoever can go on does
            await asyncio.sleep(0)
        done = [each for each in waiting if each.done() and not each.cancelled()]
        assert len(done) == 1 and slots.in_flight == 1
        for each in waiting:
            each.cancel()

    asyncio.run(work())
