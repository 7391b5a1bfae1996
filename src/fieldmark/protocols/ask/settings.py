"""Settings of `ask`: what may a run set about how a chat model is asked, and at what cost?

Sampling temperature, layout of the examples, chain of thought; and, changing no answer, how fast
requests are sent and when to stop.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from fieldmark.chat.messages import Detail
from fieldmark.errors import UsageError
from fieldmark.protocols._settings import OtherModel, Pairs, Range, TextForm, given, how_only

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fieldmark.chat import AnswerSettings, Asking, ChatModel, LocalModel

PRICE = TextForm(r"\d+(\.\d*)?/\d+(\.\d*)?", ": IN/OUT in dollars, such as 0.5/1.5")
TEMP = 0.0
FRAMES = 8
ROOM, ROOM_FOR_REASONS, ROOM_OF_UNKNOWN, ROOM_TO_THINK = 256, 2048, 1024, 16_384
"""tokens of an answer: a line; with reasons; of a model of which nothing is known, which may think
first; of one that does
"""
USUAL = {
    "prompting": "single", "cot_enabled": False, "circular": False, "shared_prefix": False,
    "answers": "auto", "system": "", "frames": FRAMES, "prompts_for": "", "judge": "",
}  # fmt: skip
RESERVED = frozenset({"model", "messages", "contents", "system", "systemInstruction", "stream"})
"""keys of a body that are the request itself"""
AGAIN = ("length", "unparsed", "refused")
_COLD = ("temp", TEMP)


@dataclass(frozen=True, slots=True)
class AskSettings:
    """how chat models are asked (--model chat/PROVIDER/MODEL)"""

    max_usd: Annotated[float, Range(0)] | None = how_only()
    """most US dollars to spend, over all runs together"""
    max_tokens: Annotated[int, Range(0)] | None = how_only()
    """most tokens to use, prompts and answers together"""
    price: Annotated[str, PRICE] | None = how_only()
    """US dollars per million tokens in and out, for models whose price is unknown: 0.5/1.5"""
    concurrency: Annotated[int, Range(1, 10_000)] | None = how_only()
    """requests at the same time [as many as the endpoint allows]"""
    rpm: Annotated[float, Range(0, above=True)] | None = how_only()
    """most requests per minute"""
    tpm: Annotated[float, Range(0, above=True)] | None = how_only()
    """most tokens per minute"""
    timeout: Annotated[float, Range(0, above=True)] | None = how_only()
    """seconds to wait for an answer [180]"""
    again: str | None = how_only()
    """ask these again: length (cut off), unparsed, refused, or several with commas; failed requests
    are always sent again
    """
    batch: bool | None = how_only()
    """submit the questions to the provider's batch API, at half price; fetch the answers later"""
    temp: Annotated[float, Range(0, 2)] | None = None
    """sampling temperature [the task's own, else 0]"""
    prompting: Literal["single", "multi"] | None = None
    """examples in one message, or each as a turn with question and answer [single]"""
    cot_enabled: bool | None = None
    """chain of thought: ask for reasons first, then the answer"""
    circular: bool | None = None
    """ask once per rotation of the options; an answer is right if it is right in all of them"""
    shared_prefix: bool | None = None
    """show the same examples for all images, so that prompt caches work"""
    answers: Literal["auto", "json", "line"] | None = None
    """form of the answers: JSON by a schema, or a line `Answer: X` [auto: JSON where the endpoint
    takes a schema]
    """
    system: str | None = None
    """a system prompt"""
    frames: Annotated[int, Range(0)] | None = None
    """frames to show of each clip (0: all) [8]"""
    max_output: Annotated[int, Range(1)] | None = None
    """most tokens in an answer, thoughts included [the task's own, else 256; 2,048 with chain of
    thought; 1,024 for an unknown model, 16,384 for a thinking model]
    """
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """how much a thinking model thinks [the model's own]"""
    extra: Pairs | None = None
    """further keys of the request's body, as TOML: provider.quantizations=["fp8"], detail="low" """
    prompts_for: str | None = None
    """use the prompts for this model, where a task file has several"""
    judge: OtherModel | None = None
    """chat model that judges answers, for tasks in lmms-eval's format that need one"""

    def __post_init__(self) -> None:
        """What is wrong with a value shows before anything starts."""
        self.asks_again()
        if self.detail not in get_args(Detail):
            raise UsageError(f"--extra detail={self.detail}: expected low, high or auto.")
        if taken := sorted(RESERVED & self.body.keys()):
            raise UsageError(f"--extra {taken[0]}=…: fieldmark sets this key of a request itself.")

    def value(self, name: str) -> Any:
        """What was given, else what is usual."""
        given = getattr(self, name)
        return USUAL[name] if given is None else given

    def given(self) -> dict[str, Any]:
        """What can change answers and is not as usual. A temperature of 0 is not "none given": a
        task may have another of its own.
        """
        return {name: value for name, value in given(self).items() if value != USUAL.get(name)}

    def unusual(self) -> dict[str, Any]:
        """The same, of a task that has no such settings of its own."""
        return {name: value for name, value in self.given().items() if (name, value) != _COLD}

    def asks_again(self) -> frozenset[str]:
        """Outcomes that are asked again, besides failures."""
        chosen = frozenset((self.again or "").replace(",", " ").split()) - {"failed"}
        if strange := chosen - set(AGAIN):
            raise UsageError(f"--again {min(strange)}: expected some of {', '.join(AGAIN)}.")
        return chosen

    def priced(self, model: ChatModel | LocalModel) -> ChatModel | LocalModel:
        """The model with `price`, where its own is not known: a cap in money needs one."""
        from fieldmark.chat import Budget, ChatModel

        model = model.priced(self.price) if isinstance(model, ChatModel) else model
        Budget(self.max_usd).check(model.card)
        return model

    def is_json(self, model: ChatModel | LocalModel | None) -> bool:
        """Are answers asked for as JSON? Of a model that cannot be held to a schema only if set."""
        form = self.value("answers")
        return form == "json" or (
            form == "auto" and model is not None and "schema" not in model.lacks
        )

    def asking(self, seed: int, model: ChatModel | LocalModel | None = None) -> Asking:
        """How prompts are made; without a model, to see which examples are drawn."""
        from fieldmark.chat import Asking

        layout: Literal["single_turn", "multi_turn"]
        layout = "multi_turn" if self.prompting == "multi" else "single_turn"
        return Asking(
            seed,
            bool(self.cot_enabled),
            self.value("system"),
            self.is_json(model),
            layout,
            self.value("frames"),
        )

    def sending(
        self, seed: int, schema: Mapping[str, Any] | None, model: ChatModel | LocalModel
    ) -> AnswerSettings:
        from fieldmark.chat import AnswerSettings

        return AnswerSettings(
            temperature=TEMP if self.temp is None else self.temp,
            seed=seed,
            max_output_tokens=self._room(model),
            schema=schema,
            reasoning_effort=self.effort or "",
            extra=self.body,
        )

    @property
    def body(self) -> dict[str, Any]:
        """Further keys of a request's body."""
        extra = json.loads(self.extra) if self.extra else {}
        return {key: value for key, value in extra.items() if key != "detail"}

    @property
    def detail(self) -> Detail:
        """OpenAI's hint for images: given like a key of the body, sent with each picture."""
        hint: Detail = json.loads(self.extra).get("detail", "") if self.extra else ""
        return hint

    def _room(self, model: ChatModel | LocalModel) -> int:
        """At most what the model can write and half of its context: the rest is the question's."""
        card = model.card
        if self.max_output:
            return self.max_output
        room = ROOM if card.is_known else ROOM_OF_UNKNOWN
        if card.thinks or self.effort not in (None, "none"):
            room = ROOM_TO_THINK
        elif self.cot_enabled:
            room = ROOM_FOR_REASONS
        return max(1, min(room, card.max_output or room, (card.context or 2 * room) // 2))
