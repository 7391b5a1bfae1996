"""Reader pool: processes that fill shared, pinned buffers with files, ahead of the device.

One reader owns a few buffers; while one is decoded the next is filled. Which files a reader gets
next is up to a source: embedding's keeps the files of one archive with one reader, in their order,
so that each archive is read from its start to its end.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import queue
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import torch

from fieldmark.data import split_reference
from fieldmark.embed.gpu.reader_process import (
    BufferAnswer,
    BufferJob,
    BufferRequest,
    FileBytes,
    serve_files,
)
from fieldmark.embed.gpu.worker_threads import PipelineStopped
from fieldmark.embed.work import WantedFile
from fieldmark.errors import FieldmarkError
from fieldmark.processes import Channel, Child, ChildDied

AHEAD = 2  # requests a reader has at a time: it is never idle while an answer is on its way


class BufferReader(Protocol):
    """`ReaderProcess`, or what does its work in this process."""

    job: BufferJob
    memory: mmap.mmap
    address: int
    free: queue.SimpleQueue[int | None]

    def request(self, buffer: int, files: Sequence[Any]) -> None: ...

    def answer(self) -> BufferAnswer: ...

    def stop(self) -> None: ...

    def join(self) -> None: ...


class FileSource(Protocol):
    """Which files does a reader get next? Threads of all readers ask."""

    def take(self, reader: int, most: int, may_wait: bool) -> list[Any]:
        """The next files for this reader; none: there are no more, or, unless it may wait, none
        yet.
        """
        ...


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """Files in shared memory, until it is given back."""

    reader: BufferReader
    answer: BufferAnswer
    files: Sequence[Any]

    @property
    def address(self) -> int:
        return self.reader.address + self.answer.buffer * self.reader.job.buffer_bytes

    def view(self, offset: int, size: int) -> memoryview:
        start = self.answer.buffer * self.reader.job.buffer_bytes + offset
        return memoryview(self.reader.memory)[start : start + size]

    def pairs(self) -> list[tuple[WantedFile, FileBytes]]:
        return list(zip(self.files, self.answer.files, strict=True))

    def give_back(self) -> None:
        self.reader.free.put(self.answer.buffer)


class ReaderProcess:
    """One process and its buffers."""

    def __init__(self, job: BufferJob, serve: Callable[[Channel, str], None] = serve_files) -> None:
        self.job = job
        size = job.n_buffers * job.buffer_bytes
        fd = _shared_file()
        try:
            os.ftruncate(fd, size)
            self.memory = mmap.mmap(fd, size)
            self._child = Child(serve, str(fd), pass_fds=(fd,))
        finally:
            os.close(fd)
        self.address = address_of(self.memory)
        self.free: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        for buffer in range(job.n_buffers):
            self.free.put(buffer)
        with self._told():
            self._child.send(job)

    def request(self, buffer: int, files: Sequence[Any]) -> None:
        with self._told():
            self._child.send(BufferRequest(buffer, files))

    def answer(self) -> BufferAnswer:
        with self._told():
            answer: BufferAnswer | FieldmarkError = self._child.receive()
        if isinstance(answer, FieldmarkError):
            raise answer
        return answer

    def stop(self) -> None:
        self.free.put(None)
        self._child.close_input()

    def join(self) -> None:
        self._child.wait(2)
        self._child.end()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except ChildDied as error:
            raise FieldmarkError(
                f"a process that reads images has ended ({error}). What was done so far is kept: "
                "run the same command again."
            ) from error


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _shared_file() -> int:
    """A file without a name, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fieldmark-buffers")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _pin(reader: BufferReader, device: Any) -> None:
    with torch.cuda.device(device):
        torch.cuda.cudart().cudaHostRegister(reader.address, len(reader.memory), 0)


class Dispatcher:
    """The source of embedding: files of one archive go to one reader."""

    def __init__(self, files: Iterable[WantedFile]) -> None:
        self._files = iter(files)
        self._next: WantedFile | None = None
        self._lock = threading.Lock()
        self._runs: dict[int, deque[WantedFile]] = {}

    def take(self, reader: int, most: int, may_wait: bool) -> list[WantedFile]:  # noqa: ARG002
        with self._lock:
            run = self._runs.setdefault(reader, deque())
            if not run:
                self._fetch(run, most)
            return [run.popleft() for _ in range(min(most, len(run)))]

    def _fetch(self, run: deque[WantedFile], most: int) -> None:
        next_file = self._peek()
        archive = _archive(next_file) if next_file else ""
        while (file := self._peek()) is not None and _archive(file) == archive:
            if not archive and len(run) == most:
                return
            run.append(file)
            self._next = None

    def _peek(self) -> WantedFile | None:
        if self._next is None:
            self._next = next(islice(self._files, 1), None)
        return self._next


def fitting(files: Iterable[WantedFile], most_parts: int) -> Iterator[WantedFile]:
    """The files, those with very many parts in several turns, so that all pixels of one turn fit
    in a buffer.
    """
    for file in files:
        if len(file.refs) <= most_parts:
            yield file
            continue
        for start in range(0, len(file.refs), most_parts):
            yield replace(file, refs=file.refs[start : start + most_parts])


def _archive(file: WantedFile) -> str:
    name, inner = split_reference(file.image)
    return name if inner else ""


class ReaderPool:
    """All readers: an iterable queue of filled buffers."""

    def __init__(self, readers: Sequence[BufferReader], files: FileSource, most: int) -> None:
        self.readers, self._files, self._most = readers, files, most
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._buffers: queue.SimpleQueue[SharedBuffer | Exception | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._feed, args=(number, reader), daemon=True)
            for number, reader in enumerate(self.readers)
        ]
        self._n_open = len(readers)
        self._pins: list[threading.Thread] = []
        for thread in self._threads:
            thread.start()

    def get(self) -> SharedBuffer | None:
        """The next filled buffer; None when there are no more."""
        buffer = self._buffers.get()
        if buffer is None or isinstance(buffer, Exception):
            self._buffers.put(buffer)  # for the other threads that wait
        if isinstance(buffer, Exception):
            raise buffer
        return buffer

    @property
    def n_waiting(self) -> int:
        return self._buffers.qsize()

    def close(self) -> None:
        self._stop.set()
        for reader in self.readers:
            reader.stop()
        for reader in self.readers:
            reader.join()
        for thread in self._threads:
            thread.join()
        self._buffers.put(None)

    def pin(self, device: Any) -> None:
        """Lets the device read the buffers while the processor goes on; takes a while, and nobody
        waits for it.
        """
        if device.type == "cuda":
            self._pins = [
                threading.Thread(target=_pin, args=(reader, device), daemon=True)
                for reader in self.readers
            ]
            for thread in self._pins:
                thread.start()

    def unpin(self, device: Any) -> None:
        """When nobody reads the buffers any more."""
        for thread, reader in zip(self._pins, self.readers, strict=False):
            thread.join()
            with torch.cuda.device(device):
                torch.cuda.cudart().cudaHostUnregister(reader.address)

    def _feed(self, number: int, reader: BufferReader) -> None:
        try:
            self._fill(number, reader)
        except PipelineStopped:
            pass
        except Exception as error:  # noqa: BLE001 - the thread's border: told by whoever asks next
            self._buffers.put(error)
            return
        with self._lock:
            self._n_open -= 1
            if not self._n_open:
                self._buffers.put(None)

    def _fill(self, number: int, reader: BufferReader) -> None:
        requests: deque[list[Any]] = deque()
        rest: deque[Any] = deque()
        most = self._most
        while True:
            while len(requests) < min(AHEAD, reader.job.n_buffers):
                files = [rest.popleft() for _ in range(min(most, len(rest)))]
                files = files or self._files.take(number, most, may_wait=not requests)
                if not files:
                    break
                buffer = reader.free.get()
                if buffer is None or self._stop.is_set():
                    raise PipelineStopped
                reader.request(buffer, files)
                requests.append(files)
            if not requests:
                return
            answer, files = reader.answer(), requests.popleft()
            n_read = len(answer.files)
            if n_read < len(files):  # the buffer was full
                rest.extendleft(reversed(files[n_read:]))
                most = max(1, n_read * 9 // 10)
            self._buffers.put(SharedBuffer(reader, answer, files[:n_read]))
