"""Cluster (Slurm, local processes): how is a plan carried out by many processes on many machines?

`steps.py` cuts a plan into steps, `job_folder.py` is where all processes tell each other what they
do, `executors/` start workers, `worker.py` carries out a step, `launch.py` submits and watches,
`merge.py` merges what comes. Nothing here is imported by a run in one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.experiments.cluster.job_folder import JobFolder, StepFolder, short_id
    from fieldmark.experiments.cluster.requests import describe_request
    from fieldmark.experiments.cluster.status import (
        Executors,
        StepStatus,
        make_executor,
        recover_steps,
    )
    from fieldmark.experiments.cluster.steps import PlannedStep, StepOptions, make_steps

__all__ = [
    "Executors",
    "JobFolder",
    "PlannedStep",
    "StepFolder",
    "StepOptions",
    "StepStatus",
    "describe_request",
    "make_executor",
    "make_steps",
    "recover_steps",
    "short_id",
]

__getattr__ = exports(__name__)
