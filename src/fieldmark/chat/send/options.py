"""Options of sending (concurrency, rates, timeouts, retries), and the totals of what came of it.

None of this changes an answer. The clock is an option too, so that tests of hours take
milliseconds. What a model's name may say after its question mark is read here as well.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fieldmark.chat.messages import Answer, Request
from fieldmark.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from fieldmark.chat.send.pictures import PictureCache


@dataclass(frozen=True, slots=True)
class Clock:
    """What tells the time and waits."""

    now: Callable[[], float] = time.monotonic
    """seconds that never go back"""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


FEW = 3
"""failed requests that show that nobody answers; so do twice as many faults without an answer"""
OnAnswer = Callable[[Request, Answer], None]
Steps = Generator[None, None, "AskTotals"]
Labels = Mapping[str, str | Collection[str]]


@dataclass(frozen=True, slots=True)
class Options:
    """How requests are sent."""

    concurrency: int | None = None
    """most requests in flight, and how many to begin with; None finds out what is taken"""
    max_concurrency: int = 64
    """upper bound of the adaptive concurrency"""
    rpm: float | None = None
    """requests per minute, kept in any 60 s"""
    tpm: float | None = None
    """tokens per minute, prompt and answer"""
    timeout_s: float = 180.0
    """of one attempt, from its sending to the last byte of its answer"""
    connect_timeout_s: float = 20.0
    max_attempts: int = 8
    """of one request; 429s do not count, they are bounded by `patience_s`"""
    patience_s: float = 900.0
    """how long a request may be put off by 429s"""
    backoff_s: float = 0.5
    backoff_cap_s: float = 60.0
    max_failures: int = 100
    """more failed requests than this stop the run"""
    max_failures_in_a_row: int = 15
    may_lack_pictures: bool = False
    """pictures that cannot be read are no reason to stop, however many there are in a row"""
    batch: bool = False
    """questions are handed in as batches of the provider, to be answered later"""
    mock_labels: Labels = field(default_factory=dict)
    """what `chat/mock/…` sees: SHA-256 of image bytes as sent → what is true of it"""
    pictures: PictureCache | None = None
    """those that were prepared for the same model before, to measure prompts; None = none were"""
    clock: Clock = Clock()
    tell: Callable[[str], None] = lambda _: None
    """says something to the person who waits"""
    is_asked_again: Callable[[Request, Answer], bool] | None = None
    """which answers of the journal are not taken: the question is asked once more"""

    def __post_init__(self) -> None:
        for name in ("concurrency", "max_concurrency", "rpm", "tpm", "timeout_s", "max_attempts"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} = {value!r}, expected more than 0.")


DEFAULT = Options()


def ignore(_request: Request, _answer: Answer) -> None:
    """For those who only want the journal filled."""


@dataclass(slots=True)
class AskTotals:
    """What became of a run's requests so far."""

    n: int = 0
    """requests with an outcome"""
    outcomes: dict[str, int] = field(default_factory=dict)
    """ok, length, refused, failed → how many"""
    n_replayed: int = 0
    n_attempts: int = 0
    """sent, those that were tried again included"""
    n_rate_limited: int = 0
    """429s among them"""
    peak_in_flight: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    """paid now, as far as prices are known"""
    n_unpriced: int = 0
    failures_in_a_row: int = 0
    n_unanswered: int = 0
    """failed although they were sent"""
    last_error: str = ""
    stopped: str = ""
    """why requests were left unasked; "" = none were"""

    def add(self, answer: Answer, is_a_sign: bool = True) -> None:
        """`is_a_sign`: does its failure say that others will fail too?"""
        self.n += 1
        self.outcomes[answer.outcome] = self.outcomes.get(answer.outcome, 0) + 1
        if answer.is_replayed:
            self.n_replayed += 1
            return
        if answer.outcome == "failed":
            self.failures_in_a_row += is_a_sign
            self.n_unanswered += answer.attempts > 0
            self.last_error = answer.error
            return
        self.failures_in_a_row = 0
        if answer.usage is not None:
            self.tokens_in += answer.usage.tokens_in
            self.tokens_out += answer.usage.tokens_out
        if answer.usd is None:
            self.n_unpriced += 1
        else:
            self.usd += answer.usd


def is_loopback(url: str) -> bool:
    """Is this an address of this machine?"""
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def is_local(url: str) -> bool:
    """Is this an address of this machine or of its own network?"""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".internal"))


def check_options(name: str, options: Mapping[str, str], allowed: Collection[str]) -> None:
    """Refuses options of a model's name that mean nothing."""
    for key in options:
        if key not in allowed:
            raise UnknownName(f"model {name!r} takes {', '.join(allowed)}: option", key, allowed)


def whole_number(name: str, key: str, options: Mapping[str, str]) -> int | None:
    """The value of an option of a model's name; None where it is not given."""
    value = options.get(key)
    if value is not None and not (value.isascii() and value.isdigit() and int(value) > 0):
        raise UsageError(f"model {name!r}: {key}={value}, expected a whole number above 0.")
    return None if value is None else int(value)
