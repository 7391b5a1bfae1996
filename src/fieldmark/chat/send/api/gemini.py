"""Google's generateContent: thinking, log-probabilities and schemas as Gemini takes them.

https://ai.google.dev/api/generate-content (read 2026-11, with the converters of Google's own Python
client). Thoughts are counted apart from the answer and paid like it. What prompts share is cached
by Google without being told.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fieldmark.chat.messages import (
    Answer,
    AnswerOutcome,
    AnswerSettings,
    Message,
    MessagePart,
    Request,
    Text,
    TokenChance,
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
from fieldmark.chat.send.retry import Fault, error_code, error_text
from fieldmark.files import parse_json

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel
    from fieldmark.chat.send.pictures import SentPicture

_NOT_THINKING = re.compile(r"gemini-(1|2\.0)")
_BY_BUDGET = re.compile(r"gemini-2\.5")
"""models that are told how many tokens to think; later ones know levels"""
_LEAST_THOUGHT, _MOST_THOUGHT = 512, 24_576
"""taken by all of Gemini 2.5"""
_LEVELS = {"none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM"}
_REFUSING = (
    "safety", "recitation", "blocklist", "prohibited_content", "spii", "language", "image_safety",
)  # fmt: skip
_HOPELESS = re.compile(r"API[ _]key|FAILED_PRECONDITION|PERMISSION_DENIED", re.IGNORECASE)


class GeminiApi(Api):
    """POST /models/…:generateContent."""

    def path(self, model_id: str) -> str:
        return f"/models/{quote(model_id)}:generateContent"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def body(
        self,
        request: Request,
        pictures: Sequence[SentPicture],
        model: ChatModel,
        lacks: Collection[str],
    ) -> dict[str, Any]:
        extra = dict(request.settings.extra)
        config = _generation(request.settings, model.id, lacks) | extra.pop("generationConfig", {})
        head: dict[str, Any] = {**model.body, "generationConfig": config, **extra}
        if opening := system_text(request):
            head["systemInstruction"] = {"parts": [{"text": opening}]}
        sent = iter(pictures)
        return {**head, "contents": [_content(message, sent) for message in spoken(request)]}

    def read(self, reply: Mapping[str, Any]) -> Answer:
        usage, model = _usage(reply.get("usageMetadata")), str(reply.get("modelVersion") or "")
        candidates = reply.get("candidates")
        if not isinstance(candidates, list) or not candidates:
            feedback = reply.get("promptFeedback")
            blocked = feedback.get("blockReason") if isinstance(feedback, Mapping) else None
            if not blocked:
                text = error_text(reply) if "error" in reply else "a reply without candidates"
                raise BadReply(text, error_code(reply), reply if "error" in reply else None)
            return Answer("refused", finish_reason=f"{blocked}".lower(), usage=usage, model=model)
        candidate = candidates[0] if isinstance(candidates[0], Mapping) else {}
        finish = str(candidate.get("finishReason") or "").lower()
        parts = _parts(candidate)
        text = _words(part for part in parts if not part.get("thought"))
        if not text and finish not in ("stop", "max_tokens", *_REFUSING):
            raise BadReply(f"an empty reply that ended with {finish or 'no finishReason'}")
        return Answer(
            outcome=_outcome(finish),
            text=text,
            reasoning=_words(part for part in parts if part.get("thought")),
            finish_reason=finish,
            usage=usage,
            model=model,
            logprobs=_logprobs(candidate.get("logprobsResult")),
        )

    def judge(self, status: int, headers: Mapping[str, str], data: bytes) -> Fault:
        """Every 429 speaks of quota and billing: what it is about, and until when, stands in its
        details.
        """
        fault, text = super().judge(status, headers, data), data.decode("utf-8", "replace")
        if status == 429:
            wait_s = fault.wait_s if fault.wait_s is not None else _retry_delay_s(data)
            is_day = "PerDay" in text
            return dataclasses.replace(fault, verdict="stop" if is_day else "again", wait_s=wait_s)
        if status == 400 and _HOPELESS.search(text):
            return dataclasses.replace(fault, verdict="stop")
        return fault


API = GeminiApi()


def _generation(settings: AnswerSettings, model_id: str, lacks: Collection[str]) -> dict[str, Any]:
    config: dict[str, Any] = {"maxOutputTokens": settings.max_output_tokens}
    wire_names: dict[str, dict[str, Any]] = {
        "temperature": {"temperature": settings.temperature},
        "top_p": {"topP": settings.top_p},
        "seed": {"seed": settings.seed},
        "stop": {"stopSequences": sendable(settings.stop) or None},
        "reasoning_effort": {"thinkingConfig": _thinking(settings, model_id)},
    }
    for name, values in wire_names.items():
        config |= {} if name in lacks else values
    if settings.schema is not None and "schema" not in lacks:
        config |= {
            "responseMimeType": "application/json",
            "responseJsonSchema": dict(settings.schema),
        }
    if settings.top_logprobs is not None and "logprobs" not in lacks:
        config |= {"responseLogprobs": True, "logprobs": settings.top_logprobs or None}
    return {key: value for key, value in config.items() if value is not None}


def _thinking(settings: AnswerSettings, model_id: str) -> dict[str, Any] | None:
    effort = settings.reasoning_effort
    if not effort or _NOT_THINKING.match(model_id):
        return None
    shown = {} if effort == "none" else {"includeThoughts": True}
    if not _BY_BUDGET.match(model_id):
        return {"thinkingLevel": _LEVELS.get(effort, "HIGH"), **shown}
    budget = thinking_tokens(effort, settings.max_output_tokens)
    budget = max(_LEAST_THOUGHT, min(_MOST_THOUGHT, budget))
    return {"thinkingBudget": 0 if effort == "none" else budget, **shown}


def _content(message: Message, sent: Iterator[SentPicture]) -> dict[str, Any]:
    role = "model" if message.role == "assistant" else "user"
    return {"role": role, "parts": [_part(part, sent) for part in message.parts]}


def _part(part: MessagePart, sent: Iterator[SentPicture]) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    picture = next(sent)
    return {"inlineData": {"mimeType": picture.media_type, "data": picture.base64}}


def _parts(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _words(parts: Iterator[Mapping[str, Any]]) -> str:
    return "".join(str(part.get("text", "")) for part in parts)


def _outcome(finish: str) -> AnswerOutcome:
    if finish == "max_tokens":
        return "length"
    return "refused" if finish in _REFUSING else "ok"


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    tokens_in = amount(usage.get("promptTokenCount"))
    if tokens_in is None:
        return None
    thought = count(usage, "thoughtsTokenCount")
    return Usage(
        tokens_in=int(tokens_in),
        tokens_out=count(usage, "candidatesTokenCount") + thought,
        cached=count(usage, "cachedContentTokenCount"),
        reasoning=thought,
    )


def _logprobs(result: Any) -> tuple[TokenChance, ...]:
    try:
        rivals = result.get("topCandidates") or [{}] * len(result["chosenCandidates"])
        return tuple(
            TokenChance(
                str(chosen["token"]),
                float(chosen["logProbability"]),
                tuple(
                    (str(rival["token"]), float(rival["logProbability"]))
                    for rival in step.get("candidates") or ()
                ),
            )
            for chosen, step in zip(result["chosenCandidates"], rivals, strict=True)
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()


def _retry_delay_s(data: bytes) -> float | None:
    """`retryDelay` of a RetryInfo: "47s"."""
    try:
        details = parse_json(data)["error"]["details"]
        delays = [detail["retryDelay"] for detail in details if "retryDelay" in detail]
        return float(delays[0].removesuffix("s"))
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
