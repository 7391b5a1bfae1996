"""Settings of `ask`: what may a run set about how a chat model is asked, and at what cost?

Sampling temperature, layout of the examples, chain of thought; and, changing no answer, how fast
requests are sent and when to stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fieldmark.protocols._settings import Range, given, how_only

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fieldmark.chat import AnswerSettings, Asking

TEMP = 0.0
FRAMES = 8
ROOM = 256
ROOM_TO_THINK = 2048
USUAL = {
    "prompting": "single", "cot_enabled": False, "circular": False, "shared_prefix": False,
    "json_answers": False, "system": "", "frames": FRAMES, "prompts_for": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AskSettings:
    """how chat models are asked (--model chat/PROVIDER/MODEL)"""

    max_usd: Annotated[float, Range(0)] | None = how_only()
    """most US dollars to spend, over all runs together"""
    max_tokens: Annotated[int, Range(0)] | None = how_only()
    """most tokens to use, prompts and answers together"""
    concurrency: Annotated[int, Range(1, 10_000)] | None = how_only()
    """requests at the same time (default: as many as the endpoint allows)"""
    rpm: Annotated[float, Range(0, above=True)] | None = how_only()
    """most requests per minute"""
    tpm: Annotated[float, Range(0, above=True)] | None = how_only()
    """most tokens per minute"""
    batch: bool | None = how_only()
    """submit the questions to the provider's batch API, at half price; fetch the answers later"""
    temp: Annotated[float, Range(0, 2)] | None = None
    """sampling temperature (default: the task's own, else 0)"""
    prompting: Literal["single", "multi"] | None = None
    """examples in one message, or each as a turn with question and answer (default: single)"""
    cot_enabled: bool | None = None
    """chain of thought: ask for reasons first, then the answer"""
    circular: bool | None = None
    """ask once per rotation of the options; only right in all of them counts as right"""
    shared_prefix: bool | None = None
    """show the same examples for all images, so that prompt caches work"""
    json_answers: bool | None = None
    """ask for answers as JSON, with a schema where the endpoint supports it"""
    system: str | None = None
    """a system prompt"""
    frames: Annotated[int, Range(0)] | None = None
    """frames shown of each clip (default: 8; 0 = all)"""
    max_output_tokens: Annotated[int, Range(1)] | None = None
    """most tokens of an answer (default: the task's own, else 256; 2,048 with chain of thought)"""
    prompts_for: str | None = None
    """use the prompts for this model, where a task file has several"""

    def value(self, name: str) -> Any:
        """What was given, else what is usual."""
        own = getattr(self, name)
        return USUAL[name] if own is None else own

    def given(self) -> dict[str, Any]:
        """What can change answers and is not as usual. A temperature of 0 is not "none given": a
        task may have another of its own.
        """
        return {name: value for name, value in given(self).items() if value != USUAL.get(name)}

    def unusual(self) -> dict[str, Any]:
        """The same, of a task that has no such settings of its own."""
        usual = {"temp": TEMP, "max_output_tokens": self._usual_room}
        return {name: value for name, value in self.given().items() if value != usual.get(name)}

    @property
    def _usual_room(self) -> int:
        return ROOM_TO_THINK if self.cot_enabled else ROOM

    def asking(self, seed: int) -> Asking:
        from fieldmark.chat import Asking

        layout: Literal["single_turn", "multi_turn"]
        layout = "multi_turn" if self.prompting == "multi" else "single_turn"
        return Asking(
            seed,
            bool(self.cot_enabled),
            self.value("system"),
            bool(self.json_answers),
            layout,
            self.value("frames"),
        )

    def sending(self, seed: int, schema: Mapping[str, Any] | None) -> AnswerSettings:
        from fieldmark.chat import AnswerSettings

        temp = TEMP if self.temp is None else self.temp
        room = self.max_output_tokens or self._usual_room
        return AnswerSettings(temperature=temp, seed=seed, max_output_tokens=room, schema=schema)
