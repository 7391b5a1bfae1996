"""The wire form of an endpoint: how a request is written, and how its reply is read.

One class per form: OpenAI's chat completions (most endpoints speak it), Anthropic's messages,
Gemini's generateContent. Sending, retrying and counting are the same for all and not here.

The same request always gives the same bytes, so that providers' prompt caches can work.
"""

from __future__ import annotations

import abc
import importlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark.chat.messages import Answer, AnswerSettings, Message, Request
from fieldmark.chat.prices import WireForm
from fieldmark.chat.send.retry import Fault, judge_reply
from fieldmark.files import parse_json

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel
    from fieldmark.chat.send.pictures import SentPicture

_WORDS = {
    "temperature": r"temperature",
    "top_p": r"top_?p\b",
    "seed": r"\bseed\b",
    "schema": r"(response|output)[ _]?format|(json|response)_?schema|structured|output_?config",
    "logprobs": r"log_?prob",
    "max_tokens": r"max_completion_tokens",
    "reasoning_effort": r"reasoning|effort|thinking",
    "stop": r"\bstop(_?sequences?)?\b",
}
"""what an error calls a setting that the endpoint does not take"""
_SENT_AS = {"top_logprobs": "logprobs", "max_output_tokens": "max_tokens"}
_ABOUT_SETTINGS = (400, 403, 404, 422)
_THINKING_SHARE = {"none": 0.0, "minimal": 0.1, "low": 0.2, "medium": 0.5}


class BadReply(Exception):
    """A reply that is no answer: junk, an empty body, an error in disguise."""

    def __init__(self, text: str, code: int | None = None, body: Any = None) -> None:
        super().__init__(text)
        self.code, self.body = code, body


class Api(abc.ABC):
    """A wire form."""

    @abc.abstractmethod
    def path(self, model_id: str) -> str:
        """What follows the base URL."""

    @abc.abstractmethod
    def headers(self, key: str) -> dict[str, str]:
        """Those that hold the key, and the version of the form."""

    @abc.abstractmethod
    def body(
        self,
        request: Request,
        pictures: Sequence[SentPicture],
        model: ChatModel,
        lacks: Collection[str],
    ) -> dict[str, Any]:
        """What is sent as JSON; `lacks` are settings that are left out."""

    @abc.abstractmethod
    def read(self, reply: Mapping[str, Any]) -> Answer:
        """What a reply of status 200 says; `usd` only where the provider tells its charge.

        Raises `BadReply` for one that holds no answer.
        """

    def judge(self, status: int, headers: Mapping[str, str], data: bytes) -> Fault:
        """What a reply with an error status means."""
        return judge_reply(status, headers, data)

    def refused_setting(self, code: int | None, text: str, settings: AnswerSettings) -> str:
        """The setting that this error is about, of those that were sent; "" = it is about none."""
        if code not in _ABOUT_SETTINGS:
            return ""
        given = {_SENT_AS.get(name, name) for name in settings.given()}
        named = (
            name for name, pattern in _WORDS.items() if re.search(pattern, text, re.IGNORECASE)
        )
        return next((name for name in named if name in given), "")


def load_api(name: WireForm) -> Api:
    """The wire form of this name."""
    api: Api = importlib.import_module(f"{__name__}.{name}").API
    return api


def read_json(data: bytes) -> dict[str, Any]:
    """The JSON object of a reply."""
    try:
        reply = parse_json(data)
    except ValueError:
        if data.lstrip()[:1] == b"<":
            raise BadReply(
                "the server sent a web page, not JSON. Is the address right? It usually ends in /v1"
            ) from None
        raise BadReply(f"a reply that is not JSON ({data[:40]!r})") from None
    if not isinstance(reply, dict):
        raise BadReply("a reply that is not a JSON object")
    return reply


def system_text(request: Request) -> str:
    """What system messages say, for forms that have a place of its own for it."""
    return "\n".join(message.text for message in request.messages if message.role == "system")


def spoken(request: Request) -> list[Message]:
    """The messages of user and assistant."""
    return [message for message in request.messages if message.role != "system"]


def as_json(value: Any) -> bytes:
    """
    >>> as_json({"text": "a wren"})
    b'{"text":"a wren"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")  # half a character (a lone surrogate) is a "?"


def thinking_tokens(effort: str, room: int) -> int:
    """Tokens to think with, of the room for thoughts and answer, for models that are told a number.

    >>> thinking_tokens("medium", 8000)
    4000
    """
    return round(room * _THINKING_SHARE.get(effort, 0.8))


def count(usage: Any, *keys: str) -> int:
    """A number of tokens in a block, or in the blocks inside; 0 where there is none."""
    for key in keys:
        usage = usage.get(key) if isinstance(usage, Mapping) else None
    return int(amount(usage) or 0)


def amount(value: Any) -> float | None:
    """A number of tokens or dollars; None where it is none (a word, below zero, infinite)."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e15 else None
