"""What is said to a chat model, and what comes back?

Plain data: nothing here sends, decodes or writes. A picture may be a function that reads it, so
that a list of a million requests holds no image; what it looks like on the wire is `_pictures`'
work, and which bytes stand for a request in the journal is `_key`'s.


Where does an answer end that was told to stop at certain strings?

Before the first of them, whoever wrote it. Endpoints take four strings at most (OpenAI's limit) and
some take none; so the first four are sent, and every answer is cut here at all of them.
https://platform.openai.com/docs/api-reference/chat/create#chat-create-stop
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]
Outcome = Literal["ok", "length", "refused", "failed"]
Box = tuple[float, float, float, float]
Spot = tuple[str, bytes | Callable[[], bytes], Box | None]


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a message; its bytes are read when the request is about to be sent."""

    source: bytes | Callable[[], bytes]
    """encoded bytes (JPEG, PNG, …), or what reads them"""
    name: str = ""
    """what errors call it; of the same name and source, what many requests show is prepared once"""
    crop: Box | None = None
    """x, y, width, height in pixels of the upright image"""
    detail: Literal["", "low", "high", "auto"] = ""
    """OpenAI's hint; "" sends none"""

    def read(self) -> bytes:
        return self.source if isinstance(self.source, bytes) else self.source()

    @property
    def spot(self) -> Spot | None:
        """What two uses of one picture have in common; None = it has no name, so nothing.

        A name alone would not do: two datasets may call their files alike.
        """
        return (self.name, self.source, self.crop) if self.name else None


Part = Text | Picture


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The words only, one part a line."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


def system(text: str) -> Message:
    return Message("system", (Text(text),))


def user(*parts: Part | str) -> Message:
    """
    >>> user("Which bird?", Picture(b"...")).text
    'Which bird?'
    """
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(text: str) -> Message:
    return Message("assistant", (Text(text),))


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides the answer besides the messages. None is left to the model's own default."""

    temperature: float | None = 0.0
    top_p: float | None = None
    seed: int | None = None
    max_output_tokens: int = 1024
    """room for the answer: kept free in the context, and reserved from the budget"""
    stop: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    """JSON schema the answer must follow, where the backend can"""
    top_logprobs: int | None = None
    """log-probabilities of this many alternatives per answer token; 0 = of the token alone"""
    reasoning_effort: str = ""
    """low, medium, high, none: for models that think; "" sends none"""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """further keys of the body as they are (OpenRouter's `provider`, vLLM's `min_pixels`, …)"""


DEFAULT_SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class Request:
    """One question; the sampling repeat makes equal questions differ."""

    id: str
    messages: tuple[Message, ...]
    settings: Settings = DEFAULT_SETTINGS
    repeat: int = 0
    info: Any = None
    """whatever the asker wants back with the answer; neither sent nor part of the key"""
    continuations: tuple[str, ...] = ()
    """with some, nothing is written: how likely each is as the answer (`score_requests`)"""

    @property
    def pictures(self) -> list[Picture]:
        return [p for message in self.messages for p in message.parts if isinstance(p, Picture)]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them."""

    tokens_in: int = 0
    tokens_out: int = 0
    """reasoning included"""
    cached: int = 0
    """of tokens_in, read from the provider's prompt cache"""
    reasoning: int = 0
    """of tokens_out"""

    @property
    def total(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class TokenChance:
    """A token of the answer with its log-probability and those of its rivals."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Likelihood:
    """How likely a given text is as the answer."""

    logprob: float
    """natural logarithm, summed over its tokens"""
    is_greedy: bool
    """each of its tokens is the likeliest one at its place"""
    n_tokens: int


_WORDS = ("text", "reasoning", "finish_reason", "model", "fingerprint", "error")


def whole_characters(text: str) -> str:
    """Half a character (a lone surrogate: JSON can hold one, UTF-8 cannot) becomes U+FFFD.

    >>> whole_characters("ant \\ud83d")
    'ant �'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request. A `failed` one is neither kept in the journal nor scored."""

    outcome: Outcome
    """ok; length = the model ran out of tokens; refused = it or a filter declined; failed"""
    text: str = ""
    reasoning: str = ""
    """what the provider returned apart from the answer"""
    finish_reason: str = ""
    usage: Usage | None = None
    """None where the provider returned none"""
    usd: float | None = None
    """None = unknown, never 0 for want of a price"""
    model: str = ""
    """the id the provider says it used"""
    fingerprint: str = ""
    """system_fingerprint: the backend's version, where it tells"""
    latency_s: float = 0.0
    """of the attempt that succeeded"""
    attempts: int = 1
    logprobs: tuple[TokenChance, ...] = ()
    error: str = ""
    key: str = ""
    """under which the journal holds it"""
    is_replayed: bool = False
    """from the journal: nothing was sent or paid now"""
    resized: tuple[str, ...] = ()
    """one line per picture that was not sent as it is: hash, sizes, codec, quality"""
    likelihoods: tuple[Likelihood, ...] = ()
    """of the request's continuations, in their order"""

    def __post_init__(self) -> None:
        for name in _WORDS:
            text = getattr(self, name)
            if not text.isascii():
                object.__setattr__(self, name, whole_characters(text))

    @property
    def is_answer(self) -> bool:
        return self.outcome != "failed"


_KEPT = [each.name for each in fields(Answer) if each.name not in ("key", "is_replayed")]


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """Without what is empty, and without what only this process knows."""
    values = {name: getattr(answer, name) for name in _KEPT}
    told = {name: value for name, value in values.items() if value not in ("", None, ())}
    if answer.usage is not None:
        told["usage"] = {name: getattr(answer.usage, name) for name in Usage.__slots__}
    if answer.logprobs:
        told["logprobs"] = [asdict(each) for each in answer.logprobs]
    if answer.likelihoods:
        told["likelihoods"] = [asdict(each) for each in answer.likelihoods]
    return told


def answer_from_json(data: Mapping[str, Any], key: str) -> Answer:
    """The answer of a journal line; `TypeError`, `KeyError` where it holds none."""
    values = dict(data)
    if "usage" in values:
        values["usage"] = Usage(**values["usage"])
    values["logprobs"] = tuple(
        TokenChance(each["token"], each["logprob"], tuple((t, p) for t, p in each["top"]))
        for each in values.get("logprobs", ())
    )
    values["likelihoods"] = tuple(Likelihood(**each) for each in values.get("likelihoods", ()))
    values["resized"] = tuple(values.get("resized", ()))
    return Answer(**values, key=key, is_replayed=True)


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
