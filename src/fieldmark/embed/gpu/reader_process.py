"""Reader process: files become bytes in shared memory, hashed and checked, away from the GIL.

Started by `readers.py`, with the job on standard input. Each request names files and a slab of the
shared memory; the answer says what each file holds and where its bytes lie. `serve` is the protocol
alone: training reads samples of shards by it (`fieldmark.build.train.feed.sample_reader`).
What the card cannot decode is decoded here, and lies there as pixels. The process ends with its
standard input.
"""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from fieldmark.data import ABSENT, Content, read_content
from fieldmark.embed.gpu.jpeg import JpegFacts, jpeg_facts
from fieldmark.embed.reference import see_exactly
from fieldmark.errors import FieldmarkError

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
    n_slabs: int
    slab_bytes: int


class SlabJob(Protocol):
    """What every job says: the shared memory of a reader."""

    @property
    def n_slabs(self) -> int: ...

    @property
    def slab_bytes(self) -> int: ...


class SlabRequest(NamedTuple):
    slab: int
    files: Sequence[Any]
    """for embedding, `WantedFile`s"""


class Pixels(NamedTuple):
    """One cut of a file that was decoded by a reader."""

    offset: int
    """in the slab; -1: see `problem`"""
    problem: str = ""


class FileBytes(NamedTuple):
    """What a reader made of one file."""

    content: Content
    mark: bytes | None
    offset: int = -1
    """of the JPEG's bytes in the slab; -1: they are not there"""
    size: int = 0
    facts: JpegFacts | None = None
    pixels: Sequence[Pixels] = ()
    """for each part that is wanted, where the card does not decode"""


class SlabAnswer(NamedTuple):
    slab: int
    files: Sequence[Any]
    """what became of the first files of the request (`FileBytes`); the others did not fit"""
    read_s: float
    decode_s: float


class Filler(Protocol):
    """What a reader does with a request."""

    def fill(self, request: SlabRequest) -> SlabAnswer: ...


def main(fd: int) -> None:
    serve(fd, _SlabFiller)


def serve(fd: int, new_filler: Callable[[Any, mmap.mmap], Filler]) -> None:
    """Answers requests until the input ends; the first message is the job."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints goes to standard error
    job: SlabJob = pickle.load(requests)
    reader = new_filler(job, mmap.mmap(fd, job.n_slabs * job.slab_bytes))
    while (request := _next(requests)) is not None:
        try:
            answer: SlabAnswer | FieldmarkError = reader.fill(request)
        except FieldmarkError as error:
            answer = error
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _next(requests: IO[bytes]) -> SlabRequest | None:
    try:
        request: SlabRequest | None = pickle.load(requests)
    except EOFError:
        return None
    return request


class _SlabFiller:
    def __init__(self, job: ReaderJob, memory: mmap.mmap) -> None:
        self._job, self._memory = job, memory
        self._left: dict[str, tuple[bytes, FileBytes]] = {}
        """files that were read but did not fit any more, until they are asked for again"""
        self._read_s = self._decode_s = 0.0

    def fill(self, request: SlabRequest) -> SlabAnswer:
        self._read_s = self._decode_s = 0.0
        base = request.slab * self._job.slab_bytes
        room, at = self._job.slab_bytes, 0
        files: list[FileBytes] = []
        for wanted in request.files:
            data, entry = self._load(wanted)
            if entry.facts is not None and at + entry.size > room and files:
                self._left[wanted.image] = (data, entry)
                break
            if entry.facts is not None and at + entry.size <= room:
                self._memory[base + at : base + at + entry.size] = data
                files.append(entry._replace(offset=at))
                at += aligned(entry.size)
                continue
            if entry.content.problem:
                files.append(entry)
                continue
            pixels, end = self._decode(wanted, data, base, at)
            if end > room and files:  # a request's first file fits: see `fitting`
                self._left[wanted.image] = (data, entry)
                break
            files.append(entry._replace(facts=None, pixels=pixels))
            at = end
        return SlabAnswer(request.slab, files, self._read_s, self._decode_s)

    def _load(self, wanted: WantedFile) -> tuple[bytes, FileBytes]:
        if wanted.image in self._left:
            return self._left.pop(wanted.image)
        began = time.perf_counter()
        content, mark, data = read_content(self._job.root, wanted.image)
        is_jpeg = self._job.is_for_card and not content.problem and content.key != ABSENT
        facts = jpeg_facts(data) if is_jpeg else None
        self._read_s += time.perf_counter() - began
        return data, FileBytes(content, mark, size=len(data), facts=facts)

    def _decode(
        self, wanted: WantedFile, data: bytes, base: int, at: int
    ) -> tuple[list[Pixels], int]:
        """Pixels of every part, from `at` on as far as they fit; and where they would end."""
        began = time.perf_counter()
        made: list[Pixels] = []
        for seen in see_exactly(data, wanted.refs, self._job.transform, self._job.model):
            if isinstance(seen, str):
                made.append(Pixels(-1, seen))
                continue
            pixels = seen.tobytes()
            if at + len(pixels) <= self._job.slab_bytes:
                self._memory[base + at : base + at + len(pixels)] = pixels
            made.append(Pixels(at))
            at += aligned(len(pixels))
        self._decode_s += time.perf_counter() - began
        return made, at


def aligned(size: int) -> int:
    """Where the next picture may begin."""
    return (size + 255) // 256 * 256
