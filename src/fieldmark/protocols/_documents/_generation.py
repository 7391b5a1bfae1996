"""What do `generation_kwargs` mean to a chat model?

What a chat model can be told is told: room, temperature, top_p, seed, and the stop strings that the
file itself names. The stop that lmms-eval fills in where a file names none (a blank line) would cut
reasons after their first paragraph; it is left out (docs/decisions/0013).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fieldmark.chat import AnswerSettings
from fieldmark.errors import UsageError
from fieldmark.tasks.lmms import DocumentTask, generation_kwargs

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
    own = next((blocks[key] for key in (*keys, "default") if key in blocks), None) or {}
    until = {**(task.generation_kwargs or {}), **own}.get("until")
    stops = [until] if isinstance(until, str) else until or []
    return tuple(str(each) for each in stops if each)


def _number(task: DocumentTask, given: Mapping[str, Any], key: str) -> float | None:
    value = given.get(key)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        where = task.place_of("generation_kwargs", key)
        raise UsageError(f"{where}  {key} = {value!r}: expected a number.") from None


def _whole(task: DocumentTask, room: Any) -> int:
    if isinstance(room, int) and not isinstance(room, bool) and room > 0:
        return room
    where = task.place_of("generation_kwargs")
    raise UsageError(f"{where}  room for the answer = {room!r}: expected a whole number above 0.")
