"""Worker process (`python -m fieldmark.embed.worker`): fills the cache with one part of the images.

Its job comes pickled on standard input, which stays open as long as the process that wants it
lives. What it does is told on standard output, a line of JSON at a time.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from dataclasses import asdict
from typing import IO

from fieldmark.embed.engine import fill
from fieldmark.embed.workers import WorkerJob
from fieldmark.errors import FieldmarkError, ModelError, first_line

EVERY_S = 0.2
"""how often it says how far it is"""


class Relay:
    """Progress that is shown in another process."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._n_waiting, self._sent = 0, time.monotonic()

    def start(self, label: str, total: int) -> None:
        """The other process has begun a stretch for all."""

    def advance(self, n: int = 1) -> None:
        with self._lock:
            self._n_waiting += n
            if time.monotonic() - self._sent > EVERY_S:
                self._send(advance=self._n_waiting)
                self._n_waiting, self._sent = 0, time.monotonic()

    def say(self, text: str) -> None:
        self.send(say=text)

    def send(self, **note: object) -> None:
        with self._lock:
            if self._n_waiting:
                self._send(advance=self._n_waiting)
                self._n_waiting = 0
            self._send(**note)

    def _send(self, **note: object) -> None:
        self._stream.write(json.dumps(note) + "\n")
        self._stream.flush()


def main() -> int:
    # What a model's own code prints goes to standard error: standard output is for notes.
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job: WorkerJob = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    relay = Relay(stream)
    try:
        model = job.load(device=job.device)
        if model.fingerprint != job.fingerprint:
            raise ModelError(f"model {model.name!r} is another one there: its fingerprint differs")
        filled = fill(model, job.root, job.items, job.options, relay)
    except Exception as error:  # noqa: BLE001 - the border of the job
        traceback.print_exc()
        is_ours = isinstance(error, FieldmarkError)
        relay.send(error=str(error).splitlines()[0].rstrip(".") if is_ours else first_line(error))
        return 1
    relay.send(done=asdict(filled.throughput))
    return 0


def _end_with_parent() -> None:
    """Ends this process, and those it has started, when nobody wants its work any more."""
    sys.stdin.buffer.read(1)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
