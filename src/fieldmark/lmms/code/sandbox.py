"""Sandbox (worker process): where do the templates and the code of task files run?

In a process without network and without secrets in its environment, within limits of time, memory
and output. fieldmark asks it to run a function of its own, and serves meanwhile what that function
cannot do there: send requests, ask a judge, show progress. Each such run imports the code of tasks
anew, so that what a call leaves in a module never reaches the next run.

What comes back is data: only fieldmark's own records are built from it. The guard is against code
that means no harm, and asks a judge or fetches by itself, and against templates of any kind. Code
that sets out to break it can still read files, or call a library of C.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fieldmark.chat import open_environment, user_tables
from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.lmms.code.dialogue import Dialogue, Handlers, NoJudgement, Surroundings
from fieldmark.lmms.code.inside import TEMPLATE_S, serve
from fieldmark.processes import Child, ChildDied
from fieldmark.registry import may_run

START_S = 120.0
RUN_S = 1800.0
"""without a word from what runs there: one call of a task's code, or the opening of its data"""


class SandboxLost(UsageError):
    """The process ended, or had to be ended."""


class Sandbox:
    """One process, started when it is first needed; after it was lost, another one."""

    def __init__(self) -> None:
        self.template_s = TEMPLATE_S
        self._lock = threading.RLock()
        self._process: _Process | None = None

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        handlers: Handlers | None = None,
        limit_s: float = RUN_S,
    ) -> Any:
        """What a function of fieldmark gives when it runs there; raises `FieldmarkError` as it
        does, or `SandboxLost`. It may ask the handlers by `ask_outside`.
        """
        with self._lock:
            if self._process is not None and self._process.owner != os.getpid():
                self._process = None  # a fork of the process it belongs to
            if self._process is None:
                self._process = _Process()
            process = self._process
            process.limit_s, process.template_s = limit_s, self.template_s
            dialogue = process.dialogue
            dialogue.handlers, dialogue.raised = handlers or {}, None
            folder = str(Path.cwd())
            before = Surroundings(folder, _environment(), may_run(), self.template_s)
            process.is_whole = False
            try:
                made = dialogue.ask("run", function.__module__, function.__name__, before, args)
                process.is_whole = True
            except (FieldmarkError, NoJudgement) as error:
                process.is_whole = not isinstance(error, SandboxLost)
                raise
            finally:
                if not process.is_whole:
                    self.close()
            return made

    def ask(self, name: str, *args: Any) -> Any:
        """What the function that runs there offers under the name; for handlers."""
        assert self._process is not None
        return self._process.dialogue.ask(name, *args)

    def close(self) -> None:
        if self._process is not None and self._process.owner == os.getpid():
            self._process.end()
        self._process = None


SANDBOX = Sandbox()


def _environment() -> dict[str, str]:
    """Offline, one thread, fieldmark importable, no secrets."""
    try:
        rows = user_tables(Path.cwd()).providers.values()
        named = {row.key_env for row in rows}
    except FieldmarkError:  # told by whoever asks a model of that file
        named = set()
    fixed = {
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",  # sets of texts keep their order: the same answers every time
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    return open_environment(named) | fixed


class _Process:
    def __init__(self) -> None:
        self.owner, self.is_whole = os.getpid(), True
        self.limit_s, self.template_s = START_S, TEMPLATE_S
        folder = tempfile.TemporaryDirectory(prefix="fieldmark-sandbox-")
        environment = _environment() | {"TMPDIR": folder.name}
        self._child = Child(serve, environment=environment, is_trusted=False)
        self._end = weakref.finalize(self, _end, self._child, folder, self.owner)
        token = secrets.token_hex(8)
        self.dialogue = Dialogue(self._send, self._receive, False, token)
        self._send(token)

    def end(self) -> None:
        self._end()

    def _send(self, message: object) -> None:
        try:
            self._child.send(message)
        except ChildDied as error:
            raise self._lost(error) from None

    def _receive(self) -> Any:
        try:
            return self._child.receive(self.limit_s)
        except ChildDied as error:
            raise self._lost(error) from None

    def _lost(self, error: ChildDied) -> SandboxLost:
        status = self._child.wait()
        if status == -signal.SIGPROF:
            return SandboxLost(f"took longer than {self.template_s:g} s")
        if str(error).startswith("took longer"):
            return SandboxLost(str(error))
        return SandboxLost(f"ended its process (exit code {status})")


def _end(child: Child, folder: tempfile.TemporaryDirectory[str], owner: int) -> None:
    if owner == os.getpid():  # in a fork both are another's
        child.end()
        folder.cleanup()
