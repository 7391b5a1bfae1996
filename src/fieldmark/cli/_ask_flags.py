"""Which flags say how chat models are asked, and what they may cost?"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, arg

from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.chat import Budget, Options

_Number = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]
_Whole = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
_SETTINGS = {
    "temp": "temp",
    "prompting": "prompting",
    "cot": "cot_enabled",
    "circular": "circular",
    "shared_prefix": "shared_prefix",
    "json_answers": "json_answers",
    "prompts_for": "prompts_for",
}
"""flag → what a run's settings call it"""
_HUGE = 1e15
_RANGES: dict[str, tuple[float, float, str]] = {
    "max_usd": (0, _HUGE, "a number, 0 or more"),
    "max_tokens": (0, _HUGE, "a whole number, 0 or more"),
    "concurrency": (1, 10_000, "a whole number, 1 to 10,000"),
    "rpm": (1e-6, _HUGE, "a number above 0"),
    "tpm": (1e-6, _HUGE, "a number above 0"),
    "temp": (0, 2, "a number, 0 to 2"),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """how chat models are asked (--model chat/PROVIDER/MODEL)"""

    max_usd: _Number = None
    """stop before more than this is spent, over all runs together"""
    max_tokens: _Whole = None
    """stop before more tokens than this are used, prompts and answers together"""
    concurrency: _Whole = None
    """requests in flight; without it what the endpoint bears is found out"""
    rpm: _Number = None
    """requests per minute, at most"""
    tpm: _Number = None
    """tokens per minute, at most"""
    temp: _Number = None
    """temperature (unless given: the task's own, else 0)"""
    prompting: Literal["single", "multi"] = "single"
    """examples in one message, or each as a question and its answer"""
    cot: bool = False
    """reasons first, the answer last"""
    circular: bool = False
    """ask every turn of the options; right means right in all of them"""
    shared_prefix: bool = False
    """the same examples for all images, so that prompt caches work"""
    json_answers: bool = False
    """answers as JSON, by a schema where the endpoint takes one"""
    prompts_for: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """of tasks in lmms-eval's form: use the prompts their files have for this model"""

    def settings(self) -> tuple[tuple[str, Any], ...]:
        """What changes answers, as a run's settings name it; only what differs from the default."""
        self._check()
        return tuple((_SETTINGS[name], getattr(self, name)) for name in self.given())

    def given(self) -> list[str]:
        """The flags that change answers and were given."""
        usual = {each.name: each.default for each in fields(self)}
        return [name for name in _SETTINGS if getattr(self, name) != usual[name]]

    def _check(self) -> None:
        for name, (least, most, words) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise UsageError(f"--{name.replace('_', '-')} {value}: expected {words}.")

    def budget(self) -> Budget:
        from fieldmark.chat import Budget

        return Budget(self.max_usd, self.max_tokens)

    def sending(self) -> Options:
        from fieldmark.chat import Options

        return Options(concurrency=self.concurrency, rpm=self.rpm, tpm=self.tpm)


AskFlags = OmitArgPrefixes[Ask]
