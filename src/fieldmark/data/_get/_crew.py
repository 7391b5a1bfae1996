"""How are many files fetched at once, each from the first of its addresses that works?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from fieldmark import draws
from fieldmark.data._get._fetch import attempt, make_folder
from fieldmark.data._get._http import LOST, Refused, host_of
from fieldmark.data._get._job import Job, Outcome, Pace
from fieldmark.data._get._line import Line, Turn
from fieldmark.data._get._tally import Stopped, Tally

NEWS = 1 << 16
"""bytes an attempt must add to count as progress: a server that drips ends some day"""


def fetch_all(
    jobs: Sequence[Job], pace: Pace, tally: Tally, done: Callable[[Outcome], None]
) -> None:
    """Fetches all; `done` is called once per job, one at a time. Raises what a disk raises."""
    crew = _Crew(pace, tally, done)
    for job in jobs:
        make_folder(job.target.parent)
        crew.line.add(job)
    threads = [
        threading.Thread(target=crew.work, daemon=True)  # a dead line must not delay Ctrl-C
        for _ in range(min(pace.parallel, len(jobs)))
    ]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and not crew.errors:
            for thread in threads:
                thread.join(0.2)
    except KeyboardInterrupt:
        tally.stop()
        crew.line.close()
        raise
    if crew.errors:
        raise crew.errors[0]


class _Crew:
    def __init__(self, pace: Pace, tally: Tally, done: Callable[[Outcome], None]) -> None:
        self.pace, self.tally, self.done = pace, tally, done
        self.line = Line(pace)
        self.errors: list[Exception] = []
        self._telling = threading.Lock()

    def work(self) -> None:
        try:
            while (turn := self.line.take()) is not None:
                self._go(turn)
        except Stopped:
            pass
        except Exception as error:  # noqa: BLE001 - the thread's border: the caller raises it
            self.errors.append(error)
            self.tally.stop()
            self.line.close()

    def _go(self, turn: Turn) -> None:
        host, rest_s = turn.host, 0.0
        try:
            n_bytes = attempt(turn.job, turn.url, self.pace, self.tally)
            outcome: Outcome | None = Outcome(turn.job, "fetched", n_bytes=n_bytes)
        except Refused as refused:
            wait_s = self._wait(turn, refused.wait_s)
            rest_s = wait_s if refused.is_host else 0.0
            outcome = self._failed(turn, str(refused), refused.helps, wait_s)
        except LOST as lost:
            words = str(lost) or type(lost).__name__
            outcome = self._failed(turn, f"lost the connection ({words})", True, self._wait(turn))
        if outcome is not None:
            with self._telling:
                self.done(outcome)
        self.line.give_back(turn, host, outcome is not None, rest_s)

    def _failed(self, turn: Turn, reason: str, helps: bool, wait_s: float) -> Outcome | None:
        """The end of the job, or None where the turn goes on: here again, or at the next mirror."""
        size = turn.job.part.stat().st_size if turn.job.part.is_file() else 0
        if size >= turn.best + NEWS:
            turn.best, turn.n_failed = size, 0
        turn.n_failed += 1
        if helps and turn.n_failed < self.pace.n_tries:
            turn.not_before = time.monotonic() + wait_s
            return None
        turn.reasons.append(f"{host_of(turn.url)} {reason}")
        if turn.mirror + 1 == len(turn.job.urls):
            return Outcome(turn.job, "failed", "; ".join(turn.reasons))
        turn.mirror += 1
        turn.n_failed, turn.not_before = 0, 0.0
        return None

    def _wait(self, turn: Turn, asked_s: float | None = None) -> float:
        """Doubling, and spread so that files that failed together do not come back together."""
        spread = draws.number("wait", turn.url, turn.n_failed) / 2**64
        wait_s = self.pace.backoff_s * float(1 << turn.n_failed) * (0.5 + spread)
        if asked_s is not None:
            wait_s = asked_s + spread * self.pace.backoff_s
        return min(wait_s, self.pace.longest_wait_s)
