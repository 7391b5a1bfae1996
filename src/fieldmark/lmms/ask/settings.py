"""Model-specific arguments and generation settings of a task file.

A file may hold several sets of arguments, one per model, under the names lmms-eval's `--model`
takes (`openai`, `qwen2_5_vl`, …); `keys` are the names that fit the model, best first. Of
`generation_kwargs` a chat model is given room, temperature, top_p, seed, and the stop strings that
the file itself names. The stop that lmms-eval fills in where a file names none (a blank line) would
cut reasons after their first paragraph; it is left out (docs/decisions/0013).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fieldmark.chat import AnswerSettings
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
    name = prompt_key(task, keys)
    if name in keys:
        return copy.deepcopy(every[name])
    shared = _mapping(task, "lmms_eval_specific_kwargs", name, every.get(name))
    return copy.deepcopy(every) | shared


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
        of_model = every.get(name) if name else None
        made.update(_mapping(task, "model_specific_generation_kwargs", name, of_model))
    if made.get("temperature") is not None:
        made["temperature"] = _number(task, made, "temperature")
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
        where = task.line_of(field, name)
        raise UsageError(f"{where}  {field}.{name} = {value!r}: expected a mapping.")
    return dict(copy.deepcopy(value))


ROOM = 1024
"""tokens of an answer where nobody says, as lmms-eval's endpoints have it"""
_ROOM_KEYS = ("max_new_tokens", "max_tokens", "max_gen_toks", "max_completion_tokens")
_READ = (*_ROOM_KEYS, "temperature", "top_p", "seed", "until", "do_sample")


@dataclass(frozen=True, slots=True)
class Generation:
    settings: AnswerSettings
    ignored: tuple[str, ...] = ()
    """keys that mean nothing to a chat model (beams, tilings)"""


def read_generation(task: DocumentTask, keys: Sequence[str], seed: int) -> Generation:
    given = generation_kwargs(task, keys)
    room = next((given[key] for key in _ROOM_KEYS if given.get(key) is not None), ROOM)
    is_greedy = given.get("do_sample") is False or given.get("temperature") is None
    settings = AnswerSettings(
        temperature=0.0 if is_greedy else _number(task, given, "temperature"),
        top_p=_number(task, given, "top_p"),
        seed=given.get("seed", seed),
        max_output_tokens=_whole(task, room),
        stop=_stops(task, keys),
    )
    return Generation(settings, tuple(sorted(key for key in given if key not in _READ)))


def _stops(task: DocumentTask, keys: Sequence[str]) -> tuple[str, ...]:
    """The file's own stop strings; "" stops nothing."""
    blocks = task.model_specific_generation_kwargs or {}
    block = next((blocks[key] for key in (*keys, "default") if key in blocks), None) or {}
    until = {**(task.generation_kwargs or {}), **block}.get("until")
    stops = [until] if isinstance(until, str) else until or []
    return tuple(str(stop) for stop in stops if stop)


def _number(task: DocumentTask, given: Mapping[str, Any], key: str) -> float | None:
    value = given.get(key)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        where = task.line_of("generation_kwargs", key)
        raise UsageError(f"{where}  {key} = {value!r}: expected a number.") from None


def _whole(task: DocumentTask, room: Any) -> int:
    if isinstance(room, int) and not isinstance(room, bool) and room > 0:
        return room
    where = task.line_of("generation_kwargs")
    raise UsageError(f"{where}  room for the answer = {room!r}: expected a whole number above 0.")
