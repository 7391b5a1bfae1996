"""Run models on tasks. Run the same command again to continue where it stopped.

examples:
  fieldmark run grid.toml
  fieldmark run --model classical/colour --task beluga --data beluga=/data/beluga
  fieldmark run --model my_model.py:MyBackbone --task newt/behavior --n-train 10 30 -1
  fieldmark run grid.toml --on local --jobs 4
  fieldmark run grid.toml --on slurm --detach
  fieldmark run --model chat/openrouter/openai/gpt-4o-mini --task newt --n-train 0 3 --max-usd 5
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from fieldmark.cli import grid_flags
from fieldmark.cli.flags import check_least
from fieldmark.cli.grid_flags import (
    PlaceFlags,
    Where,
    read_jobs,
    settings_on,
    step_options,
    with_protocol_flags,
)
from fieldmark.cli.show import counted, screen_width, show, show_rows, show_sentence, talk
from fieldmark.errors import FieldmarkError, RunsFailed, UsageError, join_problems

if TYPE_CHECKING:
    from fieldmark.experiments import Grid, Outcome, Plan
    from fieldmark.settings import Settings

FIRST_FLAGS = (*grid_flags.FIRST_FLAGS, "jobs", "quiet")


@dataclass(frozen=True, slots=True)
class RunFlags(PlaceFlags):
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """processes at once with --on local [one per GPU, or a few on a machine without]"""
    detach: bool = False
    """with --on slurm: end once all is submitted; run the same command to wait for the results"""


def make_args() -> type:
    return with_protocol_flags("RunArgs", RunFlags)


def run(args: RunFlags) -> int:
    from fieldmark.experiments import ExecuteOptions, execute, make_plan, wait_for_claims
    from fieldmark.progress import for_people

    grid, settings = read_jobs(args)
    where = args.where(grid)
    if args.jobs is not None and where != "local":
        raise UsageError(f"--jobs {args.jobs} works only with --on local.")
    check_least("--jobs", 1 if args.jobs is None else args.jobs, 1)
    if args.detach and where != "slurm":
        raise UsageError("--detach works only with --on slurm.")
    if where != "here":
        return _run_elsewhere(args, where, grid, settings)
    plan = make_plan(grid.jobs, settings, args.force, may_load=True)
    with for_people(args.common.quiet) as progress:
        is_changed = wait_for_claims(plan, settings, progress)
    if is_changed:
        plan = make_plan(grid.jobs, settings, args.force, may_load=True)
    refuse_if_none_can_run(plan)
    _show_notes(args, grid, plan)
    command = ["fieldmark", *sys.argv[1:]]
    with for_people(args.common.quiet) as progress:
        outcome = execute(plan, settings, progress, ExecuteOptions(command, args.force))
    _show_end(args, plan, outcome, settings)
    return 0


def _run_elsewhere(args: RunFlags, where: Where, grid: Grid, settings: Settings) -> int:
    from fieldmark.experiments import ExecuteOptions, make_plan
    from fieldmark.experiments.cluster import make_executor
    from fieldmark.experiments.cluster.launch import LaunchOptions, launch, merge_finished
    from fieldmark.progress import for_people

    settings = settings_on(where, grid, settings)
    executor = make_executor(where, grid.slurm, args.jobs or 0, args.common.quiet)
    with for_people(args.common.quiet) as progress:
        before = merge_finished(settings, progress)
    plan = make_plan(grid.jobs, settings, args.force, may_load=True)
    refuse_if_none_can_run(plan)
    _show_notes(args, grid, plan)
    how = ExecuteOptions(["fieldmark", *sys.argv[1:]], args.force)
    options = LaunchOptions(args.detach, before, step_options(grid))
    results = shlex.quote(str(settings.results))
    try:
        with for_people(args.common.quiet) as progress, contextlib.closing(executor):
            outcome = launch(plan, settings, executor, how, options, progress)
    except KeyboardInterrupt:
        if where != "slurm":  # its steps end with it
            raise
        talk(
            "interrupted: steps that were submitted continue. Run the same command to wait for "
            f"them and fetch their results; `fieldmark jobs --results {results}` shows them."
        )
        talk(f"to end them: fieldmark jobs cancel --all --results {results}")
        return 130
    if args.detach:
        talk(
            "the steps continue by themselves. Run the same command to wait for them and fetch "
            f"their results; `fieldmark jobs --results {results}` shows them."
        )
        return 0
    _show_end(args, plan, outcome, settings)
    return 0


def _show_notes(args: RunFlags, grid: Grid, plan: Plan) -> None:
    if not args.common.quiet:
        for note in (*grid.notes, *skips(plan)):
            talk(note)


def _show_end(args: RunFlags, plan: Plan, outcome: Outcome, settings: Settings) -> None:
    n_before = sum(job.status == "done" for job in plan.jobs)
    if not args.common.quiet and (outcome.n_done or n_before):
        from fieldmark.experiments.warn import data_warnings

        done = counted(outcome.n_done, "run")
        before = f", {n_before} done before" if n_before or not outcome.gaps.n_gaps else ""
        gaps = f"{outcome.gaps.n_gaps:,} of {outcome.gaps.n:,} questions have no answer"
        gappy = f"; {gaps}" if outcome.gaps.n_gaps else ""
        talk(f"{done} finished{before}{gappy}: {settings.store}")
        for line in data_warnings(plan):
            talk(line)
        show_scores(plan, outcome, settings)
    if not args.common.quiet:
        for line in outcome.closing_lines:
            talk(line)
    end(plan, outcome, args.common.debug)


MOST_SCORES = 40
"""cells that `run` ends with; more are for `fieldmark table`"""


def show_scores(plan: Plan, outcome: Outcome, settings: Settings) -> None:
    """The scores of the plan's runs, which model is best at their tasks, and where the page is."""
    from fieldmark.report import read_table, score_lines, verdict
    from fieldmark.store import RunFilter, Store

    results = str(settings.results)
    where = "" if results == "results" else f"--results {shlex.quote(results)}"
    keys = {planned.run.key for planned in plan.jobs if planned.run is not None}
    keys |= {key for key, _ in outcome.names}
    tasks = tuple({planned.spec.task for planned in plan.jobs if planned.spec is not None})
    is_short = len(keys) <= MOST_SCORES
    with Store.open(settings.store, read_only=True) as store:
        table = read_table(store, RunFilter(tasks=tasks), compare=is_short) if tasks else None
    rows = [row for row in table.rows if keys & {run.key for run in row.runs}] if table else []
    for line in score_lines(rows[:MOST_SCORES], screen_width()) if rows else ():
        show(line)
    if len(rows) > MOST_SCORES:
        talk(f"{len(rows) - MOST_SCORES:,} more scores: fieldmark table {where}".rstrip())
    if any(row.tier for row in rows):
        talk("A: could be the best model for this task · B: clearly worse than A")
    if table is not None and (sentence := verdict(table)):
        show_sentence(sentence)
    talk(f"next: fieldmark table {where}".rstrip())
    talk(f"page: fieldmark site report {where}".rstrip())


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
            failures = [failure for failure in outcome.failures if not failure.is_unpaid]
            rows = [{"run": failure.title, "error": failure.error} for failure in failures]
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
