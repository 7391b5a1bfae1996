"""Worker process: fills the cache with parts of the images, one job after another.

Jobs come as messages; what becomes of them goes back as `(kind, value)`: how many images are done,
what to tell people, and at the end a `WorkerResult`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fieldmark.data import MEMORY, Content, Contents, ImageRef
from fieldmark.embed.cache import behaviour_of, does_alike
from fieldmark.embed.engine import EmbedOptions, fill
from fieldmark.embed.work import Throughput
from fieldmark.errors import ModelError
from fieldmark.processes import Channel

if TYPE_CHECKING:
    import numpy as np

    from fieldmark.models import Backbone

EVERY_S = 0.2
"""how often it says how far it is"""


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """What a worker is to do."""

    load: Callable[[], Backbone]
    fingerprint: str
    """of the model that is expected"""
    root: Path
    items: list[ImageRef]
    options: EmbedOptions
    idle_s: float
    """how long to wait for another job"""
    memory: Path | None = None
    """where to remember what images hold; None: in the cache"""
    also: tuple[Path, ...] = ()
    """what else is remembered of them (`fieldmark.data.Contents`)"""
    behaviour: np.ndarray | None = None
    """what the model does here (`behaviour_of`)"""


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What a worker has done."""

    throughput: Throughput
    contents: dict[str, Content]
    """what its images hold"""


class _RemoteProgress:
    """Progress that is shown in another process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
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
        self.send("say", text)

    def send(self, kind: Literal["say", "done"], value: object) -> None:
        with self._lock:
            self._catch_up()
            self._channel.send((kind, value))

    def _catch_up(self) -> None:
        if self._n_waiting:
            self._channel.send(("advance", self._n_waiting))
        self._n_waiting, self._sent = 0, time.monotonic()


def work(channel: Channel) -> None:
    """Does jobs until none has come for as long as the last one said."""
    relay, model, idle_s = _RemoteProgress(channel), None, None
    while channel.has_news(idle_s):
        try:
            job: WorkerJob = channel.receive()
        except EOFError:
            return
        if model is None or model.fingerprint != job.fingerprint:
            model = None  # two at once may not fit the device
            model = _load(job)
        relay.send("done", _do(job, model, relay))
        idle_s = job.idle_s


def _load(job: WorkerJob) -> Backbone:
    model = job.load()
    if model.fingerprint != job.fingerprint:
        raise ModelError(f"model {model.name!r} is another one there: its fingerprint differs")
    expected, behaviour = job.behaviour, behaviour_of(model)
    if expected is not None and behaviour is not None and not does_alike(expected, behaviour):
        raise ModelError(f"model {model.name!r} is another one there: its features differ")
    return model


def _do(job: WorkerJob, model: Backbone, relay: _RemoteProgress) -> WorkerResult:
    contents = Contents(job.memory or job.options.cache / MEMORY, job.options.threads, job.also)
    options = replace(job.options, contents=contents)
    filled = fill(model, job.root, job.items, options, relay)
    known = contents.known(job.root, dict.fromkeys(ref.image for ref in job.items))
    return WorkerResult(filled.throughput, known)
