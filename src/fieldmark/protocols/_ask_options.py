"""What may a run set about how a chat model is asked?

What changes answers is part of a run's settings (`AskSettings`); how requests are sent, what they
may cost and where answers are kept is not (`AskOptions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fieldmark.chat import AnswerSettings, Asking, Budget, Options
from fieldmark.data import Contents
from fieldmark.errors import UsageError, closest

Layout = Literal["single", "multi"]
TEMP = 0.0
ROOM = 256
ROOM_TO_THINK = 2048


@dataclass(frozen=True, slots=True)
class AskSettings:
    """Keys of an experiment file, and flags."""

    temp: float | None = None
    """temperature; None = the task's own, where its file sets one, else 0"""
    prompting: Layout = "single"
    """examples in one message, or each as a question and its answer"""
    cot_enabled: bool = False
    """reasons first, the answer last"""
    circular: bool = False
    """every turn of the options is asked; right means right in all of them"""
    shared_prefix: bool = False
    """the same examples for all items, byte for byte, for prompt caches"""
    json_answers: bool = False
    """the answer as a JSON object, with its schema where the endpoint takes one"""
    system: str = ""
    frames: int = 8
    """of a clip; 0 = all"""
    max_output_tokens: int | None = None
    """room for the answer; None = the task's own, else 256, with reasons 2,048"""
    prompts_for: str = ""
    """of a task in lmms-eval's form: the model whose prompts are used, as its file names it"""

    def __post_init__(self) -> None:
        if self.temp is not None and not 0 <= self.temp <= 2:
            raise UsageError(f"temp = {self.temp}: expected a number, 0 to 2.")
        room = self.max_output_tokens
        if room is not None and room < 1:
            raise UsageError(f"max_output_tokens = {room}: expected a whole number above 0.")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> AskSettings:
        known = list(cls.__dataclass_fields__)
        for name in given:
            if name not in known:
                near = closest(name, known, most=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise UsageError(
                    f"{name!r} is no setting of `ask`.{hint} It has {', '.join(known)}."
                )
        return cls(**given)

    def given(self) -> dict[str, Any]:
        """What differs from the default. A temperature of 0 is not "none given": a task may have
        another of its own.
        """
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in own.items() if value != getattr(_DEFAULT, name)}

    def changed(self) -> dict[str, Any]:
        """What is asked otherwise than by default, of a task that has no such settings of its own:
        what was said and what was left out are one run.
        """
        usual = {"temp": TEMP, "max_output_tokens": self._usual_room}
        return {name: value for name, value in self.given().items() if value != usual.get(name)}

    @property
    def _usual_room(self) -> int:
        return ROOM_TO_THINK if self.cot_enabled else ROOM

    def asking(self, seed: int) -> Asking:
        layout: Literal["single_turn", "multi_turn"]
        layout = "multi_turn" if self.prompting == "multi" else "single_turn"
        return Asking(seed, self.cot_enabled, self.system, self.json_answers, layout, self.frames)

    def sending(self, seed: int, schema: Mapping[str, Any] | None) -> AnswerSettings:
        temp = TEMP if self.temp is None else self.temp
        room = self.max_output_tokens or self._usual_room
        return AnswerSettings(temperature=temp, seed=seed, max_output_tokens=room, schema=schema)


_DEFAULT = AskSettings()


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How requests are sent, what they may cost, and where answers are kept."""

    journal: Path
    settings: AskSettings = AskSettings()
    sending: Options = Options()
    budget: Budget = field(default_factory=Budget)
    bad_images: str = "fail"
    """fail or skip"""
    contents: Contents = field(default_factory=lambda: Contents(None))
    """what the images hold: other bytes are not sent"""
