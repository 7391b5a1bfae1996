"""Prefetch (thread pool): how are images prepared for any model while its device is at work?

Threads read, hash, check, decode and transform a bounded number of images ahead of the model; its
batches are embedded in the calling thread and kept as soon as they are ready. Members of archives
are read by one thread, in their order, so that an archive is streamed. Nothing depends on how many
threads there are.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fieldmark.data import (
    ImageRef,
    read_content,
    read_stamped,
    split_reference,
)
from fieldmark.embed.cpu.decode import see_exactly
from fieldmark.embed.work import (
    HashedFile,
    ImagePart,
    Sink,
    Throughput,
    WantedFile,
    check_finite,
    decode_of,
)
from fieldmark.errors import ModelError, OutOfMemory, naming_model
from fieldmark.processes import kept_memory
from fieldmark.progress import Progress

if TYPE_CHECKING:
    from fieldmark.embed.engine import EmbedOptions
    from fieldmark.models import Backbone

DEFAULT_BATCH = 32
AHEAD = 3
"""batches read ahead of the device"""
STATUS_EVERY_S = 1.0


def run_threads(
    model: Backbone,
    root: Path,
    files: Iterable[WantedFile],
    sink: Sink,
    options: EmbedOptions,
    progress: Progress,
) -> Throughput:
    """Embeds what the sink asks for of the wanted files."""
    with kept_memory():
        return _ThreadRun(model, root, sink, options, progress).run(files)


class PreparedFile(NamedTuple):
    """What a model sees of one file."""

    seen: list[np.ndarray | str]
    """in the order of the parts; a text says why one cannot be seen"""
    is_fallback: bool = False
    """the fast decoder does not take the file"""


def prepare(data: bytes, refs: Sequence[ImageRef], model: Backbone) -> PreparedFile:
    """What the model sees of the bytes of one file, in all parts that are wanted, by the decoder
    that the model names: decoded once, however many there are.
    """
    if decode_of(model) == "reference":
        return PreparedFile(see_exactly(data, refs, model.transform, model.name))
    fast = _by_cpu(data, refs, model)
    if fast is not None:
        return PreparedFile(list(fast))
    return PreparedFile(see_exactly(data, refs, model.transform, model.name), is_fallback=True)


def _by_cpu(data: bytes, refs: Sequence[ImageRef], model: Any) -> list[np.ndarray] | None:
    from fieldmark.embed.cpu.decode import decode

    return decode(data, model.preprocess, [ref.crop for ref in refs])


class _Arrived(NamedTuple):
    """One file, read and prepared by a thread."""

    parts: list[tuple[ImagePart, np.ndarray]]
    n_fallback: int
    read_s: float
    decode_s: float


@dataclass(slots=True)
class _ThreadRun:
    model: Backbone
    root: Path
    sink: Sink
    options: EmbedOptions
    progress: Progress
    batch_size: int = 0
    waiting: list[tuple[ImagePart, np.ndarray]] = field(default_factory=list)
    """prepared, and not yet embedded"""
    n_computed: int = 0
    n_fallback: int = 0
    began: float = 0.0
    shown: float = 0.0
    """when a person was last shown what holds things up"""
    busy_s: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("read", "decode", "forward", "write"), 0.0)
    )

    def run(self, files: Iterable[WantedFile]) -> Throughput:
        self.began = self.shown = time.perf_counter()
        model_batch = getattr(self.model, "batch_size", DEFAULT_BATCH)
        self.batch_size = self.options.batch_size or model_batch
        for arrived in self._arriving(files):
            self.n_fallback += arrived.n_fallback
            self.busy_s["read"] += arrived.read_s
            self.busy_s["decode"] += arrived.decode_s
            self.waiting += arrived.parts
            if len(self.waiting) >= self.batch_size:
                self._embed(self.batch_size)
        self._embed(1)
        seconds = time.perf_counter() - self.began
        is_apart = str(getattr(self.model, "device", "cpu")) != "cpu"
        return Throughput(
            n_computed=self.n_computed,
            seconds=seconds,
            decode=decode_of(self.model),
            n_fallback=self.n_fallback,
            busy_s=self.busy_s,
            device_busy=self.busy_s["forward"] / seconds if is_apart and seconds else None,
            is_compiled=bool(getattr(self.model, "is_compiled", False)),
            batch_size=self.batch_size,
        )

    def _arriving(self, files: Iterable[WantedFile]) -> Iterator[_Arrived]:
        """Prepared files in order, at most AHEAD batches of parts ahead of the model."""
        window = self.batch_size * AHEAD
        queue: deque[tuple[int, Future[_Arrived]]] = deque()
        n_ahead = 0
        with ThreadPoolExecutor(self.options.threads) as pool, ThreadPoolExecutor(1) as streamer:
            try:
                for file in files:
                    is_member = bool(split_reference(file.image)[1])
                    ahead = (
                        streamer.submit(read_stamped, self.root, file.image) if is_member else None
                    )
                    queue.append((len(file.refs), pool.submit(self._prepared, file, ahead)))
                    n_ahead += len(file.refs)
                    while n_ahead >= window:
                        n_parts, future = queue.popleft()
                        n_ahead -= n_parts
                        yield future.result()
                while queue:
                    yield queue.popleft()[1].result()
            finally:
                for _, future in queue:
                    future.cancel()
                streamer.shutdown(cancel_futures=True)

    def _prepared(
        self, file: WantedFile, ahead: Future[tuple[bytes, bytes | None]] | None
    ) -> _Arrived:
        began = time.perf_counter()
        stamped = ahead.result if ahead else None
        content, mark, data = read_content(self.root, file.image, stamped)
        parts = self.sink.read([HashedFile(file, content, mark)])[0]
        was_read = time.perf_counter()
        if not parts:
            return _Arrived([], 0, was_read - began, 0.0)
        made = prepare(data, [part.ref for part in parts], self.model)
        arrived = []
        for part, seen in zip(parts, made.seen, strict=True):
            if isinstance(seen, str):
                self.sink.failed(part, seen)
            else:
                arrived.append((part, seen))
        n_fallback = len(parts) if made.is_fallback else 0
        return _Arrived(arrived, n_fallback, was_read - began, time.perf_counter() - was_read)

    def _embed(self, least: int) -> None:
        """Embeds and keeps what is waiting, batch by batch, as long as `least` are waiting."""
        while len(self.waiting) >= least and self.waiting:
            batch = self.waiting[: self.batch_size]
            began = time.perf_counter()
            try:
                features = _embed_batch(self.model, batch, self.batch_size)
            except OutOfMemory:
                if self.batch_size == 1:
                    raise
                self.batch_size = max(1, min(self.batch_size, len(self.waiting)) // 2)
                self.progress.say(
                    f"{self.model.name}: out of memory, now batches of {self.batch_size}."
                )
                continue
            was_embedded = time.perf_counter()
            self.sink.keep([part for part, _ in batch], features)
            self.busy_s["forward"] += was_embedded - began
            self.busy_s["write"] += time.perf_counter() - was_embedded
            self.n_computed += len(batch)
            del self.waiting[: len(batch)]
            self._show()

    def _show(self) -> None:
        """How busy the model is and what it waits for, now and then."""
        now = time.perf_counter()
        if now - self.shown < STATUS_EVERY_S:
            return
        self.shown = now
        share = self.busy_s["forward"] / (now - self.began)
        slower = "files" if self.busy_s["read"] > self.busy_s["decode"] else "decoding"
        text = f"model {share:.0%} busy" + (f", waiting for {slower}" if share < 0.9 else "")
        self.progress.status(text)


def _embed_batch(
    model: Backbone, batch: Sequence[tuple[ImagePart, np.ndarray]], batch_size: int
) -> np.ndarray:
    """Features of the images; a short batch is filled up for models that want one shape only."""
    arrays = [array for _, array in batch]
    n_missing = batch_size - len(arrays) if getattr(model, "wants_full_batches", False) else 0
    shapes = {np.shape(array) for array in arrays}
    if len(shapes) > 1:
        listed = " and ".join(map(str, sorted(shapes)[:2]))
        raise ModelError(
            f"model {model.name!r}: transform gave arrays of the shapes {listed}, "
            "expected one shape for all images."
        )
    stacked = np.stack([*arrays, *arrays[-1:] * n_missing])
    with naming_model(model.name, "embed_images"):
        features = model.embed_images(stacked).pooled[: len(arrays)]
    check_finite(model.name, [part for part, _ in batch], features)
    return features
