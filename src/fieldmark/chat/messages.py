"""Chat messages: what is said to a model, and the answer that comes back.

Plain data: nothing here sends, decodes or writes. A picture may be a function that reads it, so
that a list of a million requests holds no image. Stop strings are here too: an answer ends before
the first of them, whoever wrote it. Endpoints take four at most (OpenAI's limit) and some take
none; so the first four are sent, and every answer is cut here at all of them.
https://platform.openai.com/docs/api-reference/chat/create#chat-create-stop
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]
Detail = Literal["", "low", "high", "auto"]
AnswerOutcome = Literal["ok", "length", "refused", "failed"]
Box = tuple[float, float, float, float]
PictureKey = tuple[str, bytes | Callable[[], bytes], Box | None]


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    ends_shared: bool = False
    """all that stands before, and this, is the same in many prompts: worth a cache breakpoint"""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a message; its bytes are read when the request is about to be sent."""

    source: bytes | Callable[[], bytes]
    """encoded bytes (JPEG, PNG, …), or what reads them"""
    name: str = ""
    """what errors call it; of the same name and source, what many requests show is prepared once"""
    crop: Box | None = None
    """x, y, width, height in pixels of the upright image"""
    detail: Detail = ""
    """OpenAI's hint; "" sends none"""

    def read(self) -> bytes:
        return self.source if isinstance(self.source, bytes) else self.source()

    @property
    def cache_key(self) -> PictureKey | None:
        """What two uses of one picture have in common; None = it has no name, so nothing.

        A name alone would not do: two datasets may call their files alike.
        """
        return (self.name, self.source, self.crop) if self.name else None


MessagePart = Text | Picture


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    parts: tuple[MessagePart, ...]

    @property
    def text(self) -> str:
        """The words only, one part a line."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


def system(text: str) -> Message:
    return Message("system", (Text(text),))


def user(*parts: MessagePart | str) -> Message:
    """
    >>> user("Which bird?", Picture(b"...")).text
    'Which bird?'
    """
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(text: str) -> Message:
    return Message("assistant", (Text(text),))


@dataclass(frozen=True, slots=True)
class AnswerSettings:
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

    def given(self) -> dict[str, Any]:
        """What is set: a setting added to fieldmark later leaves the keys of old answers alone."""
        values = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "max_output_tokens": self.max_output_tokens,
            "stop": list(self.stop) or None,
            "schema": self.schema,
            "top_logprobs": self.top_logprobs,
            "reasoning_effort": self.reasoning_effort or None,
            "extra": dict(self.extra) or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def with_room(self, max_tokens: int | None) -> AnswerSettings:
        """With this room for the answer; None leaves it as it is."""
        return self if max_tokens is None else replace(self, max_output_tokens=max_tokens)


DEFAULT_SETTINGS = AnswerSettings()


@dataclass(frozen=True, slots=True)
class Request:
    """One question; the sampling repeat makes equal questions differ."""

    id: str
    messages: tuple[Message, ...]
    settings: AnswerSettings = DEFAULT_SETTINGS
    repeat: int = 0
    info: Any = None
    """whatever the asker wants back with the answer; neither sent nor part of the key"""
    continuations: tuple[str, ...] = ()
    """with some, nothing is written: how likely each is as the answer"""

    def with_settings(self, settings: AnswerSettings) -> Request:
        return self if settings is self.settings else replace(self, settings=settings)

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
    to_cache: int = 0
    """of tokens_in, written to the provider's prompt cache at a price of its own"""

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


WORDS = ("text", "reasoning", "finish_reason", "model", "fingerprint", "error")


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

    outcome: AnswerOutcome
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
    left_out: tuple[str, ...] = ()
    """settings that the endpoint had refused before, so that they were not sent"""

    def __post_init__(self) -> None:
        for name in WORDS:
            text = getattr(self, name)
            if not text.isascii():
                object.__setattr__(self, name, whole_characters(text))

    @property
    def is_answer(self) -> bool:
        return self.outcome != "failed"


_KEPT = [field.name for field in fields(Answer) if field.name not in ("key", "is_replayed")]
_USAGE = [field.name for field in fields(Usage)]


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """Without what is empty, and without what only this process knows."""
    values = {name: getattr(answer, name) for name in _KEPT}
    data = {name: value for name, value in values.items() if value not in ("", None, ())}
    if answer.usage is not None:
        # Not `asdict`, which copies deeply: 0.02 ms of the 0.45 that a question takes.
        data["usage"] = {name: getattr(answer.usage, name) for name in _USAGE}
    if answer.logprobs:
        data["logprobs"] = [asdict(chance) for chance in answer.logprobs]
    if answer.likelihoods:
        data["likelihoods"] = [asdict(likelihood) for likelihood in answer.likelihoods]
    return data


def answer_from_json(data: Mapping[str, Any], key: str) -> Answer:
    """The answer of a journal line; `TypeError`, `KeyError` where it holds none."""
    values = dict(data)
    if "usage" in values:
        values["usage"] = Usage(**values["usage"])
    values["logprobs"] = tuple(
        TokenChance(chance["token"], chance["logprob"], tuple((t, p) for t, p in chance["top"]))
        for chance in values.get("logprobs", ())
    )
    values["likelihoods"] = tuple(Likelihood(**data) for data in values.get("likelihoods", ()))
    values["resized"] = tuple(values.get("resized", ()))
    values["left_out"] = tuple(values.get("left_out", ()))
    return Answer(**values, key=key, is_replayed=True)


MOST_SENT = 4


def cut(text: str, stops: Iterable[str]) -> str:
    """The text before the first stop string in it; empty strings stop nothing.

    >>> cut("wren\\n\\nQ: Which next?", ("Q:", "\\n\\n", ""))
    'wren'
    """
    stops_at = [text.find(stop) for stop in stops if stop]
    return text[: min((position for position in stops_at if position >= 0), default=len(text))]


def sendable(stops: Iterable[str]) -> list[str]:
    """What of the stop strings goes into a request."""
    return [stop for stop in dict.fromkeys(stops) if stop][:MOST_SENT]


def stopped(answer: Answer, stops: Iterable[str]) -> Answer:
    """The answer up to the first stop string; one that ran on from there out of tokens is whole."""
    text = cut(answer.text, stops)
    if answer.outcome not in ("ok", "length") or text == answer.text:
        return answer
    return replace(answer, text=text, outcome="ok", finish_reason="stop")
