"""Executors (Slurm, local processes): what does a launcher ask of whatever runs its workers?

An executor is given folders of steps and starts one worker for each: `slurm.py` through sbatch,
`local.py` as processes of this machine or in the launcher itself. It notes the job of every step it
took. What a worker does and what came of it is no affair of an executor.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from fieldmark.experiments.cluster.job_folder import StepFolder
from fieldmark.experiments.cluster.steps import PlannedStep, StepRequest

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
    """How a step's job stands, as its executor sees it."""

    state: Literal["pending", "running", "gone", "unknown"]
    """gone: it ended, in whatever way. unknown: the executor does not answer"""
    reason: str = ""
    """why it waits, how it ended or where it runs, in the words of the executor"""

    @property
    def is_alive(self) -> bool:
        """Unknown counts: what may be running must not be started twice."""
        return self.state != "gone"


class Executor(Protocol):
    """Where workers run. One launcher at a time submits, under the lease `launch`."""

    name: str

    def submit(self, groups: Sequence[StepGroup]) -> None:
        """Starts, or queues, a worker for every step, and writes its job record. Groups stand
        after those they wait for. An error leaves the steps without one that were not taken.
        """

    def states(self, steps: Sequence[StepFolder]) -> dict[str, JobState]:
        """By step id. Steps without its job record are not asked for: gone."""

    def recover(self, steps: Sequence[StepFolder]) -> list[StepFolder]:
        """Looks for jobs of steps whose launcher died before it noted them, and notes them; the
        rest, which the executor does not know and which can be submitted again.
        """

    def cancel(self, steps: Sequence[StepFolder]) -> None:
        """Ends their workers, and takes those that wait out of the queue."""

    def close(self) -> None:
        """The launcher ends; workers go on."""


@dataclass(frozen=True, slots=True)
class _Groupable:
    """Of a step, what decides with which others it is submitted."""

    id: str
    kind: str
    request: StepRequest
    after: tuple[str, ...]


def group_steps(steps: Sequence[StepFolder]) -> list[StepGroup]:
    """Groups of steps as large as can be, those that are waited for first.

    Requests are rounded up, so that steps with nearly equal ones share a group. Where each step of
    many waits for exactly one, they are one group, pairwise after the group of those.
    """
    by_id = {step.id: step for step in steps}
    records = [(step.id, step.record) for step in steps]
    members = [_Groupable(id, r.kind, StepRequest(**r.request), r.after) for id, r in records]
    groups = []
    for (_, _, request, after, is_pairwise), alike in _group(members).items():
        folder = by_id[alike[0].id].path.parent
        ids = [member.after[0] for member in alike] if is_pairwise else after
        others = tuple(by_id.get(name) or StepFolder(folder / name) for name in ids)
        groups.append(
            StepGroup(tuple(by_id[member.id] for member in alike), request, others, is_pairwise)
        )
    return groups


def count_arrays(steps: Sequence[PlannedStep], longest: int) -> int:
    """How many arrays of at most `longest` jobs steps that are not submitted yet will be."""
    members = [
        _Groupable(str(number), step.kind, step.request, tuple(map(str, step.after)))
        for number, step in enumerate(steps)
    ]
    array_of: dict[str, int] = {}
    n_arrays = 0
    for (*_, is_pairwise), alike in _group(members).items():
        # tasks of an array wait pairwise for those of one array
        cuts = [
            array_of[m.after[0]] if is_pairwise else number // longest
            for number, m in enumerate(alike)
        ]
        numbers = {cut: n_arrays + n for n, cut in enumerate(dict.fromkeys(cuts))}
        array_of |= {m.id: numbers[cut] for m, cut in zip(alike, cuts, strict=True)}
        n_arrays += len(numbers)
    return n_arrays


def _group(members: Sequence[_Groupable]) -> dict[tuple[Any, ...], list[_Groupable]]:
    """By depth, kind, request, what comes before, and whether it does so pairwise."""
    ids = {member.id for member in members}
    depth: dict[str, int] = {}
    for member in members:  # those that are waited for stand before
        depth[member.id] = 1 + max((depth.get(other, 0) for other in member.after), default=0)
    n_waiting: dict[str, int] = defaultdict(int)
    groups: dict[tuple[Any, ...], list[_Groupable]] = defaultdict(list)
    group_of: dict[str, tuple[Any, ...]] = {}
    for member in sorted(members, key=lambda member: depth[member.id]):
        after, request = member.after, rounded(member.request)
        key: tuple[Any, ...] = (depth[member.id], member.kind, request, after, False)
        if len(after) == 1 and after[0] in ids:
            # the n-th step that waits for this one goes with the n-th ones of its neighbours
            n_waiting[after[0]] += 1
            key = (*key[:3], (group_of[after[0]], n_waiting[after[0]]), True)
        group_of[member.id] = key
        groups[key].append(member)
    return groups


def rounded(request: StepRequest) -> StepRequest:
    """The next larger of few: minutes and gigabytes go 1, 2, 3, 4, 6, 8, 12, 16, 24 …"""
    return replace(
        request,
        seconds=_next_step(request.seconds / 60) * 60.0,
        memory_bytes=_next_step(request.memory_bytes / (1 << 30)) << 30,
    )


def _next_step(least: float) -> int:
    if least <= 1:
        return 1
    power: int = 2 ** math.floor(math.log2(least))
    return next(step for step in (power, power * 3 // 2, power * 2) if step >= least)
