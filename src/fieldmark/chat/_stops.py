"""Where does an answer end that was told to stop at certain strings?

Before the first of them, whoever wrote it. Endpoints take four strings at most (OpenAI's limit) and
some take none; so the first four are sent, and every answer is cut here at all of them.
https://platform.openai.com/docs/api-reference/chat/create#chat-create-stop
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fieldmark.chat._messages import Answer

MOST_SENT = 4


def cut(text: str, stops: Iterable[str]) -> str:
    """The text before the first stop string in it; empty strings stop nothing.

    >>> cut("wren\\n\\nQ: Which next?", ("Q:", "\\n\\n", ""))
    'wren'
    """
    places = [text.find(stop) for stop in stops if stop]
    return text[: min((place for place in places if place >= 0), default=len(text))]


def sendable(stops: Iterable[str]) -> list[str]:
    """What of the stop strings goes into a request."""
    return [each for each in dict.fromkeys(stops) if each][:MOST_SENT]


def stopped(answer: Answer, stops: Iterable[str]) -> Answer:
    """The answer up to the first stop string; one that ran on from there out of tokens is whole."""
    text = cut(answer.text, stops)
    if answer.outcome not in ("ok", "length") or text == answer.text:
        return answer
    return dataclasses.replace(answer, text=text, outcome="ok", finish_reason="stop")
