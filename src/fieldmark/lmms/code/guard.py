"""Guard (audit hook): the code of tasks has no network and sees no keys while it runs.

It runs in this process, so the guard is against code that means no harm and asks a judge, or
fetches, by itself. Connections and name lookups are refused in the thread that runs task code and
in threads that it starts; secrets are out of the environment, which programs it starts inherit. Not
stopped: code that sets out to break this (it could read memory, or load a library of C), and what
a program that it starts does in the network.

When a function is called, a refusal is no `Exception`: task code commonly answers those with a
score of 0, or asks five times more. While a file is imported it is one: files fetch word lists
that are there already.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from fieldmark.chat import hidden_secrets, user_tables
from fieldmark.errors import FieldmarkError
from fieldmark.lmms.code.imports import MARK

CONNECTS = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg")
LOOKUPS = ("socket.gethostbyname", "socket.gethostbyaddr")
"""asked by libraries for this machine's own name, too: refused, and no more"""
_WATCHED = frozenset((*CONNECTS, *LOOKUPS))
REMEDY = (
    "the code of tasks has no network and no keys. A judge is asked by lmms_eval.llm_judge only, "
    "and only the one you name (--judge MODEL)"
)


class NetworkRefused(BaseException):
    """Task code reached for the network."""


@dataclass(slots=True)
class _Guarded:
    """One call of task code, or one import of it."""

    is_import: bool
    refused: list[str] = field(default_factory=list)
    """where the code reached for what"""
    asked: Counter[str] = field(default_factory=Counter)
    """how often it asked the judge the same"""


class _Thread(threading.local):
    guarded: _Guarded | None = None
    """what this thread runs"""
    is_open: bool = False
    """fieldmark's own request, made for task code"""


_here = _Thread()
_started: weakref.WeakKeyDictionary[threading.Thread, _Guarded] = weakref.WeakKeyDictionary()
"""threads that task code started"""


@contextlib.contextmanager
def guarded(is_import: bool = False) -> Iterator[None]:
    """Without network and secrets; raises at the end what the code has swallowed."""
    _watch_from_now_on()
    outer = _here.guarded
    _here.guarded = outer or _Guarded(is_import)
    try:
        with without_secrets():
            yield
    finally:
        own, _here.guarded = _here.guarded, outer
    if outer is None and own.refused and not is_import:
        raise NetworkRefused(own.refused[0])


def without_secrets() -> contextlib.AbstractContextManager[None]:
    """The environment that task code sees. Calls of code inside another such block are cheap."""
    return hidden_secrets(_named_keys())


@contextlib.contextmanager
def open_network() -> Iterator[None]:
    """For what fieldmark itself sends while task code waits."""
    before, _here.is_open = _here.is_open, True
    try:
        yield
    finally:
        _here.is_open = before


def asked_so_far() -> Counter[str]:
    """How often this call of task code, whichever thread it is in, asked a judge the same."""
    now = _running()
    return Counter() if now is None else now.asked


def _running() -> _Guarded | None:
    return _here.guarded or (_started.get(threading.current_thread()) if _started else None)


@lru_cache(maxsize=1)
def _watch_from_now_on() -> None:
    """Hooks cannot be taken back; where no task code runs they do nothing."""
    sys.addaudithook(_watch)
    start = threading.Thread.start  # Python 3.11 audits no threads

    def noted_start(thread: threading.Thread) -> None:
        now = _running()
        if now is not None and not _here.is_open:
            _started[thread] = now
        start(thread)

    threading.Thread.start = noted_start  # type: ignore[method-assign,assignment]


@lru_cache(maxsize=1)
def _named_keys() -> frozenset[str]:
    """The variables that rows of providers name, where the process was when code first ran."""
    try:
        rows = user_tables(Path.cwd()).providers.values()
    except FieldmarkError:  # told by whoever asks a model of that file
        return frozenset()
    return frozenset(row.key_env for row in rows if row.key_env)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _WATCHED or _here.is_open:
        return
    now = _running()
    if now is None:
        return
    address = arguments[1 if event in CONNECTS[:1] + CONNECTS[2:] else 0]
    is_path = isinstance(address, bytes | str) and event == "socket.connect"
    if address is None or is_path:
        return  # a socket of this machine's file system
    host = address[0] if isinstance(address, tuple) else address
    text = f"{_place()} reached for the network ({_words(host)}): {REMEDY}"
    if event in LOOKUPS or now.is_import:
        raise PermissionError(text)
    now.refused.append(text)
    raise NetworkRefused(text)


def _words(host: object) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)


def _place() -> str:
    """`folder/file.py:line` of the task code that is running."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(MARK):
            path = Path(frame.f_code.co_filename)
            return f"{path.parent.name}/{path.name}:{frame.f_lineno}"
        frame = frame.f_back
    return "its code"
