"""Reader process: files become bytes in shared memory, hashed and checked, away from the GIL.

Started by `readers.py`, with the job on standard input. Each request names files and a slab of the
shared memory; the answer says what each file holds and where its bytes lie.
What the card cannot decode is decoded here, and lies there as pixels. The process ends with its
standard input.
"""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

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
    n_slabs: int
    slab_bytes: int


class SlabRequest(NamedTuple):
    slab: int
    files: Sequence[WantedFile]


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
    files: Sequence[FileBytes]
    """of the first files of the request; the others did not fit"""
    read_s: float
    decode_s: float


def main(fd: int) -> None:
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints goes to standard error
    job: ReaderJob = pickle.load(requests)
    memory = mmap.mmap(fd, job.n_slabs * job.slab_bytes)
    reader = _SlabFiller(job, memory)
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
                at += _aligned(entry.size)
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
        facts = None if content.problem or content.key == ABSENT else jpeg_facts(data)
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
            at += _aligned(len(pixels))
        self._decode_s += time.perf_counter() - began
        return made, at


def _aligned(size: int) -> int:
    return (size + 255) // 256 * 256
