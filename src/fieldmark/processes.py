"""Processes: does the one that wrote this down still run?

A process number means something only within one boot and namespace, and it is given again after
its process ended: so a process is known by its place, its number and when it was born.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
"""options of mallopt(3), from malloc.h"""
_MAPPED_AT, _N_MAPPED = 32 << 20, 65_536
"""bytes from which a block is mapped, at most; how many may be: glibc's own limits"""


def host() -> str:
    return platform.node() or "unknown"


def this_place() -> str:
    """Equal for two processes exactly when each can see if the other lives; "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return host() if os.name == "posix" else ""


def boot_of(place: str) -> str:
    """Which start of its machine a place belongs to; "" if unknown."""
    boot, slash, _ = place.partition("/")
    return boot if slash else ""


def birth(pid: int) -> str:
    """When a process started, in the kernel's own count; "" if it ended or cannot be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def is_alive(pid: int, born: str) -> bool:
    """Does the process that started at `born` still run? Only for processes of this place."""
    now = birth(pid)
    if now:
        return now == born
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return not Path("/proc/self/stat").exists()


def still_runs(host_name: str, place: str, pid: int, born: str) -> bool | None:
    """Does a process of some machine still run? None where that cannot be seen from here."""
    here = this_place()
    if place and place == here:
        return is_alive(pid, born)
    boots = boot_of(place), boot_of(here)
    if host_name == host() and all(boots) and boots[0] != boots[1]:
        return False  # this machine was started again since
    return None


def peak_bytes() -> int:
    """The most main memory this process has used; 0 where that is not known."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


@contextmanager
def kept_memory() -> Iterator[None]:
    """Page faults: freed memory stays with the process and is used again, instead of being mapped
    and cleared anew for every photo and every layer of a network. Given back at the end.

    Features are bit-identical. An EfficientNet-B0 embeds 61 images per CPU second instead of 33
    (`benchmarks/embed_cpu.py`, 2026). Nothing happens where the C library is not glibc.
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(_TRIM_THRESHOLD, 1 << 30)
    libc.mallopt(_MMAP_MAX, 0)
    try:
        yield
    finally:
        # Large arrays of later work are mapped again: holes of their size would not be given back.
        libc.mallopt(_MMAP_MAX, _N_MAPPED)
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED_AT)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _MAPPED_AT)
        libc.malloc_trim(0)


@cache
def _glibc() -> Any:
    """The C library of this process; None where it is another one."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None


def end_with_parent() -> None:
    """What a process of a pool calls first: a parent that is killed cannot tell it to end."""
    import multiprocessing
    from multiprocessing.connection import wait
    from threading import Thread

    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()
