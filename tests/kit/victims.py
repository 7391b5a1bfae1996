"""Processes that are killed, or run side by side: forked in a process where forking is safe."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

__all__ = ["Victim", "run_apart"]


def run_apart(
    scenario: Callable[[Path], None],
    place: Path,
    before: tuple[str, ...] = (),
    limit_s: float | None = None,
) -> None:
    """Runs a function of a test file in another process."""
    file = Path(inspect.getfile(scenario))
    paths = [str(file.parent), str(Path(__file__).parents[1])]
    script = (
        f"import sys; from pathlib import Path; sys.path[:0] = {paths!r};"
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
