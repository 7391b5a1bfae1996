"""State of steps (queue, lease, result): is a step waiting, at work, finished or lost?

A step whose result is there is finished. Else it is alive while its executor has it in its queue or
running, or while a worker holds its lease; else it is lost, and only a new step will do its work.
An executor that does not answer (a scheduler that is being restarted) never makes a step lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fieldmark.experiments.cluster.job_folder import StepFolder
from fieldmark.slurm import SlurmOptions

if TYPE_CHECKING:
    from fieldmark.experiments.cluster.executors import Executor, JobState

StepState = Literal["pending", "running", "silent", "unsubmitted", "lost", "finished", "merged"]


@dataclass(frozen=True, slots=True)
class StepStatus:
    """How a step stands now."""

    state: StepState
    """silent: its executor does not have it any more, but its worker may live; unsubmitted: its
    launcher died, or is just submitting it"""
    reason: str = ""
    """why it waits, as its executor puts it"""

    @property
    def is_alive(self) -> bool:
        return self.state in ("pending", "running", "silent")


class Executors:
    """The executors of steps, by name; made when they are first needed."""

    def __init__(self, *executors: Executor) -> None:
        self._executors = {executor.name: executor for executor in executors}

    def __getitem__(self, name: str) -> Executor:
        if name not in self._executors:
            self._executors[name] = make_executor(name)
        return self._executors[name]

    def statuses(self, steps: Sequence[StepFolder]) -> dict[str, StepStatus]:
        """By id of step; each executor is asked once."""
        statuses: dict[str, StepStatus] = {}
        steps_of: dict[str, list[StepFolder]] = defaultdict(list)
        for step in steps:
            if step.is_finished:
                statuses[step.id] = _finished(step)
            elif (job := step.job) is not None:
                steps_of[job.executor].append(step)
            else:
                state: StepState = "running" if step.has_worker else "unsubmitted"
                statuses[step.id] = StepStatus(state)
        for name, executor_steps in steps_of.items():
            states = self[name].states(executor_steps)
            for step in executor_steps:
                statuses[step.id] = _judged(step, states.get(step.id))
        return statuses

    def close(self) -> None:
        for executor in self._executors.values():
            executor.close()


def make_executor(
    name: str, slurm: SlurmOptions | None = None, n_jobs: int = 0, is_quiet: bool = False
) -> Executor:
    """The executor of that name; `n_jobs` processes run at once where they are local."""
    if name == "slurm":
        from fieldmark.experiments.cluster.executors.slurm import SlurmExecutor

        return SlurmExecutor(slurm or SlurmOptions())
    if name == "local":
        from fieldmark.experiments.cluster.executors.local import LocalExecutor

        return LocalExecutor(n_jobs)
    from fieldmark.experiments.cluster.executors.local import DebugExecutor

    return DebugExecutor(is_quiet=is_quiet)


def _judged(step: StepFolder, job: JobState | None) -> StepStatus:
    if step.is_finished:  # while the place was asked
        return _finished(step)
    reason = "" if job is None else job.reason
    if job is None or job.state == "gone":
        return StepStatus("silent" if step.has_worker else "lost", reason)
    if job.state == "unknown":
        return StepStatus("running" if step.progress else "pending", reason)
    return StepStatus(job.state, reason)


def _finished(step: StepFolder) -> StepStatus:
    return StepStatus("merged" if step.is_merged else "finished")


def recover_steps(steps: Sequence[StepFolder], executors: Executors) -> list[StepFolder]:
    """Finds out what became of steps whose launcher died while submitting them; those that nobody
    has. To be called under the launch lease: else they may be on their way.
    """
    orphans = [step for step in steps if not step.is_finished and step.job is None]
    for name in {step.record.executor for step in orphans}:
        executors[name].recover([step for step in orphans if step.record.executor == name])
    return [step for step in orphans if step.job is None and not step.has_worker]
