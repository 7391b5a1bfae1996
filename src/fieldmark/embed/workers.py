"""Worker processes (data parallelism): how do several devices of one machine fill one cache?

One process per device, this one among them: the images that the cache lacks are shared out, the
others compute theirs with a copy of the model, and all write to the same folder, each to files of
its own. Workers only warm the cache: what one of them does not bring is computed by whoever goes on
with it, so that a worker which fails costs time and never a result.

A worker is a plain subprocess (`worker.py`): a script without a guard around its main part would be
run again by processes that multiprocessing starts. It ends when its standard input closes, so none
outlives this process, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.data import MEMORY, Contents, ImageRef, item_key, split_reference
from fieldmark.embed.cache import FeatureRows, speed_of
from fieldmark.embed.work import Throughput
from fieldmark.progress import Progress

if TYPE_CHECKING:
    from fieldmark.embed.engine import EmbedOptions, Filled
    from fieldmark.models import Backbone

START_S = 10.0
"""what a worker takes before its first image: Python, torch, CUDA, the weights"""
USUAL_RATE = 2_000.0
"""images per second of a device, where this model has not been timed here"""

Fill = Callable[["Backbone", Path, Sequence[ImageRef], "EmbedOptions", Progress], "Filled"]
"""`engine.fill`, which calls `warm` itself"""


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """What a worker is to do."""

    load: Callable[..., Backbone]
    """gives the model, for `device`"""
    device: str
    fingerprint: str
    """of the model that is expected"""
    root: Path
    items: list[ImageRef]
    options: EmbedOptions


def devices_for(wanted: str) -> tuple[str, ...]:
    """The devices that may share the work, the one a model is loaded to first: for auto and cuda
    every GPU that is visible; none where one device was named.
    """
    torch = sys.modules.get("torch")  # loaded already where a network is
    if torch is None or wanted not in ("auto", "cuda") or not torch.cuda.is_available():
        return ()
    return tuple(f"cuda:{index}" for index in range(torch.cuda.device_count()))


def warm(
    model: Backbone,
    root: Path,
    items: Sequence[ImageRef],
    options: EmbedOptions,
    progress: Progress,
    fill: Fill,
) -> Throughput:
    """Fills the cache with what it lacks of the items, on all devices at once; does nothing where
    there is one device only, or where one alone is as fast.

    `options.devices` begins with the one that `model` is on. Images that cannot be read are left
    out here: who goes on meets them.
    """
    load = getattr(model, "load_again", None)
    if load is None or len(options.devices) < 2 or not _is_on(model, options.devices[0]):
        return Throughput()
    missing = _missing(model, root, items, options)
    if not _is_worth_it(len(missing), options, model.fingerprint):
        return Throughput()
    shared = _worker_options(model, options)
    own, *others = share_out(missing, len(options.devices))
    jobs = [
        WorkerJob(load, device, model.fingerprint, root, part, shared)
        for device, part in zip(options.devices[1:], others, strict=True)
    ]
    shown = _Shown(progress)
    progress.start(f"embedding with {model.name} on {len(options.devices)} devices", len(missing))
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_DeviceProcess(job, shown)) for job in jobs]
        here = fill(model, root, own, replace(shared, contents=options.contents), shown)
        parts = [here.throughput, *(worker.result() for worker in workers)]
    return _together(parts, time.monotonic() - began)


def _is_on(model: Any, device: str) -> bool:
    """A model that has no device computes on the CPU: more GPUs are of no use to it."""
    return str(getattr(model, "device", "cpu")).partition(":")[0] == device.partition(":")[0]


def _missing(
    model: Backbone, root: Path, items: Sequence[ImageRef], options: EmbedOptions
) -> list[ImageRef]:
    """Items whose features are not in the cache, as far as that shows without reading them."""
    contents = options.contents or Contents(options.cache / MEMORY)
    known = contents.known(root, {ref.image for ref in items})
    rows = FeatureRows(options.cache / "features" / model.fingerprint, model.dim)
    missing = []
    for ref in dict.fromkeys(items):
        content = known.get(ref.image)
        is_bad = content is not None and content.problem
        if not is_bad and (content is None or item_key(content.key, ref.crop) not in rows):
            missing.append(ref)
    return missing


def _is_worth_it(n_missing: int, options: EmbedOptions, fingerprint: str) -> bool:
    """Is the time saved longer than the time it takes to start?"""
    alone_s = n_missing / (speed_of(options.cache, fingerprint) or USUAL_RATE)
    return alone_s * (1 - 1 / len(options.devices)) > START_S


def _worker_options(model: Backbone, options: EmbedOptions) -> EmbedOptions:
    """As this process embeds, on its share of the cores."""
    return replace(
        options,
        threads=min(options.threads, max(1, (os.cpu_count() or 1) // len(options.devices))),
        batch_size=options.batch_size or getattr(model, "batch_size", 0),
        bad_images="skip",
        contents=None,
        devices=(),
    )


def share_out(items: Sequence[ImageRef], n: int) -> list[list[ImageRef]]:
    """The items in `n` parts of nearly as many files, in the order they came.

    A hash of its name says which part a file is in, so that no part has all the large photos of one
    folder. What lies in one archive stays together: at most `n` - 1 archives are cut in two.
    """
    places: dict[str, tuple[str, bytes, int]] = {}
    for ref in items:
        if ref.image not in places:
            name, inner = split_reference(ref.image)
            order = (name, b"", len(places)) if inner else ("", draws.digest(name), 0)
            places[ref.image] = order
    ordered = sorted(places, key=places.__getitem__)
    part_of = {image: at * n // len(ordered) for at, image in enumerate(ordered)}
    parts: list[list[ImageRef]] = [[] for _ in range(n)]
    for ref in items:
        parts[part_of[ref.image]].append(ref)
    return parts


def _together(parts: Sequence[Throughput], seconds: float) -> Throughput:
    busy_s: dict[str, float] = {}
    for part in parts:
        for name, value in part.busy_s.items():
            busy_s[name] = busy_s.get(name, 0.0) + value
    return replace(
        parts[0],
        n_computed=sum(part.n_computed for part in parts),
        n_fallback=sum(part.n_fallback for part in parts),
        seconds=seconds,
        busy_s=busy_s,
    )


class _Shown:
    """One stretch of work, of which several processes do a part."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    def start(self, label: str, total: int) -> None:
        """All of them count in the stretch that has begun."""

    def advance(self, n: int = 1) -> None:
        with self._lock:
            self._progress.advance(n)

    def say(self, text: str) -> None:
        with self._lock:
            self._progress.say(text)


class _DeviceProcess:
    """A process that does a job, and the thread here that hears from it."""

    def __init__(self, job: WorkerJob, progress: Progress) -> None:
        self._job, self._progress = job, progress
        self._done: Throughput | None = None
        self._error = ""
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed at exit
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fieldmark.embed.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0,  # Ctrl-C is for this process; it ends the others
        )
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self._thread.start()

    def __enter__(self) -> _DeviceProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._end()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            with contextlib.suppress(OSError):  # what waits to be written is for nobody
                if stream is not None:
                    stream.close()

    def result(self) -> Throughput:
        """What it did, once it has ended; where it failed, that is said."""
        self._process.wait()
        self._end()
        if self._done is not None:
            return self._done
        self._progress.say(
            f"{self._job.device}: its process failed ({self._reason()}): "
            f"{len(self._job.items):,} images of it are computed without it."
        )
        return Throughput()

    def _end(self) -> None:
        """Ends it, with whatever processes it has started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()
        self._thread.join()

    def _attend(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(OSError):  # it ended before it had heard everything
            pickle.dump(self._job, self._process.stdin)
            self._process.stdin.flush()
        for line in self._process.stdout:
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            note = json.loads(line)
        except ValueError:  # cut off by a kill
            return
        if "advance" in note:
            self._progress.advance(note["advance"])
        elif "say" in note:
            self._progress.say(f"{self._job.device}: {note['say']}")
        elif "error" in note:
            self._error = note["error"]
        elif "done" in note:
            self._done = Throughput(**note["done"])

    def _reason(self) -> str:
        if self._error:
            return self._error
        if self._process.returncode < 0:
            return f"ended by {signal.Signals(-self._process.returncode).name}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"
