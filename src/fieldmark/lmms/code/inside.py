"""The sandbox from inside: what may the code and the templates of task files do there?

No connection, no secret, and so much time, memory and output. Outside nothing here limits anything.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from fieldmark.lmms.code.dialogue import Dialogue, Handlers, NetworkRefused, Surroundings
from fieldmark.lmms.code.imports import forget_code
from fieldmark.lmms.code.trust import MARK
from fieldmark.processes import Channel
from fieldmark.registry import without_code

MEMORY = 16 << 30
"""bytes, or half of the machine's"""
TEMPLATE_S, TEMPLATE_MEMORY, TEMPLATE_OUTPUT = 5.0, 256 << 20, 10_000_000
"""seconds, bytes and characters for one template of one document"""
MOST_PRINTED = 100_000
"""characters that the code of one run may print"""
REMEDY = (
    "the code of tasks has no network and no keys. A judge is asked by lmms_eval.llm_judge only, "
    "and only the one you name (--judge MODEL)"
)


@dataclass(eq=False)
class _Inside:
    """What the process knows of the code it is running."""

    dialogue: Dialogue
    depth: int = 0
    """calls of task code inside each other"""
    is_import: bool = False
    refused: list[str] = field(default_factory=list)
    """where the code reached for what"""
    closed: tuple[str, ...] = ()
    """events that are refused besides the network"""
    n_calls: int = 0
    template_s: float = TEMPLATE_S


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
    """What a template does beyond its limits, in words."""


@contextlib.contextmanager
def template_limits() -> Iterator[None]:
    """TemplateLimit where a template needs more; the process ends where it cannot even be
    interrupted. Outside there are no limits.
    """
    if _inside is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if sys.platform.startswith("linux"):
        size = int(Path("/proc/self/statm").read_bytes().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (min(soft, size + TEMPLATE_MEMORY), hard))
    signal.setitimer(signal.ITIMER_REAL, _inside.template_s)
    signal.setitimer(signal.ITIMER_PROF, 3 * _inside.template_s)
    try:
        yield
    except MemoryError:
        most = f"{TEMPLATE_MEMORY >> 20} MB of memory"
        raise TemplateLimit(f"needs more than {most}") from None
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
    _inside = _Inside(Dialogue(channel.send, receive, True, token, {"run": _run}))
    _limit()
    sys.addaudithook(_watch)
    _inside.dialogue.serve()


def _run(module: str, name: str, before: Surroundings, args: tuple[Any, ...]) -> Any:
    assert _inside is not None
    folder = os.environ["TMPDIR"]
    os.environ.clear()
    os.environ.update(before.environment, TMPDIR=folder)
    os.chdir(before.folder)
    _inside.template_s = before.template_s
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

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue, self._left = dialogue, MOST_PRINTED

    def write(self, text: str) -> int:
        if self._left > 0 and text:
            self._left -= len(text)
            cut = text if self._left > 0 else f"{text[: self._left]}…\n"
            self._dialogue.say(cut)
        return len(text)


def _limit() -> None:
    """Memory, and, where the system gives one, a network of its own with nobody in it."""
    signal.signal(signal.SIGALRM, _too_slow)
    if not sys.platform.startswith("linux"):
        return
    import resource

    half = os.sysconf("SC_PHYS_PAGES") * resource.getpagesize() // 2
    resource.setrlimit(resource.RLIMIT_DATA, (min(MEMORY, half), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).unshare(0x4000_0000)  # CLONE_NEWNET; the audit hook holds without it


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    assert _inside is not None
    raise TemplateLimit(f"takes longer than {_inside.template_s:g} s")


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
    text = f"{_place()} tried to use the network ({shown}): {REMEDY}"
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
