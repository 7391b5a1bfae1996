"""What does `alphas: [2^-15 .. 2^10]` stand for?

A number, a power `2^-3`, a range of powers of one base `2^-15 .. 2^10` (both ends included), or a
list of those.
"""

from __future__ import annotations

import math
import re
from typing import Any

from fieldmark.errors import UsageError

_POWER = re.compile(r"(\d+(?:\.\d+)?)\s*\^\s*([+-]?\d+)")
_MOST = 1000


def parse_alphas(value: Any) -> list[float]:
    """The regularisation strengths, in the order they were written.

    >>> parse_alphas(["2^-1 .. 2^2", 10])
    [0.5, 1.0, 2.0, 4.0, 10.0]
    """
    entries = value.strip().strip("[]").split(",") if isinstance(value, str) else value
    if isinstance(entries, (int, float)):
        entries = [entries]
    try:
        alphas = [alpha for entry in entries for alpha in _parse_entry(entry)]
    except TypeError as error:
        raise _wrong(value) from error
    if not alphas:
        raise UsageError("alphas is empty: expected at least one number, or `[2^-15 .. 2^10]`.")
    return alphas


def _parse_entry(entry: Any) -> list[float]:
    if isinstance(entry, bool):
        raise _wrong(entry)
    if not isinstance(entry, str):
        return [_positive(float(entry), entry)]
    ends = [_parse_power(each, entry) for each in entry.split("..")]
    if len(ends) == 1:
        base, exponent = ends[0]
        return [_positive(base**exponent, entry)]
    if len(ends) != 2 or ends[0][0] != ends[1][0] or ends[0][0] == 1:
        raise _wrong(entry)
    (base, first), (_, last) = ends
    if not first <= last < first + _MOST:
        raise UsageError(f"alphas {entry!r} runs from high to low: write the smaller power first.")
    return [_positive(base**exponent, entry) for exponent in range(first, last + 1)]


def _parse_power(text: str, entry: str) -> tuple[float, int]:
    found = _POWER.fullmatch(text.strip())
    if found:
        return float(found[1]), int(found[2])
    try:
        number = float(text)
    except ValueError:
        raise _wrong(entry) from None
    if ".." in entry:
        raise _wrong(entry)
    return number, 1


def _positive(alpha: float, entry: Any) -> float:
    if not (alpha > 0 and math.isfinite(alpha)):
        raise UsageError(f"alphas holds {entry!r}: expected finite numbers above 0.")
    return alpha


def _wrong(entry: Any) -> UsageError:
    return UsageError(
        f"alphas holds {entry!r}: expected numbers, powers as 2^-3, or a range `2^-15 .. 2^10`."
    )
