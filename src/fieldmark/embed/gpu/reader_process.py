"""Reader process: files become bytes in shared memory, hashed and checked, away from the GIL.

Started by `readers.py`. Each request names files and a buffer of the shared memory; the answer says
what each file holds and where its bytes lie. `serve` is the protocol alone: training reads samples
of shards by it (`fieldmark.build.train.feed.sample_reader`). What the card cannot decode is decoded
here, and lies there as pixels.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fieldmark.data import ABSENT, Content, read_content
from fieldmark.embed.cpu.decode import see_exactly
from fieldmark.embed.gpu.jpeg import JpegFacts, jpeg_facts
from fieldmark.errors import FieldmarkError
from fieldmark.processes import Channel

if TYPE_CHECKING:
    from fieldmark.embed.work import WantedFile


@dataclass(frozen=True, slots=True)
class ReaderJob:
    """What holds for all requests to one reader."""

    root: Path
    model: str
    transform: Any
    """a Recipe: what a network wants to see"""
    is_for_card: bool
    """can the card resize as it wants? Else everything is decoded by readers"""
    n_buffers: int
    buffer_bytes: int


class BufferJob(Protocol):
    """What every job says: the shared memory of a reader."""

    @property
    def n_buffers(self) -> int: ...

    @property
    def buffer_bytes(self) -> int: ...


class BufferRequest(NamedTuple):
    buffer: int
    files: Sequence[Any]
    """for embedding, `WantedFile`s"""


class Pixels(NamedTuple):
    """One cut of a file that was decoded by a reader."""

    offset: int
    """in the buffer; -1: see `problem`"""
    problem: str = ""


class FileBytes(NamedTuple):
    """What a reader made of one file."""

    content: Content
    mark: bytes | None
    offset: int = -1
    """of the JPEG's bytes in the buffer; -1: they are not there"""
    size: int = 0
    facts: JpegFacts | None = None
    pixels: Sequence[Pixels] = ()
    """for each part that is wanted, where the card does not decode"""


class BufferAnswer(NamedTuple):
    buffer: int
    files: Sequence[Any]
    """what became of the first files of the request (`FileBytes`); the others did not fit"""
    read_s: float
    decode_s: float


class Filler(Protocol):
    """What a reader does with a request."""

    def fill(self, request: BufferRequest) -> BufferAnswer: ...


def serve_files(channel: Channel, fd: str) -> None:
    serve(channel, fd, _BufferFiller)


def serve(channel: Channel, fd: str, new_filler: Callable[[Any, mmap.mmap], Filler]) -> None:
    """Answers requests; the first message is the job, `fd` is the shared memory."""
    job: BufferJob = channel.receive()
    reader = new_filler(job, mmap.mmap(int(fd), job.n_buffers * job.buffer_bytes))
    for request in channel.messages():
        try:
            answer: BufferAnswer | FieldmarkError = reader.fill(request)
        except FieldmarkError as error:
            answer = error
        channel.send(answer)


class _BufferFiller:
    def __init__(self, job: ReaderJob, memory: mmap.mmap) -> None:
        self._job, self._memory = job, memory
        self._left: dict[str, tuple[bytes, FileBytes]] = {}
        """files that were read but did not fit any more, until they are asked for again"""
        self._read_s = self._decode_s = 0.0

    def fill(self, request: BufferRequest) -> BufferAnswer:
        self._read_s = self._decode_s = 0.0
        base = request.buffer * self._job.buffer_bytes
        room, at = self._job.buffer_bytes, 0
        files: list[FileBytes] = []
        for file in request.files:
            data, entry = self._load(file)
            if entry.facts is not None and at + entry.size > room and files:
                self._left[file.image] = (data, entry)
                break
            if entry.facts is not None and at + entry.size <= room:
                self._memory[base + at : base + at + entry.size] = data
                files.append(entry._replace(offset=at))
                at += aligned(entry.size)
                continue
            if entry.content.problem:
                files.append(entry)
                continue
            pixels, end = self._decode(file, data, base, at)
            if end > room and files:  # a request's first file fits: see `fitting`
                self._left[file.image] = (data, entry)
                break
            files.append(entry._replace(facts=None, pixels=pixels))
            at = end
        return BufferAnswer(request.buffer, files, self._read_s, self._decode_s)

    def _load(self, file: WantedFile) -> tuple[bytes, FileBytes]:
        if file.image in self._left:
            return self._left.pop(file.image)
        began = time.perf_counter()
        content, mark, data = read_content(self._job.root, file.image)
        is_jpeg = self._job.is_for_card and not content.problem and content.key != ABSENT
        jpeg = jpeg_facts(data) if is_jpeg else None
        self._read_s += time.perf_counter() - began
        return data, FileBytes(content, mark, size=len(data), facts=jpeg)

    def _decode(
        self, file: WantedFile, data: bytes, base: int, at: int
    ) -> tuple[list[Pixels], int]:
        """Pixels of every part, from `at` on as far as they fit; and where they would end."""
        began = time.perf_counter()
        made: list[Pixels] = []
        for seen in see_exactly(data, file.refs, self._job.transform, self._job.model):
            if isinstance(seen, str):
                made.append(Pixels(-1, seen))
                continue
            pixels = seen.tobytes()
            if at + len(pixels) <= self._job.buffer_bytes:
                self._memory[base + at : base + at + len(pixels)] = pixels
            made.append(Pixels(at))
            at += aligned(len(pixels))
        self._decode_s += time.perf_counter() - began
        return made, at


def aligned(size: int) -> int:
    """Where the next picture may begin."""
    return (size + 255) // 256 * 256
