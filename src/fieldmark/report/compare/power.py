"""Power from stored answers (sample size): how do models of these results differ from unit to unit,
and how many units would show a smaller difference?

What more units would bring is told from the units that are there: the standard error shrinks with
the root of their number, the luck of the training draws does not.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fieldmark.report.compare.models import RowComparison
from fieldmark.report.compare.paired import read_paired
from fieldmark.report.providers import metric_here
from fieldmark.report.run_labels import main_protocol, model_name
from fieldmark.report.table.layout import align
from fieldmark.stats import UnitSpread, compare_pair, errors
from fieldmark.store import Run, RunName, RunSpec, Store

MOST_MODELS = 4
"""the newest of a task, whose pairs are looked at"""


@dataclass(frozen=True, slots=True)
class MeasuredSpread:
    """How two models differed on a task."""

    spread: UnitSpread
    words: str
    """which models, for a person"""
    is_fraction: bool
    """does the metric lie in [0, 1]?"""


def measured_spread(
    store: Store, runs: Iterable[Run], spec: RunSpec, n_units: int
) -> MeasuredSpread | None:
    """From the newest of the finished `runs` that ask the same task about the same rows in the same
    way: the pair of models with the middle one of the differences visible in `n_units` units. None
    where no two models can be compared.
    """
    alike = _asked_alike(runs, spec)
    metric = metric_here(store, alike[0], str(spec.settings["metric"][0])) if alike else None
    if metric is None:
        return None
    paired = read_paired(store, [[run] for run in alike], metric)
    if not paired.answer_mn.size:
        return None
    scores, pairs = errors(paired.items, paired.answer_mn, paired.metric), []
    for a, b in itertools.combinations(range(len(alike)), 2):
        comparison = compare_pair(scores, a, b)
        if comparison.n_units > 1 and comparison.freedom > 0:
            pairs.append((comparison.spread.detectable(n_units), a, b, comparison.spread))
    if not pairs:
        return None
    _, a, b, spread = sorted(pairs, key=lambda pair: pair[0])[(len(pairs) - 1) // 2]
    names = [model_name(alike[number].spec) for number in (a, b)]
    basis = f"{names[0]} and {names[1]}"
    if len(pairs) > 1:
        basis = f"median of {len(pairs)} model pairs"
    return MeasuredSpread(spread, basis, paired.metric.bounds == (0.0, 1.0))


def _asked_alike(runs: Iterable[Run], spec: RunSpec) -> list[Run]:
    """The newest run of each of the newest models, all in one setup; the setup run last of
    those that two models were asked in.
    """
    setups: dict[RunName, dict[str, Run]] = defaultdict(dict)
    for run in sorted(runs, key=lambda run: run.id):
        if _subject(run.spec) == _subject(spec) and not run.marks.stand_in:
            setup = replace(run.spec, model="", model_version="").name
            setups[setup].pop(model_name(run.spec), None)
            setups[setup][model_name(run.spec)] = run
    several = [list(members.values()) for members in setups.values() if len(members) > 1]
    return max(several, key=lambda members: members[-1].id)[-MOST_MODELS:] if several else []


def _subject(spec: RunSpec) -> tuple[str, str, str]:
    return spec.task_name, main_protocol(spec), spec.rows


# --- more units for a smaller difference ---


ALL = "all tasks together"


@dataclass(frozen=True, slots=True)
class NeededUnits:
    """What it takes to see a wanted difference between two models 4 times in 5."""

    heading: str
    """the task, or ALL"""
    metric: str
    """"" for means over several"""
    difference: float
    """wanted, as it is shown: in points, or in the metric's own unit"""
    n_units: int
    """there are"""
    n_items: int
    needed: int | None
    """units in all; None: no number of units will do"""

    @property
    def more_units(self) -> int | None:
        return None if self.needed is None else max(0, self.needed - self.n_units)

    def plain(self) -> dict[str, Any]:
        """What programs read."""
        return asdict(self) | {"more_units": self.more_units, "more_items": self.more_items}

    @property
    def more_items(self) -> int | None:
        """At the items per unit that there are."""
        more = self.more_units
        return None if more is None else math.ceil(more * self.n_items / self.n_units)


def needed_units(compared: RowComparison, differences: Sequence[float]) -> list[NeededUnits]:
    """For each wanted difference, in points where scores are shown as percent: over all tasks, then
    in each. A comparison of fewer than two units measured nothing and has no line.
    """
    subjects = [
        (task.a.heading, task.a.score.metric, task.comparison, task.a.score)
        for task in compared.tasks
    ]
    overall = compared.overall
    if overall is not None and len(overall.columns) > 1:
        metric = overall.metrics[0] if len(overall.metrics) == 1 else ""
        subjects.insert(0, (ALL, metric, overall.comparison, overall.score))
    return [
        NeededUnits(
            heading,
            metric,
            difference,
            comparison.n_units,
            comparison.n,
            comparison.spread.units_to_detect(difference / score.scale),
        )
        for heading, metric, comparison, score in subjects
        if comparison.n_units > 1 and comparison.freedom > 0
        for difference in differences
    ]


def needed_text(rows: Sequence[NeededUnits], width: int = 80) -> str:
    """A line per task and wanted difference."""
    if not rows:
        return "Too few units to say how many more would show a smaller difference."
    names = ["to see 4 times in 5", "difference", "units", "needed", "more units", "more photos"]
    body = [
        [
            f"{row.heading} {row.metric}".strip(),
            f"{row.difference:g}",
            f"{row.n_units:,}",
            *(
                "none" if n is None else f"{n:,}"
                for n in (row.needed, row.more_units, row.more_items)
            ),
        ]
        for row in rows
    ]
    legend = [
        "units: photos that are independent of each other (a burst, camera or animal counts once)",
        "needed: how many units would show such a difference 4 times in 5, in a test at 5 %",
        "more photos: with as many per unit as here",
    ]
    if rows[0].heading == ALL:
        legend.append(f"{ALL}: every task grows in the same proportion")
    if any(row.needed is None for row in rows):
        legend.append(
            "none: differences between training samples hide it, however many photos you test; "
            "add --repeats"
        )
    table = align(names, body, right=names[1:])
    return "\n".join([*table, "", *textwrap.wrap(" · ".join(legend), width)])
