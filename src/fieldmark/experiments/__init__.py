"""Experiments: TOML or flags to a grid of runs, a plan, and its execution."""

from fieldmark.experiments._evaluate import Evaluation, evaluate
from fieldmark.experiments._file import NewtFilters, read_grid
from fieldmark.experiments._grid import (
    Axes,
    Grid,
    check_dataset_name,
    make_jobs,
    named_changes,
    single_axes,
)
from fieldmark.experiments._models import Models
from fieldmark.experiments.execute import ExecuteOptions, Outcome, execute
from fieldmark.experiments.plan import (
    Plan,
    data_errors,
    disk_left,
    make_plan,
    replace_data,
    wait_for_claims,
)
from fieldmark.experiments.power import PlannedTest, planned_tests
from fieldmark.experiments.rescore import Rescored, rescore

__all__ = [
    "Axes",
    "Evaluation",
    "ExecuteOptions",
    "Grid",
    "Models",
    "NewtFilters",
    "Outcome",
    "Plan",
    "PlannedTest",
    "Rescored",
    "check_dataset_name",
    "data_errors",
    "disk_left",
    "evaluate",
    "execute",
    "make_jobs",
    "make_plan",
    "named_changes",
    "planned_tests",
    "read_grid",
    "replace_data",
    "rescore",
    "single_axes",
    "wait_for_claims",
]
