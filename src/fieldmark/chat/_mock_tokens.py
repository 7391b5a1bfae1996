"""Of which tokens is the mock model's answer, and how sure is it of them?

A token is a word or a mark with the blanks before it. Where the answer names the letter of an
option, its rivals are the other letters: the more skilled the model, the surer it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fieldmark import draws
from fieldmark.chat._mock_script import MockScript
from fieldmark.chat._stops import cut

_TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")
_MARKS = " \n()*."
_LETTERS = 0.98
"""of the probability, what letters have together"""
_PLAIN = 0.9
"""of a letter's probability, what it has without a blank before it"""
Chance = tuple[str, float]


def room(body: Mapping[str, Any]) -> int:
    """Most tokens the answer may have."""
    found = body.get("max_completion_tokens") or body.get("max_tokens")
    return int(found) if found else 1 << 31


def shorten(text: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """The text as far as stop strings and the room for it go, and why it ended."""
    stops = body.get("stop") or []
    text = cut(text, [stops] if isinstance(stops, str) else stops)
    tokens = _TOKEN.findall(text)
    if len(tokens) <= room(body):
        return text, "stop"
    return "".join(tokens[: room(body)]), "length"


def chances(
    text: str, letters: Sequence[str], body: Mapping[str, Any], script: MockScript
) -> dict[str, Any]:
    """Log-probabilities of the answer's tokens in OpenAI's form."""
    content = []
    for token in _TOKEN.findall(text):
        letter = token.strip(_MARKS)
        top = _rivals(token, letter, letters, script) if letter in letters else [(token, 0.9)]
        shown = _padded(top, int(body.get("top_logprobs") or 0))
        own = next(share for name, share in top if name == token)
        content.append({"token": token, **_told(own), "top_logprobs": shown})
    return {"content": content}


def _rivals(token: str, letter: str, letters: Sequence[str], script: MockScript) -> list[Chance]:
    """Every letter with and without a blank before it; the chosen one has more than half."""
    sure = 0.55 + 0.4 * script.skill
    others = [each for each in letters if each != letter]
    weights = [1 + draws.number(script.seed, letter, each, "rival") / 2**64 for each in others]
    shares = {letter: _LETTERS * (sure if others else 1.0)}
    for other, weight in zip(others, weights, strict=True):
        shares[other] = _LETTERS * (1 - sure) * weight / sum(weights)
    found = {token: shares[letter] * _PLAIN}
    for each, share in shares.items():
        found.setdefault(each, share * (1 - _PLAIN if each == letter else _PLAIN))
        found.setdefault(f" {each}", share * (1 - _PLAIN))
    return list(found.items())


def _padded(top: Sequence[Chance], n: int) -> list[dict[str, Any]]:
    """The n likeliest; tokens of no meaning fill up what is missing."""
    ordered = sorted(top, key=lambda each: (-each[1], each[0]))[:n]
    least = ordered[-1][1] if ordered else 1.0
    fillers = [(f"rival {i}", least * 0.1**i) for i in range(1, n - len(ordered) + 1)]
    return [{"token": token, **_told(share)} for token, share in (*ordered, *fillers)]


def _told(share: float) -> dict[str, float]:
    return {"logprob": math.log(share)}
