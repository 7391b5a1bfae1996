"""Which stored answer is the answer to this request?

The key holds everything that decides an answer and nothing else: provider, address, model, every
message with the SHA-256 of each image's bytes as sent, all sampling settings, the schema, the
repeat. Concurrency, timeouts and the version of this program are not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fieldmark.chat._messages import Picture, Request, Settings, Text

if TYPE_CHECKING:
    from fieldmark.chat._pictures import SentPicture


_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def canonical(value: Any) -> str:
    """JSON that is the same for equal values, whatever the order of their keys."""
    return _SORTED.encode(value)


def request_facts(
    request: Request, pictures: Iterable[SentPicture], address: Mapping[str, str]
) -> dict[str, Any]:
    """What the key is made of; `address` names provider, base URL and model."""
    sent = iter(pictures)
    messages = [
        {"role": message.role, "parts": [_part(part, sent) for part in message.parts]}
        for message in request.messages
    ]
    if request.continuations:  # nothing is drawn or written: settings decide nothing
        return {**address, "messages": messages, "continuations": list(request.continuations)}
    return {
        **address,
        "messages": messages,
        "settings": settings_facts(request.settings),
        "repeat": request.repeat,
    }


def request_key(
    request: Request, pictures: Iterable[SentPicture], address: Mapping[str, str]
) -> str:
    """32 hexadecimal digits that stand for the request."""
    facts = canonical(request_facts(request, pictures, address))
    return hashlib.blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def settings_facts(settings: Settings) -> dict[str, Any]:
    """What is set: a setting added to fieldmark later leaves the keys of old answers alone."""
    facts = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "max_output_tokens": settings.max_output_tokens,
        "stop": list(settings.stop) or None,
        "schema": settings.schema,
        "top_logprobs": settings.top_logprobs,
        "reasoning_effort": settings.reasoning_effort or None,
        "extra": dict(settings.extra) or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _part(part: Text | Picture, sent: Any) -> dict[str, str]:
    if isinstance(part, Text):
        return {"text": part.text}
    picture: SentPicture = next(sent)
    facts = {"image": picture.sha256, "type": picture.media_type}
    return {**facts, "detail": part.detail} if part.detail else facts
