"""What is the mock model told to answer?

For tests and rehearsals that need certain words: by the prompt, or by a function of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldmark.chat._mock_eyes import Sight
from fieldmark.errors import UsageError

Answers = Mapping[str, str | Sequence[str]] | Callable[[str, Mapping[str, Any]], str | None]
"""prompt → what is said; or (text of the last question, body) → what is said, None = as ever"""


class Prompter:
    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._times: Counter[str] = Counter()

    def find(self, sight: Sight, body: Mapping[str, Any]) -> str | None:
        """The answer to a prompt; None where nothing was set for it.

        The whole last question counts before parts of the conversation, long parts before short.
        """
        if callable(self.answers):
            return self.answers(sight.text, body)
        if sight.text in self.answers:
            return self._next(sight.text)
        parts = [each for each in self.answers if each and each in sight.words]
        return self._next(max(parts, key=len)) if parts else None

    def _next(self, prompt: str) -> str:
        assert not callable(self.answers)
        found = self.answers[prompt]
        if isinstance(found, str):
            return found
        time_asked = self._times[prompt]
        self._times[prompt] += 1
        return found[min(time_asked, len(found) - 1)]


def read_answers(place: str) -> dict[str, str | list[str]]:
    """The answers of a JSON file; "" has none."""
    if not place:
        return {}
    try:
        found = json.loads(Path(place).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{place}  the mock's answers cannot be read: {error}.") from None
    if not isinstance(found, dict) or not all(_is_said(each) for each in found.values()):
        raise UsageError(f"{place}  expected a JSON object of prompt → text or list of texts.")
    return found


def _is_said(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, str) for each in value)
    return isinstance(value, str)
