"""State of steps (queue, lease, result): is a step waiting, at work, finished or lost?

A step whose result is there is finished. Else it is alive while its place has it in its queue or
running, or while a worker holds its lease; else it is lost, and only a new step will do its work.
A place that does not answer (a scheduler that is being restarted) never makes a step lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fieldmark.experiments.cluster.board import StepFolder
from fieldmark.slurm.options import SlurmOptions

if TYPE_CHECKING:
    from fieldmark.experiments.cluster.places import JobState, Place

StepState = Literal["pending", "running", "silent", "unsubmitted", "lost", "finished", "merged"]


@dataclass(frozen=True, slots=True)
class StepStanding:
    """How a step stands now."""

    state: StepState
    """silent: its place does not have it any more, but its worker may live; unsubmitted: its
    launcher died, or is just submitting it"""
    reason: str = ""
    """why it waits, as its place puts it"""

    @property
    def is_alive(self) -> bool:
        return self.state in ("pending", "running", "silent")


class Places:
    """The places of steps, by name; made when they are first needed."""

    def __init__(self, *known: Place) -> None:
        self._places = {place.name: place for place in known}

    def __getitem__(self, name: str) -> Place:
        if name not in self._places:
            self._places[name] = make_place(name)
        return self._places[name]

    def standings(self, steps: Sequence[StepFolder]) -> dict[str, StepStanding]:
        """By id of step; each place is asked once."""
        standings: dict[str, StepStanding] = {}
        asked: dict[str, list[StepFolder]] = defaultdict(list)
        for step in steps:
            if step.is_finished:
                standings[step.id] = _finished(step)
            elif (job := step.job) is not None:
                asked[job.place].append(step)
            else:
                state: StepState = "running" if step.has_worker else "unsubmitted"
                standings[step.id] = StepStanding(state)
        for name, own in asked.items():
            states = self[name].states(own)
            for step in own:
                standings[step.id] = _judged(step, states.get(step.id))
        return standings

    def close(self) -> None:
        for place in self._places.values():
            place.close()


def make_place(
    name: str, slurm: SlurmOptions | None = None, n_jobs: int = 0, is_quiet: bool = False
) -> Place:
    """The place of that name; `n_jobs` is how many processes run at once where they are local."""
    if name == "slurm":
        from fieldmark.experiments.cluster.places.slurm import SlurmPlace

        return SlurmPlace(slurm or SlurmOptions())
    if name == "local":
        from fieldmark.experiments.cluster.places.local import LocalPlace

        return LocalPlace(n_jobs)
    from fieldmark.experiments.cluster.places.debug import DebugPlace

    return DebugPlace(is_quiet=is_quiet)


def _judged(step: StepFolder, job: JobState | None) -> StepStanding:
    if step.is_finished:  # while the place was asked
        return _finished(step)
    reason = "" if job is None else job.reason
    if job is None or job.state == "gone":
        return StepStanding("silent" if step.has_worker else "lost", reason)
    if job.state == "unknown":
        return StepStanding("running" if step.progress else "pending", reason)
    return StepStanding(job.state, reason)


def _finished(step: StepFolder) -> StepStanding:
    return StepStanding("merged" if step.is_merged else "finished")


def recover_steps(steps: Sequence[StepFolder], places: Places) -> list[StepFolder]:
    """Finds out what became of steps whose launcher died while submitting them; those that nobody
    has. To be called under the launch lease: else they may be on their way.
    """
    orphans = [step for step in steps if not step.is_finished and step.job is None]
    for name in {step.record.place for step in orphans}:
        places[name].recover([step for step in orphans if step.record.place == name])
    return [step for step in orphans if step.job is None and not step.has_worker]
