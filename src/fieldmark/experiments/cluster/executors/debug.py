"""In-process executor: how are steps done one after the other in the launcher, for a debugger?

Errors come through as they are, with breakpoints and tracebacks where they belong.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr
from dataclasses import asdict

from fieldmark.errors import UsageError
from fieldmark.experiments.cluster.executors import JobState, StepGroup, StepTaskClass
from fieldmark.experiments.cluster.executors.local import LauncherWatch, process_job
from fieldmark.experiments.cluster.job_folder import StepFolder
from fieldmark.experiments.cluster.worker import StepTask
from fieldmark.leases import Holder


class DebugExecutor:
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
                step.write_job(process_job(self.name, step, Holder.here()))
                with ExitStack() as stack:
                    if self._is_quiet:
                        log = stack.enter_context((step.path / "log.txt").open("a"))
                        stack.enter_context(redirect_stderr(log))
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

    def _state(self, step: StepFolder) -> JobState:
        if step.id in self._ended:
            status = self._ended[step.id]
            return JobState("gone", f"exit status {status}" if status else "")
        job = step.job
        if job is not None and job.facts["holder"] == asdict(Holder.here()):
            return JobState("gone")  # an earlier launch of this process: `submit` has returned
        return self._watch.state(step)
