"""Which metrics does a task want, of which responses, and how do they become one number?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fieldmark.lmms.code.call import load_function
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.metrics.registry import find_document_metric
from fieldmark.lmms.read.schema import DocumentTask, MetricItem, Pipeline
from fieldmark.lmms.score.filters import make_filter, reasoning_tags

_DEFAULTS = {
    "multiple_choice": ("acc", "acc_norm"),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}
_FIRST = {"name": "none", "filter": [{"function": "take_first"}]}
MEAN = "mean"


def metrics_of(task: DocumentTask) -> tuple[MetricItem, ...]:
    """The file's own list, else what is usual for its kind of output."""
    if task.metric_list:
        return task.metric_list
    names = _DEFAULTS.get(task.output_type, ("exact_match",))
    return tuple(MetricItem(metric=name) for name in names)


def repeats_of(task: DocumentTask) -> int:
    """How often each question is asked; once where likelihoods or rounds are."""
    return task.repeats if task.output_type == "generate_until" else 1


def pipelines_of(task: DocumentTask) -> tuple[Pipeline, ...]:
    return task.filter_list or (Pipeline.model_validate(_FIRST),)


def filters_of(task: DocumentTask, pipeline: Pipeline) -> list[Any]:
    """The steps of a pipeline, ready to be applied."""
    place = [pipeline.name for pipeline in pipelines_of(task)].index(pipeline.name)
    made = []
    for number, step in enumerate(pipeline.filter):
        where = task.place_of("filter_list", place, "filter", number)
        function = step.function
        if isinstance(function, Function):
            made.append(make_filter(load_function(function, task.trust), step.options, where))
        else:
            made.append(make_filter(function, step.options, where))
    if task.auto_strip_thinking and not reasoning_tags(task.reasoning_tags):
        made.insert(0, make_filter("strip_thinking"))
    return made


def aggregation_of(task: DocumentTask, item: MetricItem) -> str | Callable[..., Any]:
    """The file's word, else what belongs to a metric of that name, else the mean."""
    if isinstance(item.aggregation, Function):
        function: Callable[..., Any] = load_function(item.aggregation, task.trust)
        return function
    return item.aggregation or _usual(item, "aggregation", MEAN)


def is_mean(item: MetricItem) -> bool:
    """Is the number the plain mean of the documents' values? Loads no code."""
    if isinstance(item.aggregation, Function):
        return False
    return (item.aggregation or _usual(item, "aggregation", MEAN)) == MEAN


def higher_is_better(item: MetricItem) -> bool:
    own = item.higher_is_better
    return bool(_usual(item, "higher_is_better", True)) if own is None else own


def _usual(item: MetricItem, name: str, otherwise: Any) -> Any:
    return getattr(find_document_metric(item.name), name, otherwise)


def metric_names(task: DocumentTask) -> list[str]:
    """As results call them: a metric of a pipeline that is not `none` carries its name."""
    return [
        result_name(item.name, pipeline.name)
        for pipeline in pipelines_of(task)
        for item in metrics_of(task)
    ]


def result_name(metric: str, pipeline: str) -> str:
    return metric if pipeline == "none" else f"{metric},{pipeline}"


def mean_of(task: DocumentTask) -> tuple[str, str]:
    """The first metric, if it is a mean of documents' values, else ""; and the first pipeline."""
    first = metrics_of(task)[0]
    return first.name if is_mean(first) else "", pipelines_of(task)[0].name
