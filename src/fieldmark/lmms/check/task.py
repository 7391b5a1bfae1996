"""Checking a task: what is wrong with it, as far as its file tells?

Fields, settings (lmms-eval hands `generation_kwargs` and `dataset_kwargs` on without a look, so
that a slip shows hours later or never), names of metrics, filters and samplers. Neither data nor
network are needed, and no code of the task runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from fieldmark.errors import DataError, FieldmarkError, UnknownName, UsageError, meant
from fieldmark.lmms.ask.shots import SAMPLERS, SHOT_FIELDS
from fieldmark.lmms.check.code import call_problems
from fieldmark.lmms.data.sources import BUILDERS, UPSTREAM_ONLY, find_source
from fieldmark.lmms.metrics.registry import (
    aggregation,
    document_metric,
    find_document_metric,
    known_aggregations,
    metrics_for,
)
from fieldmark.lmms.read.groups import Expanded
from fieldmark.lmms.read.schema import NOT_RUN, DocumentTask, MetricItem, Pipeline
from fieldmark.lmms.score.filters import FILTERS, make_filter, reasoning_tags
from fieldmark.tasks import Kind, Level, Problem, problems_of


def task_problems(task: DocumentTask) -> Iterator[Problem]:
    """All that its file tells, without the data and without running its code."""
    yield from _notes(task)
    yield from _data(task)
    if task.eval_split is None:
        text = "names neither test_split nor validation_split: there is nothing to ask about."
        yield Problem("error", "split", task.line_of("task"), text)
    yield from _splits(task)
    yield from prompt_problems(task)
    yield from option_problems(task)
    yield from call_problems(task)
    yield from name_problems(task)


def _notes(task: DocumentTask) -> Iterator[Problem]:
    for note in task.notes:
        where, _, text = note.partition("  ")
        is_untagged = "without `!function`" in text
        if is_untagged:
            yield Problem("warning", "untagged", where, text)
        else:
            yield Problem("note", "no effect", where, text)


def _data(task: DocumentTask) -> Iterator[Problem]:
    """Files that are named and not there; nothing remote is asked about."""
    if not task.dataset_path:
        text = "dataset_path is missing: it names the dataset, or what reads local files."
        yield Problem("error", "data", task.line_of("task"), text)
        return
    named = [(task.dataset_kwargs or {}).get(key) for key in ("data_files", "data_dir")]
    if "://" in str(named):
        return
    try:
        notes = find_source(task, load=lambda function: function).notes
    except FieldmarkError as error:
        # The data may come later; how it is named must be right now.
        level: Level = "warning" if isinstance(error, DataError) else "error"
        for problem in problems_of(error, "data", task.line_of("dataset_path")):
            yield replace(problem, level=level)
        return
    for note in notes:
        where, _, text = note.partition("  ")
        yield Problem("note", "no effect", where, text)


def _splits(task: DocumentTask) -> Iterator[Problem]:
    """Where files are named, their splits are: those of a mapping, else `train` alone."""
    files = (task.dataset_kwargs or {}).get("data_files")
    if task.dataset_path not in BUILDERS or not isinstance(files, (str, list, dict)):
        return
    splits = [str(name) for name in files] if isinstance(files, dict) else ["train"]
    test_key = "test_split" if task.test_split else "validation_split"
    for key in dict.fromkeys((test_key, "test_split", "validation_split", "fewshot_split")):
        name = getattr(task, key)
        if name and name not in splits:
            level: Level = "error" if key == test_key else "warning"  # the others may never be read
            text = f"the dataset has no split {name!r}, it has {', '.join(splits)}."
            yield Problem(level, "data", task.line_of(key), f"{text}{meant(name, splits)}")


GENERATION = (
    "max_new_tokens", "max_tokens", "max_gen_toks", "max_completion_tokens", "temperature",
    "top_p", "top_k", "min_p", "seed", "until", "stop_sequences", "do_sample", "num_beams",
    "num_return_sequences", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "early_stopping", "skip_special_tokens", "image_aspect_ratio", "max_agentic_steps",
    "visual_cot",
)  # fmt: skip
DATASET = (
    "data_files", "data_dir", "load_from_disk", "revision", "token", "split", "features",
    "verification_mode", "download_mode", "keep_in_memory", *UPSTREAM_ONLY,
)  # fmt: skip
"""what `load_dataset` and lmms-eval itself know; other keys go to the builder of the dataset"""
_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "top_p": (0.0, 1.0),
    "max_new_tokens": (1, 10**9),
    "max_tokens": (1, 10**9),
    "max_gen_toks": (1, 10**9),
    "num_beams": (1, 10**9),
}
_SLIP = 0.85
"""how alike a slip is to the word that was meant; `min_pixels` is no slip for `min_p`"""
_DELIMITERS = ("target_delimiter", "fewshot_delimiter")


def option_problems(task: DocumentTask) -> Iterator[Problem]:
    blocks: dict[tuple[str, ...], Any] = {("generation_kwargs",): task.generation_kwargs or {}}
    for model, block in (task.model_specific_generation_kwargs or {}).items():
        if isinstance(block, dict):
            blocks["model_specific_generation_kwargs", model] = block
    for key, block in blocks.items():
        yield from _generation(task, key, block)
    yield from _misspelt(task, ("dataset_kwargs",), task.dataset_kwargs or {}, DATASET)
    for delimiter in _DELIMITERS:
        yield from _escapes(task, (delimiter,), getattr(task, delimiter))
    try:
        reasoning_tags(task.reasoning_tags)
    except FieldmarkError as error:
        yield Problem("error", "key", task.line_of("reasoning_tags"), str(error))


def _generation(
    task: DocumentTask, key: tuple[str, ...], block: Mapping[str, Any]
) -> Iterator[Problem]:
    yield from _misspelt(task, key, block, GENERATION)
    for name, (low, high) in _RANGES.items():
        value = block.get(name)
        if value is not None and not _is_between(value, low, high):
            top = f"from {low:g} to {high:g}" if high <= 1 else f"{low:g} or more"
            text = f"{name} = {value!r}: expected a number, {top}."
            yield Problem("error", "generation", task.line_of(*key, name), text)
    until = block.get("until")
    stops = [until] if isinstance(until, str) else until
    if stops is not None and not _is_texts(stops):
        text = f"until = {until!r}: expected text, or a list of texts."
        yield Problem("error", "generation", task.line_of(*key, "until"), text)
    for stop in stops if isinstance(stops, list) and _is_texts(stops) else ():
        yield from _escapes(task, (*key, "until"), stop)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_between(value: Any, low: float, high: float) -> bool:
    """lmms-eval itself takes numbers that are written as text."""
    if isinstance(value, bool):
        return False
    try:
        return low <= float(value) <= high
    except (TypeError, ValueError, OverflowError):
        return False


def _misspelt(
    task: DocumentTask,
    key: tuple[str, ...],
    block: Mapping[str, Any],
    known_keys: tuple[str, ...],
) -> Iterator[Problem]:
    """Keys like a known one that are not it; quite other keys are somebody else's."""
    kind: Kind = "data" if key[0] == "dataset_kwargs" else "generation"
    for name in (key_name for key_name in block if key_name not in known_keys):
        near = get_close_matches(str(name), known_keys, n=1, cutoff=_SLIP)
        if near:
            text = f"key {name!r} of {key[0]} is not known. Did you mean {near[0]!r}?"
            yield Problem("warning", kind, task.line_of(*key, name), text)


def _escapes(task: DocumentTask, key: tuple[str, ...], text: str) -> Iterator[Problem]:
    r"""'\n' in single quotes is a backslash and an n."""
    if any(mark in text for mark in ("\\n", "\\t", "\\r")):
        sentence = (
            f"{key[-1]} contains a backslash and a letter, not a line break: in YAML only double "
            f'quotes make one, as in "{text}".'
        )
        yield Problem("warning", "generation", task.line_of(*key), sentence)


_TEMPLATES = ("description", "doc_to_text", "doc_to_target", "doc_to_choice")


def prompt_problems(task: DocumentTask) -> Iterator[Problem]:
    from fieldmark.lmms.ask.fields import compile_template

    yield from _missing(task)
    for key in _TEMPLATES:
        try:
            if isinstance(value := getattr(task, key), str):
                compile_template(value)
        except FieldmarkError as error:
            yield Problem("error", "template", task.line_of(key), f"{key}: {error}")
    visual = task.doc_to_visual
    if isinstance(visual, str) and ("{{" in visual or "{%" in visual):
        text = "doc_to_visual is a template: name a column, or a function with `!function`."
        yield Problem("error", "prompt", task.line_of("doc_to_visual"), text)


def _missing(task: DocumentTask) -> Iterator[Problem]:
    where = task.line_of("output_type" if "output_type" in task.model_fields_set else "task")
    if task.output_type in NOT_RUN:
        why = NOT_RUN[task.output_type]
        text = f"output_type {task.output_type!r} {why}: fieldmark does not run it."
        yield Problem("note", "not run", where, text)
    if task.doc_to_text is None and task.doc_to_messages is None:
        text = "says neither doc_to_text nor doc_to_messages: nothing would be asked."
        yield Problem("error", "prompt", task.line_of("task"), text)
    if task.output_type == "multiple_choice" and task.doc_to_choice is None:
        text = "output_type 'multiple_choice' needs doc_to_choice: a list, a column or a function."
        yield Problem("error", "prompt", where, text)
    if task.doc_to_target is None and task.process_results is None:
        text = "says neither doc_to_target nor process_results: no answer could be scored."
        yield Problem("error", "prompt", task.line_of("task"), text)


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
            text = f"metric {item.name!r} is listed twice in metric_list: keep one."
            yield Problem("error", "metric", task.line_of("metric_list", index), text)
        names.append(item.name)
    yield from _pipelines(task, task.filter_list or ())
    yield from _fewshot(task)


def _metric(task: DocumentTask, index: int, item: MetricItem) -> Iterator[Problem]:
    def at(key: str) -> str:
        return task.line_of("metric_list", index, key)

    is_own = task.process_results is not None
    slips = {option: hint for option in item.options if (hint := meant(option, _ITEM_KEYS))}
    idle = [option for option in item.options if option not in slips]
    if isinstance(item.metric, str) and not is_own:
        look = partial(_check_metric, task, item.metric, idle)
        yield from _known(look, at("metric"), metrics_for(task.output_type))
    if isinstance(item.aggregation, str):
        aggregations = known_aggregations()
        yield from _known(partial(aggregation, item.aggregation), at("aggregation"), aggregations)
    for option, hint in slips.items():
        text = f"key {option!r} of a metric is not known.{hint}"
        yield Problem("warning", "metric", at(option), text)
    if is_own and idle:
        text = f"options of a metric ({', '.join(idle)}) have no effect with process_results."
        yield Problem("note", "no effect", at(idle[0]), text)
    if is_own and item.aggregation is None and find_document_metric(item.name) is None:
        text = f"metric {item.name!r} has no aggregation: the mean is taken."
        yield Problem("note", "metric", at("metric"), text)


def _check_metric(task: DocumentTask, name: str, options: Sequence[str]) -> None:
    """Is the metric known, does it fit what models give back, and are its options its own?"""
    metric, fitting = document_metric(name), metrics_for(task.output_type)
    if metric.name not in fitting:
        raise UsageError(
            f"metric {metric.name!r} does not fit output_type {task.output_type!r}: "
            f"expected {', '.join(fitting)}, or process_results."
        )
    if metric.function is None:
        return
    takes = inspect.signature(metric.function).parameters
    is_open = any(taken.kind is taken.VAR_KEYWORD for taken in takes.values())
    wrong = [option for option in options if option not in takes and not is_open]
    if wrong:
        takes_also = [name for name in takes if name not in ("references", "predictions")]
        raise UsageError(
            f"metric {metric.name!r} has no option {wrong[0]!r}: expected {', '.join(takes_also)}."
            f"{meant(wrong[0], takes_also)}"
        )


def _known(
    look: Callable[[], object], where: str, listed_names: Sequence[str] = ()
) -> Iterator[Problem]:
    """All known names are told where none is close."""
    try:
        look()
    except FieldmarkError as error:
        is_far = isinstance(error, UnknownName) and not error.closest
        listed = f" Known: {', '.join(listed_names)}." if is_far and listed_names else ""
        yield Problem("error", "metric", where, f"{error}{listed}")


def _pipelines(task: DocumentTask, pipelines: Sequence[Pipeline]) -> Iterator[Problem]:
    names = [pipeline.name for pipeline in pipelines]
    for index, pipeline in enumerate(pipelines):
        if pipeline.name in names[:index]:
            text = f"pipeline {pipeline.name!r} is listed twice in filter_list: rename one."
            yield Problem("error", "metric", task.line_of("filter_list", index, "name"), text)
        for step_index, step in enumerate(pipeline.filter):
            where = task.line_of("filter_list", index, "filter", step_index, "function")
            if isinstance(step.function, str):
                look = partial(make_filter, step.function, step.options)
                yield from _known(look, where, sorted(FILTERS))
            k = step.options.get("k")
            if step.function == "take_first_k" and isinstance(k, int) and k > task.repeats:
                text = f"take_first_k needs {k} answers, but repeats is {task.repeats}."
                yield Problem("error", "metric", where, text)


def _fewshot(task: DocumentTask) -> Iterator[Problem]:
    block = task.fewshot_config or {}
    sampler = block.get("sampler", SAMPLERS[0])
    if sampler not in SAMPLERS:
        listed = ", ".join(SAMPLERS)
        text = (
            f"sampler {sampler!r} is not known: expected {listed}.{meant(str(sampler), SAMPLERS)}"
        )
        yield Problem("error", "prompt", task.line_of("fewshot_config", "sampler"), text)
    for name in block:
        if name in _FEWSHOT_IDLE:
            text = f"{name} of fewshot_config has no effect: fewshot_split names the split."
            yield Problem("note", "no effect", task.line_of("fewshot_config", name), text)
        elif name not in _FEWSHOT_KEYS:
            text = f"key {name!r} of fewshot_config is not known.{meant(str(name), _FEWSHOT_KEYS)}"
            yield Problem("warning", "prompt", task.line_of("fewshot_config", name), text)


def group_problems(expanded: Expanded) -> Iterator[Problem]:
    """Averages of a group that no member has a value for."""
    tasks = {task.task: task for task in expanded.tasks}
    for group in expanded.groups:
        members = [tasks[name] for name in group.tasks if name in tasks]
        result_names = list(dict.fromkeys(name for task in members for name in _result_names(task)))
        for index, item in enumerate(group.group.aggregate_metric_list):
            where = group.group.line_of("aggregate_metric_list", index)
            if isinstance(item.aggregation, str) and item.aggregation != "mean":
                text = f"aggregation {item.aggregation!r} of a group: expected mean or a function."
                yield Problem("error", "metric", where, text)
            for pipeline in item.filter_list:
                name = f"{item.metric},{pipeline}"
                if result_names and name not in result_names:
                    more = ", …" if len(result_names) > _FEW else ""
                    text = (
                        f"no task of the group has the result {name!r} (metric, filter): "
                        f"they have {'; '.join(result_names[:_FEW])}{more}."
                    )
                    yield Problem("warning", "group", where, text)


def _result_names(task: DocumentTask) -> list[str]:
    return [f"{item.name},{pipeline.name}" for item in task.metrics for pipeline in task.pipelines]
