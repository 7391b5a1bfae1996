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

import base64
import contextlib
import ctypes
import importlib
import io
import os
import pickle
import secrets
import signal
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from fieldmark import errors
from fieldmark.chat import open_environment, user_tables
from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.processes import Channel, Child, ChildDied
from fieldmark.registry import may_run, without_code

START_S = 120.0
RUN_S = 1800.0
"""without a word from what runs there: one call of a task's code, or the opening of its data"""
MEMORY = 16 << 30
"""bytes, or half of the machine's"""
TEMPLATE_S, TEMPLATE_MEMORY, TEMPLATE_OUTPUT = 5.0, 256 << 20, 10_000_000
"""seconds, bytes and characters for one template of one document"""
MOST_PRINTED = 100_000
"""characters that the code of one run may print"""
MARK = "fieldmark_task_"
"""how the names of modules of task code begin"""
REMEDY = (
    "the code of tasks has no network and no keys. A judge is asked by lmms_eval.llm_judge only, "
    "and only the one you name (--judge MODEL)"
)


class NoJudgement(BaseException):
    """No judge could be asked.

    Not an `Exception`: task code commonly answers those with a score of 0, and a judge that was
    not there must never look like a wrong answer.
    """


class NetworkRefused(BaseException):
    """Task code reached for the network. No `Exception`, for the same reason."""


# --- both sides


Handlers = Mapping[str, Callable[..., Any]]
_KINDS = ("BatchPending", "CodeNotRun", "UsageError", "DataError", "ModelError", "RunsFailed")
_CROSSING = (*_KINDS, "NoJudgement")
"""exceptions that are the same on both sides"""
_BUILT = frozenset(
    {
        ("builtins", "bytearray"), ("builtins", "complex"), ("builtins", "frozenset"),
        ("builtins", "set"), ("builtins", "range"), ("pathlib", "PosixPath"),
        ("pathlib", "WindowsPath"),
    }
)  # fmt: skip


class _OwnRecords(pickle.Unpickler):
    """Builds plain data, and records of fieldmark."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _BUILT:
            return super().find_class(module, name)
        if module.startswith("fieldmark."):
            kind = super().find_class(module, name)
            if isinstance(kind, type) and is_dataclass(kind):
                return kind
        raise pickle.UnpicklingError(f"{module}.{name} is no record of fieldmark")


def _packed(value: object) -> str:
    return base64.b64encode(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)).decode()


@dataclass(eq=False)
class _Dialogue:
    """Remote procedure calls, either way, one inside the other; `handlers` answer the other side.

    What does not carry the token was written by code of a task, and is passed over.
    """

    send: Callable[[object], None]
    receive: Callable[[], Any]
    is_inside: bool
    token: str
    handlers: Handlers = field(default_factory=dict)
    raised: FieldmarkError | None = None
    """what a handler of this side raised last: it comes back with more to it"""
    lock: Any = field(default_factory=threading.RLock)

    def ask(self, name: str, *args: Any) -> Any:
        with self.lock:
            self._send(ask=name, data=_packed(args))
            while True:
                message = self._read()
                if "ask" in message:
                    self.answer(message)
                elif "error" in message:
                    raise self._error(*message["error"])
                elif "data" in message:
                    return self._unpacked(message["data"])

    def answer(self, message: Mapping[str, Any]) -> None:
        try:
            made = self.handlers[message["ask"]](*self._unpacked(message["data"]))
            data = _packed(made)
        except (FieldmarkError, NoJudgement) as error:
            if isinstance(error, FieldmarkError):
                self.raised = error
            kinds = [kind.__name__ for kind in type(error).__mro__]
            known = next(kind for kind in (*kinds, "UsageError") if kind in _CROSSING)
            self._send(error=[known, str(error)])
        except Exception as error:
            if not self.is_inside:
                raise
            is_full = isinstance(error, MemoryError)
            text = "more memory is needed than task files may use." if is_full else ""
            self._send(error=["DataError" if is_full else "", text or traceback.format_exc()])
        else:
            self._send(data=data)

    def say(self, text: str) -> None:
        """For the person; no answer comes."""
        with self.lock:
            self._send(say=text)

    def serve(self) -> None:
        while True:
            self.answer(self._read())

    def _send(self, **message: Any) -> None:
        self.send({"token": self.token, **message})

    def _read(self) -> dict[str, Any]:
        while True:
            message = self.receive()
            if not isinstance(message, dict) or message.get("token") != self.token:
                continue
            if "say" not in message:
                return message
            sys.stderr.write(message["say"])

    def _unpacked(self, data: str) -> Any:
        stream = io.BytesIO(base64.b64decode(data))
        return (pickle if self.is_inside else _Loader).load(stream)

    def _error(self, kind: str, text: str) -> BaseException:
        if kind == "NoJudgement":
            return NoJudgement(text)
        if self.raised is not None and str(self.raised) == text:
            return self.raised
        if kind not in _KINDS:
            return RuntimeError(text)
        made: BaseException = Exception.__new__(getattr(errors, kind))
        made.args = (text,)
        return made


class _Loader:
    @staticmethod
    def load(stream: IO[bytes]) -> Any:
        return _OwnRecords(stream).load()


# --- outside


class SandboxLost(UsageError):
    """The process ended, or had to be ended."""


class Sandbox:
    """One process, started when it is first needed; after it was lost, another one."""

    def __init__(self) -> None:
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
            process = self._running()
            process.limit_s = limit_s
            dialogue = process.dialogue
            dialogue.handlers, dialogue.raised = handlers or {}, None
            before = _Before(str(Path.cwd()), _environment(), may_run())
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

    def _running(self) -> _Process:
        if self._process is not None and self._process.owner != os.getpid():
            self._process = None  # a fork of the process it belongs to
        if self._process is None:
            self._process = _Process()
        return self._process

    def close(self) -> None:
        if self._process is not None and self._process.owner == os.getpid():
            self._process.end()
        self._process = None


SANDBOX = Sandbox()


@dataclass(frozen=True, slots=True)
class _Before:
    """What of the surroundings a run is to find."""

    folder: str
    environment: dict[str, str]
    may_run: bool


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
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    return open_environment(named) | fixed


class _Process:
    def __init__(self) -> None:
        self.owner, self.limit_s, self.is_whole = os.getpid(), START_S, True
        folder = tempfile.TemporaryDirectory(prefix="fieldmark-sandbox-")
        environment = _environment() | {"TMPDIR": folder.name}
        self._child = Child(serve, environment=environment, is_trusted=False)
        self._end = weakref.finalize(self, _end, self._child, folder, self.owner)
        token = secrets.token_hex(8)
        self.dialogue = _Dialogue(self._send, self._receive, False, token)
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
            return SandboxLost(f"took longer than {TEMPLATE_S:g} s")
        if str(error).startswith("took longer"):
            return SandboxLost(str(error))
        return SandboxLost(f"ended its process (exit code {status})")


def _end(child: Child, folder: tempfile.TemporaryDirectory[str], owner: int) -> None:
    if owner == os.getpid():  # in a fork both are another's
        child.end()
        folder.cleanup()


# --- inside


@dataclass(eq=False)
class _Inside:
    """What the process knows of the code it is running."""

    dialogue: _Dialogue
    depth: int = 0
    """calls of task code inside each other"""
    is_import: bool = False
    refused: list[str] = field(default_factory=list)
    """where the code reached for what"""
    closed: tuple[str, ...] = ()
    """events that are refused besides the network"""
    n_calls: int = 0


_inside: _Inside | None = None
"""None outside"""
CONNECTS = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg")
LOOKUPS = ("socket.gethostbyname", "socket.gethostbyaddr")
"""asked by libraries for this machine's own name, too: refused, and no more"""
PROGRAMS = (
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn",
    "os.spawn", "pty.spawn",
)  # fmt: skip
_WATCHED = frozenset((*CONNECTS, *LOOKUPS, *PROGRAMS))


def ask_outside(name: str, *args: Any) -> Any:
    """What the handler of that name gives, in the process that asked for this run."""
    assert _inside is not None
    return _inside.dialogue.ask(name, *args)


def is_inside() -> bool:
    return _inside is not None


def offer(handlers: Handlers) -> None:
    """What this run offers to the process that asked for it."""
    assert _inside is not None
    _inside.dialogue.handlers = {**_inside.dialogue.handlers, **handlers}


def n_calls() -> int:
    """The number of the call of task code that is running."""
    return 0 if _inside is None else _inside.n_calls


@contextlib.contextmanager
def code_runs(is_import: bool = False) -> Iterator[None]:
    """Around the code of a task; raises at the end what the code has swallowed.

    While a file is imported the network is refused as an `Exception`: files fetch word lists that
    are there already.
    """
    state = _inside
    if state is None:
        yield
        return
    if not state.depth:
        state.is_import, state.n_calls = is_import, state.n_calls + 1
        state.refused.clear()
    state.depth += 1
    try:
        yield
    finally:
        state.depth -= 1
    if state.refused and not state.depth:
        raise NetworkRefused(state.refused[0])


@contextlib.contextmanager
def closed_to(events: tuple[str, ...]) -> Iterator[None]:
    assert _inside is not None
    before, _inside.closed = _inside.closed, events
    try:
        yield
    finally:
        _inside.closed = before


class TemplateLimit(Exception):
    """A template takes too long."""


@contextlib.contextmanager
def template_limits() -> Iterator[None]:
    """MemoryError or TemplateLimit where a template needs more; the process ends where it cannot
    even be interrupted. Outside there are no limits.
    """
    if _inside is None or not hasattr(signal, "setitimer"):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    size = int(Path("/proc/self/statm").read_bytes().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (min(soft, size + TEMPLATE_MEMORY), hard))
    signal.setitimer(signal.ITIMER_REAL, TEMPLATE_S)
    signal.setitimer(signal.ITIMER_PROF, 3 * TEMPLATE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def serve(channel: Channel) -> None:
    """What the process does."""
    global _inside  # this process is the sandbox
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)

    def receive() -> Any:
        try:
            return channel.receive()
        except EOFError:
            os._exit(0)

    token = receive()
    _inside = _Inside(_Dialogue(channel.send, receive, True, token, {"run": _run}))
    _limit()
    sys.addaudithook(_watch)
    _inside.dialogue.serve()


def _run(module: str, name: str, before: _Before, args: tuple[Any, ...]) -> Any:
    from fieldmark.lmms.code.imports import forget_code

    assert _inside is not None
    folder = os.environ["TMPDIR"]
    os.environ.clear()
    os.environ.update(before.environment, TMPDIR=folder)
    os.chdir(before.folder)
    forget_code()
    _inside.dialogue.handlers = {"run": _run}
    talk: Any = _Talk(_inside.dialogue)
    function = getattr(importlib.import_module(module), name)
    with (
        contextlib.nullcontext() if before.may_run else without_code(),
        contextlib.redirect_stdout(talk),
        contextlib.redirect_stderr(talk),
    ):
        return function(*args)


class _Talk(io.TextIOBase):
    """What code prints, for the person: not without end."""

    def __init__(self, dialogue: _Dialogue) -> None:
        self._dialogue, self._left = dialogue, MOST_PRINTED

    def write(self, text: str) -> int:
        if self._left > 0 and text:
            self._left -= len(text)
            cut = text if self._left > 0 else f"{text[: self._left]}…\n"
            self._dialogue.say("".join(c if c.isprintable() or c in "\n\t" else "?" for c in cut))
        return len(text)


def _limit() -> None:
    """Memory, and, where the system gives one, a network of its own with nobody in it."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    half = os.sysconf("SC_PHYS_PAGES") * resource.getpagesize() // 2
    resource.setrlimit(resource.RLIMIT_DATA, (min(MEMORY, half), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).unshare(0x4000_0000)  # CLONE_NEWNET; the audit hook holds without it
    signal.signal(signal.SIGALRM, _too_slow)


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TemplateLimit


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook; where no task code runs it does nothing."""
    if event not in _WATCHED or _inside is None:
        return
    if event in _inside.closed:
        raise PermissionError(f"{event} is closed while the code of tasks is imported")
    if event in PROGRAMS:
        return
    address = arguments[1 if event in CONNECTS[:1] + CONNECTS[2:] else 0]
    is_path = isinstance(address, bytes | str) and event == "socket.connect"
    if address is None or is_path:
        return  # a socket of this machine's file system
    host = address[0] if isinstance(address, tuple) else address
    shown = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    text = f"{_place()} reached for the network ({shown}): {REMEDY}"
    if event in LOOKUPS or _inside.is_import or not _inside.depth:
        raise PermissionError(text)
    _inside.refused.append(text)
    raise NetworkRefused(text)


def _place() -> str:
    """`folder/file.py:line` of the task code that is running."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(MARK):
            path = Path(frame.f_code.co_filename)
            return f"{path.parent.name}/{path.name}:{frame.f_lineno}"
        frame = frame.f_back
    return "its code"
