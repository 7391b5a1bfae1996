"""Show what a run would do: jobs, why each is skipped, time and disk. Changes nothing.

examples:
  fieldmark plan grid.toml
  fieldmark plan --model classical/colour --model timm/resnet18 --task newt --n-train 10 30 -1
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fieldmark.cli._grid_flags import GridFlags, read_jobs
from fieldmark.cli._show import counted, print_json, show_rows, size, talk
from fieldmark.progress import duration


@dataclass(frozen=True, slots=True)
class Args(GridFlags):
    json: bool = False
    """print JSON"""


def run(args: Args) -> int:
    from fieldmark.experiments import disk_left, make_plan

    grid, settings = read_jobs(args)
    plan = make_plan(grid.jobs, settings, args.force)
    rows = [
        {
            "model": each.job.model,
            "task": each.job.task_name,
            "n_train": each.job.draw.n_train,
            "seed": each.job.draw.seed,
            "status": each.status,
            "images": each.n_images,
            "to embed": each.n_missing,
            "why": each.why,
        }
        for each in plan.jobs
    ]
    if args.json:
        print_json(
            {
                "jobs": rows,
                "seconds": plan.seconds,
                "bytes": plan.n_bytes,
                "notes": list(grid.notes),
            }
        )
        return 0
    show_rows(rows, False, right=("n_train", "seed", "images", "to embed"))
    for note in grid.notes:
        talk(note)
    counts = Counter(each.status for each in plan.jobs)
    talk(
        f"{counted(len(plan.jobs), 'job')}: "
        + " · ".join(f"{n} {'to run' if s == 'run' else s}" for s, n in counts.items())
    )
    if plan.to_run:
        took = "not known before a run like it is finished"
        if plan.seconds is not None:
            took = f"about {duration(plan.seconds)}, judged by finished runs"
        disk = (
            "not known before the models are loaded once"
            if plan.n_bytes is None
            else size(plan.n_bytes)
        )
        talk(f"time: {took}. features to write: {disk} ({size(disk_left(settings))} free).")
    return 0
