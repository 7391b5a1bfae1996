"""Worker process (`python -m fieldmark.embed.workers`): fills the cache with parts of the images.

Jobs come pickled on standard input, which stays open as long as the process that wants them lives.
What becomes of them is told on standard output, a line of JSON at a time.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from dataclasses import asdict, replace
from typing import IO, TYPE_CHECKING

from fieldmark.data import MEMORY, Contents
from fieldmark.embed.cache import behaviour_of, does_alike
from fieldmark.embed.engine import fill
from fieldmark.embed.workers.process import WorkerJob
from fieldmark.errors import FieldmarkError, ModelError, first_line

if TYPE_CHECKING:
    from fieldmark.models import Backbone

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
                self._catch_up()

    def status(self, text: str) -> None:
        """The other process shows its own."""

    def say(self, text: str) -> None:
        self.send(say=text)

    def send(self, **note: object) -> None:
        with self._lock:
            self._catch_up()
            self._write(note)

    def _catch_up(self) -> None:
        if self._n_waiting:
            self._write({"advance": self._n_waiting})
        self._n_waiting, self._sent = 0, time.monotonic()

    def _write(self, note: dict[str, object]) -> None:
        self._stream.write(json.dumps(note) + "\n")
        self._stream.flush()


def main() -> int:
    # What a model's own code prints goes to standard error: standard output is for notes.
    relay = Relay(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)
    jobs: queue.Queue[WorkerJob | Exception] = queue.Queue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    model: Backbone | None = None
    idle_s: float | None = None
    try:
        while True:
            job = jobs.get(timeout=idle_s)
            if isinstance(job, Exception):
                raise job
            if model is None or model.fingerprint != job.fingerprint:
                model = None  # two at once may not fit the device
                model = _load(job)
            relay.send(**_do(job, model, relay))
            idle_s = job.idle_s
    except queue.Empty:
        return 0
    except Exception as error:  # noqa: BLE001 - the border of the job
        traceback.print_exc()
        is_ours = isinstance(error, FieldmarkError)
        relay.send(error=str(error).splitlines()[0].rstrip(".") if is_ours else first_line(error))
        return 1


def _listen(jobs: queue.Queue[WorkerJob | Exception]) -> None:
    """Takes jobs in; ends this process, and those it has started, when nobody wants its work."""
    while True:
        try:
            jobs.put(pickle.load(sys.stdin.buffer))
        except (EOFError, pickle.UnpicklingError):
            break
        except Exception as error:  # noqa: BLE001 - what a job names cannot be imported here
            jobs.put(error)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _load(job: WorkerJob) -> Backbone:
    model = job.load()
    if model.fingerprint != job.fingerprint:
        raise ModelError(f"model {model.name!r} is another one there: its fingerprint differs")
    expected, behaviour = job.behaviour, behaviour_of(model)
    if expected is not None and behaviour is not None and not does_alike(expected, behaviour):
        raise ModelError(f"model {model.name!r} is another one there: its features differ")
    return model


def _do(job: WorkerJob, model: Backbone, relay: Relay) -> dict[str, object]:
    contents = Contents(job.memory or job.options.cache / MEMORY, job.options.threads, job.also)
    options = replace(job.options, contents=contents)
    filled = fill(model, job.root, job.items, options, relay)
    known = contents.known(job.root, dict.fromkeys(ref.image for ref in job.items))
    listed = [(image, content.key.hex(), content.problem) for image, content in known.items()]
    return {"done": asdict(filled.throughput), "contents": listed}


code = main()
sys.stderr.flush()
os._exit(code)  # an ordinary exit would wait for the thread that reads standard input
