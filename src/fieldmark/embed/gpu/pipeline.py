"""Embedding pipeline for CUDA devices: files to features at the rate of the network's forward pass.

    reader processes   files → hashed, checked bytes in pinned buffers (readers.py)
    decoder threads    buffers → pixels of the network's size, upright, on a stream of high priority
                       (decode.py): the card's JPEG engines (nvJPEG), then resize (kernel.py)
    this thread        pixels → features: full batches in half precision, one launch each
                       (cuda_stream.py)
    writer thread      features → sink, while the next batches are computed

Between any two of them lies a bounded queue; nothing grows with the number of images. What the card
cannot decode exactly (`jpeg.py`) comes as pixels from the readers, and is counted.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fieldmark import devices
from fieldmark.embed.gpu.cuda_stream import CudaStream, elapsed_s, recorded
from fieldmark.embed.gpu.decode import BufferDecoder, DeviceDecoder, WorkClock
from fieldmark.embed.gpu.reader_process import ReaderJob
from fieldmark.embed.gpu.readers import Dispatcher, ReaderPool, ReaderProcess, fitting
from fieldmark.embed.gpu.resize import FILTERS
from fieldmark.embed.gpu.worker_threads import PipelineStopped, WorkerThreads
from fieldmark.embed.work import ImagePart, Sink, Throughput, WantedFile, check_finite
from fieldmark.errors import ModelError, OutOfMemory, naming_model
from fieldmark.progress import Progress

if TYPE_CHECKING:
    from fieldmark.embed.engine import EmbedOptions

N_READERS, N_DECODERS = 8, 3
N_BUFFERS, BUFFER_BYTES = 3, 32 << 20
AHEAD = 4  # decoded groups that wait for the network
RESULTS = 4  # batches whose features are on their way to the disk
STATUS_EVERY_S = 1.0


class DecodedGroup(NamedTuple):
    """Pixels that wait for the network."""

    parts: Sequence[ImagePart]
    pixels: Any
    """uint8, n × 3 × height × width, on the device"""
    event: Any
    """when they are there"""


class _Result(NamedTuple):
    """Features on their way from the device."""

    parts: Sequence[ImagePart]
    buffer: Any
    began: Any
    event: Any


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
    pipeline = _GpuPipeline(model, sink, options, progress)
    try:
        pipeline.start(root, files, new_decoder or nvjpeg_decoders(model.device))
        pipeline.embed()
    except PipelineStopped:
        pass
    finally:
        pipeline.close()
    pipeline.threads.raise_error()
    return pipeline.throughput(time.monotonic() - began)


def nvjpeg_decoders(device: Any) -> Callable[[], DeviceDecoder]:
    from fieldmark.embed.gpu.decode import nvjpeg_decoder

    library = devices.nvjpeg_library()
    if library is None:
        raise ModelError("--decode gpu: nvJPEG was not found: use --decode cpu.")
    return lambda: nvjpeg_decoder(library, device)


class _GpuPipeline:
    def __init__(self, model: Any, sink: Sink, options: EmbedOptions, progress: Progress) -> None:
        self.model, self.sink, self.progress = model, sink, progress
        self.recipe, self.device = model.preprocess, model.device
        self.batch_size = options.batch_size or model.batch_size
        self.n_readers = min(N_READERS, max(1, options.threads // 2))
        self.clock, self.n_done = WorkClock(), 0
        self._began = self._shown = time.monotonic()
        self._ready: queue.Queue[DecodedGroup | None] = queue.Queue(AHEAD)
        self._results: queue.Queue[_Result | None] = queue.Queue(RESULTS)
        self._buffers: queue.Queue[Any] = queue.Queue()
        self.threads = WorkerThreads()
        self._pool: ReaderPool | None = None
        self._recorded: Callable[[Any], Any] | None = None

    # --- beginning and end

    def start(
        self, root: Path, files: Iterable[WantedFile], new_decoder: Callable[[], DeviceDecoder]
    ) -> None:
        starter = ThreadPoolExecutor(N_DECODERS)  # engines take a second to wake
        decoders = [starter.submit(new_decoder) for _ in range(N_DECODERS)]
        n_bytes = 3 * self.recipe.size[0] * self.recipe.size[1]
        buffer_bytes = max(BUFFER_BYTES, 16 * n_bytes)
        can_resize = self.recipe.interpolation in FILTERS
        job = ReaderJob(root, self.model.name, self.recipe, can_resize, N_BUFFERS, buffer_bytes)
        turns = fitting(files, buffer_bytes // (n_bytes + 256))
        readers = [ReaderProcess(job) for _ in range(self.n_readers)]
        self._pool = ReaderPool(readers, Dispatcher(turns), self.batch_size)
        self._pool.pin(self.device)
        for _ in range(RESULTS):
            shape = (self.batch_size, self.model.dim)
            self._buffers.put(torch.empty(shape, pin_memory=self.device.type == "cuda"))
        for decoder in decoders:
            self.threads.start(partial(self._decode_buffers, decoder))
        self._writer = self.threads.start(self._write)
        starter.shutdown(wait=False)

    def close(self) -> None:
        self.threads.stop.set()
        if self._pool is not None:
            self._pool.close()
        self.threads.join()
        if self._pool is not None:
            self._pool.unpin(self.device)

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

    # --- decoding: in threads of their own

    def _decode_buffers(self, coming: Future[DeviceDecoder]) -> None:
        assert self._pool is not None
        decoder, stream = coming.result(), CudaStream(self.device, is_urgent=True)
        buffers = BufferDecoder(self.model, self.sink, self.clock)
        while (buffer := self._pool.get()) is not None:
            if self.threads.stop.is_set():
                raise PipelineStopped
            with stream.use(), torch.inference_mode():
                with self.clock.on("decode"):
                    groups = buffers.decode(buffer, buffer.pairs(), decoder)
                    event = stream.mark()
                    stream.wait(event)
                buffer.give_back()
                for parts, pixels in groups:
                    self.threads.put(self._ready, DecodedGroup(parts, pixels, event))
        decoder.close()
        self.threads.put(self._ready, None)

    # --- the network: in the caller's thread

    def embed(self) -> None:
        """All that is decoded, in full batches as far as they go."""
        stream, waiting, n_open = CudaStream(self.device), _Waiting(), N_DECODERS
        with stream.use():
            while n_open:
                ready = self.threads.get(self._ready)
                if ready is None:
                    n_open -= 1
                    continue
                stream.follow(ready.event, ready.pixels)
                waiting.add(ready)
                while len(waiting) >= self.batch_size:
                    self._embed_batch(waiting, stream)
            while len(waiting):
                self._embed_batch(waiting, stream)
        self.threads.put(self._results, None)
        self._writer.join()

    def _embed_batch(self, waiting: _Waiting, stream: CudaStream) -> None:
        n = min(self.batch_size, len(waiting))
        parts, pixels = waiting.first(n)
        n_missing = self.batch_size - n if self.model.wants_full_batches else 0
        if n_missing:
            pixels = torch.cat([pixels, pixels[-1:].expand(n_missing, -1, -1, -1)])
        began = stream.mark()
        try:
            with naming_model(self.model.name, "embed_images"):
                features = self._network(pixels)[:n]
        except OutOfMemory:
            if self.batch_size == 1:
                raise
            self._recorded = None
            self.batch_size = max(1, n // 2)
            self.progress.say(
                f"{self.model.name}: out of memory, now batches of {self.batch_size}."
            )
            return
        waiting.drop(n)
        buffer = self.threads.get(self._buffers)
        buffer[:n].copy_(features, non_blocking=True)
        self.threads.put(self._results, _Result(parts, buffer, began, stream.mark()))
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
        self.progress.status(text)

    # --- features: in a thread of its own

    def _write(self) -> None:
        while (result := self.threads.get(self._results)) is not None:
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

    def add(self, ready: DecodedGroup) -> None:
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
