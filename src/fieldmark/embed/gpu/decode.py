"""Decoding of buffers: JPEGs in shared memory become what a network sees, on its device.

Pictures of like sizes are decoded into one canvas and resampled from it together. One that the card
refuses is found by halving, and decoded by Pillow; what readers have decoded is only uploaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from fieldmark.data import ImageRef, crop_box
from fieldmark.embed.cpu.decode import see_exactly
from fieldmark.embed.gpu.jpeg import JpegFacts
from fieldmark.embed.gpu.reader_process import FileBytes
from fieldmark.embed.gpu.readers import SharedBuffer
from fieldmark.embed.gpu.resize import SWAPPED, Cut, groups_by_size, resample
from fieldmark.embed.work import HashedFile, ImagePart, Sink, WantedFile
from fieldmark.errors import DataError, ModelError, plain_reason

# --- nvJPEG: many JPEGs at once on the card, on its JPEG engines where it has them.
# NVIDIA's library through ctypes: its calls release the interpreter lock, write straight into a
# canvas of ours, and can interpolate chroma as libjpeg does (torchvision's binding cannot: its
# pixels are 4 grey levels off on average, these at most 1 on the engines and 3 without them, both
# measured on an H200). https://docs.nvidia.com/cuda/nvjpeg/

_ENGINES, _KERNELS = 3, 2  # NVJPEG_BACKEND_HARDWARE, NVJPEG_BACKEND_GPU_HYBRID
_INTERPOLATE_CHROMA = 1 << 5  # NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION
_PLANES = 3  # NVJPEG_OUTPUT_RGB
_IMAGE = np.dtype([("channel", np.uint64, 4), ("pitch", np.uint64, 4)])


_IDLE: dict[str, list[NvjpegDecoder]] = {}
"""decoders that nobody uses just now, by device"""


def nvjpeg_decoder(library: str, device: Any) -> NvjpegDecoder:
    """One that was used before where there is one, else a new one."""
    try:
        return _IDLE[str(device)].pop()
    except (KeyError, IndexError):
        return NvjpegDecoder(library, device)


class NvjpegDecoder:
    """One decoder with its own state: for one thread and one stream."""

    def __init__(self, library: str, device: Any) -> None:
        self._device = device
        self._library = ctypes.CDLL(library)
        self._library.nvjpegDecodeBatched.argtypes = [ctypes.c_void_p] * 6
        self._handle, self._state = ctypes.c_void_p(), ctypes.c_void_p()
        with torch.cuda.device(device):
            self._create()
            self._check("nvjpegJpegStateCreate", self._handle, ctypes.byref(self._state))
        self._batch = 0

    def decode(self, pointers: np.ndarray, lengths: np.ndarray, canvas: Any) -> bool:
        """Into the top left corners of the canvas (uint8, n × rows × 3 × columns), on the current
        stream; False when one of them cannot be decoded.

        The bytes must stay where they are until the stream has come here.
        """
        n, rows, _, columns = canvas.shape
        if n != self._batch:
            self._check("nvjpegDecodeBatchedInitialize", self._handle, self._state, n, 1, _PLANES)
            self._batch = n
        images = np.zeros(n, _IMAGE)
        starts = canvas.data_ptr() + np.arange(n, dtype=np.uint64) * np.uint64(rows * 3 * columns)
        for channel in range(3):
            images["channel"][:, channel] = starts + np.uint64(channel * columns)
            images["pitch"][:, channel] = 3 * columns
        stream = torch.cuda.current_stream(self._device).cuda_stream
        arrays: Sequence[np.ndarray] = (
            np.ascontiguousarray(pointers, np.uint64),
            np.ascontiguousarray(lengths, np.uint64),
            images,
        )
        code = self._library.nvjpegDecodeBatched(
            self._handle, self._state, *(array.ctypes.data for array in arrays), stream
        )
        if code:
            self._batch = 0
        return int(code) == 0

    def close(self) -> None:
        """Kept for the next who wants one: engines take a second and a half to wake."""
        _IDLE.setdefault(str(self._device), []).append(self)

    def _create(self) -> None:
        """With the JPEG engines, or the card's ordinary processors where it has none."""
        for backend in (_ENGINES, _KERNELS):
            code = self._library.nvjpegCreateEx(
                backend, None, None, _INTERPOLATE_CHROMA, ctypes.byref(self._handle)
            )
            if code == 0:
                return
        raise ModelError(
            f"nvJPEG cannot be used on {self._device} (code {code}): use --decode cpu."
        )

    def _check(self, function: str, *arguments: Any) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise ModelError(f"nvJPEG: {function} failed (code {code}): use --decode cpu.")


# --- decoding


CANVAS_BYTES, CANVAS_SHARE = 512 << 20, 0.02
"""the largest canvas, also as a share of the card's memory: a fifth of it is left by the network"""
LOG = logging.getLogger(__name__)
Pixels = tuple[Sequence[ImagePart], Any]
"""parts of files, and what a network sees of them: uint8, n × 3 × height × width, on the device"""


class DeviceDecoder(Protocol):
    """`NvjpegDecoder`, or what a test puts in its place."""

    def decode(self, pointers: np.ndarray, lengths: np.ndarray, canvas: Any) -> bool: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class WorkClock:
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


class _BufferJpeg(NamedTuple):
    """A JPEG in a buffer, and the parts of it that are wanted."""

    file: FileBytes
    facts: JpegFacts
    parts: Sequence[ImagePart]


class BufferDecoder:
    """For one model; may be used by several threads, each with a decoder of its own."""

    def __init__(self, model: Any, sink: Sink, clock: WorkClock) -> None:
        self._model, self._sink, self._clock = model.name, sink, clock
        self._recipe, self._device = model.preprocess, model.device
        self._resample = choose_resampler(model.device)
        self._canvas_bytes = CANVAS_BYTES
        if model.device.type == "cuda":
            memory = torch.cuda.get_device_properties(model.device).total_memory
            self._canvas_bytes = min(CANVAS_BYTES, int(CANVAS_SHARE * memory))

    def decode(
        self,
        buffer: SharedBuffer,
        pairs: Sequence[tuple[WantedFile, FileBytes]],
        decoder: DeviceDecoder,
    ) -> list[Pixels]:
        """All that is wanted of a buffer, on the current stream; the buffer is in use until the
        device has come that far. `pairs`: what was asked for, and what its reader made of it.
        """
        self._clock.add("read", buffer.answer.read_s)
        self._clock.add("decode", buffer.answer.decode_s)
        stored: list[_BufferJpeg] = []
        others: list[tuple[ImagePart, np.ndarray]] = []
        wished = self._sink.read(
            [HashedFile(file_wanted, file.content, file.mark) for file_wanted, file in pairs]
        )
        for (file_wanted, file), parts in zip(pairs, wished, strict=True):
            if not parts or file.content.problem:
                continue
            if file.facts is not None:
                stored.append(_BufferJpeg(file, file.facts, parts))
            else:
                others += self._decoded_by_reader(buffer, file_wanted, file, parts)
        pixels = self._decode_jpegs(buffer, stored, decoder)
        return [*pixels, self._upload(others)] if others else pixels

    def _decoded_by_reader(
        self,
        buffer: SharedBuffer,
        file_wanted: WantedFile,
        file: FileBytes,
        parts: Sequence[ImagePart],
    ) -> Iterator[tuple[ImagePart, np.ndarray]]:
        height, width = self._recipe.size
        by_ref = dict(zip(file_wanted.refs, file.pixels, strict=True))
        for part in parts:
            pixels = by_ref[part.ref]
            if pixels.offset < 0:
                self._sink.failed(part, pixels.problem)
                continue
            view = buffer.view(pixels.offset, height * width * 3)
            yield part, np.frombuffer(view, np.uint8).reshape(height, width, 3)

    def _upload(self, others: Sequence[tuple[ImagePart, np.ndarray]]) -> Pixels:
        """Pixels that were decoded on the CPU."""
        self._clock.add("decode", 0.0, n_fallback=len(others))
        stacked = torch.from_numpy(np.stack([pixels for _, pixels in others]))
        return [part for part, _ in others], stacked.to(self._device).permute(0, 3, 1, 2)

    def _decode_jpegs(
        self, buffer: SharedBuffer, stored: Sequence[_BufferJpeg], decoder: DeviceDecoder
    ) -> list[Pixels]:
        """What the network sees of the JPEGs, group by group of like sizes."""
        sizes = [(jpeg.facts.height, jpeg.facts.width) for jpeg in stored]
        is_swapped = [jpeg.facts.turn in SWAPPED for jpeg in stored]
        made: list[Pixels] = []
        groups = groups_by_size(sizes, self._canvas_bytes, is_swapped)
        while groups:
            group = [stored[index] for index in groups[-1]]
            rows = max(jpeg.facts.height for jpeg in group)
            columns = -(-max(jpeg.facts.width for jpeg in group) // 16) * 16
            canvas = torch.empty(
                (len(group), rows, 3, columns), dtype=torch.uint8, device=self._device
            )
            offsets = np.array([jpeg.file.offset for jpeg in group], np.uint64)
            lengths = np.array([jpeg.file.size for jpeg in group], np.uint64)
            indexes = groups.pop()
            if decoder.decode(offsets + np.uint64(buffer.address), lengths, canvas):
                made += self._cut_out(canvas, group)
            elif len(indexes) > 1:  # one of them is damaged: find it
                half = len(indexes) // 2
                groups += [indexes[:half], indexes[half:]]
            else:
                made += self._decode_here(buffer, group[0])
        return made

    def _cut_out(self, canvas: Any, group: Sequence[_BufferJpeg]) -> Iterator[Pixels]:
        cuts: list[Cut] = []
        parts: list[ImagePart] = []
        for number, jpeg in enumerate(group):
            for part in jpeg.parts:
                try:
                    cuts.append(self._cut(number, jpeg.facts, part.ref))
                except DataError as error:
                    self._sink.failed(part, plain_reason(error))
                    continue
                parts.append(part)
        if parts:
            recipe = self._recipe
            pixels = self._resample(canvas, cuts, recipe.size, recipe.interpolation, recipe.fill)
            yield parts, pixels

    def _cut(self, number: int, jpeg: JpegFacts, ref: ImageRef) -> Cut:
        stored = jpeg.height, jpeg.width
        height, width = stored[::-1] if jpeg.turn in SWAPPED else stored
        bounds = (0, 0, width, height)
        if ref.crop is not None:
            bounds = crop_box(width, height, ref.crop, ref.image)
        left, top, right, bottom = bounds
        box, out = self._recipe.placed(bottom - top, right - left)
        seen = (box[0] + left, box[1] + top, box[2] + left, box[3] + top)
        return Cut(number, stored, seen, bounds, out, jpeg.turn)

    def _decode_here(self, buffer: SharedBuffer, jpeg: _BufferJpeg) -> list[Pixels]:
        """A file that the card refuses, decoded the reference way."""
        data = bytes(buffer.view(jpeg.file.offset, jpeg.file.size))
        refs = [part.ref for part in jpeg.parts]
        decoded: list[tuple[ImagePart, np.ndarray]] = []
        seen = see_exactly(data, refs, self._recipe, self._model)
        for part, pixels in zip(jpeg.parts, seen, strict=True):
            if isinstance(pixels, str):
                self._sink.failed(part, pixels)
            else:
                decoded.append((part, pixels))
        return [self._upload(decoded)] if decoded else []


def choose_resampler(device: Any) -> Callable[..., Any]:
    """The kernel where one can be compiled, else the matrix products: they agree."""
    if device.type == "cuda":
        try:
            from fieldmark.embed.gpu.kernel import resample_at_once

            blank = torch.zeros((1, 8, 3, 8), dtype=torch.uint8, device=device)
            resample_at_once(
                blank,
                [Cut(0, (8, 8), (0, 0, 8, 8), (0, 0, 8, 8), (4, 4))],
                (4, 4),
                "bicubic",
                (0, 0, 0),
            )
            return resample_at_once
        except Exception as error:  # noqa: BLE001 - no Triton, no C compiler, an old card, …
            LOG.info("no resampling kernel here: %s", error)
    return resample
