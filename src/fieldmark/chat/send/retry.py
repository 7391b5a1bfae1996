"""Retry (exponential backoff with full jitter): does asking again help, or must the run stop?

408, 409, 425, 429, 5xx and broken connections are tried again after a wait drawn uniformly below an
exponential bound (full jitter); 401, 402, 404 and a 403 that is about access stop the run, because
every further request would fare the same; 400, 413, 422 mark the item; filters make it `refused`.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import aiohttp

from fieldmark import draws
from fieldmark.chat.messages import WORDS, Answer
from fieldmark.files import parse_json
from fieldmark.http_reader import ReplyTooLarge, retry_after_s

Verdict = Literal["again", "refused", "mark", "stop"]
# 520 to 524 are Cloudflare's, 529 is Anthropic's "overloaded".
TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
OVERLOADED = {408, 409, 425, 429, 502, 503, 504, 529}
STOPPING = {401, 402, 403, 404}
_PAUSING = {503, 529}
_FILTER = re.compile(
    r"content[ _-]?(filter|policy|management)|flagged|moderation|safety system", re.IGNORECASE
)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
_LIMITS = (
    (re.compile(r"at most (\d+) image", re.IGNORECASE), "max_images = "),
    (re.compile(r"maximum context length is (\d+)", re.IGNORECASE), "context = "),
)
"""what servers say of a prompt that is too large, and the row of fieldmark.toml that knows it"""
_LEAST_SECRET = 6
"""characters: what is shorter is no key, and may be part of any word"""
_SECRET = re.compile(r"\b(?:sk|pk|key|AIza)(?=[\w*-]*[\d*])[-_]?[A-Za-z0-9*_-]{8,}")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an attempt brought no answer, and what to do about it."""

    verdict: Verdict
    text: str
    code: int | None = None
    wait_s: float | None = None
    """what the server asked for"""
    is_mended: bool = False
    """what was wrong with the request is left out from now on"""
    is_late: bool = False
    """no answer came in time"""
    is_cut: bool = False
    """the connection broke before the answer"""

    @property
    def is_rate(self) -> bool:
        """Does the server ask for fewer requests? One that is overloaded says so by Retry-After."""
        return self.code == 429 or (self.code in _PAUSING and self.wait_s is not None)

    @property
    def may_be_charged(self) -> bool:
        """The answer may have been computed, and charged."""
        return self.is_late or self.is_cut

    @property
    def is_unreachable(self) -> bool:
        return self.code is None and not self.may_be_charged

    @property
    def is_lasting(self) -> bool:
        """Is this how an endpoint fails that is not there or cannot do what it is asked?"""
        return not self.is_mended and (self.code is None or self.code not in OVERLOADED)


def judge_reply(status: int, headers: Mapping[str, str], data: bytes) -> Fault:
    """What a reply with an error status means."""
    wait_s = retry_after_s(headers)
    try:
        return judge_error(status, parse_json(data), wait_s)
    except ValueError:
        return judge_error(status, data[:200].decode("utf-8", "replace"), wait_s)


def judge_error(code: int | None, body: Any, wait_s: float | None = None) -> Fault:
    """What an error body means; also for those that come under status 200."""
    message = error_text(body)
    text = f"{code} {message}".strip() if code is not None else message
    whole = body if isinstance(body, str) else json.dumps(body, default=str)
    if code in (400, 403, 422, None) and _FILTER.search(whole):
        return Fault("refused", text, code)
    if code == 429 and _QUOTA.search(whole):
        return Fault("stop", text, code)
    if code is None or code in TRANSIENT or code >= 500:
        return Fault("again", text, code, wait_s)
    return Fault("stop" if code in STOPPING else "mark", text, code)


def connection_fault(error: BaseException, timeout_s: float) -> Fault:
    """A connection that was refused, cut, or too slow, and a reply that is too large."""
    if isinstance(error, ReplyTooLarge):
        return Fault("mark", str(error), 200)  # it answers: the endpoint is there
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Fault("again", "no connection in time")
    if isinstance(error, TimeoutError):
        return Fault("again", f"no answer within {timeout_s:g} s", is_late=True)
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    if isinstance(error, ssl.SSLError):
        return Fault("stop", f"no safe connection ({reason})")
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ConnectionRefusedError):
            return Fault("again", f"nothing listens on {error.host}:{error.port}")
        return Fault("again", f"no connection ({reason})")
    return Fault("again", f"connection lost ({reason})", is_cut=True)


def backoff_s(key: str, attempt: int, base_s: float = 0.5, cap_s: float = 60.0) -> float:
    """Full jitter: uniform between 0 and min(cap, base × 2^attempt); the same for the same key."""
    # "Exponential backoff and jitter", AWS Architecture Blog 2015; 30: no overflow.
    bound = min(cap_s, base_s * 2.0 ** min(attempt, 30))
    return bound * draws.number(key, attempt, "backoff") / 2**64


def error_code(body: Any) -> int | None:
    """The HTTP-like code of an error body, where it has one (OpenRouter sends some under 200)."""
    error = body.get("error") if isinstance(body, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdigit():
        return int(code)
    return code if isinstance(code, int) else None


def error_text(body: Any) -> str:
    """One line of what the server said, and how fieldmark is told of a limit that it names."""
    error = body
    for name in ("error", "detail", "message"):
        error = error.get(name, error) if isinstance(error, dict) else error
    text = " ".join(str(error).split())[:300]
    for pattern, row in _LIMITS:
        if match := pattern.search(text):
            return f"{text.rstrip('.')} (write {row}{match[1]} under [[chat_models]])"
    return text


def without_secrets(text: str, secret: str) -> str:
    """Servers quote keys back in their errors."""
    if len(secret) >= _LEAST_SECRET:
        text = text.replace(secret, "***")
    return _SECRET.sub("***", text)


def without_key(answer: Answer, key: str) -> Answer:
    """The answer of a server that quotes the key back: neither journal nor results hold it."""
    if len(key) < _LEAST_SECRET:
        return answer
    cleaned = {
        name: text.replace(key, "***") for name in WORDS if key in (text := getattr(answer, name))
    }
    # Spread over the tokens' log-probabilities the key would still be there.
    return replace(answer, **cleaned, logprobs=()) if cleaned else answer
