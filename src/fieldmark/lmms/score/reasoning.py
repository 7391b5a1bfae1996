"""Which part of a response is thought, not answer?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fieldmark.errors import UsageError

THINK = ("<think>", "</think>")
THINKING = ("<thinking>", "</thinking>")
ANALYSIS = ("<analysis>", "</analysis>")
DEFAULT = (THINK, ANALYSIS)
"""what is stripped before scoring where a task says nothing"""

Tags = tuple[tuple[str, str], ...]


def reasoning_tags(value: Any, default: Tags = DEFAULT) -> Tags:
    """The pairs that a task's `reasoning_tags` means; none for "none" and false."""
    if value is None:
        return default
    if value is False or value == "none":
        return ()
    pairs = _from_json(value) if isinstance(value, str) else value
    is_pairs = isinstance(pairs, list | tuple) and all(map(_is_pair, pairs))
    if not is_pairs:
        raise UsageError(
            f"reasoning_tags is {value!r}: expected pairs such as "
            f'[["{THINK[0]}", "{THINK[1]}"]], or none.'
        )
    return tuple((start, end) for start, end in pairs)


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_pair(pair: Any) -> bool:
    is_two = isinstance(pair, list | tuple) and len(pair) == 2
    return is_two and all(isinstance(each, str) and each for each in pair)


def strip_reasoning(text: str, pairs: Sequence[Sequence[str]]) -> str:
    """The text without the blocks between the tags, stripped.

    Where a prompt ended with the opening tag the response has only the closing one: what follows
    the last of them is the answer. A block that never ends stays.
    """
    for start, end in pairs:
        text = _without_blocks(text, start, end)
        if end in text and start not in text:
            text = text.rpartition(end)[2]
    return text.strip()


def strip_response(response: Any, pairs: Sequence[Sequence[str]]) -> Any:
    """`strip_reasoning` of a text, or of the texts in a list; anything else stays."""
    if isinstance(response, str):
        return strip_reasoning(response, pairs)
    if isinstance(response, list):
        return [strip_reasoning(x, pairs) if isinstance(x, str) else x for x in response]
    return response


def _without_blocks(text: str, start: str, end: str) -> str:
    while True:
        first = text.find(start)
        last = text.find(end, first) if first >= 0 else -1
        if last < 0:
            return text
        text = text[:first] + text[last + len(end) :]
