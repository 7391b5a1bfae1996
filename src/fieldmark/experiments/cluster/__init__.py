"""Cluster (Slurm, local processes): how is a plan carried out by many processes on many machines?

`steps.py` cuts a plan into steps, `board.py` is the folder through which all processes tell each
other what they do, `places/` start workers, `worker.py` carries out a step, `launch.py` submits and
watches, `gather.py` merges what comes. Nothing here is imported by a run in one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.experiments.cluster.board import Board, StepFolder, short_id
    from fieldmark.experiments.cluster.requests import describe_request
    from fieldmark.experiments.cluster.standing import (
        Places,
        StepStanding,
        make_place,
        recover_steps,
    )
    from fieldmark.experiments.cluster.steps import PlannedStep, StepOptions, make_steps

__all__ = [
    "Board",
    "Places",
    "PlannedStep",
    "StepFolder",
    "StepOptions",
    "StepStanding",
    "describe_request",
    "make_place",
    "make_steps",
    "recover_steps",
    "short_id",
]

__getattr__ = exports(
    __name__,
    {
        "board": ("Board", "StepFolder", "short_id"),
        "requests": ("describe_request",),
        "standing": ("Places", "StepStanding", "make_place", "recover_steps"),
        "steps": ("PlannedStep", "StepOptions", "make_steps"),
    },
)
