"""In which words does the mock model give the answer it chose?

In the form it was asked for (`Answer: X`, JSON by a schema), or in a style of its own that makes a
parser work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fieldmark.chat._mock_eyes import Option, Sight
from fieldmark.chat._mock_script import MockScript

_REASONS = "The shape of the bill and the pattern of the back decide it."
_FILLERS: dict[str, Any] = {"number": 0, "integer": 0, "boolean": False, "array": []}


def say(chosen: Sequence[Option], sight: Sight, script: MockScript) -> str:
    """The answer as text; "I cannot tell." where there is none to give."""
    thought = f"<think>{_REASONS}</think>\n" if script.reasoning else ""
    if sight.schema is not None:
        return thought + _as_json(chosen, sight)
    if not chosen and not sight.wants_many:
        return thought + "I cannot tell."
    by_letter = script.style == "letter" or "the letter" in sight.words
    values = [letter if by_letter and letter else name for letter, name in chosen]
    value = ", ".join(values) or "none"
    if script.style == "asked" and "Answer: X" in sight.words:
        reasons = f"{_REASONS}\n" if "First say" in sight.words else ""
        return f"{thought}{reasons}Answer: {value}"
    is_bare = script.style in ("name", "letter") or "and nothing else" in sight.text
    return thought + (value if is_bare else f"The answer is **{value}**.")


def _as_json(chosen: Sequence[Option], sight: Sight) -> str:
    target, kind = sight.target
    every = (sight.schema or {}).get("properties") or {}
    said = {name: _FILLERS.get(each.get("type", ""), "…") for name, each in every.items()}
    said[target] = _value(chosen, kind)
    return json.dumps(said, ensure_ascii=False)


def _value(chosen: Sequence[Option], kind: Mapping[str, Any]) -> Any:
    allowed = kind.get("enum") or (kind.get("items") or {}).get("enum") or ()
    values = [letter if letter in allowed else name for letter, name in chosen]
    if kind.get("type") == "array":
        return values
    if kind.get("type") == "integer":
        return int(values[0]) if values and values[0].isdecimal() else 0
    return values[0] if values else ""
