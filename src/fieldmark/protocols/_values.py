"""Valued answers (report provider): how are runs shown whose answers are ranked lists, not labels?

Each answer stores what it was worth by every metric of its protocol (`values` of its info). A run's
own metric is the first; all of them are means over items, so runs can be compared item by item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark.metrics import Metric, known_metrics, load_metric
from fieldmark.protocols._score import known_metric, values_by_item
from fieldmark.registry import short_name
from fieldmark.store import Run, Store

if TYPE_CHECKING:
    from fieldmark.tasks import Task


def value_problems(task: Task, protocol: str) -> list[str]:
    """That a metric of the task is of labels, which such a protocol gives none of."""
    problems = []
    for key, name in (("metric", task.metric), *(("also", name) for name in task.also)):
        known = known_metric(name)  # None: told as a problem of the task
        if known is not None and known.uses != "value":
            metrics = [other for other in known_metrics() if load_metric(other).uses == "value"]
            lists = ", ".join(other for other in metrics if not other.endswith("_accuracy"))
            problems.append(
                f"{task.line_of(key)}  metric {short_name(name)!r} scores labels, but "
                f"`{protocol}` gives ranked lists: expected one of {lists}."
            )
    return problems


# --- what a report asks of such runs ---


def value_metric(run: Run) -> str:
    """The run's own metric: its value of each item is stored as the item's score."""
    return str(run.spec.settings["metric"][0])


def pairing_metric(store: Store, run: Run, name: str) -> Metric | None:
    metric = load_metric(name)
    return metric if metric.uses == "value" else None


def why_not_paired(name: str) -> str:
    return f"{name} is not a mean over single answers"


def item_values(store: Store, run: Run, name: str) -> dict[tuple[str, int, str], float]:
    return values_by_item(store.predictions(run.id), name)


def task_facts(store: Store, run: Run) -> Mapping[str, str]:
    """Nothing that the task's own file does not tell."""
    return {}


def group_results(store: Store, runs: Sequence[Run], scores: Any) -> Sequence[Any]:
    """Such tasks are not in groups."""
    return ()
