"""Reader process of training: samples of shards become JPEGs or pixels in shared memory.

Reads a sample, draws one of its texts and its crop. What the card decodes is handed on as it is;
everything else is decoded here, to the pixels the network sees. A sample that cannot be decoded is
replaced by another one of the same batch, drawn by a hash, and named. What comes out depends on the
job, the step and the place in the batch alone. Must not import torch unless it decodes with it.
"""

from __future__ import annotations

import copy
import math
import mmap
import time
from dataclasses import dataclass
from typing import NamedTuple

from fieldmark import draws
from fieldmark.build.train.feed.index import TrainData
from fieldmark.build.train.feed.order import SampleOrder
from fieldmark.build.train.feed.texts import DrawnText, TextPlan
from fieldmark.data import open_image, quick_check, read_header
from fieldmark.embed.gpu.jpeg import JpegFacts, jpeg_facts
from fieldmark.embed.gpu.reader_process import BufferAnswer, BufferRequest, aligned, serve
from fieldmark.errors import DataError, plain_reason
from fieldmark.models import Recipe
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


class BatchRow(NamedTuple):
    """A sample that is wanted."""

    step: int
    row: int
    """in this rank's part of the batch"""
    sample: int


class ReadSample(NamedTuple):
    """What became of a row of a batch."""

    batch_row: BatchRow
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

    def read(self, batch_row: BatchRow, on_card: bool) -> tuple[bytes, ReadSample]:
        """The bytes of a JPEG that the card can decode where it may, else pixels."""
        replaced: list[str] = []
        sample = batch_row.sample
        while len(replaced) < MOST_BAD:
            raw = self.job.data.read(sample)
            try:
                data, jpeg, crop = self._image(raw.image, batch_row.step, sample, on_card)
            except DataError as error:
                replaced.append(f"{self.job.data.name_of(sample)}: {plain_reason(error)}")
                batch = self._order.batch(batch_row.step)
                drawn = draws.number(
                    self.job.seed, "another", batch_row.step, batch_row.sample, len(replaced)
                )
                sample = int(batch[drawn % len(batch)])
                continue
            text = self.job.texts.draw_text(batch_row.step, sample, raw.texts)
            name = raw.key
            return data, ReadSample(batch_row, text, name, crop, jpeg, len(data), tuple(replaced))
        raise DataError(
            f"{MOST_BAD} of {MOST_BAD} samples cannot be decoded, the first is {replaced[0]}. "
            "Check the shards with `fieldmark shards check SHARDS --images`."
        )

    def _image(
        self, data: bytes, step: int, sample: int, on_card: bool
    ) -> tuple[bytes, JpegFacts | None, Crop]:
        # What looks damaged is Pillow's to judge, so that the same samples are replaced everywhere.
        is_for_card = on_card and len(data) <= self.job.buffer_bytes and not quick_check(data)
        if is_for_card and (jpeg := jpeg_facts(data)):
            crop = self._crop(jpeg.height, jpeg.width, jpeg.turn, step, sample)
            return data, jpeg, crop
        header = read_header(data)
        crop = self._crop(header.height, header.width, header.orientation, step, sample)
        return self._pixels(data, crop), None, crop

    def _crop(self, height: int, width: int, turn: int, step: int, sample: int) -> Crop:
        if turn in _SWAPPED:
            height, width = width, height
        return draw_crop(height, width, self.job.scale, self.job.seed, step, sample)

    def _pixels(self, data: bytes, crop: Crop) -> bytes:
        if self.job.decode == "cpu":
            from fieldmark.embed.cpu.decode import decode

            seen = decode(data, self.square, [crop])
            if seen is not None:
                return seen[0].tobytes()
        return self.square(open_image(data, crop)).tobytes()


class SampleFiller:
    """Fills buffers with samples."""

    def __init__(self, job: SampleJob, memory: mmap.mmap) -> None:
        self._job, self._memory, self._reader = job, memory, SampleReader(job)
        self._left: dict[BatchRow, tuple[bytes, ReadSample]] = {}
        """samples that were read but did not fit any more, until they are asked for again"""

    def fill(self, request: BufferRequest) -> BufferAnswer:
        began = time.perf_counter()
        base, at = request.buffer * self._job.buffer_bytes, 0
        samples: list[ReadSample] = []
        for batch_row in request.files:
            if batch_row not in self._left:
                self._left[batch_row] = self._reader.read(batch_row, self._job.decode == "gpu")
            data, sample = self._left[batch_row]
            if at + len(data) > self._job.buffer_bytes:  # the first of a request always fits
                break
            del self._left[batch_row]
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


# --- random resized crop: which part of a photo does the network see in a step?
# All that open_clip does to training images by default (its `transform.py`): a box with a drawn
# share of the photo's area and a drawn shape, cut out and resized to a square, bicubic,
# antialiased. The box is that of torchvision's `RandomResizedCrop`, drawn from a hash, so that it
# does not depend on who reads the photo and when. Pixels beyond the box play no part in the
# resizing, as when the box is cut out first.


RATIO = (3 / 4, 4 / 3)
"""width over height of a box, from narrowest to widest"""
TRIES = 10
"""boxes that do not fit into the photo are drawn again so often"""
Crop = tuple[float, float, float, float]
"""x, y, width, height in pixels of the upright photo: whole numbers"""


def draw_crop(height: int, width: int, scale: tuple[float, float], *parts: object) -> Crop:
    """A box of an upright photo of that size; `parts` are what it is drawn from."""
    uniform = draws.generator("crop", *parts).random((TRIES, 4))
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    for share, shape, x, y in uniform.tolist():
        area = height * width * (scale[0] + share * (scale[1] - scale[0]))
        aspect = math.exp(low + shape * (high - low))
        box_w, box_h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < box_w <= width and 0 < box_h <= height:
            left, top = int(x * (width - box_w + 1)), int(y * (height - box_h + 1))
            return (float(left), float(top), float(box_w), float(box_h))
    return _middle(height, width)


def _middle(height: int, width: int) -> Crop:
    """As much of the middle as has an allowed shape."""
    box_h, box_w = height, width
    if width / height < RATIO[0]:
        box_h = round(width / RATIO[0])
    elif width / height > RATIO[1]:
        box_w = round(height * RATIO[1])
    return (float((width - box_w) // 2), float((height - box_h) // 2), float(box_w), float(box_h))


def square(size: int) -> Recipe:
    """What is made of a box that was cut out, in the words of the embedding engine."""
    return Recipe((size, size), fit="squash", interpolation="bicubic")
