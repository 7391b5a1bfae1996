"""Embedding pipeline for CUDA devices: files to features at the rate of the network's forward pass.

    reader processes   files → hashed, checked bytes in pinned slabs       (reader.py, readers.py)
    decoder threads    slabs → upright pixels of the network's size, on a stream of high priority:
                       the card's JPEG engines (nvjpeg.py), resize by matrix products (resample.py)
    this thread        pixels → features: full batches, half precision
    writer thread      features → sink, while the next batches are computed

Between any two of them lies a bounded queue; nothing grows with the number of images. What the card
cannot decode exactly (`jpeg.py`) comes as pixels from the readers, and is counted.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch

from fieldmark import devices
from fieldmark.data import ImageRef, crop_box
from fieldmark.embed.graph import recorded
from fieldmark.embed.jpeg import JpegFacts
from fieldmark.embed.lane import Lane, elapsed_s
from fieldmark.embed.reader import FileBytes, ReaderJob, transformed
from fieldmark.embed.readers import ReaderPool, Slab, Stopped, fitting
from fieldmark.embed.resample import SWAPPED, Cut, choose_resampler, groups_by_size, resample
from fieldmark.embed.work import ImagePart, Sink, Throughput, WantedFile, check_finite
from fieldmark.errors import DataError, ModelError, OutOfMemory, naming_model, plain_reason
from fieldmark.progress import Progress

if TYPE_CHECKING:
    from fieldmark.embed.engine import EmbedOptions

T = TypeVar("T")
_Pixels = tuple[Sequence[ImagePart], Any]

N_READERS, N_DECODERS = 6, 2
N_SLABS, SLAB_BYTES = 3, 32 << 20
CANVAS_BYTES = 512 << 20
AHEAD = 4  # decoded groups that wait for the network
RESULTS = 4  # batches whose features are on their way to the disk
STATUS_EVERY_S = 1.0


class DeviceDecoder(Protocol):
    """`NvjpegDecoder`, or what a test puts in its place."""

    def decode(self, pointers: np.ndarray, lengths: np.ndarray, canvas: Any) -> bool: ...

    def close(self) -> None: ...


class Ready(NamedTuple):
    """Pixels that wait for the network."""

    parts: Sequence[ImagePart]
    pixels: Any
    """uint8, n × 3 × height × width, on the device"""
    event: Any
    """when they are there"""


class _Stored(NamedTuple):
    """A JPEG in a slab, and the parts of it that are wanted."""

    wanted: WantedFile
    file: FileBytes
    facts: JpegFacts
    parts: Sequence[ImagePart]


class _Result(NamedTuple):
    """Features on their way from the device."""

    parts: Sequence[ImagePart]
    buffer: Any
    began: Any
    event: Any


@dataclass(slots=True)
class _Clock:
    """Seconds of work by part, over all threads and processes."""

    busy_s: dict[str, float] = field(default_factory=dict)
    n_fallback: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, part: str, seconds: float, n_fallback: int = 0) -> None:
        with self.lock:
            self.busy_s[part] = self.busy_s.get(part, 0.0) + seconds
            self.n_fallback += n_fallback

    @contextlib.contextmanager
    def on(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.add(part, time.perf_counter() - began)


def run_gpu(
    model: Any,
    root: Path,
    files: Iterable[WantedFile],
    sink: Sink,
    options: EmbedOptions,
    progress: Progress,
    new_decoder: Callable[[], DeviceDecoder] | None = None,
) -> Throughput:
    """Embeds all files; raises what any part of the pipeline raises, with the others stopped."""
    began = time.monotonic()
    pipeline = _Pipeline(model, sink, options, progress)
    try:
        pipeline.start(root, files, new_decoder or _nvjpeg(model.device))
        pipeline.embed()
    except Stopped:
        pass
    finally:
        pipeline.close()
    pipeline.raise_error()
    return pipeline.throughput(time.monotonic() - began)


def _nvjpeg(device: Any) -> Callable[[], DeviceDecoder]:
    from fieldmark.embed.nvjpeg import nvjpeg_decoder

    library = devices.nvjpeg_library()
    if library is None:
        raise ModelError("--decode gpu: nvJPEG was not found: use --decode cpu.")
    return lambda: nvjpeg_decoder(library, device)


class _Pipeline:
    def __init__(self, model: Any, sink: Sink, options: EmbedOptions, progress: Progress) -> None:
        self.model, self.sink, self.progress = model, sink, progress
        self.recipe, self.device = model.preprocess, model.device
        self.batch_size = options.batch_size or model.batch_size
        self.n_readers = min(N_READERS, max(1, options.threads // 2))
        self.clock, self.n_done = _Clock(), 0
        self._began = self._shown = time.monotonic()
        self._ready: queue.Queue[Ready | None] = queue.Queue(AHEAD)
        self._results: queue.Queue[_Result | None] = queue.Queue(RESULTS)
        self._buffers: queue.Queue[Any] = queue.Queue()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._pool: ReaderPool | None = None
        self._resample: Callable[..., Any] = resample
        self._recorded: Callable[[Any], Any] | None = None

    # --- beginning and end

    def start(
        self, root: Path, files: Iterable[WantedFile], new_decoder: Callable[[], DeviceDecoder]
    ) -> None:
        starter = ThreadPoolExecutor(N_DECODERS)  # engines take a second to wake
        decoders = [starter.submit(new_decoder) for _ in range(N_DECODERS)]
        n_bytes = 3 * self.recipe.size[0] * self.recipe.size[1]
        slab_bytes = max(SLAB_BYTES, 16 * n_bytes)
        job = ReaderJob(root, self.model.name, self.recipe, N_SLABS, slab_bytes)
        turns = fitting(files, slab_bytes // (n_bytes + 256))
        self._pool = ReaderPool(job, self.n_readers, turns, self.batch_size)
        self._pool.pin(self.device)
        for _ in range(RESULTS):
            shape = (self.batch_size, self.model.dim)
            self._buffers.put(torch.empty(shape, pin_memory=self.device.type == "cuda"))
        self._resample = choose_resampler(self.device)
        for work in (*(partial(self._decode_slabs, decoder) for decoder in decoders), self._write):
            thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)
        starter.shutdown(wait=False)

    def close(self) -> None:
        self._stop.set()
        if self._pool is not None:
            self._pool.close()
        for thread in self._threads:
            thread.join()
        if self._pool is not None:
            self._pool.unpin(self.device)

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def throughput(self, seconds: float) -> Throughput:
        return Throughput(
            n_computed=self.n_done,
            seconds=seconds,
            decode="gpu",
            n_fallback=self.clock.n_fallback,
            busy_s=self.clock.busy_s,
            device_busy=self._device_busy,
            is_compiled=bool(getattr(self.model, "is_compiled", False)),
            batch_size=self.batch_size,
        )

    @property
    def _device_busy(self) -> float:
        seconds = time.monotonic() - self._began
        return min(1.0, self.clock.busy_s.get("forward", 0.0) / max(seconds, 1e-9))

    def _guarded(self, work: Callable[[], None]) -> None:
        """A thread's border: the first error ends the pipeline."""
        try:
            work()
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            if self._error is None:
                self._error = error
            self._stop.set()

    def _put(self, target: queue.Queue[T], item: T) -> None:
        while True:
            try:
                return target.put(item, timeout=0.2)
            except queue.Full:
                if self._stop.is_set():
                    raise Stopped from None

    def _get(self, source: queue.Queue[T]) -> T:
        while True:
            try:
                return source.get(timeout=0.2)
            except queue.Empty:
                if self._stop.is_set():
                    raise Stopped from None

    # --- decoding: in threads of their own

    def _decode_slabs(self, coming: Future[DeviceDecoder]) -> None:
        assert self._pool is not None
        decoder, lane = coming.result(), Lane(self.device, is_urgent=True)
        try:
            while (slab := self._pool.get()) is not None:
                with lane.use(), torch.inference_mode():
                    self._decode_slab(slab, decoder, lane)
                if self._stop.is_set():
                    raise Stopped
        finally:
            decoder.close()
        self._put(self._ready, None)

    def _decode_slab(self, slab: Slab, decoder: DeviceDecoder, lane: Lane) -> None:
        self.clock.add("read", slab.answer.read_s)
        self.clock.add("decode", slab.answer.decode_s)
        stored: list[_Stored] = []
        others: list[tuple[ImagePart, np.ndarray]] = []
        for wanted, file in slab.pairs():
            parts = self.sink.read(wanted, file.content, file.mark)
            if not parts or file.content.problem:
                continue
            if file.facts is not None:
                stored.append(_Stored(wanted, file, file.facts, parts))
            else:
                others += self._decoded_by_reader(slab, wanted, file, parts)
        with self.clock.on("decode"):
            ready = self._pixels(slab, stored, decoder)
            if others:
                ready.append(self._upload(others))
            event = lane.mark()
            lane.wait(event)
        slab.give_back()
        for parts, pixels in ready:
            self._put(self._ready, Ready(parts, pixels, event))

    def _decoded_by_reader(
        self, slab: Slab, wanted: WantedFile, file: FileBytes, parts: Sequence[ImagePart]
    ) -> Iterator[tuple[ImagePart, np.ndarray]]:
        height, width = self.recipe.size
        by_ref = dict(zip(wanted.refs, file.pixels, strict=True))
        for part in parts:
            pixels = by_ref[part.ref]
            if pixels.offset < 0:
                self.sink.failed(part, pixels.problem)
                continue
            view = slab.view(pixels.offset, height * width * 3)
            yield part, np.frombuffer(view, np.uint8).reshape(height, width, 3)

    def _upload(self, others: Sequence[tuple[ImagePart, np.ndarray]]) -> _Pixels:
        """Pixels that were decoded on the CPU."""
        self.clock.add("decode", 0.0, n_fallback=len(others))
        stacked = torch.from_numpy(np.stack([pixels for _, pixels in others]))
        return [part for part, _ in others], stacked.to(self.device).permute(0, 3, 1, 2)

    def _pixels(
        self, slab: Slab, stored: Sequence[_Stored], decoder: DeviceDecoder
    ) -> list[_Pixels]:
        """What the network sees of the JPEGs, group by group of like sizes."""
        sizes = [(jpeg.facts.height, jpeg.facts.width) for jpeg in stored]
        is_swapped = [jpeg.facts.turn in SWAPPED for jpeg in stored]
        ready: list[_Pixels] = []
        groups = groups_by_size(sizes, CANVAS_BYTES, is_swapped)
        while groups:
            group = [stored[index] for index in groups[-1]]
            rows = max(jpeg.facts.height for jpeg in group)
            columns = -(-max(jpeg.facts.width for jpeg in group) // 16) * 16
            canvas = torch.empty(
                (len(group), rows, 3, columns), dtype=torch.uint8, device=self.device
            )
            offsets = np.array([jpeg.file.offset for jpeg in group], np.uint64)
            lengths = np.array([jpeg.file.size for jpeg in group], np.uint64)
            indexes = groups.pop()
            if decoder.decode(offsets + np.uint64(slab.address), lengths, canvas):
                ready += self._cut_out(canvas, group)
            elif len(indexes) > 1:  # one of them is damaged: find it
                half = len(indexes) // 2
                groups += [indexes[:half], indexes[half:]]
            else:
                ready += self._decode_here(slab, group[0])
        return ready

    def _cut_out(self, canvas: Any, group: Sequence[_Stored]) -> Iterator[_Pixels]:
        cuts: list[Cut] = []
        parts: list[ImagePart] = []
        for place, jpeg in enumerate(group):
            for part in jpeg.parts:
                try:
                    cuts.append(self._cut(place, jpeg.facts, part.ref))
                except DataError as error:
                    self.sink.failed(part, plain_reason(error))
                    continue
                parts.append(part)
        if parts:
            recipe = self.recipe
            pixels = self._resample(canvas, cuts, recipe.size, recipe.interpolation, recipe.fill)
            yield parts, pixels

    def _cut(self, place: int, facts: JpegFacts, ref: ImageRef) -> Cut:
        stored = facts.height, facts.width
        height, width = stored[::-1] if facts.turn in SWAPPED else stored
        bounds = (0, 0, width, height)
        if ref.crop is not None:
            bounds = crop_box(width, height, ref.crop, ref.image)
        left, top, right, bottom = bounds
        box, out = self.recipe.placed(bottom - top, right - left)
        seen = (box[0] + left, box[1] + top, box[2] + left, box[3] + top)
        return Cut(place, stored, seen, bounds, out, facts.turn)

    def _decode_here(self, slab: Slab, jpeg: _Stored) -> list[_Pixels]:
        """A file that the card refuses, decoded the reference way."""
        data = bytes(slab.view(jpeg.file.offset, jpeg.file.size))
        wanted = replace(jpeg.wanted, refs=tuple(part.ref for part in jpeg.parts))
        made: list[tuple[ImagePart, np.ndarray]] = []
        seen = transformed(data, wanted, self.recipe, self.model.name)
        for part, pixels in zip(jpeg.parts, seen, strict=True):
            if isinstance(pixels, str):
                self.sink.failed(part, pixels)
            else:
                made.append((part, pixels))
        return [self._upload(made)] if made else []

    # --- the network: in the caller's thread

    def embed(self) -> None:
        """All that is decoded, in full batches as far as they go."""
        lane, waiting, n_open = Lane(self.device), _Waiting(), N_DECODERS
        with lane.use():
            while n_open:
                ready = self._get(self._ready)
                if ready is None:
                    n_open -= 1
                    continue
                lane.follow(ready.event, ready.pixels)
                waiting.add(ready)
                while len(waiting) >= self.batch_size:
                    self._embed_batch(waiting, lane)
            while len(waiting):
                self._embed_batch(waiting, lane)
        self._put(self._results, None)
        self._threads[-1].join()

    def _embed_batch(self, waiting: _Waiting, lane: Lane) -> None:
        n = min(self.batch_size, len(waiting))
        parts, pixels = waiting.first(n)
        n_missing = self.batch_size - n if self.model.wants_full_batches else 0
        if n_missing:
            pixels = torch.cat([pixels, pixels[-1:].expand(n_missing, -1, -1, -1)])
        began = lane.mark()
        try:
            with naming_model(self.model.name, "embed_images"):
                features = self._network(pixels)[:n]
        except OutOfMemory:
            if self.batch_size == 1:
                raise
            self._recorded = None
            self.batch_size = max(1, n // 2)
            self.progress.say(
                f"{self.model.name}: out of memory, going on with batches of {self.batch_size}."
            )
            return
        waiting.drop(n)
        buffer = self._get(self._buffers)
        buffer[:n].copy_(features, non_blocking=True)
        self._put(self._results, _Result(parts, buffer, began, lane.mark()))
        self._show()

    def _network(self, pixels: Any) -> Any:
        """Full batches go through a recording of the network."""
        if len(pixels) != self.batch_size:
            return self.model.embed_pixels(pixels)
        if self._recorded is None:
            self._recorded = recorded(self.model.embed_pixels, pixels)
        return self._recorded(pixels)

    def _show(self) -> None:
        """What holds things up, now and then."""
        now = time.monotonic()
        if now - self._shown < STATUS_EVERY_S or self._pool is None:
            return
        self._shown = now
        busy = self._device_busy
        text = f"GPU {busy:.0%}"
        if busy < 0.9 and not self._ready.qsize():
            text += f", waiting for {'decoding' if self._pool.n_waiting else 'files'}"
        getattr(self.progress, "status", str)(text)

    # --- features: in a thread of its own

    def _write(self) -> None:
        while (result := self._get(self._results)) is not None:
            n = len(result.parts)
            self.clock.add("forward", elapsed_s(result.began, result.event))
            features = result.buffer[:n].numpy().copy()
            self._buffers.put(result.buffer)
            check_finite(self.model.name, result.parts, features)
            with self.clock.on("write"):
                self.sink.keep(result.parts, features)
            self.n_done += n


class _Waiting:
    """Decoded images that are not yet a batch."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Sequence[ImagePart], Any]] = deque()
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, ready: Ready) -> None:
        self._ready.append((ready.parts, ready.pixels))
        self._n += len(ready.parts)

    def first(self, n: int) -> tuple[list[ImagePart], Any]:
        parts: list[ImagePart] = []
        pixels = []
        for own_parts, own_pixels in self._ready:
            room = n - len(parts)
            parts += own_parts[:room]
            pixels.append(own_pixels[:room])
            if len(parts) == n:
                break
        return parts, torch.cat(pixels) if len(pixels) > 1 else pixels[0]

    def drop(self, n: int) -> None:
        self._n -= n
        while n:
            parts, pixels = self._ready.popleft()
            if len(parts) > n:
                self._ready.appendleft((parts[n:], pixels[n:]))
                return
            n -= len(parts)
