"""Run models on tasks. The same command again continues where it stopped.

examples:
  fieldmark run grid.toml
  fieldmark run --model classical/colour --task beluga --data beluga=/data/beluga
  fieldmark run --model my_model.py:MyBackbone --task newt/behavior --n-train 10 30 -1
  fieldmark run --model chat/openrouter/openai/gpt-4o-mini --task newt --n-train 0 3 --max-usd 5
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from fieldmark.cli._grid_flags import GridFlags, read_jobs, with_protocol_flags
from fieldmark.cli._show import counted, show_rows, talk
from fieldmark.errors import FieldmarkError, RunsFailed, join_problems

if TYPE_CHECKING:
    from fieldmark.experiments import Outcome, Plan


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
        n_gappy = outcome.gaps.n_runs
        gappy = f" ({n_gappy} with gaps)" if n_gappy else ""
        talk(f"{done} finished, {n_before} done before{gappy}: {settings.store}")
        for line in outcome.last_words:
            talk(line)
        talk(f"next: fieldmark table --results {shlex.quote(str(settings.results))}")
    end(plan, outcome, args.common.debug)
    return 0


def refuse_if_none_can_run(plan: Plan) -> None:
    """Raises why, before anything is made, when no job can run and none is done."""
    errors = [planned.error for planned in plan.jobs if planned.error is not None]
    if not errors or len(errors) < len(plan.jobs):
        return
    refusal = FieldmarkError(join_problems(list(dict.fromkeys(map(str, errors)))))
    refusal.exit_code = errors[0].exit_code
    raise refusal


def skips(plan: Plan) -> list[str]:
    """A line for every job that will not run, and for every one with something to know about it."""
    lines = []
    for planned in plan.jobs:
        if planned.why and planned.status != "done":
            state = "" if planned.status == "run" else f"skipped ({planned.status}): "
            lines.append(f"{state}{planned.job.title}: {planned.why}")
    return lines


def end(plan: Plan, outcome: Outcome, debug: bool = False) -> None:
    """Shows the failures and raises what the shell must see; does nothing when all went well."""
    if outcome.failures:
        if debug:
            talk("".join(failure.trace for failure in outcome.failures))
        if len(plan.jobs) > 1:
            rows = [{"run": failure.title, "error": failure.error} for failure in outcome.failures]
            show_rows(rows, False)
        if outcome.gaps.n_gaps:
            talk(outcome.gaps.line)
        outcome.raise_if_failed()
    n_claimed = outcome.n_claimed + sum(planned.status == "claimed" for planned in plan.jobs)
    if n_claimed:
        raise RunsFailed(
            f"{n_claimed} of {len(plan.jobs)} runs were skipped, because other processes are "
            "running them: `fieldmark runs ls` shows them, `fieldmark runs free` frees one whose "
            "process has ended."
        )
    if outcome.gaps.n_gaps:
        raise RunsFailed(outcome.gaps.line)
    n_skipped = sum(planned.error is not None for planned in plan.jobs)
    if n_skipped:
        raise RunsFailed(f"{n_skipped} of {len(plan.jobs)} runs could not be started.")
