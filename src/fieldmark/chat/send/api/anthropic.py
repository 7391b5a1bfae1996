"""Anthropic's Messages API: prompt caching, thinking and structured output as Claude takes them.

https://platform.claude.com/docs/en/api/messages (read 2026-11, with the types of Anthropic's own
Python client). The system prompt stands apart; a part that ends what many prompts share gets a
cache breakpoint; of a JSON schema only what the API knows is sent.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark.chat.messages import (
    Answer,
    AnswerOutcome,
    AnswerSettings,
    Message,
    MessagePart,
    Request,
    Text,
    Usage,
    sendable,
)
from fieldmark.chat.send.api import (
    Api,
    BadReply,
    amount,
    count,
    spoken,
    system_text,
    thinking_tokens,
)
from fieldmark.chat.send.retry import Fault, error_text
from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel
    from fieldmark.chat.send.pictures import SentPicture

_VERSION = "2023-06-01"
_BY_BUDGET = re.compile(r"claude-(3|(opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?$)")
"""models that are told how many tokens to think; later ones decide, by effort"""
_LEAST_THOUGHT = 1024
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_IN_SCHEMAS = (
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "allOf", "$ref", "$defs", "description", "title", "format",
)  # fmt: skip
"""minimum, maxLength, … are refused: the parser checks what they would have"""
_FULL = ("max_tokens", "model_context_window_exceeded")
_SPENT = re.compile(r"credit balance|usage limits|enforced_spend_limit", re.IGNORECASE)
_BREAKPOINT = {"cache_control": {"type": "ephemeral"}}


class AnthropicApi(Api):
    """POST /messages."""

    def path(self, model_id: str) -> str:  # noqa: ARG002 - the body names it
        return "/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}

    def body(
        self,
        request: Request,
        pictures: Sequence[SentPicture],
        model: ChatModel,
        lacks: Collection[str],
    ) -> dict[str, Any]:
        settings = _settings_body(request.settings, model.id, lacks)
        head = {"model": model.id, **model.body, **settings}
        if opening := system_text(request):
            head["system"] = opening
        sent = iter(pictures)
        return {**head, "messages": [_message(message, sent) for message in spoken(request)]}

    def read(self, reply: Mapping[str, Any]) -> Answer:
        content = reply.get("content")
        if reply.get("type") == "error" or not isinstance(content, list):
            raise BadReply(error_text(reply) if "error" in reply else "a reply without content")
        blocks = [block for block in content if isinstance(block, dict)]
        finish = str(reply.get("stop_reason") or "")
        details = reply.get("stop_details")
        refusal = details.get("explanation") if isinstance(details, dict) else ""
        return Answer(
            outcome=_outcome(finish),
            text=_words(blocks, "text") or str(refusal or ""),
            reasoning=_words(blocks, "thinking"),
            finish_reason=finish,
            usage=_usage(reply.get("usage")),
            model=str(reply.get("model") or ""),
        )

    def judge(self, status: int, headers: Mapping[str, str], data: bytes) -> Fault:
        """Money that is used up comes as 400 or 429: asking on would not help."""
        fault = super().judge(status, headers, data)
        if status in (400, 429) and _SPENT.search(data.decode("utf-8", "replace")):
            return dataclasses.replace(fault, verdict="stop")
        return fault


API = AnthropicApi()


def _settings_body(
    settings: AnswerSettings, model_id: str, lacks: Collection[str]
) -> dict[str, Any]:
    effort = "" if "reasoning_effort" in lacks else settings.reasoning_effort
    thinking, output = _thinking(effort, settings.max_output_tokens, model_id)
    if settings.schema is not None and "schema" not in lacks:
        output["format"] = {"type": "json_schema", "schema": taken_schema(settings.schema)}
    body: dict[str, Any] = {
        "max_tokens": settings.max_output_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": [text for text in sendable(settings.stop) if text.strip()],
        "thinking": thinking,
        "output_config": output,
    }
    if thinking.get("type") in ("enabled", "adaptive"):
        body |= {"temperature": None, "top_p": None}  # refused while it thinks
    if "stop" in lacks:
        body["stop_sequences"] = None
    empty: tuple[Any, ...] = (None, [], {})
    kept = {key: value for key, value in body.items() if value not in empty and key not in lacks}
    return {**kept, **settings.extra}


def _thinking(effort: str, room: int, model_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What goes under `thinking` and `output_config`."""
    if not effort:
        return {}, {}
    if effort == "none":
        return {"type": "disabled"}, {}
    if not _BY_BUDGET.match(model_id):
        return {"type": "adaptive"}, {"effort": effort if effort in _EFFORTS else "low"}
    budget = max(_LEAST_THOUGHT, thinking_tokens(effort, room))
    if budget >= room:
        raise UsageError(
            f"{model_id} thinks with {_LEAST_THOUGHT:,} tokens or more, and answers after that: "
            f"the room of {room:,} is too small. Give it more (max_output_tokens) or no effort."
        )
    return {"type": "enabled", "budget_tokens": budget}, {}


def taken_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what the API refuses; objects hold what is listed and nothing else.

    >>> taken_schema({"type": "integer", "minimum": 0})
    {'type': 'integer'}
    """
    kept = {key: value for key, value in schema.items() if key in _IN_SCHEMAS}
    for key in ("properties", "$defs"):
        if key in kept:
            kept[key] = {name: taken_schema(inner) for name, inner in kept[key].items()}
    if isinstance(kept.get("items"), Mapping):
        kept["items"] = taken_schema(kept["items"])
    for key in ("anyOf", "allOf"):
        if key in kept:
            kept[key] = [taken_schema(inner) for inner in kept[key]]
    return {**kept, "additionalProperties": False} if kept.get("type") == "object" else kept


def _message(message: Message, sent: Iterator[SentPicture]) -> dict[str, Any]:
    # Blank texts are refused.
    parts = [part for part in message.parts if not isinstance(part, Text) or part.text.strip()]
    return {"role": message.role, "content": [_part(part, sent) for part in parts]}


def _part(part: MessagePart, sent: Iterator[SentPicture]) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text, **(_BREAKPOINT if part.ends_shared else {})}
    picture = next(sent)
    source = {"type": "base64", "media_type": picture.media_type, "data": picture.base64}
    return {"type": "image", "source": source}


def _words(blocks: Sequence[Mapping[str, Any]], kind: str) -> str:
    return "".join(str(block.get(kind, "")) for block in blocks if block.get("type") == kind)


def _outcome(finish: str) -> AnswerOutcome:
    if finish in _FULL:
        return "length"
    return "refused" if finish == "refusal" else "ok"


def _usage(usage: Any) -> Usage | None:
    """`input_tokens` are those that were neither read from a cache nor written to one."""
    if not isinstance(usage, Mapping):
        return None
    fresh, written = amount(usage.get("input_tokens")), amount(usage.get("output_tokens"))
    if fresh is None or written is None:
        return None
    to_cache = count(usage, "cache_creation_input_tokens")
    cached = count(usage, "cache_read_input_tokens")
    return Usage(
        tokens_in=int(fresh) + to_cache + cached,
        tokens_out=int(written),
        cached=cached,
        reasoning=count(usage, "output_tokens_details", "thinking_tokens"),
        to_cache=to_cache,
    )
