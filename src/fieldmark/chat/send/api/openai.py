"""OpenAI's chat completions: the form that most endpoints speak."""

from __future__ import annotations

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
    TokenChance,
    Usage,
    sendable,
)
from fieldmark.chat.send.api import Api, BadReply, amount, count
from fieldmark.chat.send.retry import error_code, error_text

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel
    from fieldmark.chat.send.pictures import SentPicture

_REFUSING = ("content_filter", "safety", "prohibited_content", "recitation", "refusal", "blocklist")
_MESSAGE_KEYS = ("content", "refusal", "reasoning", "reasoning_content")
_FULL = ("length", "max_tokens", "max_output_tokens")
_NEWER_OUTPUT_KEY = "max_completion_tokens"


class OpenAIApi(Api):
    """POST /chat/completions."""

    def path(self, model_id: str) -> str:  # noqa: ARG002 - the body names it
        return "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(
        self,
        request: Request,
        pictures: Sequence[SentPicture],
        model: ChatModel,
        lacks: Collection[str],
    ) -> dict[str, Any]:
        output_key = _NEWER_OUTPUT_KEY if "max_tokens" in lacks else model.output_key
        settings = settings_body(request.settings, lacks, output_key)
        # Both; of a table in both (OpenRouter's `provider`) the keys of both: `more` wins.
        tables = {
            key: {**model.body[key], **value}
            for key, value in settings.items()
            if isinstance(value, Mapping) and isinstance(model.body.get(key), Mapping)
        }
        head, sent = {"model": model.id, **model.body, **settings, **tables}, iter(pictures)
        return {**head, "messages": [_message(message, sent) for message in request.messages]}

    def read(self, reply: Mapping[str, Any]) -> Answer:
        """Token counts or log-probabilities that cannot be read are left out: the answer itself is
        paid for.
        """
        choice, message = _choice(reply)
        text, refusal = _content(message.get("content")), message.get("refusal") or ""
        reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        finish, charged = str(choice.get("finish_reason") or ""), reply.get("usage")
        return Answer(
            outcome=_outcome(finish, str(refusal)),
            text=text or str(refusal),
            reasoning=reasoning if isinstance(reasoning, str) else "",
            finish_reason=finish,
            usage=_usage(charged),
            usd=amount(charged.get("cost")) if isinstance(charged, dict) else None,
            model=str(reply.get("model") or ""),
            fingerprint=str(reply.get("system_fingerprint") or ""),
            logprobs=_logprobs(choice.get("logprobs")),
        )


API = OpenAIApi()


def settings_body(
    settings: AnswerSettings, lacks: Collection[str] = (), output_key: str = "max_tokens"
) -> dict[str, Any]:
    body: dict[str, Any] = {
        output_key: settings.max_output_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "stop": sendable(settings.stop) or None,
        "reasoning_effort": settings.reasoning_effort or None,
    }
    if settings.schema is not None and "schema" not in lacks:
        form = {"name": "answer", "strict": True, "schema": dict(settings.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if settings.top_logprobs is not None and "logprobs" not in lacks:
        body |= {"logprobs": True, "top_logprobs": settings.top_logprobs or None}
    kept = {name: value for name, value in body.items() if value is not None and name not in lacks}
    return {**kept, **settings.extra}


def _message(message: Message, sent: Iterator[SentPicture]) -> dict[str, Any]:
    if len(message.parts) == 1 and isinstance(message.parts[0], Text):
        return {"role": message.role, "content": message.parts[0].text}
    return {"role": message.role, "content": [_part(part, sent) for part in message.parts]}


def _part(part: MessagePart, sent: Iterator[SentPicture]) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    picture = next(sent)
    image = {"url": f"data:{picture.media_type};base64,{picture.base64}"}
    return {
        "type": "image_url",
        "image_url": image | ({"detail": part.detail} if part.detail else {}),
    }


def _choice(reply: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The first choice and its message; an error in place of them is raised with its own code."""
    choices = reply.get("choices")
    if reply.get("error") and not choices:
        raise BadReply(error_text(reply), error_code(reply), reply)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise BadReply("a reply without choices")
    if choices[0].get("error"):
        raise BadReply(error_text(choices[0]), error_code(choices[0]), choices[0])
    message, finish = choices[0].get("message"), choices[0].get("finish_reason")
    if not isinstance(message, dict):
        raise BadReply("a reply without a message")
    # Routers whose upstream failed send this; a model that has nothing to say gives a reason.
    if finish == "error" or (not finish and not any(message.get(key) for key in _MESSAGE_KEYS)):
        raise BadReply("an empty reply without a finish_reason")
    return choices[0], message


def _outcome(finish: str, refusal: str) -> AnswerOutcome:
    if finish.lower() in _FULL:
        return "length"
    if refusal or finish.lower() in _REFUSING:
        return "refused"
    return "ok"


def _content(content: Any) -> str:
    """Text, or the text parts of a list; nothing at all is the empty text, not the word None."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _usage(usage: Any) -> Usage | None:
    """Tokens that stand in the total only are thoughts (Gemini and its proxies): they are paid."""
    if not isinstance(usage, dict):
        return None
    tokens_in, tokens_out = amount(usage.get("prompt_tokens")), usage.get("completion_tokens")
    written = 0.0 if tokens_out is None else amount(tokens_out)
    if tokens_in is None or written is None:
        return None
    reasoning = count(usage, "completion_tokens_details", "reasoning_tokens")
    unlisted = int(max(0.0, (amount(usage.get("total_tokens")) or 0.0) - tokens_in - written))
    return Usage(
        tokens_in=int(tokens_in),
        tokens_out=int(written) + unlisted,
        cached=count(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning=max(reasoning, unlisted),
    )


def _logprobs(logprobs: Any) -> tuple[TokenChance, ...]:
    try:
        return tuple(
            TokenChance(
                str(token.get("token", "")),
                float(token.get("logprob", 0.0)),
                tuple(
                    (str(rival["token"]), float(rival["logprob"]))
                    for rival in token.get("top_logprobs") or ()
                ),
            )
            for token in logprobs["content"]
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()
