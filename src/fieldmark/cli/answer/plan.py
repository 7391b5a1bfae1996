"""Show what `run` would do: jobs, time, disk, cost, power. It changes nothing.

With --on slurm, or a table [slurm] in the file, it shows the steps that would be submitted, and
the time, memory, CPUs and GPUs of each, estimated from earlier runs.

Power is the smallest difference between two models that the planned test photos would show.

examples:
  fieldmark plan grid.toml
  fieldmark plan grid.toml --on slurm
  fieldmark plan --model classical/colour --model timm/resnet18 --task newt --n-train 10 30 -1
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from fieldmark.cli import grid_flags
from fieldmark.cli.grid_flags import (
    PlaceFlags,
    Where,
    read_jobs,
    settings_on,
    step_options,
    with_protocol_flags,
)
from fieldmark.cli.show import (
    counted,
    print_json,
    show,
    show_rows,
    show_sentence,
    size,
    talk,
)
from fieldmark.errors import MissingExtra, readable
from fieldmark.progress import duration
from fieldmark.words import first_few

if TYPE_CHECKING:
    from pathlib import Path

    from fieldmark.chat import Budget, Estimate
    from fieldmark.experiments import Grid, Plan
    from fieldmark.experiments.cluster import PlannedStep
    from fieldmark.protocols import Draw
    from fieldmark.settings import Settings

FIRST_FLAGS = (*grid_flags.FIRST_FLAGS, "json")


@dataclass(frozen=True, slots=True)
class PlanFlags(PlaceFlags):
    run_code: bool = False
    """run the code of tasks (!function, file.py:NAME) too, to plan what depends on it"""
    json: bool = False
    """print JSON"""


def make_args() -> type:
    return with_protocol_flags("PlanArgs", PlanFlags)


def run(args: PlanFlags) -> int:
    from fieldmark.registry import without_code

    with nullcontext() if args.run_code else without_code():
        return _show(args)


def _job_rows(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "model": planned.job.model,
            "task": planned.job.task_name,
            "protocol": planned.job.protocol,
            "label": planned.job.label,
            "n_train": planned.job.draw.n_train,
            "seed": planned.job.draw.seed,
            "status": planned.status,
            "images": planned.n_images,
            "to embed": planned.n_missing,
            "requests": planned.cost.n if planned.cost else 0,
            "usd": _usd(planned.cost),
            "why": readable(planned.why) or _about(planned.cost),
        }
        for planned in plan.jobs
    ]


def _show(args: PlanFlags) -> int:
    from fieldmark.experiments import make_plan

    grid, settings = read_jobs(args)
    where = args.where(grid)
    settings = settings_on(where, grid, settings)
    plan = make_plan(grid.jobs, settings, args.force)
    steps = None if where == "here" else plan_steps(plan, grid, where)
    rows = _job_rows(plan)
    power = _power(plan, settings)
    missing = [job.error for job in plan.jobs if isinstance(job.error, MissingExtra)]
    code = MissingExtra.exit_code if missing and len(missing) == len(plan.jobs) else 0
    if args.json:
        print_json(
            {
                "jobs": rows,
                "seconds": plan.seconds,
                "bytes": plan.n_bytes,
                "cost": None if plan.cost is None else asdict(plan.cost),
                "power": power,
                "notes": list(grid.notes),
                "steps": None if steps is None else steps.plain(),
                "n_arrays": None if steps is None else steps.n_arrays,
            }
        )
        return code
    _show_jobs(rows, plan)
    _show_power(power)
    for note in grid.notes:
        talk(note)
    counts = Counter(planned.status for planned in plan.jobs)
    talk(
        f"{counted(len(plan.jobs), 'job')}: "
        + " · ".join(f"{n} {'to run' if s == 'run' else s}" for s, n in counts.items())
    )
    if plan.to_run:
        _show_totals(plan, settings)
    if steps is not None:
        _show_steps(steps)
    return code


def _show_jobs(rows: Sequence[Mapping[str, Any]], plan: Plan) -> None:
    without = ("label", "why", *(() if plan.cost else ("requests", "usd")))
    shown = [
        {**row, "protocol": row["label"] or row["protocol"], "n_train": _n_train(planned.job.draw)}
        for row, planned in zip(rows, plan.jobs, strict=True)
    ]
    shown = [{k: v for k, v in row.items() if k not in without} for row in shown]
    numbers = ("n_train", "seed", "images", "to embed", "requests", "usd")
    show_rows(shown, False, numbers, ("seed", "images", "requests", "n_train", "to embed"))
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["why"] and row["status"] != "done":  # a finished run needs no reason
            job = f"{row['model']} · {row['task']}"
            reasons.setdefault((row["status"], row["why"]), []).append(job)
    for (status, why), same in reasons.items():
        jobs = first_few(list(dict.fromkeys(same)), between="; ")
        show_sentence(f"{status} ({jobs}): {why}")


def _show_totals(plan: Plan, settings: Settings) -> None:
    """Cost, time and disk of what would run."""
    from fieldmark.experiments import disk_left

    took = "unknown until a similar run has finished"
    if plan.seconds is not None:
        took = f"about {duration(plan.seconds)}, estimated from finished runs"
    disk = (
        "unknown until the models have been loaded once"
        if plan.n_bytes is None
        else size(plan.n_bytes)
    )
    if plan.cost is not None:
        talk(_cost(plan.cost, _budget(plan), settings.journal))
    talk(f"time: {took}. features to write: {disk} ({size(disk_left(settings))} free).")


def _show_steps(steps: PlannedSteps) -> None:
    if steps.steps:
        show("")
        show_rows(steps.rows(), False, right=("#", "steps"))
    arrays = f" in {counted(steps.n_arrays, 'job array')}" if steps.n_arrays else ""
    talk(f"{counted(len(steps.steps), 'step')} on {steps.where}{arrays}.")
    if steps.n_taken:
        talk(f"{counted(steps.n_taken, 'run')} left out: an earlier command is running them.")


def _n_train(draw: Draw) -> str:
    if draw.shots:
        return f"{draw.shots} per class"
    return "all" if draw.n_train < 0 else str(draw.n_train)


def _usd(cost: Estimate | None) -> str:
    if cost is None:
        return ""
    return "unknown" if cost.usd is None else f"{cost.usd:.4f}"


def _about(cost: Estimate | None) -> str:
    """A dated id has the price and limits of its family; not every example may fit."""
    if cost is None:
        return ""
    priced = f"priced as {cost.priced_as}" if cost.priced_as else ""
    return "; ".join(filter(None, [priced, cost.fewer_examples]))


def _budget(plan: Plan) -> Budget:
    """The limits of the command."""
    from fieldmark.chat import Budget

    questions = [job.question for job in plan.to_run if job.cost is not None]
    settings = questions[0].settings if questions and questions[0] is not None else Budget()
    return Budget(settings.max_usd, settings.max_tokens)


def _cost(cost: Estimate, budget: Budget, journal: Path) -> str:
    from fieldmark.chat import dollars, spent_usd
    from fieldmark.chat.budget import Cost

    money = "price unknown" if cost.usd is None else f"at most about {dollars(cost.usd)}"
    if cost.likely_usd:
        money += f", likely about {dollars(cost.likely_usd)}"
    lines = [
        f"chat: {counted(cost.n, 'request')}, about {cost.tokens_in:,} tokens in and at most "
        f"{cost.tokens_out:,} out, {money}. Stored answers cost nothing."
    ]
    if before := spent_usd(journal):
        lines.append(f"All answers so far cost {dollars(before)}.")
    limits = [dollars(budget.max_usd)] if budget.max_usd is not None else []
    limits += [f"{budget.max_tokens:,} tokens"] if budget.max_tokens is not None else []
    if not limits:
        flags = "`--max-usd X` sets one."
        if cost.usd is None:
            flags = "`--max-tokens N` sets one, or `--max-usd X` with `--price IN/OUT`."
        lines.append(f"limit: none. {flags}")
    elif budget.fits(Cost(cost.tokens_in, cost.tokens_out, cost.usd)):
        lines.append(f"limit: {' and '.join(limits)}, which is enough.")
    else:
        lines.append(
            f"limit: {' and '.join(limits)} for each command. `run` stops there; the same command "
            "continues."
        )
    return "\n".join(lines)


def _power(plan: Plan, settings: Settings) -> list[dict[str, Any]]:
    """What difference between two models each task's test items would show."""
    from fieldmark.experiments import planned_tests
    from fieldmark.report import measured_spread
    from fieldmark.store import RunFilter, Store

    rows = []
    with Store.open(settings.store, read_only=True) as store:
        done = store.runs(RunFilter(states=("done",)))
        for test in planned_tests(plan):
            measured = measured_spread(store, done, test.spec, test.n_units)
            spread = measured.spread if measured else test.assumed
            visible = spread.detectable(test.n_units) if spread else math.inf
            is_fraction = measured.is_fraction if measured else True
            rows.append(
                {
                    "task": test.spec.task_name,
                    "protocol": test.spec.protocol.partition("/")[0],
                    "metric": test.metric,
                    "items": test.n,
                    "units": test.n_units,
                    "detectable_difference": visible
                    if visible < (1 if is_fraction else math.inf)
                    else None,
                    "is_fraction": is_fraction,
                    "basis": measured.words if measured else "assumed" if spread else "unknown",
                }
            )
    return rows


def _show_power(power: Sequence[Mapping[str, Any]]) -> None:
    from fieldmark.stats import CORRELATION, DISAGREEMENT

    if not power:
        return
    show("")
    numbers = ("photos", "units", "detectable difference")
    show_rows([_power_row(row) for row in power], False, numbers, ("metric",))
    talk(
        "detectable difference: two models must differ by this many points to be told apart 4 "
        "times in 5 with these test photos. Differences between training samples count only "
        "where --repeats measured them."
    )
    if any(row["basis"] == "assumed" for row in power):
        talk(
            "assumed: only one of the two models is right on "
            f"{100 * DISAGREEMENT:g} % of photos, with a correlation of {CORRELATION} among "
            "photos of one burst, camera or animal (a unit). Once two models have run, their "
            "answers are used instead."
        )


def _power_row(row: Mapping[str, Any]) -> dict[str, Any]:
    visible, scale = row["detectable_difference"], 100 if row["is_fraction"] else 1
    return {
        "task": row["task"],
        "protocol": row["protocol"],
        "metric": row["metric"],
        "photos": row["items"],
        "units": row["units"],
        "detectable difference": "none" if visible is None else f"{scale * visible:.1f}",
        "basis": row["basis"],
    }


# --- Steps of a plan (job arrays, resource requests): what would be submitted, and how is it
# shown?


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
                "each requests": describe_request(request),
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
    from fieldmark.slurm import SlurmOptions

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
    first_step, n = steps[0], len(steps)
    if n == 1:
        return first_step.title
    if first_step.kind == "embed":
        return _unsharded(first_step)
    n_runs = sum(len(step.work.names) for step in steps)
    return f"{', '.join(first_step.work.models)}: {n_runs:,} runs"


def _unsharded(step: PlannedStep) -> str:
    index, n_shards = step.work.shard
    return step.title.removesuffix(f", {index + 1} of {n_shards}")
