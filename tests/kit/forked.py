"""A fork server: Python programs in processes of their own that import nothing again.

A command of ours takes one to seven seconds of CPU to import what it needs (open_clip most). The
server has imported it and forks: a process of its own, with its own folder, environment and
signals, which can be killed, but is the server's child and not the test's. Where the start, the
imports or the parent are the point, use `subprocess`.

    done = forked.run([sys.executable, "-m", "fieldmark", "tasks", "--json"], cwd=folder)
    with forked.Popen([sys.executable, "-c", "print(1)"], stdout=PIPE) as process: ...
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

__all__ = ["Popen", "run"]

LOADED = (
    "numpy", "polars", "PIL.Image", "scipy.stats", "sklearn.linear_model", "sklearn.svm", "torch",
    "torchvision", "open_clip", "timm", "fieldmark.cli.answer.run", "fieldmark.experiments",
    "fieldmark.report", "fieldmark.build.train",
)  # fmt: skip


class Popen:
    """What `subprocess.Popen` gives, as far as tests use it. Streams are text."""

    def __init__(
        self,
        words: Sequence[str | Path],
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        text: bool = True,
    ) -> None:
        self.args = list(map(str, words))
        self.returncode: int | None = None
        self.stdout, out = _stream(stdout, 1)
        self.stderr, err = (None, out) if stderr == subprocess.STDOUT else _stream(stderr, 2)
        self._line = _line()
        python = self.args[0] == sys.executable
        program = {
            "words": self.args[python:],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        data = json.dumps(program).encode()
        socket.send_fds(self._line, [len(data).to_bytes(4, "little")], [out, err])
        self._line.sendall(data)
        for opened, descriptor in ((self.stdout, out), (self.stderr, err)):
            if opened is not None:
                os.close(descriptor)
        self.pid = int.from_bytes(_read(self._line, 4), "little")

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                status = int.from_bytes(_read(self._line, 4), "little")
            except (TimeoutError, BlockingIOError) as error:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from error
            self.returncode = os.waitstatus_to_exitcode(status)
            self._line.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote; of two pipes, the second may hold no more than a pipe takes."""
        out, err = (stream.read() if stream else "" for stream in (self.stdout, self.stderr))
        self.wait(timeout)
        return out, err

    def __enter__(self) -> Popen:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


def run(
    words: Sequence[str | Path],
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end and gives what it wrote."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = Popen(words, cwd, env, out, err)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess(process.args, code, out.read(), err.read())
    if check:
        done.check_returncode()
    return done


def _stream(asked: int | IO[Any] | None, inherited: int) -> tuple[IO[str] | None, int]:
    """What the test reads from, if it does, and the descriptor for the process."""
    if asked == subprocess.PIPE:
        reading, writing = os.pipe()
        return os.fdopen(reading), writing
    if asked == subprocess.DEVNULL:
        return None, _nowhere()
    return None, inherited if asked is None else asked if isinstance(asked, int) else asked.fileno()


@cache
def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)


def _read(line: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        more = line.recv(n - len(data))
        if not more:
            raise EOFError("the fork server has ended")
        data += more
    return data


def _line() -> socket.socket:
    """A connection to the server; to another one where a test has ended it."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(_server())
    except OSError:
        _server.cache_clear()
        line.connect(_server())
    return line


@cache
def _server() -> str:
    """Started by the first test of a worker that needs it; ends with the worker."""
    address = str(Path(tempfile.mkdtemp(prefix="fork-")) / "line")
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    subprocess.Popen(
        [sys.executable, "-m", "kit.forked", address, str(os.getpid())],
        env={**os.environ, "PYTHONPATH": paths.strip(os.pathsep)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not Path(address).exists():
        time.sleep(0.01)
    return address


def serve(address: str, parent: int) -> None:
    """Forks for whoever asks, and tells how it ended."""
    for name in LOADED:
        with contextlib.suppress(ImportError):
            __import__(name)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind(f"{address}.part")
    door.listen(64)
    Path(f"{address}.part").rename(address)
    door.setblocking(False)
    bell, ring = socket.socketpair()
    ring.setblocking(False)
    signal.set_wakeup_fd(ring.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    choice = selectors.DefaultSelector()
    choice.register(door, selectors.EVENT_READ)
    choice.register(bell, selectors.EVENT_READ)
    lines: dict[int, socket.socket] = {}
    while os.getppid() == parent:
        for key, _ in choice.select(timeout=2):
            if key.fileobj is bell:
                bell.recv(4096)
            else:
                line, _ = door.accept()
                with contextlib.suppress(OSError, EOFError):  # the test has ended
                    _fork(line, lines, [door, bell, ring])
        _tell(lines)


def _tell(lines: dict[int, socket.socket]) -> None:
    while lines:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        if line := lines.pop(pid, None):
            with line, contextlib.suppress(OSError):
                line.sendall(status.to_bytes(4, "little"))


def _fork(line: socket.socket, lines: dict[int, socket.socket], own: list[socket.socket]) -> None:
    line.setblocking(True)
    size, descriptors, *_ = socket.recv_fds(line, 4, 2)
    program = json.loads(_read(line, int.from_bytes(size, "little")))
    pid = os.fork()
    if pid:
        lines[pid] = line
        line.sendall(pid.to_bytes(4, "little"))
        for descriptor in descriptors:
            os.close(descriptor)
        return
    for opened in (*own, line, *lines.values()):
        opened.close()
    os._exit(_child(program, descriptors))


def _child(program: dict[str, Any], descriptors: list[int]) -> int:
    """Becomes the program that was asked for."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.FileIO(number, "w", closefd=False), line_buffering=True, encoding="utf-8"
        )
        for number in (1, 2)
    )
    os.chdir(program["cwd"])
    os.environ.clear()
    os.environ.update(program["env"])
    words = [word for word in program["words"] if word not in ("-B", "-P")]
    code = 0
    try:
        _become(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except KeyboardInterrupt:
        code = 130
    except BaseException:  # noqa: BLE001 - the copy of the server must not go on
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _become(words: list[str]) -> None:
    kind, *rest = words
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:0] = paths
    if kind == "-m":
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, str(Path(kind).parent))
        sys.argv = words
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
