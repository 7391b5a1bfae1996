"""Reader process of training: samples of shards become JPEGs or pixels in shared memory.

Reads a sample, draws one of its texts and its crop. What the card decodes is handed on as it is;
everything else is decoded here, to the pixels the network sees. A sample that cannot be decoded is
replaced by another one of the same batch, drawn by a hash, and named. What comes out depends on the
job, the step and the place in the batch alone. Must not import torch unless it decodes with it.
"""

from __future__ import annotations

import copy
import mmap
import time
from dataclasses import dataclass
from typing import NamedTuple

from fieldmark import draws
from fieldmark.build.train.feed.augment import Crop, draw_crop, square
from fieldmark.build.train.index import TrainData
from fieldmark.build.train.order import SampleOrder
from fieldmark.build.train.texts import DrawnText, TextPlan
from fieldmark.data import open_image, quick_check, read_header
from fieldmark.embed.gpu.jpeg import JpegFacts, jpeg_facts
from fieldmark.embed.gpu.reader_process import BufferAnswer, BufferRequest, aligned, serve
from fieldmark.errors import DataError, plain_reason
from fieldmark.processes import Channel

MOST_BAD = 20
"""samples in the place of one that are tried: so many bad ones in a row are no accident"""
_SWAPPED = (5, 6, 7, 8)
"""EXIF orientations in which rows and columns change places"""


@dataclass(frozen=True, slots=True)
class SampleJob:
    """What holds for all requests to one reader."""

    data: TrainData
    order: SampleOrder
    texts: TextPlan
    seed: int
    scale: tuple[float, float]
    size: int
    """pixels of a side of what the network sees"""
    decode: str
    """reference (Pillow), cpu (torch) or gpu: the card, and Pillow where it cannot"""
    n_buffers: int
    buffer_bytes: int


class BatchPlace(NamedTuple):
    """A sample that is wanted."""

    step: int
    place: int
    """in this rank's part of the batch"""
    sample: int


class ReadSample(NamedTuple):
    """What became of a place in a batch."""

    place: BatchPlace
    text: DrawnText
    name: str
    """how messages call the sample that was read"""
    crop: Crop
    facts: JpegFacts | None
    """None: these are pixels, height × width × 3"""
    size: int
    """bytes"""
    replaced: tuple[str, ...] = ()
    """samples that should have been here, and what is wrong with each"""
    offset: int = -1
    """in the buffer"""


class SampleReader:
    """Samples one by one; for one process."""

    def __init__(self, job: SampleJob) -> None:
        self.job, self.square = job, square(job.size)
        self._order = copy.deepcopy(job.order)  # it keeps windows, and other threads use theirs

    def read(self, place: BatchPlace, on_card: bool) -> tuple[bytes, ReadSample]:
        """The bytes of a JPEG that the card can decode where it may, else pixels."""
        replaced: list[str] = []
        sample = place.sample
        while len(replaced) < MOST_BAD:
            raw = self.job.data.read(sample)
            try:
                data, facts, crop = self._image(raw.image, place.step, sample, on_card)
            except DataError as error:
                replaced.append(f"{self.job.data.name_of(sample)}: {plain_reason(error)}")
                sample = self._another(place, len(replaced))
                continue
            text = self.job.texts.draw_text(place.step, sample, raw.texts)
            name = raw.key
            return data, ReadSample(place, text, name, crop, facts, len(data), tuple(replaced))
        raise DataError(
            f"{MOST_BAD} of {MOST_BAD} samples cannot be decoded, the first is {replaced[0]}. "
            "Check the shards with `fieldmark shards check SHARDS --images`."
        )

    def _another(self, place: BatchPlace, turn: int) -> int:
        batch = self._order.batch(place.step)
        drawn = draws.number(self.job.seed, "another", place.step, place.sample, turn)
        return int(batch[drawn % len(batch)])

    def _image(
        self, data: bytes, step: int, sample: int, on_card: bool
    ) -> tuple[bytes, JpegFacts | None, Crop]:
        # What looks damaged is Pillow's to judge, so that the same samples are replaced everywhere.
        is_for_card = on_card and len(data) <= self.job.buffer_bytes and not quick_check(data)
        if is_for_card and (facts := jpeg_facts(data)):
            crop = self._crop(facts.height, facts.width, facts.turn, step, sample)
            return data, facts, crop
        header = read_header(data)
        crop = self._crop(header.height, header.width, header.orientation, step, sample)
        return self._pixels(data, crop), None, crop

    def _crop(self, height: int, width: int, turn: int, step: int, sample: int) -> Crop:
        if turn in _SWAPPED:
            height, width = width, height
        return draw_crop(height, width, self.job.scale, self.job.seed, step, sample)

    def _pixels(self, data: bytes, crop: Crop) -> bytes:
        if self.job.decode == "cpu":
            from fieldmark.embed.cpu_decode import decode

            seen = decode(data, self.square, [crop])
            if seen is not None:
                return seen[0].tobytes()
        return self.square(open_image(data, crop)).tobytes()


class SampleFiller:
    """Fills buffers with samples."""

    def __init__(self, job: SampleJob, memory: mmap.mmap) -> None:
        self._job, self._memory, self._reader = job, memory, SampleReader(job)
        self._left: dict[BatchPlace, tuple[bytes, ReadSample]] = {}
        """samples that were read but did not fit any more, until they are asked for again"""

    def fill(self, request: BufferRequest) -> BufferAnswer:
        began = time.perf_counter()
        base, at = request.buffer * self._job.buffer_bytes, 0
        samples: list[ReadSample] = []
        for place in request.files:
            if place not in self._left:
                self._left[place] = self._reader.read(place, self._job.decode == "gpu")
            data, sample = self._left[place]
            if at + len(data) > self._job.buffer_bytes:  # the first of a request always fits
                break
            del self._left[place]
            self._memory[base + at : base + at + len(data)] = data
            samples.append(sample._replace(offset=at))
            at += aligned(len(data))
        return BufferAnswer(request.buffer, samples, time.perf_counter() - began, 0.0)


def serve_samples(channel: Channel, fd: str) -> None:
    serve(channel, fd, _one_thread_filler)


def _one_thread_filler(job: SampleJob, memory: mmap.mmap) -> SampleFiller:
    if job.decode == "cpu":
        import torch

        torch.set_num_threads(1)
    return SampleFiller(job, memory)
