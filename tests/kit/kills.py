"""A crash harness: `kill -9` an activity at chosen points, give the same command again, compare.

An activity is a command or a function in a process of its own. A test sees from outside how far it
has got, or names a call inside it, or leaves the time to chance. In the end its products are those
of a run that nobody killed, and no more was done twice than was in flight. `tests/test_kills.py`
has the table of activities; tests with a point of their own take the parts: `start`, `kill_when`,
`Moment`, `Victim`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from kit import forked

__all__ = [
    "Activity", "Moment", "Victim", "check", "check_at_random", "function", "kill_when",
    "run_apart", "start", "wait_for",
]  # fmt: skip

TESTS = Path(__file__).parents[1]


class Moment(NamedTuple):
    """A call of a function inside the process, which kills itself there."""

    module: str
    function: str
    """`name`, or `Class.name`"""
    count: int = 1
    """at which of its calls"""
    is_after: bool = False
    """before the call, or after it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What is killed, and what must hold after it. The folder is that of its products."""

    command: Callable[[Path], Sequence[str | Path]]
    """words of `fieldmark`, or of `function`: the same each time"""
    products: Callable[[Path], object]
    """equal after kills and after none"""
    n_done: Callable[[Path], int] = lambda _: 0
    """work done so far, also that which was done twice; it only grows"""
    size: int = 0
    """what `n_done` grows by in a run that nobody kills"""
    n_kills: int = 0
    """so many, until three quarters of it are done: the last one takes longer than a kill"""
    moments: Sequence[Moment] = ()
    """and these kills after them"""
    in_flight: int = 0
    """the most that a kill may cost"""
    n_kept: Callable[[Path], int] | None = None
    """what is safe: the last run does the others and not one more"""
    look: Callable[[Path], object] = lambda _: None
    """checks what each kill has left"""
    later_s: float = 0.0
    """a kill comes up to so much later"""
    says: str = ""
    """words of the last run"""
    has_workers: bool = False
    """it starts processes; every other kill at a random time is that of one of them"""


def check(activity: Activity, place: Path) -> None:
    """One run that nobody kills; one that is killed again and again, until it is let through."""
    calm, killed, draw = place / "calm", place / "killed", random.Random(17)
    began = activity.n_done(calm)
    _finish(activity, place, calm)
    expected, n_calm = activity.products(calm), activity.n_done(calm) - began
    assert expected and n_calm == activity.size, f"{n_calm} of {activity.size}"
    began = activity.n_done(killed)
    for kill in range(activity.n_kills):
        due = began + activity.size * (kill + 1) * 3 // (activity.n_kills * 4)
        process = _begin(activity, place, killed)
        later_s = draw.uniform(0, activity.later_s)
        kill_when(process, lambda due=due: activity.n_done(killed) >= due, later_s)
        activity.look(killed)
    for moment in activity.moments:
        code = _begin(activity, place, killed, moment).wait(120)
        assert code == -signal.SIGKILL, f"{moment}: {_said(killed).read_text()}"
        activity.look(killed)
    n_kept, before = activity.n_kept and activity.n_kept(killed), activity.n_done(killed)
    text = _finish(activity, place, killed)
    n_done = activity.n_done(killed)
    assert activity.says in text
    assert activity.products(killed) == expected
    n_kills = activity.n_kills + len(activity.moments)
    assert 0 <= n_done - began - activity.size <= n_kills * activity.in_flight, "done twice"
    assert n_kept is None or n_done - before == activity.size - n_kept, "what was kept is enough"


def check_at_random(activity: Activity, place: Path, n_kills: int, seed: int = 17) -> None:
    """Kills at times drawn from those of a calm run: also while it starts, looks, writes, ends."""
    calm, killed, draw = place / "calm", place / "killed", random.Random(seed)
    killed.mkdir(exist_ok=True)
    shutil.copytree(killed, place / "fresh")
    forked.run([sys.executable, "-c", ""])  # its server imports what takes longer than the work
    began = time.monotonic()
    _finish(activity, place, calm)
    expected, length_s = activity.products(calm), time.monotonic() - began
    for number in range(n_kills):
        process = _begin(activity, place, killed)
        time.sleep(draw.uniform(0, length_s))
        workers = children(process.pid) if activity.has_workers and number % 2 else []
        victim = draw.choice(workers or [process.pid])
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        code = process.wait(300)
        sys.stdout.write(f"kill {number + 1}: {'worker' if workers else 'command'}, exit {code}\n")
        assert code in ((0, 5, -signal.SIGKILL) if workers else (0, -signal.SIGKILL))
        if code == 0:  # it had ended before: from the start again
            assert activity.products(killed) == expected
            shutil.rmtree(killed)
            shutil.copytree(place / "fresh", killed)
    _finish(activity, place, killed)
    assert activity.products(killed) == expected


def children(pid: int) -> list[int]:
    """All processes that a process has started, and theirs."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(status[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return sorted(found[1:])


def _begin(activity: Activity, place: Path, folder: Path, *moment: Moment) -> forked.Popen:
    """The activity in `place`; its cache and its log of work lie with its products."""
    folder.mkdir(exist_ok=True)
    own = {"FIELDMARK_CACHE": str(folder / "cache"), "EMBED_LOG": str(folder / "log")}
    with _said(folder).open("w") as said:
        return start(
            activity.command(folder), *moment, cwd=place, env=os.environ | own,
            stdout=said, stderr=subprocess.STDOUT,
        )  # fmt: skip


def _said(folder: Path) -> Path:
    return folder.with_suffix(".txt")


def _finish(activity: Activity, place: Path, folder: Path) -> str:
    code = _begin(activity, place, folder).wait(300)
    text = _said(folder).read_text()
    assert code == 0, f"exit {code}: {text}"
    return text


# --- processes


def start(
    words: Sequence[str | Path],
    moment: Moment | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdout: int | IO[Any] | None = subprocess.DEVNULL,
    stderr: int | IO[Any] | None = subprocess.DEVNULL,
) -> forked.Popen:
    """A fieldmark command, or what `function` gives, in a process that is killed at a moment."""
    code = "import sys; from kit import kills; kills._enter(sys.argv[1:]"
    code += f", kills.{moment!r})" if moment else ")"
    return forked.Popen([sys.executable, "-c", code, *words], cwd, env, stdout, stderr)


def function(work: Callable[..., object], *given: object) -> list[str]:
    """The words for a function of a test file; it is given text."""
    return [f"{inspect.getfile(work)}:{work.__name__}", *map(str, given)]


def _enter(words: list[str], moment: Moment | None = None) -> None:
    if moment:
        _arm(moment)
    file, _, name = words[0].rpartition(":")
    if file.endswith(".py"):
        sys.path[:0] = [str(Path(file).parent)]
        getattr(importlib.import_module(Path(file).stem), name)(*words[1:])
    else:
        from fieldmark.cli import main

        sys.exit(main(words))


def _arm(moment: Moment) -> None:
    *outer, last = moment.function.split(".")
    owner = importlib.import_module(moment.module)
    for name in outer:
        owner = getattr(owner, name)
    original, calls = getattr(owner, last), itertools.count(1)

    def armed(*args: object, **named: object) -> object:
        is_due = next(calls) == moment.count
        if is_due and not moment.is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **named)
        if is_due:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, armed)


def wait_for(process: Any, is_due: Callable[[], bool]) -> None:
    """The limit is there only so that a process which hangs fails the test."""
    until = time.monotonic() + 120
    while not is_due():
        assert process.poll() is None, "it ended before it got there"
        assert time.monotonic() < until, "it does not get there"
        time.sleep(0.002)


def kill_when(process: Any, is_due: Callable[[], bool], later_s: float = 0.0) -> None:
    """Kills a process at work."""
    wait_for(process, is_due)
    time.sleep(later_s)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"


# --- functions that fork, in a process where forking is safe


def run_apart(
    scenario: Callable[[Path], None],
    place: Path,
    before: tuple[str, ...] = (),
    limit_s: float | None = None,
) -> None:
    """Runs a function of a test file in another process."""
    file = Path(inspect.getfile(scenario))
    script = (
        f"import sys; from pathlib import Path; sys.path[:0] = {[str(file.parent), str(TESTS)]!r};"
        f"import {file.stem} as scenarios;"
        f"scenarios.{scenario.__name__}(Path({str(place)!r}))"
    )
    # -B: a full disk must not cut off bytecode
    command = [*before, sys.executable, "-B", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    assert done.returncode == 0, done.stderr


class Victim:
    """A child process that reports whole numbers, until it is killed."""

    def __init__(self, work: Callable[[Callable[[int], object]], object]) -> None:
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(reading)
                work(lambda number: os.write(writing, number.to_bytes(8, "little")))
            except BaseException:  # noqa: BLE001 - the copy of the parent must not go on
                traceback.print_exc()
            os._exit(0)
        os.close(writing)
        self.reports = os.fdopen(reading, "rb")

    def kill(self, after_reports: int, after_s: float) -> list[int]:
        """Everything it reported."""
        first = [self.reports.read(8) for _ in range(after_reports)]
        time.sleep(after_s)
        os.kill(self.pid, signal.SIGKILL)
        return [int.from_bytes(report, "little") for report in first if report] + self.end()

    def end(self) -> list[int]:
        rest = self.reports.read()
        os.waitpid(self.pid, 0)
        self.reports.close()
        return np.frombuffer(rest[: len(rest) // 8 * 8], "<u8").tolist()
