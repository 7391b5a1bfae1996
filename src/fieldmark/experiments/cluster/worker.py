"""Worker (task runner): how does one process carry out a step, alone and so that a kill loses
nothing?

Its results are its own: a folder `attempt-N` with a store that nobody else opens. When all is done
that folder becomes `shard`, in one rename: whoever sees it sees it whole.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fieldmark.embed import EmbedOptions, fill
from fieldmark.errors import FieldmarkError
from fieldmark.experiments.cluster.work import (
    OUTCOME,
    StepOutcome,
    StepWork,
    read_outcome,
    read_work,
)
from fieldmark.experiments.execute import How, execute
from fieldmark.experiments.plan import Plan, make_plan
from fieldmark.leases import LeaseFolder
from fieldmark.processes import host
from fieldmark.progress import Lines
from fieldmark.protocols import refs_of

NOT_EMBEDDED = 3
"""exit status of a step whose embedding is not there"""


@dataclass(frozen=True, slots=True)
class StepTask:
    """A step as a function without arguments, for submitit."""

    folder: str

    def __call__(self) -> int:
        return run_step(Path(self.folder))

    def checkpoint(self) -> Any:
        """The same again, of a job that is put back into the queue."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def run_step(folder: Path) -> int:
    """Carries out a step; 0 when it is finished, whatever became of its runs."""
    folder = folder.absolute()
    work = read_work(folder)
    with LeaseFolder(folder) as leases:
        lease = leases.claim("worker")
        if lease is None:
            return 1
        if any(read_outcome(folder.parent / step) is None for step in work.after):
            return NOT_EMBEDDED
        attempt = folder / f"attempt-{lease.path.name.split('.')[-2]}"
        attempt.mkdir(parents=True, exist_ok=True)
        outcome = _carry_out(work, attempt)
        (attempt / OUTCOME).write_text(outcome.to_json(), encoding="utf-8")
        attempt.replace(folder / "shard")
        leases.give_up(lease, is_done=True)
    return 0


def _carry_out(work: StepWork, attempt: Path) -> StepOutcome:
    began = time.monotonic()
    settings = replace(work.settings, results=attempt)
    plan = make_plan(work.jobs, settings, may_load=True)
    with Lines() as progress:
        if work.kind == "embed":
            n = _embed(plan, progress)
            return StepOutcome(seconds=time.monotonic() - began, n_embedded=n, host=host())
        outcome = execute(plan, settings, progress, How(work.command))
    seconds = time.monotonic() - began
    return StepOutcome(outcome.keys, outcome.failures, outcome.n_claimed, outcome.last_words,
                       seconds, host=host(), again=outcome.keys if work.force else ())  # fmt: skip


def _embed(plan: Plan, progress: Lines) -> int:
    n = 0
    for planned in plan.jobs:
        if planned.prepared is None:
            continue
        prepared = planned.prepared
        rows = plan.needs.rows(planned.job, prepared.assignment)
        if rows is None:
            continue
        backbone = prepared.protocol.backbone(planned.job.task, plan.models.load(planned.job.model))
        refs = [ref for images in refs_of(rows) for ref in images]
        settings = plan.workspace.settings
        options = EmbedOptions(settings.cache, settings.n_threads, contents=plan.models.contents)
        n += fill(backbone, prepared.root, refs, options, progress).throughput.n_computed
    return n


def main() -> int:
    try:
        return run_step(Path(sys.argv[1]))
    except FieldmarkError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
