"""How far is a download, over all its threads?

Counts bytes and shows megabytes through `fieldmark.progress`; also carries the wish to stop.
"""

from __future__ import annotations

import threading

from fieldmark.progress import Progress

MB = 1_000_000


class Stopped(Exception):
    """Somebody asked all threads to end."""


class Tally:
    """Shared by all threads. Never shows more than the total, which may be too small a guess."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.n_bytes = 0
        self._total_mb = self._shown_mb = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def start(self, label: str, total_bytes: int) -> None:
        with self._lock:
            self.n_bytes = self._shown_mb = 0
            self._total_mb = -(-total_bytes // MB)
            self.progress.start(f"{label} (MB)", self._total_mb)

    def add(self, n: int) -> None:
        with self._lock:
            self.n_bytes += n
            step = min(self.n_bytes // MB, self._total_mb) - self._shown_mb
            if step > 0:
                self._shown_mb += step
                self.progress.advance(step)

    def say(self, text: str) -> None:
        with self._lock:
            self.progress.say(text)

    def stop(self) -> None:
        self._stop.set()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def stop_if_asked(self) -> None:
        if self.is_stopped:
            raise Stopped


def size(n_bytes: float) -> str:
    """
    >>> size(950), size(3_400_000), size(7.2e9)
    ('950 B', '3.4 MB', '7.2 GB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:.1f} {unit}"
    return f"{n_bytes:.0f} B"
