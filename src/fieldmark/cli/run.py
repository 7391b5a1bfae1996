"""Run models on tasks. The same command again goes on where it stopped.

examples:
  fieldmark run grid.toml
  fieldmark run --model classical/colour --task beluga --data beluga=/data/beluga
  fieldmark run --model my_model.py:MyBackbone --task newt/behavior --n-train 10 30 -1
  fieldmark run --model chat/openrouter/openai/gpt-4o-mini --task newt --n-train 0 3 --max-usd 5
"""

from __future__ import annotations

import shlex
import sys

from fieldmark.cli._grid_flags import GridFlags, read_jobs
from fieldmark.cli._outcome import end, refuse_if_none_can_run, skips
from fieldmark.cli._protocol_flags import with_protocol_flags
from fieldmark.cli._show import counted, talk


def make_args() -> type:
    return with_protocol_flags("RunArgs", GridFlags)


def run(args: GridFlags) -> int:
    from fieldmark.experiments import How, execute, make_plan
    from fieldmark.progress import for_people

    grid, settings = read_jobs(args)
    plan = make_plan(grid.jobs, settings, args.force, may_load=True)
    refuse_if_none_can_run(plan)
    if not args.common.quiet:
        for note in (*grid.notes, *skips(plan)):
            talk(note)
    command = ["fieldmark", *sys.argv[1:]]
    with for_people(args.common.quiet) as progress:
        outcome = execute(plan, settings, progress, How(command, args.force))
    n_before = sum(job.status == "done" for job in plan.jobs)
    if not args.common.quiet and (outcome.n_done or n_before):
        done = counted(outcome.n_done, "run")
        talk(f"{done} finished, {n_before} done before: {settings.store}")
        for line in outcome.last_words:
            talk(line)
        talk(f"next: fieldmark table --results {shlex.quote(str(settings.results))}")
    end(plan, outcome, args.common.debug)
    return 0
