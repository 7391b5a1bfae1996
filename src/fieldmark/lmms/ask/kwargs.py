"""Which keyword arguments does a task give the model at hand?

A task file may hold several sets of them, one per model, under the names lmms-eval's `--model`
takes (`openai`, `qwen2_5_vl`, …). `keys` are the names that fit the model, best first.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from fieldmark.errors import UsageError
from fieldmark.lmms.read.schema import DocumentTask

_SHARED = ("default", "dataset")


def prompt_kwargs(task: DocumentTask, keys: Sequence[str]) -> Any:
    """What the task's functions get beside the document; None = they get the document alone.

    A model's own set stands alone. Without one, `default`'s entries (or `dataset`'s) are laid over
    the whole mapping, whose other sets stay visible; without these it is the mapping as it is.
    """
    every = task.lmms_eval_specific_kwargs
    if every is None:
        return None
    for key in keys:
        if key in every:
            return copy.deepcopy(every[key])
    made = copy.deepcopy(every)
    for name in _SHARED:
        if name in every:
            made.update(_mapping(task, "lmms_eval_specific_kwargs", name, every[name]))
            break
    return made


def prompt_key(task: DocumentTask, keys: Sequence[str]) -> str:
    """Under which name the prompt's arguments were found; "" = the mapping as it is, or none."""
    every = task.lmms_eval_specific_kwargs or {}
    return next((key for key in (*keys, *_SHARED) if key in every), "")


def generation_kwargs(task: DocumentTask, keys: Sequence[str]) -> dict[str, Any]:
    """How the answer is generated: stop strings and greedy decoding where the task is silent."""
    made = copy.deepcopy(task.generation_kwargs)
    if made is None:
        made = {}
        if "generate_until" in task.output_type:
            made = {"until": [task.fewshot_delimiter], "do_sample": False}
    else:
        made.setdefault("until", [task.fewshot_delimiter])
    every = task.model_specific_generation_kwargs
    if every is not None:
        name = next((key for key in (*keys, "default") if key in every), "")
        own = every.get(name) if name else None
        made.update(_mapping(task, "model_specific_generation_kwargs", name, own))
    if made.get("temperature") is not None:
        made["temperature"] = _number(task, made["temperature"])
    return made


def target_kwargs(task: DocumentTask, keys: Sequence[str]) -> Any:
    """The second argument of a `doc_to_target` function; None = it gets the document alone."""
    every = task.model_specific_target_kwargs
    if every is None:
        return None
    name = next((key for key in keys if key in every), "default")
    return copy.deepcopy(every.get(name))


def _mapping(task: DocumentTask, field: str, name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        where = task.place_of(field, name)
        raise UsageError(f"{where}  {field}.{name} = {value!r}: expected a mapping.")
    return dict(copy.deepcopy(value))


def _number(task: DocumentTask, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        where = task.place_of("generation_kwargs", "temperature")
        raise UsageError(f"{where}  temperature = {value!r}: expected a number.") from None
