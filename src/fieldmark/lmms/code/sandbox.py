"""Sandbox: do the functions that task files name exist, and do their files import?

Asked without running anything in this process: workers (`main`, started as `python -m … FOLDER…`)
import the files with the network closed, their output swallowed, in an empty folder. A file that
ends its process, or never ends, costs one worker and is told by name; the others go on in a fresh
one. A worker writes `ready`, then for each JSON line `{"token": …, "functions": [[text, yaml,
line], …]}`, which is about one file, one line back: the token and what is wrong with each function.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fieldmark.chat import is_secret
from fieldmark.errors import UsageError
from fieldmark.lmms.code.call import load_function
from fieldmark.lmms.code.imports import find_file
from fieldmark.lmms.code.trust import Function, Trust

START_S = 60.0
PER_WORKER = 300
"""files that are worth a worker of their own, which imports the large libraries again"""


@dataclass(frozen=True, slots=True)
class _CodeFile:
    """One file, and the functions that are looked for in it."""

    path: Path
    functions: list[Function] = field(default_factory=list)

    def line(self, token: str) -> str:
        names = [
            [function.text, str(function.file.absolute()), function.line]
            for function in self.functions
        ]
        return json.dumps({"token": token, "functions": names}) + "\n"

    def placed(self, answers: Iterable[str]) -> dict[Function, str]:
        """The answers by function; the worker, in its own folder, knows absolute places only."""
        pairs = list(zip(self.functions, answers, strict=True))
        whole = {
            function: replace(function, file=function.file.absolute()).place
            for function in self.functions
        }
        return {
            function: text.replace(whole[function], function.place, 1) for function, text in pairs
        }


def try_imports(
    functions: Iterable[Function], trust: Trust, timeout_s: float = 60.0
) -> dict[Function, str]:
    """Each function and what is wrong with it, "" for nothing; a file may take `timeout_s`."""
    errors: dict[Function, str] = {}
    jobs: dict[Path, _CodeFile] = {}
    for function in dict.fromkeys(functions):
        try:
            path = find_file(function, trust).resolve()
        except UsageError as error:
            errors[function] = str(error)
        else:
            jobs.setdefault(path, _CodeFile(path)).functions.append(function)
    n_workers = max(1, min(os.cpu_count() or 1, 4, len(jobs) // PER_WORKER))
    pending: queue.SimpleQueue[_CodeFile] = queue.SimpleQueue()
    for job in jobs.values():
        pending.put(job)
    if jobs:
        with ThreadPoolExecutor(n_workers) as pool:
            lanes = [pool.submit(_lane, pending, trust, timeout_s) for _ in range(n_workers)]
            try:
                for lane in lanes:
                    errors |= lane.result()
            finally:
                _empty(pending)
    return errors


def _empty(pending: queue.SimpleQueue[_CodeFile]) -> None:
    """So that lanes end after the job they are at, when this process is interrupted."""
    with contextlib.suppress(queue.Empty):
        while True:
            pending.get_nowait()


def _lane(
    pending: queue.SimpleQueue[_CodeFile], trust: Trust, timeout_s: float
) -> dict[Function, str]:
    """Jobs one after another in one worker, a fresh one after each that was lost."""
    errors: dict[Function, str] = {}
    worker: _Worker | None = None
    try:
        while True:
            try:
                job = pending.get_nowait()
            except queue.Empty:
                return errors
            worker = worker or _Worker(trust)
            answers, lost = worker.ask(job, timeout_s)
            if lost:
                worker.close()
                worker = None
                answers = [f"{function.place}  {function}: {lost}." for function in job.functions]
            errors |= job.placed(answers)
    finally:
        if worker is not None:
            worker.close()


class _Worker:
    """A process that imports files and says how it went, one line each."""

    def __init__(self, trust: Trust) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fieldmark-import-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fieldmark.lmms.code.sandbox", *map(str, trust.folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
            env=_environment(),
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        with contextlib.suppress(queue.Empty):  # a busy machine; the first file gets the blame
            self._lines.get(timeout=START_S)

    def ask(self, job: _CodeFile, timeout_s: float) -> tuple[list[str], str]:
        """The answers about each function; or why there are none."""
        assert self._process.stdin is not None
        token = secrets.token_hex(8)
        try:
            self._process.stdin.write(job.line(token))
            self._process.stdin.flush()
            answers = self._answer(token, time.monotonic() + timeout_s)
        except queue.Empty:
            return [], f"importing {job.path.name} took longer than {timeout_s:g} s"
        except BrokenPipeError:
            answers = None
        if answers is None:
            code = self._process.wait()
            return [], f"importing {job.path.name} ended its process (exit code {code})"
        return answers, ""

    def _answer(self, token: str, until: float) -> list[str] | None:
        """The line with the token; code may write others. None: the process ended."""
        while line := self._lines.get(timeout=max(0.0, until - time.monotonic())):
            if line.startswith(token):
                answers: list[str] = json.loads(line.removeprefix(token))
                return answers
        return None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._folder.cleanup()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")


def _environment() -> dict[str, str]:
    """Offline, one thread, fieldmark importable, no secrets."""
    own = str(Path(__file__).resolve().parents[3])
    paths = [own, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    fixed = {
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    open_ones = {name: value for name, value in os.environ.items() if not is_secret(name)}
    return {**open_ones, **fixed}


CLOSED = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyaddr",
    "socket.sendto",
    "socket.sendmsg",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "pty.spawn",
)
"""events of Python's audit hooks: a program that is started could reach the network too"""


def main(folders: list[str]) -> None:
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    trust = Trust.of(*map(Path, folders))
    sys.argv = ["fieldmark"]
    sys.addaudithook(_refuse)
    answers.write("ready\n")
    answers.flush()
    for line in questions:
        asked = json.loads(line)
        errors = [
            _try(Function(text, Path(file), at), trust) for text, file, at in asked["functions"]
        ]
        # On a line of its own, whatever the code wrote to this stream before.
        answers.write(f"\n{asked['token']}{json.dumps(errors)}\n")
        answers.flush()


def _try(function: Function, trust: Trust) -> str:
    try:
        load_function(function, trust)
    except UsageError as error:
        return str(error)
    return ""


def _refuse(event: str, _arguments: tuple[Any, ...]) -> None:
    if event in CLOSED:
        raise PermissionError(f"{event} is closed while the code of tasks is imported")


if __name__ == "__main__":
    main(sys.argv[1:])
