"""Places (executors): what does a launcher ask of whatever runs its workers?

A place is given folders of steps and starts one worker for each: `slurm.py` through sbatch,
`local.py` as processes of this machine, `debug.py` in the launcher itself. It writes `job.json` of
every step it took. What a worker does and what came of it is no affair of a place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from fieldmark.experiments.cluster.board import StepFolder
from fieldmark.experiments.cluster.steps import StepRequest

StepTaskClass = Callable[[str], Callable[[], Any]]
"""of the folder of a step a picklable function without arguments: `worker.StepTask`"""


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps that ask for the same and come after the same ones."""

    steps: tuple[StepFolder, ...]
    request: StepRequest
    after: tuple[StepFolder, ...] = ()
    """steps that must have ended before; they may be of earlier groups, or of another launch"""
    is_pairwise: bool = False
    """the first step comes after the first of `after`, the second after the second, …"""


@dataclass(frozen=True, slots=True)
class JobState:
    """How a step's job stands, as its place sees it."""

    state: Literal["pending", "running", "gone", "unknown"]
    """gone: it ended, in whatever way. unknown: the place does not answer"""
    reason: str = ""
    """why it waits, how it ended or where it runs, in the words of the place"""

    @property
    def is_alive(self) -> bool:
        """Unknown counts: what may be running must not be started twice."""
        return self.state != "gone"


class Place(Protocol):
    """Where workers run. One launcher at a time submits, under the launch lease of the board."""

    name: str

    def submit(self, groups: Sequence[StepGroup]) -> None:
        """Starts, or queues, a worker for every step, and writes its `job.json`. Groups stand
        after those they wait for. An error leaves the steps without one that were not taken.
        """

    def states(self, steps: Sequence[StepFolder]) -> dict[str, JobState]:
        """By step id. Steps without `job.json` are not asked for: gone."""

    def recover(self, steps: Sequence[StepFolder]) -> list[StepFolder]:
        """Looks for jobs of steps whose launcher died before it wrote `job.json`, and writes it;
        the rest, which the place does not know and which can be submitted again.
        """

    def cancel(self, steps: Sequence[StepFolder]) -> None:
        """Ends their workers, and takes those that wait out of the queue."""

    def close(self) -> None:
        """The launcher ends; workers go on."""


def group_steps(steps: Sequence[StepFolder]) -> list[StepGroup]:
    """Groups of steps as large as can be, those that are waited for first.

    Requests are rounded up, so that steps with nearly equal ones share a group. Where each step of
    many waits for exactly one, they are one group, pairwise after the group of those.
    """
    by_id = {step.id: step for step in steps}
    depth: dict[str, int] = {}
    for step in steps:  # those that are waited for stand before
        depth[step.id] = 1 + max((depth.get(other, 0) for other in step.record.after), default=0)
    n_waiting: dict[str, int] = defaultdict(int)
    keys: dict[tuple[Any, ...], list[StepFolder]] = defaultdict(list)
    group_of: dict[str, tuple[Any, ...]] = {}
    for step in sorted(steps, key=lambda step: depth[step.id]):
        after, request = step.record.after, rounded(StepRequest(**step.record.request))
        key: tuple[Any, ...] = (depth[step.id], step.record.kind, request, after, False)
        if len(after) == 1 and after[0] in by_id:
            # the n-th step that waits for this one goes with the n-th ones of its neighbours
            n_waiting[after[0]] += 1
            key = (*key[:3], (group_of[after[0]], n_waiting[after[0]]), True)
        group_of[step.id] = key
        keys[key].append(step)
    groups = []
    for (_, _, request, after, is_pairwise), members in keys.items():
        ids = [step.record.after[0] for step in members] if is_pairwise else after
        folder = members[0].path.parent
        others = tuple(by_id.get(name) or StepFolder(folder / name) for name in ids)
        groups.append(StepGroup(tuple(members), request, others, is_pairwise))
    return groups


def rounded(request: StepRequest) -> StepRequest:
    """The next larger of few: minutes and gigabytes go 1, 2, 3, 4, 6, 8, 12, 16, 24 …"""
    return replace(
        request,
        seconds=_next_step(request.seconds / 60) * 60.0,
        memory_bytes=_next_step(request.memory_bytes / (1 << 30)) << 30,
    )


def _next_step(wanted: float) -> int:
    if wanted <= 1:
        return 1
    power: int = 2 ** math.floor(math.log2(wanted))
    return next(step for step in (power, power * 3 // 2, power * 2) if step >= wanted)
