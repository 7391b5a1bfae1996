"""Run models on tasks. The same command again goes on where it stopped.

examples:
  fieldmark run grid.toml
  fieldmark run --model classical/colour --task beluga --data beluga=/data/beluga
  fieldmark run --model my_model.py:MyBackbone --task newt/behavior --n-train 10 30 -1
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fieldmark.cli._grid_flags import GridFlags, read_jobs
from fieldmark.cli._show import show_rows, talk

if TYPE_CHECKING:
    from fieldmark.experiments import Plan, Planned


Args = GridFlags


def run(args: Args) -> int:
    from fieldmark.experiments import execute, make_plan
    from fieldmark.progress import for_people

    grid, settings = read_jobs(args)
    plan = make_plan(grid.jobs, settings, args.force)
    if not args.common.quiet:
        for note in (*grid.notes, *_skips(plan)):
            talk(note)
    with for_people(args.common.quiet) as progress:
        outcome = execute(plan, settings, progress, ["fieldmark", *sys.argv[1:]], args.force)
    if outcome.failures:
        rows = [{"run": each.title, "error": each.error} for each in outcome.failures]
        show_rows(rows, False)
    skipped = [each for each in plan.jobs if each.status in ("no data", "refused")]
    if not args.common.quiet:
        done = sum(each.status == "done" for each in plan.jobs)
        talk(f"{outcome.n_done} runs finished, {done} were done before. Results: {settings.store}")
        talk(f"next: fieldmark table --results {settings.results}")
    outcome.raise_if_failed()
    _raise_if_nothing(plan, skipped)
    return 0


def _skips(plan: Plan) -> list[str]:
    return [
        f"skipped ({each.status}): {each.job.title}: {each.why}"
        if each.status != "run"
        else f"{each.job.title}: {each.why}"
        for each in plan.jobs
        if each.why and each.status != "done"
    ]


def _raise_if_nothing(plan: Plan, skipped: list[Planned]) -> None:
    """A command that could do none of what was asked must not end as a success."""
    from fieldmark.errors import DataError, RunsFailed, UsageError

    if not skipped:
        return
    if len(skipped) < len(plan.jobs):
        raise RunsFailed(f"{len(skipped)} of {len(plan.jobs)} runs could not be started.")
    kind = DataError if any(each.status == "no data" for each in skipped) else UsageError
    raise kind(skipped[0].why)
