"""Power before a run (sample size): which test items does a plan ask about, how independent are
they, and what difference between two models could they show?

Items of one unit (a burst, an animal, a query) count together. What two models disagree about is
measured where results of the task are there; this file knows the plan only, and so assumes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.experiments.plan import Plan, Planned
from fieldmark.protocols import known_metric
from fieldmark.stats import UnitSpread

if TYPE_CHECKING:
    from fieldmark.store import RunSpec


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """The test items of one task, asked by one protocol."""

    spec: RunSpec
    """of one of its jobs, as far as it is known before"""
    n: int
    """test items; one asked in several parts counts once"""
    n_units: int
    assumed: UnitSpread | None
    """how two models would differ, had they not been seen; None: a metric of another scale"""

    @property
    def metric(self) -> str:
        return str(self.spec.settings["metric"][0])


def planned_tests(plan: Plan) -> Iterator[PlannedTest]:
    """Each task, protocol and number of test items of the plan that has its data, once."""
    seen = set()
    for planned in plan.jobs:
        job = planned.job
        key = (job.task_name, job.protocol, job.draw.parts, job.draw.n_test)
        if planned.question is None or key in seen:
            continue
        seen.add(key)
        test = _planned_test(planned)
        if test is not None:
            yield test


def _planned_test(planned: Planned) -> PlannedTest | None:
    question, spec = planned.question, planned.spec
    assert question is not None and spec is not None
    rows = question.tested()
    if rows.is_empty():
        return None
    metric = known_metric(str(spec.settings["metric"][0]))
    unit = pl.col("unit").fill_null(pl.col("id")).rank("dense") - 1
    rows = rows.select("part", "id", "target", unit)
    rule = str(spec.settings["score"])
    if rule not in ("mean", "pooled"):
        rows = rows.filter(pl.col("part") == rule)
    if metric is not None and metric.uses == "whole":
        rows = rows.unique("id", maintain_order=True)
    assumed = None
    if metric is None or metric.bounds == (0.0, 1.0):
        is_by_class = metric is not None and metric.closed_form in ("recall", "f1")
        share = rows.select(_share(rule == "mean", is_by_class)).to_series()
        assumed = UnitSpread.assumed(rows["unit"].to_numpy(), share.to_numpy())
    return PlannedTest(spec, rows["id"].n_unique(), rows["unit"].n_unique(), assumed)


def _share(is_mean: bool, is_by_class: bool) -> pl.Expr:
    """The weight of each item in the score; labels of one part are none of another's."""
    classes = pl.struct("part", "target")
    if is_mean and is_by_class:
        within = pl.col("target").n_unique().over("part") * pl.len().over("part", "target")
        return 1 / (pl.col("part").n_unique() * within)
    if is_by_class:
        return 1 / (classes.n_unique() * pl.len().over("part", "target"))
    if is_mean:
        return 1 / (pl.col("part").n_unique() * pl.len().over("part"))
    return 1 / pl.len().over(pl.lit(1))
