"""Which flags say how chat models are asked, and what they may cost?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, arg

from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.chat import Budget, Options

_Number = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]
_Whole = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]


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
    """temperature (0 unless given)"""
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

    def settings(self) -> tuple[tuple[str, Any], ...]:
        """What changes answers, as a run's settings name it; only what was given."""
        given: dict[str, Any] = {} if self.temp is None else {"temp": self.temp}
        if self.prompting != "single":
            given["prompting"] = self.prompting
        flags = {
            "cot_enabled": self.cot,
            "circular": self.circular,
            "shared_prefix": self.shared_prefix,
            "json_answers": self.json_answers,
        }
        return tuple({**given, **{name: True for name, is_on in flags.items() if is_on}}.items())

    def budget(self) -> Budget:
        from fieldmark.chat import Budget

        for name in ("max_usd", "max_tokens"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} {value}: expected a number, 0 or more.")
        return Budget(self.max_usd, self.max_tokens)

    def sending(self) -> Options:
        from fieldmark.chat import Options

        return Options(concurrency=self.concurrency, rpm=self.rpm, tpm=self.tpm)


AskFlags = OmitArgPrefixes[Ask]
