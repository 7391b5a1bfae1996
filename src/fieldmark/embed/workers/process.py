"""Subprocess with pipes: how is a worker started, given jobs, listened to and ended?

A plain subprocess (`__main__.py`): a script without a guard around its main part would be run again
by processes that multiprocessing starts. It ends when its standard input closes, so none outlives
this process, however that ends.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fieldmark.data import Content, ImageRef
from fieldmark.embed.work import Throughput
from fieldmark.progress import Progress

if TYPE_CHECKING:
    import numpy as np

    from fieldmark.embed.engine import EmbedOptions
    from fieldmark.models import Backbone


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """What a worker is to do."""

    load: Callable[[], Backbone]
    fingerprint: str
    """of the model that is expected"""
    root: Path
    items: list[ImageRef]
    options: EmbedOptions
    idle_s: float
    """how long to wait for another job"""
    memory: Path | None = None
    """where to remember what images hold; None: in the cache"""
    also: tuple[Path, ...] = ()
    """what else is remembered of them (`fieldmark.data.Contents`)"""
    behaviour: np.ndarray | None = None
    """what the model does here (`behaviour_of`)"""


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What a worker has done."""

    throughput: Throughput
    contents: dict[str, Content]
    """what its images hold"""


class WorkerFailed(Exception):
    """Why, in one line."""


class WorkerProcess:
    """Does one job at a time."""

    def __init__(self) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fieldmark.embed.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0,  # Ctrl-C is for this process, which ends the others
        )
        self._listener: threading.Thread | None = None
        self._last: dict[str, Any] = {}
        self.fingerprint = ""
        """of the model of its last job"""

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def start(self, job: WorkerJob, progress: Progress) -> None:
        """Hands it a job; `progress` hears how far it is, from another thread."""
        self.fingerprint, self._last = job.fingerprint, {}
        data = pickle.dumps(job)
        self._listener = threading.Thread(target=self._converse, args=(data, progress), daemon=True)
        self._listener.start()

    def result(self) -> WorkerResult:
        """What it did, once it is done; raises WorkerFailed, and then it has ended. Nothing where
        it had just left because it had been idle.
        """
        assert self._listener is not None
        self._listener.join()
        if "done" not in self._last:
            if self._process.wait() == 0:
                return WorkerResult(Throughput(), {})
            reason = self._last.get("error") or self._last_words()
            self.end()
            raise WorkerFailed(reason)
        contents = {
            image: Content(bytes.fromhex(key), problem)
            for image, key, problem in self._last["contents"]
        }
        return WorkerResult(Throughput(**self._last["done"]), contents)

    def end(self) -> None:
        """Ends it, with whatever processes it has started."""
        if self._stderr.closed:
            return
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()
        if self._listener is not None:
            self._listener.join()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            with suppress(OSError):  # what waits to be written is for nobody
                if stream is not None:
                    stream.close()

    def _converse(self, job: bytes, progress: Progress) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # it has ended: nothing is heard of it
            self._process.stdin.write(job)
            self._process.stdin.flush()
        for line in self._process.stdout:
            note: dict[str, Any] = {}
            with suppress(ValueError):  # cut off by a kill
                note = json.loads(line)
            if "advance" in note:
                progress.advance(note["advance"])
            elif "say" in note:
                progress.say(note["say"])
            elif note:
                self._last = note
                return

    def _last_words(self) -> str:
        code = self._process.returncode
        if code < 0:
            return f"ended by {signal.Signals(-code).name}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"ended with exit code {code}"
