"""Steps of a plan (partition of the work): which process does what, after which other, and what
does it need for that?

Per model and folder of images: steps that embed a shard of them, then steps that do runs. Nothing
is read or written here.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from fieldmark import draws
from fieldmark.experiments.cluster.work import StepKind, StepWork
from fieldmark.experiments.identity import complete, place_of
from fieldmark.experiments.plan import Plan, Planned


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How a plan is cut into steps; none of it changes an answer."""

    command: Sequence[str] = ()
    force: bool = False
    leave_out: Collection[str] = ()
    """names of runs that other steps are on"""
    contents: Sequence[Path] = ()
    """snapshots of what the images hold"""
    n_shards: int = 0
    """embedding steps per model and folder; 0 = by the number of images"""
    gpus: int = 0
    """of a step that embeds"""
    cpus: int = 0
    """of a step; 0 = a few"""
    memory_bytes: int = 0
    """of a step; 0 = as past runs needed"""
    seconds: float = 0.0
    """the longest a step may take; 0 = no limit is known"""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What a step asks of the machine."""

    seconds: float
    memory_bytes: int
    cpus: int
    gpus: int


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step to be submitted."""

    kind: StepKind
    work: StepWork
    after: tuple[int, ...]
    """places, in the list of steps, of those that must be finished"""
    request: StepRequest
    title: str


def run_name(plan: Plan, planned: Planned) -> str:
    """What a run is called on the board, before what its images hold is known."""
    assert planned.prepared is not None
    version = plan.models.identity(planned.job.model).version
    outline = complete(planned.prepared.outline, version)
    return draws.digest("run", outline.key, place_of(planned.prepared.root)).hex()


def make_steps(plan: Plan, options: StepOptions) -> list[PlannedStep]:
    """The steps of all runs that are to be done; one comes after those it waits for."""
    settings = plan.workspace.settings
    steps: list[PlannedStep] = []
    for planned in plan.to_run:
        name = run_name(plan, planned)
        if name in options.leave_out:
            continue
        request = StepRequest(3600.0, 8 << 30, options.cpus or 2, options.gpus)
        embed = StepWork(
            "embed", (planned.job,), settings, contents=tuple(options.contents),
            command=tuple(options.command), folder=os.getcwd(),  # noqa: PTH109
        )  # fmt: skip
        steps.append(PlannedStep("embed", embed, (), request, f"embed {planned.job.title}"))
        runs = dataclasses.replace(embed, kind="runs", names=(name,), force=options.force)
        steps.append(PlannedStep("runs", runs, (len(steps) - 1,), request, planned.job.title))
    return steps
