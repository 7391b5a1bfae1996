"""End steps that run, or wait, on Slurm or in local processes. What they have done is kept.

A step may hold several runs: all of them end. The `run` command again does what is missing.

examples:
  fieldmark cancel ab12-0003
  fieldmark cancel classical/colour
  fieldmark cancel --all
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, talk
from fieldmark.cli._steps import ENDED, StepNames, choose_steps, look, open_steps
from fieldmark.errors import UsageError, join_problems

if TYPE_CHECKING:
    from fieldmark.experiments.cluster import Executors, JobFolder, StepFolder

EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class CancelArgs:
    steps: StepNames = ()
    """an id of a step, or text in the title of a run: all living steps it fits"""
    all: bool = False
    """every step that runs or waits"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: CancelArgs) -> int:
    if bool(args.steps) == args.all:
        raise UsageError("give steps or runs (`fieldmark status` lists them), or --all.")
    job_folder, executors = open_steps(args.common.settings())
    steps = job_folder.steps() if args.all else choose_steps(args.steps, job_folder.steps())
    if any(step.job is None for step in steps):
        _recover(job_folder, steps, executors)
    living = [one.step for one in look(steps, executors) if one.status.state not in ENDED]
    by_executor = defaultdict(list)
    for step in living:
        by_executor[step.record.executor if step.job is None else step.job.executor].append(step)
    problems = []
    for name, own in by_executor.items():
        try:
            executors[name].cancel(own)
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError(join_problems(problems, "the others were cancelled"))
    if args.json:
        print_json([step.id for step in living])
    talk(f"{counted(len(living), 'step')} cancelled, {len(steps) - len(living)} had ended before.")
    return 0


def _recover(job_folder: JobFolder, steps: Sequence[StepFolder], executors: Executors) -> None:
    """Steps may have jobs that their launcher did not live to note down, or be on their way."""
    from fieldmark.experiments.cluster import recover_steps
    from fieldmark.leases import LeaseFolder

    with LeaseFolder(job_folder.folder) as leases:
        while (lease := leases.claim("launch")) is None:
            time.sleep(EVERY_S)
        try:
            recover_steps(steps, executors)
        finally:
            leases.give_up(lease, is_done=True)
