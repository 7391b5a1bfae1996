"""Thread pool with error propagation, for the parts of a pipeline: bounded queues between them, and
an end for all when one fails.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_S = 0.2
SWITCH_S = 5e-4
"""how often threads take turns: with the usual 5 ms the one that feeds the device may wait as long
for those that decode, several times a batch"""


class PipelineStopped(Exception):
    """Another part of the pipeline has ended; nothing is wrong here."""


class _SwitchInterval:
    """The interpreter's, of which there is one: short as long as any of these threads work."""

    def __init__(self) -> None:
        self._lock, self._n_users, self._usual_s = threading.Lock(), 0, 0.0

    def shorten(self) -> None:
        with self._lock:
            if not self._n_users:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_S, self._usual_s))
            self._n_users += 1

    def restore(self) -> None:
        with self._lock:
            self._n_users -= 1
            if not self._n_users:
                sys.setswitchinterval(self._usual_s)


_SWITCH = _SwitchInterval()


class WorkerThreads:
    """Threads that wait for each other only as long as all are well."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> threading.Thread:
        if not self._threads:
            _SWITCH.shorten()
        thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        if self._threads:
            self._threads.clear()
            _SWITCH.restore()

    def raise_error(self) -> None:
        """The first thing that went wrong in any thread."""
        if self._error is not None:
            raise self._error

    def put(self, target: queue.Queue[T], item: T) -> None:
        while True:
            try:
                return target.put(item, timeout=POLL_S)
            except queue.Full:
                if self.stop.is_set():
                    raise PipelineStopped from None

    def get(self, source: queue.Queue[T]) -> T:
        while True:
            try:
                return source.get(timeout=POLL_S)
            except queue.Empty:
                if self.stop.is_set():
                    raise PipelineStopped from None

    def _guarded(self, work: Callable[[], None]) -> None:
        """A thread's border: the first error ends the pipeline."""
        try:
            work()
        except PipelineStopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            if self._error is None:
                self._error = error
            self.stop.set()
