"""Show what a run would do: jobs, which are skipped and why, time, disk, cost. Changes nothing.

examples:
  fieldmark plan grid.toml
  fieldmark plan --model classical/colour --model timm/resnet18 --task newt --n-train 10 30 -1
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from fieldmark.cli._grid_flags import GridFlags, read_jobs, with_protocol_flags
from fieldmark.cli._show import counted, print_json, show_rows, size, talk
from fieldmark.progress import duration

if TYPE_CHECKING:
    from fieldmark.chat import Estimate


@dataclass(frozen=True, slots=True)
class PlanFlags(GridFlags):
    json: bool = False
    """print JSON"""


def make_args() -> type:
    return with_protocol_flags("PlanArgs", PlanFlags)


def run(args: PlanFlags) -> int:
    from fieldmark.experiments import disk_left, make_plan

    grid, settings = read_jobs(args)
    plan = make_plan(grid.jobs, settings, args.force)
    rows = [
        {
            "model": planned.job.model,
            "task": planned.job.task_name,
            "protocol": planned.job.protocol,
            "n_train": planned.job.draw.n_train,
            "seed": planned.job.draw.seed,
            "status": planned.status,
            "images": planned.n_images,
            "to embed": planned.n_missing,
            "requests": planned.cost.n if planned.cost else 0,
            "usd": _usd(planned.cost),
            "why": planned.why,
        }
        for planned in plan.jobs
    ]
    if args.json:
        print_json(
            {
                "jobs": rows,
                "seconds": plan.seconds,
                "bytes": plan.n_bytes,
                "cost": None if plan.cost is None else asdict(plan.cost),
                "notes": list(grid.notes),
            }
        )
        return 0
    if plan.cost is None:
        rows = [{k: v for k, v in row.items() if k not in ("requests", "usd")} for row in rows]
    show_rows(rows, False, right=("n_train", "seed", "images", "to embed", "requests", "usd"))
    for note in grid.notes:
        talk(note)
    counts = Counter(planned.status for planned in plan.jobs)
    talk(
        f"{counted(len(plan.jobs), 'job')}: "
        + " · ".join(f"{n} {'to run' if s == 'run' else s}" for s, n in counts.items())
    )
    if plan.to_run:
        took = "unknown until a similar run has finished"
        if plan.seconds is not None:
            took = f"about {duration(plan.seconds)}, estimated from finished runs"
        disk = (
            "unknown until the models have been loaded once"
            if plan.n_bytes is None
            else size(plan.n_bytes)
        )
        if plan.cost is not None:
            talk(_cost(plan.cost))
        talk(f"time: {took}. features to write: {disk} ({size(disk_left(settings))} free).")
    return 0


def _usd(cost: Estimate | None) -> str:
    if cost is None:
        return ""
    return "unknown" if cost.usd is None else f"{cost.usd:.4f}"


def _cost(cost: Estimate) -> str:
    money = "price unknown" if cost.usd is None else f"at most about ${cost.usd:.2f}"
    return (
        f"chat: {counted(cost.n, 'request')}, about {cost.tokens_in:,} tokens in and at most "
        f"{cost.tokens_out:,} out, {money} (stored answers cost nothing; --max-usd sets a limit)."
    )
