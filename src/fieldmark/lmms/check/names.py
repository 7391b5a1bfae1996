"""Which metrics, aggregations, filters and samplers of a task in lmms-eval's form does nobody know?

Asked before anything starts, without the data and without running the task's code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from fieldmark.errors import FieldmarkError, UnknownName, UsageError, meant
from fieldmark.lmms import (
    FILTERS,
    DocumentTask,
    Expanded,
    MetricItem,
    Pipeline,
    Problem,
    make_filter,
)
from fieldmark.lmms.ask.shots import SAMPLERS, SHOT_FIELDS
from fieldmark.lmms.metrics import (
    aggregation,
    document_metric,
    find_document_metric,
    known_aggregations,
    metrics_for,
)
from fieldmark.lmms.score.wanted import metrics_of, pipelines_of

_FEW = 3
_ITEM_KEYS = ("metric", "aggregation", "higher_is_better")
_FEWSHOT_KEYS = ("sampler", "samples", *SHOT_FIELDS)
_FEWSHOT_IDLE = ("split", "process_docs")
"""read by LM Evaluation Harness alone"""


def name_problems(task: DocumentTask) -> Iterator[Problem]:
    names: list[str] = []
    for index, item in enumerate(task.metric_list or ()):
        yield from _metric(task, index, item)
        if item.name in names:
            text = f"metric {item.name!r} stands twice in metric_list: keep one."
            yield Problem("error", "metric", task.place_of("metric_list", index), text)
        names.append(item.name)
    yield from _pipelines(task, task.filter_list or ())
    yield from _fewshot(task)


def _metric(task: DocumentTask, index: int, item: MetricItem) -> Iterator[Problem]:
    def at(key: str) -> str:
        return task.place_of("metric_list", index, key)

    is_own = task.process_results is not None
    slips = {option: hint for option in item.options if (hint := meant(option, _ITEM_KEYS))}
    idle = [option for option in item.options if option not in slips]
    if isinstance(item.metric, str) and not is_own:
        look = partial(_check_metric, task, item.metric, idle)
        yield from _known(look, at("metric"), metrics_for(task.output_type))
    if isinstance(item.aggregation, str):
        known = known_aggregations()
        yield from _known(partial(aggregation, item.aggregation), at("aggregation"), known)
    for option, hint in slips.items():
        text = f"key {option!r} of a metric is not known.{hint}"
        yield Problem("warning", "metric", at(option), text)
    if is_own and idle:
        text = f"options of a metric ({', '.join(idle)}) have no effect beside process_results."
        yield Problem("note", "no effect", at(idle[0]), text)
    if is_own and item.aggregation is None and find_document_metric(item.name) is None:
        text = f"metric {item.name!r} has no aggregation: the mean is taken."
        yield Problem("note", "metric", at("metric"), text)


def _check_metric(task: DocumentTask, name: str, options: Sequence[str]) -> None:
    """Is the metric known, does it fit what models give back, and are its options its own?"""
    known, fitting = document_metric(name), metrics_for(task.output_type)
    if known.name not in fitting:
        raise UsageError(
            f"metric {known.name!r} does not fit output_type {task.output_type!r}: "
            f"expected {', '.join(fitting)}, or process_results."
        )
    if known.function is None:
        return
    takes = inspect.signature(known.function).parameters
    is_open = any(each.kind is each.VAR_KEYWORD for each in takes.values())
    wrong = [option for option in options if option not in takes and not is_open]
    if wrong:
        own = [name for name in takes if name not in ("references", "predictions")]
        raise UsageError(
            f"metric {known.name!r} has no option {wrong[0]!r}: expected {', '.join(own)}."
            f"{meant(wrong[0], own)}"
        )


def _known(look: Callable[[], object], place: str, known: Sequence[str] = ()) -> Iterator[Problem]:
    """All known names are told where none is close."""
    try:
        look()
    except FieldmarkError as error:
        is_far = isinstance(error, UnknownName) and not error.closest
        listed = f" Known: {', '.join(known)}." if is_far and known else ""
        yield Problem("error", "metric", place, f"{error}{listed}")


def _pipelines(task: DocumentTask, pipelines: Sequence[Pipeline]) -> Iterator[Problem]:
    names = [each.name for each in pipelines]
    for index, pipeline in enumerate(pipelines):
        if pipeline.name in names[:index]:
            text = f"pipeline {pipeline.name!r} stands twice in filter_list: name them differently."
            yield Problem("error", "metric", task.place_of("filter_list", index, "name"), text)
        for step_index, step in enumerate(pipeline.filter):
            place = task.place_of("filter_list", index, "filter", step_index, "function")
            if isinstance(step.function, str):
                look = partial(make_filter, step.function, step.options)
                yield from _known(look, place, sorted(FILTERS))
            k = step.options.get("k")
            if step.function == "take_first_k" and isinstance(k, int) and k > task.repeats:
                text = f"take_first_k wants {k} answers and repeats is {task.repeats}."
                yield Problem("error", "metric", place, text)


def _fewshot(task: DocumentTask) -> Iterator[Problem]:
    block = task.fewshot_config or {}
    sampler = block.get("sampler", SAMPLERS[0])
    if sampler not in SAMPLERS:
        listed = ", ".join(SAMPLERS)
        text = (
            f"sampler {sampler!r} is not known: expected {listed}.{meant(str(sampler), SAMPLERS)}"
        )
        yield Problem("error", "prompt", task.place_of("fewshot_config", "sampler"), text)
    for name in block:
        if name in _FEWSHOT_IDLE:
            text = f"{name} of fewshot_config has no effect: fewshot_split names the split."
            yield Problem("note", "no effect", task.place_of("fewshot_config", name), text)
        elif name not in _FEWSHOT_KEYS:
            text = f"key {name!r} of fewshot_config is not known.{meant(str(name), _FEWSHOT_KEYS)}"
            yield Problem("warning", "prompt", task.place_of("fewshot_config", name), text)


def group_problems(expanded: Expanded) -> Iterator[Problem]:
    """Averages of a group that no member has a value for."""
    tasks = {each.task: each for each in expanded.tasks}
    for each in expanded.groups:
        members = [tasks[name] for name in each.tasks if name in tasks]
        known = list(dict.fromkeys(name for task in members for name in _result_names(task)))
        for index, item in enumerate(each.group.aggregate_metric_list):
            place = each.group.place_of("aggregate_metric_list", index)
            if isinstance(item.aggregation, str) and item.aggregation != "mean":
                text = f"aggregation {item.aggregation!r} of a group: expected mean or a function."
                yield Problem("error", "metric", place, text)
            for pipeline in item.filter_list:
                name = f"{item.metric},{pipeline}"
                if known and name not in known:
                    more = ", …" if len(known) > _FEW else ""
                    text = (
                        f"no task of the group has the result {name!r} (metric, filter): "
                        f"they have {'; '.join(known[:_FEW])}{more}."
                    )
                    yield Problem("warning", "group", place, text)


def _result_names(task: DocumentTask) -> list[str]:
    return [
        f"{item.name},{pipeline.name}"
        for item in metrics_of(task)
        for pipeline in pipelines_of(task)
    ]
