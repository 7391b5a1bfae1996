"""Bounded prefetch (backpressure) and other parts of the loader that know neither images nor
devices: which samples are read next, tokens that are kept, a reader without a process, and when bad
images are too many.
"""

from __future__ import annotations

import logging
import mmap
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fieldmark.build.train.feed.sample_reader import BatchRow, ReadSample
from fieldmark.embed.gpu.reader_process import BufferAnswer, BufferJob, BufferRequest, Filler
from fieldmark.embed.gpu.readers import address_of
from fieldmark.embed.gpu.worker_threads import PipelineStopped
from fieldmark.errors import DataError

MOST_BAD_SHARE = 0.01
"""of the images of an epoch"""
MOST_ROWS = 200_000
"""texts whose tokens are kept: some 100 MB"""
LOG = logging.getLogger(__name__)


class StepSource:
    """Places of batches in the order of the steps, no more than `n_ahead` steps before the first
    that is not finished.
    """

    def __init__(
        self, rows_of_step: Callable[[int], list[BatchRow]], steps: range, n_ahead: int
    ) -> None:
        self._places, self._steps, self._n_ahead = rows_of_step, steps, n_ahead
        self._n_begun = self._n_finished = 0
        self._waiting: deque[BatchRow] = deque()
        self._changed = threading.Condition()
        self._is_stopped = False

    def take(self, reader: int, most: int, may_wait: bool) -> list[BatchRow]:  # noqa: ARG002
        """The next places, all of one step."""
        with self._changed:
            while not self._waiting:
                if self._is_stopped:
                    raise PipelineStopped
                if self._n_begun == len(self._steps):
                    return []
                if self._n_begun < self._n_finished + self._n_ahead:
                    self._waiting.extend(self._places(self._steps[self._n_begun]))
                    self._n_begun += 1
                elif may_wait:
                    self._changed.wait()
                else:
                    return []
            return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def finished(self) -> None:
        """One more step needs no room any more."""
        with self._changed:
            self._n_finished += 1
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()


class CachedRows:
    """A tokeniser that remembers: names of taxa come again and again."""

    def __init__(self, tokenise: Callable[[Sequence[str]], Any]) -> None:
        self._tokenise = tokenise
        self._rows: dict[str, np.ndarray] = {}

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """n × context"""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if len(self._rows) + len(unknown) > MOST_ROWS:
            self._rows.clear()
            unknown = list(dict.fromkeys(texts))
        if unknown:
            rows = np.asarray(self._tokenise(unknown), dtype=np.int32)
            self._rows.update(zip(unknown, rows.copy(), strict=True))
        return np.stack([self._rows[text] for text in texts])


class ReaderHere:
    """A reader without a process of its own."""

    def __init__(self, job: BufferJob, new_filler: Callable[[Any, mmap.mmap], Filler]) -> None:
        self.job = job
        self.memory = mmap.mmap(-1, job.n_buffers * job.buffer_bytes)
        self.address = address_of(self.memory)
        self.free: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        for buffer in range(job.n_buffers):
            self.free.put(buffer)
        self._filler, self._answers = new_filler(job, self.memory), deque[BufferAnswer]()

    def request(self, buffer: int, files: Sequence[Any]) -> None:
        self._answers.append(self._filler.fill(BufferRequest(buffer, files)))

    def answer(self) -> BufferAnswer:
        return self._answers.popleft()

    def stop(self) -> None:
        self.free.put(None)

    def join(self) -> None:
        pass


class BadImages:
    """How many images of each epoch could not be decoded."""

    def __init__(self, n_batches: int, n: int) -> None:
        self._n_batches, self._n_images = n_batches, n_batches * n
        self._n_bad = Counter[int]()
        self._first = ""

    def count(self, step: int, samples: Sequence[ReadSample]) -> tuple[str, ...]:
        """The samples that were replaced in a step; raises when they are too many."""
        replaced = tuple(line for sample in samples for line in sample.replaced)
        if not replaced:
            return ()
        self._first = self._first or replaced[0]
        for line in replaced:
            LOG.info("step %d: replaced by another sample: %s", step, line)
        epoch = step // self._n_batches
        self._n_bad[epoch] += len(replaced)
        if self._n_bad[epoch] > MOST_BAD_SHARE * self._n_images:
            raise DataError(
                f"{self._n_bad[epoch]:,} of the {self._n_images:,} images of an epoch cannot be "
                f"decoded, more than {MOST_BAD_SHARE:.0%}: the first is {self._first}. Find "
                "damaged shards with `fieldmark shards check SHARDS --images` and replace them."
            )
        return replaced
