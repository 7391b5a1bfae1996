"""Worker processes (data parallelism): how do several devices of one machine fill one cache?

One process per device, the one that wants the features among them: the images that the cache lacks
are shared out, the others compute theirs with a copy of the model, and all write to the same
folder, each to files of its own. Workers only warm the cache: what one of them does not bring is
computed by the process that wanted it, so that a worker which fails costs time and never a result.
Processes are started when enough images are missing, and are kept for the next ones: loading a
model takes longer than embedding thousands of photos.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fieldmark.data import MEMORY, Content, Contents, ImageRef, split_reference
from fieldmark.embed.cache import behaviour_of, does_alike, kept_facts, number
from fieldmark.embed.engine import EmbedOptions, fill
from fieldmark.embed.shards import bucket
from fieldmark.embed.work import Throughput, add_throughputs
from fieldmark.errors import ModelError, first_line
from fieldmark.processes import Channel, Child, ChildDied
from fieldmark.progress import Progress, Silent

if TYPE_CHECKING:
    import numpy as np

    from fieldmark.models import Backbone


# --- Worker process: fills the cache with parts of the images, one job after another.
# Jobs come as messages; what becomes of them goes back as `(kind, value)`: how many images are
# done, what to tell people, and at the end a `WorkerResult`.

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


class _RemoteProgress(Silent):
    """Progress that is shown in another process, which begins a stretch for all and shows its own
    status.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._n_waiting, self._sent = 0, time.monotonic()

    def advance(self, n: int = 1) -> None:
        with self._lock:
            self._n_waiting += n
            if time.monotonic() - self._sent > EVERY_S:
                self._catch_up()

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
        contents = Contents(job.memory or job.options.cache / MEMORY, job.options.threads, job.also)
        options = replace(job.options, contents=contents)
        filled = fill(model, job.root, job.items, options, relay)
        contents_of = contents.known(job.root, dict.fromkeys(ref.image for ref in job.items))
        relay.send("done", WorkerResult(filled.throughput, contents_of))
        idle_s = job.idle_s


def _load(job: WorkerJob) -> Backbone:
    model = job.load()
    if model.fingerprint != job.fingerprint:
        raise ModelError(f"model {model.name!r} is not the same there: its fingerprint differs")
    expected, behaviour = job.behaviour, behaviour_of(model)
    if expected is not None and behaviour is not None and not does_alike(expected, behaviour):
        raise ModelError(f"model {model.name!r} is not the same there: its features differ")
    return model


# --- the processes of one command


START_S = 10.0
"""what a worker takes before its first image: Python, torch, CUDA, the weights"""
AGAIN_S = 0.5
"""what one takes that has the model already"""
IDLE_S = 60.0
"""how long one waits for more: an idle copy of a model fills a device that others may need"""
USUAL_RATE = 2_000.0
"""images per second of a device, where this model has not been timed here"""


def devices_for(device: str) -> tuple[str, ...]:
    """The devices that may share the work, the one a model is loaded to first: for auto and cuda
    every GPU that is visible; none where one device was named.
    """
    torch = sys.modules.get("torch")  # loaded already where a network is
    if torch is None or device not in ("auto", "cuda") or not torch.cuda.is_available():
        return ()
    return tuple(f"cuda:{index}" for index in range(torch.cuda.device_count()))


class _WorkerProcess:
    """Does one job at a time."""

    def __init__(self) -> None:
        self._child = Child(work)
        self._listener: threading.Thread | None = None
        self._result: WorkerResult | None = None
        self._failure = ""
        self.fingerprint = ""
        """of the model of its last job"""

    @property
    def is_alive(self) -> bool:
        return self._child.status is None

    def start(self, job: WorkerJob, progress: Progress) -> None:
        """Hands it a job; `progress` hears how far it is, from another thread."""
        self.fingerprint, self._result = job.fingerprint, None
        self._listener = threading.Thread(target=self._converse, args=(job, progress), daemon=True)
        self._listener.start()

    def result(self) -> WorkerResult:
        """What it did, once it is done; raises ChildDied. Nothing where it had just left because it
        had been idle.
        """
        assert self._listener is not None
        self._listener.join()
        if self._result is None and self._child.wait() != 0:
            self.end()
            raise ChildDied(self._failure)
        return self._result or WorkerResult(Throughput(), {})

    def end(self) -> None:
        self._child.end()
        if self._listener is not None:
            self._listener.join()

    def _converse(self, job: WorkerJob, progress: Progress) -> None:
        try:
            self._child.send(job)
            while self._result is None:
                kind, value = self._child.receive()
                if kind == "advance":
                    progress.advance(value)
                elif kind == "say":
                    progress.say(value)
                else:
                    self._result = value
        except ChildDied as error:
            self._failure = str(error)


class DeviceWorkers:
    """The processes of one command, one for each device but the first, which is this process'.

    They end with this object.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)
        self._processes: dict[int, _WorkerProcess] = {}
        """by the place of their device"""
        self._failed: set[tuple[int, str]] = set()
        """places where a model, by its fingerprint, cannot be used"""
        self._finalizer = weakref.finalize(self, _end_all, self._processes)

    def __enter__(self) -> DeviceWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes; the next work starts others."""
        _end_all(self._processes)

    def is_worth(self, model: Any, n_images: int, cache: Path) -> bool:
        """Can other processes load the model, and is the time they save longer than the time they
        take to start?

        A model that has no device computes on the CPU: more GPUs are of no use to it.
        """
        kind = str(getattr(model, "device", "cpu")).partition(":")[0]
        numbers = self._places(model.fingerprint)
        is_here = bool(numbers) and self.devices[0].partition(":")[0] == kind
        if not is_here or not getattr(model, "load_again", None):
            return False
        about = kept_facts(cache / "features" / model.fingerprint)
        rate = number(about.get("images_per_s"), float) or USUAL_RATE
        alone_s = n_images / rate * (number(about.get("n_devices"), int) or 1)
        is_ready = all(self._has_model(worker, model.fingerprint) for worker in numbers)
        return alone_s * len(numbers) / (1 + len(numbers)) > (AGAIN_S if is_ready else START_S)

    def warm(
        self,
        model: Any,
        root: Path,
        missing: Sequence[ImageRef],
        options: EmbedOptions,
        progress: Progress,
    ) -> Throughput:
        """Fills the cache with features that it lacks, on all devices at once. `options.contents`
        learns what all of them have read. Images that cannot be read are left out here.
        """
        numbers = self._places(model.fingerprint)
        n_devices = 1 + len(numbers)
        shared = replace(
            options.as_part(),
            threads=min(options.threads, max(1, (os.cpu_count() or 1) // n_devices)),
            batch_size=options.batch_size or getattr(model, "batch_size", 0),
        )
        own_share, *others = (_by_bucket if options.leases else share_out)(missing, n_devices)
        contents = options.contents
        memories = (contents.memory, contents.also) if contents else (None, ())
        shown = _Shown(progress)
        progress.start(f"embedding with {model.name} on {n_devices} devices", len(missing))
        began = time.monotonic()
        try:
            for number, part in zip(numbers, others, strict=True):
                load = partial(model.load_again, device=self.devices[number])
                blank = replace(shared, contents=None)
                job = WorkerJob(
                    load, model.fingerprint, root, part, blank, IDLE_S, *memories,
                    behaviour_of(model),
                )  # fmt: skip
                self._start(number, job, shown)
            parts = [fill(model, root, own_share, shared, shown).throughput]
            shown.status("waiting for the other devices")
            for number in numbers:
                result = self._result(number, model.fingerprint, shown)
                parts.append(result.throughput)
                for image, content in result.contents.items():
                    if options.contents is not None:
                        options.contents.note(root, [(image, content, None)])
        except BaseException:
            self.close()
            raise
        return _at_once(parts, time.monotonic() - began)

    def _places(self, fingerprint: str) -> list[int]:
        every = range(1, len(self.devices))
        return [number for number in every if (number, fingerprint) not in self._failed]

    def _has_model(self, number: int, fingerprint: str) -> bool:
        process = self._processes.get(number)
        return process is not None and process.is_alive and process.fingerprint == fingerprint

    def _start(self, number: int, job: WorkerJob, progress: Progress) -> None:
        process = self._processes.get(number)
        if process is not None and not process.is_alive:
            self._processes.pop(number).end()
        if number not in self._processes:
            try:
                self._processes[number] = _WorkerProcess()
            except OSError as error:
                self._tell_failed(number, job.fingerprint, first_line(error), progress)
                return
        self._processes[number].start(job, progress)

    def _result(self, number: int, fingerprint: str, progress: Progress) -> WorkerResult:
        process = self._processes.get(number)
        try:
            if process is not None:
                return process.result()
        except ChildDied as error:
            del self._processes[number]
            self._tell_failed(number, fingerprint, str(error), progress)
        return WorkerResult(Throughput(), {})

    def _tell_failed(self, number: int, fingerprint: str, reason: str, progress: Progress) -> None:
        self._failed.add((number, fingerprint))
        progress.say(
            f"{self.devices[number]}: its process failed ({reason}). The other devices do the rest "
            "of its work."
        )


def _end_all(processes: dict[int, _WorkerProcess]) -> None:
    while processes:
        processes.popitem()[1].end()


def share_out(items: Sequence[ImageRef], n: int) -> list[list[ImageRef]]:
    """The items in `n` parts of nearly as many files, in the order they came.

    A hash of its name says which part a file is in, so that no part has all the large photos of one
    folder. What lies in one archive stays together: at most `n` - 1 archives are cut in two.
    """
    ordered = sorted(dict.fromkeys(ref.image for ref in items), key=_place_in_order)
    part_of = {image: at * n // len(ordered) for at, image in enumerate(ordered)}
    parts: list[list[ImageRef]] = [[] for _ in range(n)]
    for ref in items:
        parts[part_of[ref.image]].append(ref)
    return parts


def _by_bucket(items: Sequence[ImageRef], n: int) -> list[list[ImageRef]]:
    """The items in `n` parts that have no bucket in common: none waits for another's lease."""
    parts: list[list[ImageRef]] = [[] for _ in range(n)]
    for ref in items:
        parts[bucket(ref.image) % n].append(ref)
    return parts


def _place_in_order(image: str) -> bytes:
    """Archives one after the other, then files by the hash of their names."""
    name, inner = split_reference(image) if "::" in image else (image, "")
    data = name.encode(errors="surrogatepass")
    return b"\0" + data if inner else b"\1" + hashlib.blake2b(data, digest_size=8).digest()


def _at_once(parts: Sequence[Throughput], seconds: float) -> Throughput:
    """Of parts at the same time; a device that failed was idle."""
    busy_s = sum((part.device_busy or 0.0) * part.seconds for part in parts)
    is_measured = parts[0].device_busy is not None and seconds > 0
    return replace(
        add_throughputs(parts),
        seconds=seconds,
        device_busy=busy_s / (seconds * len(parts)) if is_measured else None,
        n_devices=len(parts),
    )


class _Shown(Silent):
    """One stretch of work, which has begun and of which several processes do a part."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    def advance(self, n: int = 1) -> None:
        with self._lock:
            self._progress.advance(n)

    def status(self, text: str) -> None:
        """Of this process: the others are likely to do as well."""
        with self._lock:
            self._progress.status(text)

    def say(self, text: str) -> None:
        with self._lock:
            self._progress.say(text)
