"""In-process executor: how are steps done one after the other in the launcher, for a debugger?

Errors come through as they are, with breakpoints and tracebacks where they belong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr

from fieldmark.errors import UsageError
from fieldmark.experiments.cluster.board import StepFolder
from fieldmark.experiments.cluster.places import JobState, StepGroup, StepTaskClass
from fieldmark.experiments.cluster.places.local import LauncherWatch, process_job
from fieldmark.experiments.cluster.worker import StepTask


class DebugPlace:
    """`submit` returns when all is done."""

    name = "debug"

    def __init__(self, task: StepTaskClass = StepTask, is_quiet: bool = False) -> None:
        """`is_quiet`: what a step prints goes to its log, not to the terminal."""
        self._task, self._is_quiet = task, is_quiet
        self._ended: dict[str, int] = {}
        self._watch = LauncherWatch()

    def submit(self, groups: Sequence[StepGroup]) -> None:
        for group in groups:
            for step in group.steps:
                step.write_job(process_job(self.name, step, os.getpid()))
                with self._printing(step):
                    self._ended[step.id] = int(self._task(str(step.path))() or 0)

    def states(self, steps: Sequence[StepFolder]) -> dict[str, JobState]:
        return {step.id: self._state(step) for step in steps}

    def recover(self, steps: Sequence[StepFolder]) -> list[StepFolder]:
        """None of these was begun."""
        return list(steps)

    def cancel(self, steps: Sequence[StepFolder]) -> None:
        jobs = ", ".join(dict.fromkeys(step.job.id for step in steps if step.job is not None))
        raise UsageError(f"a step of --on debug ends with its launcher: Ctrl-C in process {jobs}.")

    def close(self) -> None:
        """Nothing is left running."""

    @contextmanager
    def _printing(self, step: StepFolder) -> Iterator[None]:
        if not self._is_quiet:
            yield
            return
        with (step.path / "log.txt").open("a", encoding="utf-8") as log, redirect_stderr(log):
            yield

    def _state(self, step: StepFolder) -> JobState:
        if step.id in self._ended:
            status = self._ended[step.id]
            return JobState("gone", f"exit status {status}" if status else "")
        state, job = self._watch.state(step), step.job
        if state.state == "running" and job is not None and job.facts["pid"] == os.getpid():
            return JobState("gone")  # an earlier launch of this process: `submit` has returned
        return state
