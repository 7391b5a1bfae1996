"""Data loader (prefetch): which images and texts does an optimiser step get, and are they ready?

    reader processes   samples → JPEGs or pixels in shared memory, each with one text
                       (feed/sample_reader.py, started as the readers of the embedding engine are)
    writer threads     JPEGs → pixels of the network's size, on the card;
                       pixels → pinned memory
    finisher thread    texts → tokens; a whole batch onto the device, a few steps ahead

Nothing grows with the number of samples: at most `n_ahead` batches are begun. Batches come in the
order of the steps, and the same ones whatever the number of readers, ranks or restarts: everything
random is drawn from a hash of the seed, the step and the sample.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from fieldmark.build.train.feed.index import TrainData
from fieldmark.build.train.feed.sample_reader import (
    BatchRow,
    ReadSample,
    SampleFiller,
    SampleJob,
    SampleReader,
    serve_samples,
)
from fieldmark.build.train.feed.steps import BadImages, CachedRows, ReaderHere, StepSource
from fieldmark.build.train.feed.texts import TextTokens, full_words, text_ids, text_plan
from fieldmark.build.train.recipe import TrainRecipe
from fieldmark.data import ABSENT, Content, ImageRef
from fieldmark.devices import choose_decode
from fieldmark.embed.gpu.cuda_stream import CudaStream
from fieldmark.embed.gpu.decode import BufferDecoder, DeviceDecoder, WorkClock
from fieldmark.embed.gpu.reader_process import FileBytes, Pixels, aligned
from fieldmark.embed.gpu.readers import AHEAD, ReaderPool, ReaderProcess, SharedBuffer
from fieldmark.embed.gpu.worker_threads import POLL_S, PipelineStopped, WorkerThreads
from fieldmark.embed.work import HashedFile, ImagePart, WantedFile
from fieldmark.models import Recipe

# --- GPU JPEG decoding for training: JPEGs of a buffer become their places in a batch.
# The decoder of the embedding engine (nvJPEG, then the resampling kernel) does it: a random
# resized crop is, in its words, a part of a file. What the card refuses Pillow decodes; what
# Pillow refuses is read again, as a reader would that decodes for itself, and so replaced by
# another sample.


@dataclass(frozen=True, slots=True)
class _CropView:
    """What the decoder asks of a model."""

    preprocess: Recipe
    device: Any
    name: str = "train"


@dataclass(slots=True)
class _CropSink:
    """Every crop of a buffer is wanted; remembers those that failed."""

    failed_keys: list[bytes] = field(default_factory=list)

    def read(self, files: Sequence[HashedFile]) -> list[list[ImagePart]]:
        return [[ImagePart(ref, file.content.key) for ref in file.wanted.refs] for file in files]

    def failed(self, part: ImagePart, reason: str) -> None:  # noqa: ARG002 - told when read again
        self.failed_keys.append(part.key)

    def keep(self, parts: Sequence[ImagePart], features_nd: np.ndarray) -> None:
        """Nothing is embedded here."""


class CardWriter:
    """One decoder with a stream of its own; for one thread."""

    def __init__(self, reader: SampleReader, device: Any, decoder: DeviceDecoder) -> None:
        self._reader, self._device, self._decoder = reader, device, decoder
        self._sink = _CropSink()
        self._buffers = BufferDecoder(_CropView(reader.square, device), self._sink, WorkClock())
        self._stream = CudaStream(device, is_urgent=True)

    def write(self, buffer: SharedBuffer, slot: Callable[[int], Any]) -> list[ReadSample]:
        """When this returns, the images are there. `slot` gives those of a step: a buffer may hold
        samples of several.
        """
        samples: list[ReadSample] = list(buffer.answer.files)
        self._sink.failed_keys.clear()
        pairs = [_pair(number, sample) for number, sample in enumerate(samples)]
        with self._stream.use(), torch.no_grad():
            for parts, images in self._buffers.decode(buffer, pairs, self._decoder):
                numbers = [_number(part.key) for part in parts]
                self._put(slot, [samples[number] for number in numbers], images)
            for key in self._sink.failed_keys:
                number = _number(key)
                data, samples[number] = self._reader.read(samples[number].batch_row, on_card=False)
                height, width = self._reader.square.size
                image = torch.frombuffer(bytearray(data), dtype=torch.uint8)
                image = image.view(1, height, width, 3).permute(0, 3, 1, 2)
                self._put(slot, [samples[number]], image.to(self._device))
            self._stream.wait(self._stream.mark())
        return samples

    def close(self) -> None:
        self._decoder.close()

    def _put(self, slot: Callable[[int], Any], samples: Sequence[ReadSample], images: Any) -> None:
        steps = {sample.batch_row.step for sample in samples}
        for step in steps:  # nearly always one
            of_step = [
                number for number, sample in enumerate(samples) if sample.batch_row.step == step
            ]
            rows_and_samples = torch.tensor(
                [[samples[number].batch_row.row for number in of_step], of_step]
            )
            where, which = rows_and_samples.to(self._device)
            chosen = images if len(steps) == 1 else images[which]
            slot(step).index_copy_(0, where, chosen)


def _pair(number: int, sample: ReadSample) -> tuple[WantedFile, FileBytes]:
    """A sample in the words of the embedding engine; its key is its number in the buffer."""
    content = Content(number.to_bytes(len(ABSENT), "little"))
    file = WantedFile(sample.name, (ImageRef(sample.name, sample.crop),))
    if sample.facts is None:
        return file, FileBytes(content, None, pixels=(Pixels(sample.offset),))
    return file, FileBytes(content, None, sample.offset, sample.size, sample.facts)


def _number(key: bytes) -> int:
    return int.from_bytes(key, "little")


# --- the loader


CHUNK, CARD_CHUNK = 32, 256
"""samples that a reader gets at a time: small parts are sooner whole batches, nvJPEG is faster with
large ones"""
CARD_READERS = 8
N_BUFFERS, CARD_BUFFER_BYTES = 3, 32 << 20
N_WRITERS = 3
READY = 2  # finished batches that wait for the step
SAY_AFTER = 10  # steps: by then it is known how many texts are too long
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainBatch:
    """What one rank needs for one step, on its device; n samples."""

    step: int
    images: Any
    """uint8, n × 3 × size × size: cropped and resized, not normalised"""
    tokens: Any
    """int64, n × length: that of the longest text, rounded up to a multiple of 16, where the
    network allows it"""
    type_ids: Any
    """int64, n: places in `recipe.text_types`"""
    projectors: Any
    """int64, n: places in `recipe.model.projectors`"""
    text_ids: Any
    """int64, n: equal if and only if the texts are"""
    wait_s: float
    """how long the step waited for it"""
    replaced: tuple[str, ...] = ()
    """samples that could not be decoded, and why; others stand in their places"""


@dataclass(frozen=True, slots=True)
class LoaderOptions:
    """How batches are made; nothing here changes what is in them but `decode`."""

    n_readers: int | None = None
    """processes; 0: a thread of this one reads; None: what the recipe says"""
    decode: str = ""
    """reference, cpu or gpu; "": what the recipe says"""
    new_decoder: Callable[[], DeviceDecoder] | None = None
    """in the place of nvJPEG"""


@contextmanager
def open_loader(
    data: TrainData,
    recipe: TrainRecipe,
    tokenise: Callable[[Sequence[str]], Any],
    device: Any,
    *,
    image_size: int,
    rank: int = 0,
    n_ranks: int = 1,
    first_step: int = 0,
    last_step: int,
    options: LoaderOptions | None = None,
) -> Iterator[Iterator[TrainBatch]]:
    """Batches of the steps from `first_step` up to, without it, `last_step`.

    Rows of `tokenise` are cut to the longest text of a batch where it has a true `can_trim`; texts
    end at its token `end`. DataError when more than 1 % of an epoch cannot be decoded.
    """
    options = options or LoaderOptions()
    device = torch.device(device)
    decode = options.decode or choose_decode(recipe.data.decode, device)
    order = data.order(recipe)
    n = len(order.rank_batch(first_step, rank, n_ranks))
    job = SampleJob(
        data,
        data.order(recipe),  # not `order`, which changes while other threads copy this one
        text_plan(recipe),
        seed=recipe.train.seed,
        scale=recipe.data.scale,
        size=image_size,
        decode=decode,
        n_buffers=N_BUFFERS,
        buffer_bytes=_buffer_bytes(decode, image_size, n),
    )

    def rows_of_step(step: int) -> list[BatchRow]:
        numbers = order.rank_batch(step, rank, n_ranks).tolist()
        return [BatchRow(step, row, sample) for row, sample in enumerate(numbers)]

    n_readers = options.n_readers
    if n_readers is None:
        n_readers = recipe.data.readers or _fitting_readers(decode)
    can_trim = bool(getattr(tokenise, "can_trim", False))
    tokens = TextTokens(CachedRows(tokenise), can_trim, getattr(tokenise, "end", None))
    loader = _BatchLoader(job, tokens, device, n)
    try:
        loader.start(rows_of_step, range(first_step, last_step), n_readers, options.new_decoder)
        yield loader.batches()
    finally:
        loader.close()


def _buffer_bytes(decode: str, size: int, n: int) -> int:
    picture = aligned(3 * size * size)
    if decode == "gpu":
        return max(CARD_BUFFER_BYTES, 16 * picture)
    return min(CHUNK, n) * picture


def _fitting_readers(decode: str) -> int:
    """As many as this process' share of the cores lets run, and the card can use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    share = (cores or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # set by torchrun
    return max(1, min(CARD_READERS, share // 2) if decode == "gpu" else share - 1)


class _HostWriter:
    """Pixels that readers have decoded, brought to their places in batches."""

    def __init__(self, size: int) -> None:
        self._shape = (size, size, 3)

    def write(self, buffer: SharedBuffer, slot: Callable[[int], Any]) -> Sequence[ReadSample]:
        samples: Sequence[ReadSample] = buffer.answer.files
        for sample in samples:
            view = buffer.view(sample.offset, sample.size)
            image = np.frombuffer(view, np.uint8).reshape(self._shape)
            slot(sample.batch_row.step).numpy()[sample.batch_row.row] = image
        return samples

    def close(self) -> None:
        pass


class _OpenBatch:
    """A batch of which something is there."""

    def __init__(self, n: int) -> None:
        self.samples: dict[int, ReadSample] = {}
        self.n = n

    @property
    def is_whole(self) -> bool:
        return len(self.samples) == self.n

    def in_order(self) -> list[ReadSample]:
        return [self.samples[row] for row in range(self.n)]


class _BatchLoader:
    def __init__(self, job: SampleJob, tokens: TextTokens, device: Any, n: int) -> None:
        self.job, self.tokens, self.device, self.n = job, tokens, device, n
        self.is_on_card = job.decode == "gpu"
        self.threads = WorkerThreads()
        self._bad = BadImages(job.order.n_batches, n)
        self._ready: queue.Queue[TrainBatch] = queue.Queue(READY)
        self._open: dict[int, _OpenBatch] = {}
        self._grown = threading.Condition()
        self._source: StepSource | None = None
        self._pool: ReaderPool | None = None

    # --- beginning and end

    def start(
        self,
        rows_of_step: Callable[[int], list[BatchRow]],
        steps: range,
        n_readers: int,
        new_decoder: Callable[[], DeviceDecoder] | None,
    ) -> None:
        self.steps = steps
        chunk = min(self.n, CARD_CHUNK if self.is_on_card else CHUNK)
        # enough for every reader to be at work while one batch is finished and one is written
        n_ahead = min(-(-max(n_readers, 1) * AHEAD * chunk // self.n) + 2, max(len(steps), 1))
        self._slots = [self._new_slot() for _ in range(n_ahead)]
        if self.is_on_card and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # other streams write there
        self._source = StepSource(rows_of_step, steps, n_ahead)
        readers = [ReaderProcess(self.job, serve_samples) for _ in range(n_readers)]
        here = [ReaderHere(self.job, SampleFiller)] if not n_readers else []
        self._pool = ReaderPool([*readers, *here], self._source, chunk)
        if self.is_on_card:
            self._pool.pin(self.device)
        for _ in range(N_WRITERS if n_readers else 1):
            self.threads.start(partial(self._write, self._new_writer(new_decoder)))
        self.threads.start(self._finish)

    def close(self) -> None:
        self.threads.stop.set()
        if self._source is not None:
            self._source.stop()
        if self._pool is not None:
            self._pool.close()
        self.threads.join()
        if self._pool is not None:
            self._pool.unpin(self.device)

    def _slot(self, step: int) -> Any:
        return self._slots[step % len(self._slots)]

    def _new_slot(self) -> Any:
        """Room for the images of a batch while they come in."""
        size = self.job.size
        if self.is_on_card:
            return torch.empty((self.n, 3, size, size), dtype=torch.uint8, device=self.device)
        is_pinned = self.device.type == "cuda"
        return torch.empty((self.n, size, size, 3), dtype=torch.uint8, pin_memory=is_pinned)

    def _new_writer(
        self, new_decoder: Callable[[], DeviceDecoder] | None
    ) -> Callable[[], CardWriter | _HostWriter]:
        if not self.is_on_card:
            return partial(_HostWriter, self.job.size)
        from fieldmark.embed.gpu.pipeline import nvjpeg_decoders

        new = new_decoder or nvjpeg_decoders(self.device)
        return lambda: CardWriter(SampleReader(self.job), self.device, new())

    # --- images: in threads of their own

    def _write(self, new_writer: Callable[[], CardWriter | _HostWriter]) -> None:
        assert self._pool is not None
        with closing(new_writer()) as writer:
            while (buffer := self._pool.get()) is not None:
                if self.threads.stop.is_set():
                    raise PipelineStopped
                samples = writer.write(buffer, self._slot)
                buffer.give_back()
                with self._grown:
                    for sample in samples:
                        batch = self._open.setdefault(sample.batch_row.step, _OpenBatch(self.n))
                        batch.samples[sample.batch_row.row] = sample
                    self._grown.notify_all()

    # --- whole batches: in a thread of its own

    def _finish(self) -> None:
        assert self._source is not None
        stream = CudaStream(self.device)
        for step in self.steps:
            samples = self._whole(step)
            replaced = self._bad.count(step, samples)
            with stream.use():
                images = self._images(self._slot(step))
                texts = [sample.text.text for sample in samples]
                type_ids = [sample.text.type_id for sample in samples]
                projectors = [self.job.texts.projectors[type_id] for type_id in type_ids]
                batch = TrainBatch(
                    step=step,
                    images=images,
                    tokens=self._moved(self.tokens(texts)),
                    type_ids=self._moved(np.array(type_ids, np.int64)),
                    projectors=self._moved(np.array(projectors, np.int64)),
                    text_ids=self._moved(text_ids(texts)),
                    wait_s=0.0,
                )
                stream.wait(stream.mark())
            self._source.finished()
            self.threads.put(self._ready, replace(batch, replaced=replaced))
            if step == self.steps[:SAY_AFTER][-1]:
                tokens = self.tokens
                if words := full_words(tokens.n_full, tokens.n_seen, tokens.context):
                    LOG.warning("%s", words)

    def _whole(self, step: int) -> list[ReadSample]:
        with self._grown:
            while step not in self._open or not self._open[step].is_whole:
                self._grown.wait(POLL_S)
                if self.threads.stop.is_set():
                    raise PipelineStopped
            return self._open.pop(step).in_order()

    def _images(self, slot: Any) -> Any:
        """A copy: the slot is used again."""
        if self.is_on_card:
            return slot.clone()
        is_waited_for = self.device.type == "cuda"  # by the stream; other devices have none
        images = slot.to(self.device, non_blocking=is_waited_for)
        return images.permute(0, 3, 1, 2).contiguous()

    def _moved(self, numbers: np.ndarray) -> Any:
        tensor = torch.from_numpy(numbers)
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)

    # --- steps: in the caller's thread

    def batches(self) -> Iterator[TrainBatch]:
        for _ in self.steps:
            began = time.perf_counter()
            try:
                batch = self.threads.get(self._ready)
            except PipelineStopped:
                self.threads.raise_error()
                return
            # The memory was taken on another stream: it must not be used again before this one is
            # done with it
            if self.device.type == "cuda":
                stream = torch.cuda.current_stream(self.device)
                for name in ("images", "tokens", "type_ids", "projectors", "text_ids"):
                    getattr(batch, name).record_stream(stream)
            yield replace(batch, wait_s=time.perf_counter() - began)
