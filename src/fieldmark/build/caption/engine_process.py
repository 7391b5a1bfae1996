"""Watchdog: a model in a process of its own, which may hang or die without taking the run with it.

Batches of multimodal prompts are known to hang an engine, or to kill it in native code, where no
exception comes back (vllm issues 8826, 10891, 14897). So the engine lives in a child process: one
that is not heard for too long is killed with all that it started, and the next batch gets another.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

from fieldmark.chat import Answer, Request
from fieldmark.errors import FieldmarkError, ModelError, first_line

START_S = 1800.0
"""until weights are loaded; of large models that takes minutes"""
HANG_S = 300.0
"""without a sign of life in the middle of a batch"""
_LOOK_S = 2.0
_READY, _ALIVE, _ANSWERS, _FAILED = "ready", "alive", "answers", "failed"


class BatchEngine(Protocol):
    """What runs in the child: many requests in, as many answers out, in their order."""

    def answer_batch(
        self, requests: Sequence[Request], tell: Callable[[], None]
    ) -> Sequence[Answer]:
        """Pictures are bytes; `tell` may be called as a sign of life."""
        ...


MakeEngine = Callable[..., BatchEngine]
"""a function of a module (the child imports it), called there with the arguments given here"""


class EngineLost(Exception):
    """The engine hung, died or raised: the text says which; nothing of its batch is known."""


class EngineProcess:
    """An engine that is started when it is needed, and again after it was lost."""

    def __init__(
        self, make: MakeEngine, arguments: tuple[Any, ...], name: str, hang_s: float = HANG_S
    ) -> None:
        self._make, self._arguments, self.name, self._hang_s = make, arguments, name, hang_s
        self._process: Any = None
        self._pipe: Connection | None = None
        self.n_started = 0

    def send(self, requests: Sequence[Request]) -> None:
        """Gives the engine a batch to work on, while the caller does something else."""
        if self._process is None:
            self._start()
        assert self._pipe is not None
        try:
            self._pipe.send(requests)
        except OSError as error:
            raise self._lost("died between two batches") from error

    def answers(self, n: int) -> list[Answer]:
        """What came of the batch that was sent; EngineLost where nothing did."""
        while True:
            kind, value = self._hear(self._hang_s)
            if kind == _ANSWERS:
                if len(value) != n:
                    raise self._lost(f"gave {len(value)} answers to {n} requests")
                return list(value)
            if kind == _FAILED:
                raise EngineLost(f"raised {value}")  # and lives

    def _start(self) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(
            target=_serve, args=(theirs, self._make, self._arguments), daemon=False
        )
        self._process.start()
        theirs.close()
        self.n_started += 1
        try:
            kind, value = self._hear(START_S)
        except EngineLost as error:
            raise ModelError(f"model {self.name!r} could not be started: {error}.") from error
        if kind == _FAILED:
            self.close()
            raise ModelError(f"model {self.name!r} could not be started: {value}.")

    def _hear(self, patience_s: float) -> tuple[str, Any]:
        assert self._pipe is not None
        try:
            if not self._pipe.poll(patience_s):
                raise self._lost(f"hung: not heard for {patience_s:g} s")
            kind, value = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            code = self._process.exitcode
            how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            raise self._lost(f"died ({how})") from error
        return kind, value

    def _lost(self, how: str) -> EngineLost:
        self.close()
        return EngineLost(how)

    def close(self) -> None:
        """Ends the engine with whatever it has started."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a group of its own
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def _end_with(parent: int) -> None:
    """A killed parent closes the pipe, which an engine in the middle of a batch does not notice."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.killpg(0, signal.SIGKILL)


def _serve(pipe: Connection, make: MakeEngine, arguments: tuple[Any, ...]) -> None:
    """The child: makes its engine, then answers until nobody asks any more."""
    os.setsid()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # standard output is for data
    try:
        engine = make(*arguments)
    except Exception as error:  # noqa: BLE001 - the parent says it in one line
        pipe.send((_FAILED, str(error) if isinstance(error, FieldmarkError) else first_line(error)))
        return
    pipe.send((_READY, None))
    with contextlib.suppress(EOFError, OSError):
        while True:
            requests = pipe.recv()
            try:
                answers = list(engine.answer_batch(requests, lambda: pipe.send((_ALIVE, None))))
            except Exception as error:  # noqa: BLE001 - whose request it was is found by bisection
                pipe.send((_FAILED, first_line(error)))
            else:
                pipe.send((_ANSWERS, answers))
