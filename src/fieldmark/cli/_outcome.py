"""How does a command that ran jobs tell what failed, and with which exit code does it end?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.cli._show import show_rows
from fieldmark.errors import DataError, RunsFailed, UsageError

if TYPE_CHECKING:
    from fieldmark.experiments import Outcome, Plan


def skips(plan: Plan) -> list[str]:
    """A line for every job that will not run, and for every one with something to know about it."""
    lines = []
    for each in plan.jobs:
        if each.why and each.status != "done":
            state = "" if each.status == "run" else f"skipped ({each.status}): "
            lines.append(f"{state}{each.job.title}: {each.why}")
    return lines


def end(plan: Plan, outcome: Outcome) -> None:
    """Shows the failures and raises what the shell must see; does nothing when all went well."""
    if outcome.failures:
        show_rows([{"run": each.title, "error": each.error} for each in outcome.failures], False)
        outcome.raise_if_failed()
    skipped = [each for each in plan.jobs if each.status in ("no data", "refused", "no code")]
    if not skipped:
        return
    if len(skipped) < len(plan.jobs):
        raise RunsFailed(f"{len(skipped)} of {len(plan.jobs)} runs could not be started.")
    kind = DataError if any(each.status == "no data" for each in skipped) else UsageError
    raise kind(skipped[0].why)
