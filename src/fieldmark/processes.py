"""Child processes (subprocess, process pool): how are they started, fed, collected and ended, why
did one die, and does the process that wrote something down still run?

Nothing else in fieldmark starts processes, but `fieldmark.slurm`, which calls Slurm's commands.

A child ends with its parent, however that ends: it watches a pipe whose other end only the parent
has, and on Linux the kernel kills it too. It is a fresh interpreter in a session of its own, so
that Ctrl-C and the signals of a batch job are the parent's to answer.

A process number means something only within one boot and namespace, and it is given again after
its process ended: so a process is known by its place, its number and when it was born.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pickle
import platform
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import IO, Any

from fieldmark.errors import FieldmarkError, first_line

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
"""options of mallopt(3), from malloc.h"""
_MAPPED_AT, _N_MAPPED = 32 << 20, 65_536
"""bytes from which a block is mapped, at most; how many may be: glibc's own limits"""
_PR_SET_PDEATHSIG = 1
"""option of prctl(2)"""
_BEGIN = "from fieldmark.processes import _begin; _begin()"
_TAIL_BYTES = 1 << 14
"""of what a child wrote to standard error"""


def host() -> str:
    return platform.node() or "unknown"


def this_place() -> str:
    """Equal for two processes exactly when each can see if the other lives; "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return host() if os.name == "posix" else ""


def boot_of(machine: str) -> str:
    """Which start of its machine a place belongs to; "" if unknown."""
    boot, slash, _ = machine.partition("/")
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


def still_runs(host_name: str, machine: str, pid: int, born: str) -> bool | None:
    """Does a process of some machine still run? None where that cannot be seen from here."""
    here = this_place()
    if machine and machine == here:
        return is_alive(pid, born)
    boots = boot_of(machine), boot_of(here)
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


# --- children


class ChildDied(Exception):
    """A child ended before it answered: why, in a few words."""


class Channel:
    """Messages over a pair of pipes: pickles; or, with a process that is not trusted, lines of
    JSON.
    """

    def __init__(self, reader: IO[bytes], writer: IO[bytes], is_trusted: bool = True) -> None:
        self._reader, self._writer, self._is_trusted = reader, writer, is_trusted

    def send(self, message: object) -> None:
        if self._is_trusted:
            pickle.dump(message, self._writer, pickle.HIGHEST_PROTOCOL)
        else:
            self._writer.write(b"\n" + json.dumps(message).encode() + b"\n")
        self._writer.flush()

    def receive(self, most_bytes: int = -1) -> Any:
        """EOFError when there will be no more; ValueError for a line longer than `most_bytes`."""
        if self._is_trusted:
            return pickle.load(self._reader)
        while line := self._reader.readline(most_bytes):
            if not line.endswith(b"\n"):
                raise ValueError("a message was cut off or too long")
            with suppress(ValueError):  # what other code has written to the stream
                if line.strip():
                    return json.loads(line)
        raise EOFError

    def messages(self) -> Iterator[Any]:
        """Until there will be no more."""
        while True:
            try:
                message = self.receive()
            except EOFError:
                return
            yield message

    def has_news(self, timeout_s: float | None) -> bool:
        """Is there a message, or the end, within that time? For one who answers each message before
        the next one comes.
        """
        return bool(select.select([self._reader], [], [], timeout_s)[0])

    def close(self) -> None:
        for stream in (self._writer, self._reader):
            with suppress(OSError):  # what waits to be written is for nobody
                stream.close()


class Child:
    """A function in a process of its own. It ends with this process.

    Without a log, `function(channel, *arguments)` answers the messages it is sent, and returns when
    there will be no more. With a log, `function(*arguments)` gives the exit status.
    """

    def __init__(
        self,
        function: Callable[..., object],
        *arguments: str,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        pass_fds: Sequence[int] = (),
        is_trusted: bool = True,
    ) -> None:
        """`function` is found by its name in its module; `folder` is where it runs; `pass_fds` are
        open files that it has under the same numbers. OSError where no process can be started.
        """
        life = _lifeline()
        kind = "logged" if log is not None else "trusted" if is_trusted else "plain"
        is_main = threading.current_thread() is threading.main_thread()
        argv = [
            str(life),
            str(os.getpid()),
            "1" if is_main else "",
            kind,
            function.__module__,
        ]
        argv += [function.__qualname__, *arguments]
        added = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        pipe = subprocess.PIPE if log is None else subprocess.DEVNULL
        self._errors: IO[bytes]  # closed in `end`
        self._errors = tempfile.TemporaryFile() if log is None else log.open("ab")  # noqa: SIM115
        self._why = ""
        try:
            self._process = subprocess.Popen(
                # -P: files of the current folder are no modules, as in this process
                [sys.executable, "-P", "-u", "-c", _BEGIN, *argv],
                stdin=pipe,
                stdout=pipe if log is None else self._errors,
                stderr=self._errors,
                env={**(os.environ if environment is None else environment), **added},
                cwd=folder,
                pass_fds=(life, *pass_fds),
                start_new_session=True,
            )
        except BaseException:
            self._errors.close()
            raise
        self._channel: Channel | None = None
        if self._process.stdin is not None and self._process.stdout is not None:
            self._channel = Channel(self._process.stdout, self._process.stdin, is_trusted)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """How it ended: the exit status, or minus the number of a signal; None while it runs."""
        return self._process.poll()

    def send(self, message: object) -> None:
        assert self._channel is not None
        try:
            self._channel.send(message)
        except OSError:
            raise self._died() from None

    def receive(self, timeout_s: float | None = None, most_bytes: int = -1) -> Any:
        """The next message; a child that takes longer is ended. Raises ChildDied."""
        assert self._channel is not None
        watch = threading.Timer(timeout_s or 0.0, self._too_slow, [timeout_s])
        watch.daemon = True
        if timeout_s is not None:
            watch.start()
        try:
            return self._channel.receive(most_bytes)
        except (EOFError, OSError):
            raise self._died() from None
        except (pickle.UnpicklingError, ValueError) as error:  # cut off by a kill, or nonsense
            died = self._died()
            raise died if (self.status or 0) < 0 else ChildDied(str(error)) from None
        finally:
            watch.cancel()

    def close_input(self) -> None:
        """There will be no more messages: it may end when it has answered those it has."""
        if self._process.stdin is not None:
            with suppress(OSError):  # it has died: its last message cannot be delivered
                self._process.stdin.close()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """How it ended; None where it still runs after that time."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def end(self, patience_s: float = 0.0) -> None:
        """Ends it, with what it has started; with patience it is asked first."""
        if self._process.poll() is None and patience_s:
            self._process.terminate()
            self.wait(patience_s)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._channel is not None:
            self._channel.close()
        self._errors.close()

    def reason(self) -> str:
        """Why it ended: what ended it, else the last line it wrote to standard error."""
        code = self._process.wait()
        if self._why:
            return self._why
        if code < 0:
            return f"ended by {signal.Signals(-code).name}"
        lines: list[str] = []
        if not self._errors.closed and self._channel is not None:
            self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else f"ended with exit code {code}"

    def _too_slow(self, timeout_s: float) -> None:
        self._why = f"took longer than {timeout_s:g} s"
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _died(self) -> ChildDied:
        if self.wait(1.0) is None:  # it answers nobody any more
            self._why = self._why or "it stopped answering"
            self._process.kill()
        return ChildDied(self.reason())


@contextmanager
def process_pool(n: int) -> Iterator[Executor]:
    """Processes that are handed functions; ChildDied when one of them is killed."""
    from multiprocessing import get_context

    with ProcessPoolExecutor(n, get_context("spawn"), _end_with_parent) as pool:
        try:
            yield pool
        except BrokenProcessPool as error:
            raise ChildDied("was killed (out of memory?)") from error
        finally:
            pool.shutdown(cancel_futures=True)


def output_of(
    command: Sequence[str],
    timeout_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str | None:
    """What a program prints; None where there is none of that name, it fails or takes longer."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=None if environment is None else {**os.environ, **environment},
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


_pipes: list[tuple[int, int]] = []
"""the ends of the pipe that all children watch: none before the first of them"""


def _lifeline() -> int:
    """What children watch: it closes with this process, which alone has the other end."""
    if not _pipes:
        _pipes.append(os.pipe())
    return _pipes[0][0]


def _leave_lifeline() -> None:
    """In a fork: it must not keep the children of the process it came from."""
    while _pipes:
        for end in _pipes.pop():
            os.close(end)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_lifeline)


# --- in a child


def _begin() -> None:
    """Where a child begins."""
    life, parent, is_main, kind, module, name, *arguments = sys.argv[1:]
    _watch(int(life), int(parent), bool(is_main))
    for number in (signal.SIGINT, signal.SIGUSR1):  # Slurm's go to all processes of a job
        signal.signal(number, signal.SIG_IGN)
    sys.argv = [name, *arguments]
    if kind == "logged":
        sys.exit(_named(module, name)(*arguments))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), kind == "trusted")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)  # what other code prints goes to standard error
    os.close(nowhere)
    status = 0
    try:
        _named(module, name)(channel, *arguments)
    except BaseException as error:  # noqa: BLE001 - the border of the process
        traceback.print_exc()
        is_ours = isinstance(error, FieldmarkError)
        line = str(error).splitlines()[0].rstrip(".") if is_ours else first_line(error)
        sys.stderr.write(f"{line}\n")  # what `Child.reason` gives
        status = 1
    sys.stderr.flush()
    os._exit(status)  # an ordinary exit would wait for threads that read the channel


def _named(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = attrgetter(name)(importlib.import_module(module))
    return function


def _watch(life: int, parent: int, is_main: bool) -> None:
    """Ends this process, and what it has started, when its parent ends.

    The kernel's signal comes even while all threads are busy; but it comes when the thread ends
    that started this process, so that it is asked for only where that was the main one.
    https://man7.org/linux/man-pages/man2/pr_set_pdeathsig.2const.html
    """

    def wait() -> None:
        with suppress(OSError):
            os.read(life, 1)
        with suppress(OSError):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="parent").start()
    if is_main and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _end_with_parent() -> None:
    """What a process of a pool calls first: a parent that is killed cannot tell it to end."""
    import multiprocessing
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()
