"""Show what the worker of a step printed: on Slurm or in a local process.

Of a run whose failure is known, the place in the code where it happened stands at the end.

examples:
  fieldmark logs ab12-0003
  fieldmark logs "classical/colour · beluga"
  fieldmark logs ab12-0003 --follow
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import talk
from fieldmark.cli._steps import ENDED, choose_steps, log_text, look, open_steps
from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.experiments.cluster import Executors, StepFolder

EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class LogsArgs:
    step: Annotated[Positional[str], arg(metavar="STEP|RUN")]
    """an id of a step, or text in the title of a run (`fieldmark status --all` lists them)"""
    follow: bool = False
    """go on showing what comes until the step ends"""
    common: CommonFlags = Common()


def run(args: LogsArgs) -> int:
    from fieldmark.experiments.cluster import short_id

    job_folder, executors = open_steps(args.common.settings())
    steps = choose_steps([args.step], job_folder.steps())
    if len(steps) > 1 and len({step.record.title for step in steps}) > 1:
        shown = ", ".join(f"{short_id(s.id)} ({s.record.kind})" for s in steps[-5:])
        raise UsageError(f"{len(steps)} steps fit {args.step!r}; the latest are {shown}.")
    step = steps[-1]
    talk(f"step {step.id}: {step.record.title}")
    _print(step, executors, args.follow)
    outcome = step.outcome
    for failure in () if outcome is None else outcome.failures:
        print(f"\nfailed: {failure.title}\n{failure.trace or failure.error}")
    return 0


def _print(step: StepFolder, executors: Executors, is_followed: bool) -> None:
    """The files of the step, and what is added to them while it lives."""
    read: dict[Path, int] = {}
    while True:
        is_over = not is_followed or look([step], executors)[0].status.state in ENDED
        for path in step.logs:
            size = path.stat().st_size
            sys.stdout.write(log_text(path, read.get(path, 0), size))
            read[path] = size
        sys.stdout.flush()
        if is_over:
            break
        time.sleep(EVERY_S)
    if not any(read.values()):
        talk("it has printed nothing yet.")
