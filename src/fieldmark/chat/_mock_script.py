"""How should the mock model behave?

Everything a real endpoint does to people, with a set probability; drawn from (seed, body, n-th time
it was asked), so that a run is the same under any concurrency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args

from fieldmark.errors import UnknownName, UsageError

Style = Literal["asked", "name", "sentence", "letter"]


@dataclass(frozen=True, slots=True)
class MockScript:
    skill: float = 0.8
    """probability of a right answer without examples"""
    skill_many: float | None = None
    """what it tends to with many examples; None = as without"""
    half_shots: float = 10.0
    """examples after which half of the way is gone"""
    seed: int = 0
    style: Style = "asked"
    """as the prompt asks · "robin" · "The answer is **robin**." · "B" where options have letters"""
    reasoning: bool = False
    """a <think> block before the answer"""
    p_unclear: float = 0.0
    """"I cannot tell." """
    p_refuse: float = 0.0
    p_length: float = 0.0
    """the answer is cut off, finish_reason length"""
    p_429: float = 0.0
    retry_after_s: float | None = None
    """sent with every 429; None sends none"""
    p_500: float = 0.0
    p_cut: float = 0.0
    """the connection is closed without a reply"""
    p_junk: float = 0.0
    """status 200 and a body that is no JSON"""
    p_error_body: float = 0.0
    """status 200 and an error inside: code 429"""
    p_drip: float = 0.0
    drip_s: float = 1.0
    """how long a dripping reply takes"""
    latency_s: float = 0.0
    max_in_flight: int | None = None
    """beyond so many at once: 429"""
    tokens_per_image: int = 258
    usage: bool = True
    """return token counts"""
    answers: str = ""
    """a JSON file of answers: prompt, or part of one → text, or texts for the first, second … time;
    what it does not know is answered as ever; the journal knows it by its path"""
    logprobs: bool = True
    """False: a request for log-probabilities is refused, as by models that have none to tell"""

    @property
    def p_faults(self) -> float:
        return self.p_429 + self.p_500 + self.p_cut + self.p_junk + self.p_error_body

    def skill_after(self, n_shots: int) -> float:
        if self.skill_many is None:
            return self.skill
        return self.skill + (self.skill_many - self.skill) * n_shots / (n_shots + self.half_shots)


def read_script(name: str, options: Mapping[str, str]) -> MockScript:
    """The script that the options of `chat/mock/NAME?skill=0.9` ask for."""
    known = {each.name: each for each in fields(MockScript)}
    values: dict[str, object] = {}
    for key, text in options.items():
        if key not in known:
            raise UnknownName(f"model {name!r}: mock option", key, known)
        try:
            values[key] = _typed(str(known[key].type), text)
        except ValueError as error:
            raise UsageError(f"model {name!r}: {key}={text}, expected {error}.") from None
        if key.startswith(("p_", "skill")) and not 0 <= float(text) <= 1:
            raise UsageError(f"model {name!r}: {key}={text}, expected a number from 0 to 1.")
    return MockScript(**values)  # type: ignore[arg-type]


def _typed(kind: str, text: str) -> object:
    if kind == "Style":
        if text not in get_args(Style):
            raise ValueError(", ".join(get_args(Style)))
        return text
    if kind == "str":
        return text
    if kind == "bool":
        if text.lower() not in ("true", "false", "1", "0"):
            raise ValueError("true or false")
        return text.lower() in ("true", "1")
    try:
        return int(text) if kind.startswith("int") else float(text)
    except ValueError:
        raise ValueError("a number") from None
