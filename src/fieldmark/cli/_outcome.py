"""How does a command that ran jobs tell what failed, and with which exit code does it end?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.cli._show import show_rows, talk
from fieldmark.errors import FieldmarkError, RunsFailed, join_problems

if TYPE_CHECKING:
    from fieldmark.experiments import Outcome, Plan


def refuse_if_none_can_run(plan: Plan) -> None:
    """Raises why, before anything is made, when no job can run and none is done."""
    errors = [each.error for each in plan.jobs if each.error is not None]
    if not errors or len(errors) < len(plan.jobs):
        return
    told = FieldmarkError(join_problems(list(dict.fromkeys(map(str, errors)))))
    told.exit_code = errors[0].exit_code
    raise told


def skips(plan: Plan) -> list[str]:
    """A line for every job that will not run, and for every one with something to know about it."""
    lines = []
    for each in plan.jobs:
        if each.why and each.status != "done":
            state = "" if each.status == "run" else f"skipped ({each.status}): "
            lines.append(f"{state}{each.job.title}: {each.why}")
    return lines


def end(plan: Plan, outcome: Outcome, debug: bool = False) -> None:
    """Shows the failures and raises what the shell must see; does nothing when all went well."""
    if outcome.failures:
        if debug:
            talk("".join(each.trace for each in outcome.failures))
        if len(plan.jobs) > 1:
            rows = [{"run": each.title, "error": each.error} for each in outcome.failures]
            show_rows(rows, False)
        outcome.raise_if_failed()
    n_claimed = outcome.n_claimed + sum(each.status == "claimed" for each in plan.jobs)
    if n_claimed:
        raise RunsFailed(
            f"{n_claimed} of {len(plan.jobs)} runs were left to other processes that are on them: "
            "`fieldmark runs ls` shows them, `fieldmark runs free` frees one whose process is gone."
        )
    n_skipped = sum(each.error is not None for each in plan.jobs)
    if n_skipped:
        raise RunsFailed(f"{n_skipped} of {len(plan.jobs)} runs could not be started.")
