"""GPU JPEG decoding for training: JPEGs of a buffer become their places in a batch.

The decoder of the embedding engine (nvJPEG, then the resampling kernel) does it: a random resized
crop is, in its words, a part of a file. What the card refuses Pillow decodes; what Pillow refuses
is read again, as a reader would that decodes for itself, and so replaced by another sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fieldmark.build.train.feed.sample_reader import ReadSample, SampleReader
from fieldmark.data import ABSENT, Content, ImageRef
from fieldmark.embed.gpu.cuda_stream import CudaStream
from fieldmark.embed.gpu.decode import BufferDecoder, DeviceDecoder, WorkClock
from fieldmark.embed.gpu.reader_process import FileBytes, Pixels
from fieldmark.embed.gpu.readers import SharedBuffer
from fieldmark.embed.work import HashedFile, ImagePart, WantedFile
from fieldmark.models import Recipe


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
        """When this returns, the images are there."""
        samples: list[ReadSample] = list(buffer.answer.files)
        self._sink.failed_keys.clear()
        pairs = [_pair(number, sample) for number, sample in enumerate(samples)]
        with self._stream.use(), torch.no_grad():
            for parts, images in self._buffers.decode(buffer, pairs, self._decoder):
                numbers = [_number(part.key) for part in parts]
                self._put(slot, [samples[number] for number in numbers], images)
            for key in self._sink.failed_keys:
                number = _number(key)
                data, samples[number] = self._reader.read(samples[number].place, on_card=False)
                height, width = self._reader.square.size
                image = torch.frombuffer(bytearray(data), dtype=torch.uint8)
                image = image.view(1, height, width, 3).permute(0, 3, 1, 2)
                self._put(slot, [samples[number]], image.to(self._device))
            self._stream.wait(self._stream.mark())
        return samples

    def close(self) -> None:
        self._decoder.close()

    def _put(self, slot: Callable[[int], Any], samples: Sequence[ReadSample], images: Any) -> None:
        steps = {sample.place.step for sample in samples}
        for step in steps:  # nearly always one
            own = [number for number, sample in enumerate(samples) if sample.place.step == step]
            places = torch.tensor([[samples[number].place.place for number in own], own])
            where, which = places.to(self._device)
            chosen = images if len(steps) == 1 else images[which]
            slot(step).index_copy_(0, where, chosen)


def _pair(number: int, sample: ReadSample) -> tuple[WantedFile, FileBytes]:
    """A sample in the words of the embedding engine; its key is its number in the buffer."""
    content = Content(number.to_bytes(len(ABSENT), "little"))
    wanted = WantedFile(sample.name, (ImageRef(sample.name, sample.crop),))
    if sample.facts is None:
        return wanted, FileBytes(content, None, pixels=(Pixels(sample.offset),))
    return wanted, FileBytes(content, None, sample.offset, sample.size, sample.facts)


def _number(key: bytes) -> int:
    return int.from_bytes(key, "little")
