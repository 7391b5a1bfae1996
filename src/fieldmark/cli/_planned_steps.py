"""Steps of a plan (job arrays, resource requests): what would be submitted, and how is it shown?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from fieldmark.cli._grid_flags import Where, step_options

if TYPE_CHECKING:
    from fieldmark.experiments import Grid, Plan
    from fieldmark.experiments.cluster import PlannedStep
    from fieldmark.settings import Settings


@dataclass(frozen=True, slots=True)
class PlannedSteps:
    """What `run` would submit there."""

    where: Where
    steps: Sequence[PlannedStep]
    n_arrays: int
    """calls of sbatch; 0 where the place is no Slurm"""
    n_taken: int
    """runs that steps on the job folder do already"""

    def plain(self) -> list[dict[str, Any]]:
        """All steps, as JSON values; `after` counts from 0."""
        return [
            {
                "kind": step.kind,
                "title": step.title,
                "runs": [] if step.kind == "embed" else [job.title for job in step.work.jobs],
                "after": list(step.after),
                "request": asdict(step.request),
            }
            for step in self.steps
        ]

    def rows(self) -> list[dict[str, Any]]:
        """What fits on a screen: steps of a kind that ask for the same are one row."""
        from fieldmark.experiments.cluster import describe_request

        rows: dict[tuple[Any, ...], list[int]] = {}
        for one, step in enumerate(self.steps):
            what = _unsharded(step) if step.kind == "embed" else tuple(step.work.models)
            key = (step.kind, what, step.after, step.request)
            rows.setdefault(key, []).append(one)
        number = {one: n for n, numbers in enumerate(rows.values(), 1) for one in numbers}
        return [
            {
                "#": n,
                "kind": kind,
                "what": _title([self.steps[one] for one in numbers]),
                "steps": len(numbers),
                "after": ", ".join(dict.fromkeys(str(number[other]) for other in after)),
                "each asks for": describe_request(request),
            }
            for n, ((kind, _, after, request), numbers) in enumerate(rows.items(), 1)
        ]


def plan_steps(plan: Plan, grid: Grid, where: Where) -> PlannedSteps:
    """Cuts the plan as `run` does; asks Slurm for no more than how long an array may be."""
    from fieldmark.experiments.cluster import make_steps
    from fieldmark.experiments.cluster.executors import count_arrays, rounded

    taken = _taken(plan.workspace.settings)
    steps = make_steps(plan, replace(step_options(grid), leave_out=taken))
    n_taken = len(plan.to_run) - sum(len(step.work.names) for step in steps)
    if where != "slurm":
        return PlannedSteps(where, steps, 0, n_taken)
    from fieldmark.experiments.cluster.executors.slurm import SlurmExecutor, asked
    from fieldmark.slurm.options import SlurmOptions

    options = grid.slurm or SlurmOptions()
    n_arrays = count_arrays(steps, SlurmExecutor(options).longest)
    steps = [replace(step, request=asked(rounded(step.request), options)) for step in steps]
    return PlannedSteps(where, steps, n_arrays, n_taken)


def _taken(settings: Settings) -> frozenset[str]:
    """Names of runs that living steps do, or whose results wait to be taken over."""
    from fieldmark.experiments.cluster import Executors, JobFolder

    steps = [step for step in JobFolder(settings.results).steps() if not step.is_merged]
    statuses = Executors().statuses(steps)
    kept = [s for s in steps if statuses[s.id].is_alive or statuses[s.id].state == "finished"]
    return frozenset(name for step in kept for name in step.record.names)


def _title(steps: Sequence[PlannedStep]) -> str:
    """Of several steps: what all of them do together."""
    first, n = steps[0], len(steps)
    if n == 1:
        return first.title
    if first.kind == "embed":
        return _unsharded(first)
    n_runs = sum(len(step.work.names) for step in steps)
    return f"{', '.join(first.work.models)}: {n_runs:,} runs"


def _unsharded(step: PlannedStep) -> str:
    index, n_shards = step.work.shard
    return step.title.removesuffix(f", {index + 1} of {n_shards}")
