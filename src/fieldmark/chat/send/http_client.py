"""HTTP client of /chat/completions: the body of a request, one attempt to send it, its reply.

aiohttp without helpers. Redirects are not followed: a key must not travel to another host. Nothing
raised or logged here holds a key or a request's headers.

Bodies are bytes in pieces: the base64 of an image is spliced in, not escaped by a JSON encoder, and
pieces that many requests share (shots) exist once in memory. The same request always gives the same
bytes, so that providers' prompt caches can work.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from fieldmark.chat.messages import (
    Answer,
    AnswerOutcome,
    AnswerSettings,
    Message,
    Request,
    Text,
    TokenChance,
    Usage,
    sendable,
    stopped,
)
from fieldmark.chat.send.options import Options, is_loopback
from fieldmark.chat.send.pictures import SentPicture
from fieldmark.chat.send.retry import (
    Fault,
    connection_fault,
    error_code,
    error_text,
    judge_error,
    judge_reply,
    without_secrets,
)
from fieldmark.errors import ModelError

if TYPE_CHECKING:
    from fieldmark.chat.mock.server import MockServer
    from fieldmark.chat.send.endpoint import ChatModel

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_REFUSING = ("content_filter", "safety", "prohibited_content", "recitation", "refusal", "blocklist")
_MESSAGE_KEYS = ("content", "refusal", "reasoning", "reasoning_content")
_FULL = ("length", "max_tokens", "max_output_tokens")


class BadReply(Exception):
    """A reply that is no chat completion: junk, an empty body, an error in disguise."""

    def __init__(self, text: str, code: int | None = None, body: Any = None) -> None:
        super().__init__(text)
        self.code, self.body = code, body


def body_pieces(
    request: Request,
    pictures: Sequence[SentPicture],
    model: str,
    lacks: Sequence[str] = (),
    output_key: str = "max_tokens",
    more: Mapping[str, Any] | None = None,
) -> list[bytes]:
    """The JSON body; `lacks` are settings the model does not take, which are left out."""
    settings = settings_body(request.settings, lacks, output_key)
    head = {"model": model, **(more or {}), **settings}
    pieces = [_json(head)[:-1] + b',"messages":[']
    sent = iter(pictures)
    for number, message in enumerate(request.messages):
        pieces.append(b"," if number else b"")
        pieces.extend(_message_pieces(message, sent))
    pieces.append(b"]}")
    return pieces


def settings_body(
    settings: AnswerSettings, lacks: Sequence[str] = (), output_key: str = "max_tokens"
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


def _message_pieces(message: Message, sent: Iterator[SentPicture]) -> Iterator[bytes]:
    role = b'{"role":' + _quoted(message.role) + b',"content":'
    if len(message.parts) == 1 and isinstance(message.parts[0], Text):
        yield role + _quoted(message.parts[0].text) + b"}"
        return
    yield role + b"["
    for number, part in enumerate(message.parts):
        comma = b"," if number else b""
        if isinstance(part, Text):
            yield comma + b'{"type":"text","text":' + _quoted(part.text) + b"}"
            continue
        picture = next(sent)
        media_type = picture.media_type.encode()
        yield comma + b'{"type":"image_url","image_url":{"url":"data:' + media_type + b";base64,"
        yield picture.base64
        yield b'"' + (b',"detail":' + _quoted(part.detail) if part.detail else b"") + b"}}"
    yield b"]}"


def _json(value: Any) -> bytes:
    return _COMPACT.encode(value).encode("utf-8", "replace")


def _quoted(text: str) -> bytes:
    return encode_basestring(text).encode("utf-8", "replace")


def read_reply(data: bytes) -> dict[str, Any]:
    """The reply of status 200; an error inside it is raised with its own code."""
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):
        raise BadReply(f"a reply that is not JSON ({data[:40]!r})") from None
    if not isinstance(reply, dict):
        raise BadReply("a reply that is no JSON object")
    if reply.get("error") and not reply.get("choices"):
        raise BadReply(error_text(reply), error_code(reply), reply)
    choices = reply.get("choices")
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
    return reply


def to_answer(
    reply: dict[str, Any], usd_of: Callable[[Usage], float | None], **known: Any
) -> Answer:
    """What a good reply says, and what is `known` besides: timing, key, attempts.

    The provider's own word on the cost counts, else `usd_of` the usage it returned. Token counts
    or log-probabilities that cannot be read are left out: the answer itself is paid for.
    """
    choice = reply["choices"][0]
    message = choice["message"]
    text = _content(message.get("content"))
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    refusal = message.get("refusal") or ""
    finish = str(choice.get("finish_reason") or "")
    charged = reply.get("usage")
    usage = _usage(charged)
    usd = _amount(charged.get("cost")) if isinstance(charged, dict) else None
    return Answer(
        outcome=_outcome(finish, str(refusal)),
        text=text or str(refusal),
        reasoning=reasoning if isinstance(reasoning, str) else "",
        finish_reason=finish,
        usage=usage,
        usd=usd_of(usage) if usd is None and usage is not None else usd,
        model=str(reply.get("model") or ""),
        fingerprint=str(reply.get("system_fingerprint") or ""),
        logprobs=_logprobs(choice.get("logprobs")),
        **known,
    )


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
    if not isinstance(usage, dict):
        return None
    tokens_in, tokens_out = _amount(usage.get("prompt_tokens")), usage.get("completion_tokens")
    written = 0.0 if tokens_out is None else _amount(tokens_out)
    if tokens_in is None or written is None:
        return None
    return Usage(
        tokens_in=int(tokens_in),
        tokens_out=int(written),
        cached=_detail(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Mapping[str, Any], block: str, key: str) -> int:
    details = usage.get(block)
    return int(_amount(details.get(key)) or 0) if isinstance(details, dict) else 0


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


def _amount(value: Any) -> float | None:
    """A number of tokens or dollars; None where it is none (a word, below zero, infinite)."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e15 else None


LOG = logging.getLogger(__name__)
AGENT = "fieldmark (Python; multimodal evaluation)"
_JOIN_BYTES = 1 << 19
"""larger bodies go out piece by piece: pieces that requests share are not copied for each"""


class HttpClient:
    """The connection pool to a model's endpoint."""

    def __init__(self, model: ChatModel, options: Options) -> None:
        self._model, self._options = model, options
        self._session: aiohttp.ClientSession | None = None
        self._mock: MockServer | None = None
        self._refused: set[str] = set()
        """settings that the endpoint turned out not to take"""
        self._url, self._key = URL(), ""

    async def open(self) -> None:
        base_url = self._model.base_url
        if self._model.is_mock:
            from fieldmark.chat.mock.answers import read_script
            from fieldmark.chat.mock.server import MockServer

            script = read_script(self._model.name, self._model.mock)
            self._mock = MockServer(script, self._options.mock_labels)
            base_url = await self._mock.start()
        self._key = self._model.key()
        if not self._key.isprintable() or not self._key.isascii():
            raise ModelError(f"{self._model.key_env}  holds characters no key has: set it again.")
        options = self._options
        self._session = aiohttp.ClientSession(
            headers=self._headers(),
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(
                total=options.timeout_s, sock_connect=options.connect_timeout_s
            ),
            # Proxies of the environment are for the world outside.
            trust_env=not is_loopback(base_url),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding",) if is_loopback(base_url) else (),
        )
        self._url = URL(f"{base_url}/chat/completions")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._mock is not None:
            await self._mock.stop()

    async def send(
        self, request: Request, pictures: Sequence[SentPicture], **known: Any
    ) -> Answer | Fault:
        """One attempt; it always ends within the timeout. `known` goes into its answer."""
        assert self._session is not None, "the sender is opened with `async with`"
        model, clock = self._model, self._options.clock
        lacks = (*model.lacks, *self._refused)
        pieces = body_pieces(request, pictures, model.id, lacks, model.output_key, model.body)
        began, length = clock.now(), sum(map(len, pieces))
        try:
            async with self._session.post(
                self._url,
                data=b"".join(pieces) if length <= _JOIN_BYTES else _piece_by_piece(pieces),
                headers=None if length <= _JOIN_BYTES else {"Content-Length": str(length)},
                allow_redirects=False,
            ) as response:
                data = await response.read()
                status, headers = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return self._clean(connection_fault(error))
        if status != 200:
            return self._without_logprobs(
                self._clean(judge_reply(status, headers, data)), request.settings
            )
        try:
            return self._read(request.settings, data, latency_s=clock.now() - began, **known)
        except RecursionError:
            return judge_error(None, "a reply that is nested too deep")

    def _read(self, settings: AnswerSettings, data: bytes, **known: Any) -> Answer | Fault:
        try:
            answer = to_answer(read_reply(data), self._model.card.usd, **known)
            return stopped(answer, settings.stop)
        except BadReply as error:
            fault = judge_error(error.code, error.body or str(error))
            return self._without_logprobs(self._clean(fault), settings)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": AGENT}
        return {**headers, "Authorization": f"Bearer {self._key}"} if self._key else headers

    def _without_logprobs(self, fault: Fault, settings: AnswerSettings) -> Fault:
        """Log-probabilities are a help, not the answer: who refuses them is asked without."""
        is_about = fault.code in (400, 403, 422) and "logprob" in fault.text.lower()
        if settings.top_logprobs is None or not is_about:
            return fault
        if "logprobs" not in self._refused:
            LOG.warning("%s gives no log-probabilities: %s", self._model.name, fault.text)
        self._refused.add("logprobs")
        return dataclasses.replace(fault, verdict="again")

    def _clean(self, fault: Fault) -> Fault:
        return dataclasses.replace(fault, text=without_secrets(fault.text, self._key))


async def _piece_by_piece(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
