"""Parsing a count: which whole number does a text answer with?

Digits and English number words. A range, a bound ("more than ten", "5-7") or a fraction is no
count. Numbers that a sentence commits itself to ("I count 5", "there are 5") come before others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fieldmark.chat.parse.mentions import declines
from fieldmark.chat.parse.text import level
from fieldmark.chat.parse.values import AMBIGUOUS, Parsed, cued, read_json, single, tagged

_SMALL = str.split(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = str.split("twenty thirty forty fifty sixty seventy eighty ninety")
_VALUES = {word: number for number, word in enumerate(_SMALL)}
_VALUES |= {word: 20 + 10 * number for number, word in enumerate(_TENS)}
_WORDS = "|".join(sorted(_VALUES, key=len, reverse=True))
_UNITS = "|".join(_SMALL[1:10])
_NUMBER = (
    r"(?:\d{1,3}(?:[,' ]\d{3})+(?![\d])|\d+|"
    rf"(?:{'|'.join(_TENS)})[- ](?:{_UNITS})|{_WORDS}|(?:a|one|two|three) dozen|a single|none)"
)
_FOUND = re.compile(
    rf"(?<![\w.,])(?<!\W-)(?<!^-)(?P<n>{_NUMBER})(?:\.0+)?(?!\w|[.,]\d|\s*%)"
    rf"(?P<range>\s*(?:-|to|or|and|/|~)\s*(?:{_NUMBER})(?!\w)|\s*\+)?",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:at least|at most|more than|less than|fewer than|over|up to|between|"
    r"no more than|[<>≥≤])\s*$",
    re.IGNORECASE,
)
_COMMITTED = re.compile(
    r"(?:\bcount(?:ed)?|\bsee|\bare|\bis|\bcontains?|\bshows?|\btotal(?: of)?|\btotalling|\bfind|"
    r"\bidentif(?:y|ied)|\bvisible:|=|:)\s*(?:about|approximately|around|roughly|exactly|"
    r"a total of|clearly|only|just|[*_~≈]|\s)*$",
    re.IGNORECASE,
)
_IN_TOTAL = re.compile(r"\s*(?:\w+\s+)?(?:in total|in all|altogether|total)\b", re.IGNORECASE)
_NOTHING = re.compile(
    r"\bthere (?:are|is) no \w|^\W*no (?:\w+ ){1,2}(?:are|is) (?:visible|present|seen|shown)\b",
    re.IGNORECASE,
)
_MARKED = re.compile(r"\*\*\s*$")


def count(text: str, allowed: Sequence[str] = (), *, is_cut: bool = False) -> Parsed:
    """The number a text answers with, in digits; one of `allowed` where there are any.

    >>> count("I can see twenty-one zebras in 2 groups.").label
    '21'
    """
    number = _strict(text)
    if number is None and not is_cut:
        number = _loose(level(text))
    if number is None:
        return Parsed(None, "", "cut off" if is_cut else declines(text) or "no number")
    if number.label is not None and allowed and number.label not in allowed:
        return Parsed(None, number.how, "answer is not an option")
    return number


def _strict(text: str) -> Parsed | None:
    value = read_json(text)
    value = single(value)
    if value is not AMBIGUOUS and not isinstance(value, (bool, list, dict)):
        return _of_value(str(value), "json")
    inside = tagged(text)
    if inside is not None:
        return _of_value(inside, "tag")
    cue = cued(level(text))
    if cue is not None and cue[1]:
        return _of_value(cue[0], "answer line")
    bare = level(text).strip(" \n*_`\"'.~≈")
    whole = _FOUND.fullmatch(bare)
    return None if whole is None else _of_value(bare, "whole text")


def _of_value(value: str, how: str) -> Parsed:
    numbers = _numbers(re.sub(r"\([^()]*\)", " ", level(value))) or _numbers(level(value))
    if len(set(numbers)) == 1 and numbers[0] is not None:
        return Parsed(str(numbers[0]), how)
    why = "ambiguous" if numbers else declines(value) or "no number"
    return Parsed(None, how, why)


def _loose(plain: str) -> Parsed | None:
    totals = [m for m in _FOUND.finditer(plain) if _IN_TOTAL.match(plain, m.end())]
    if totals:
        return _one(_value(totals[-1]["n"]), "in total")
    for how, rule in (("marked", _MARKED), ("sentence that commits", _COMMITTED)):
        numbers = _numbers(plain, rule)
        if numbers:
            return _one(numbers[-1], how)
    numbers = _numbers(plain)
    if not numbers:
        return Parsed("0", "none seen") if _NOTHING.search(plain) else None
    return _one(numbers[0] if len(set(numbers)) == 1 else None, "only mention")


def _one(number: int | None, how: str) -> Parsed:
    return Parsed(None, how, "ambiguous") if number is None else Parsed(str(number), how)


def _numbers(plain: str, rule: re.Pattern[str] | None = None) -> list[int | None]:
    """Every number, None for a range or a bound; with a rule, of those it precedes."""
    numbers: list[int | None] = []
    for match in _FOUND.finditer(plain):
        before = plain[max(0, match.start() - 40) : match.start()]
        if rule is None or rule.search(before):
            is_vague = bool(match["range"] or _BOUND.search(before))
            numbers.append(None if is_vague else _value(match["n"]))
    return numbers


def _value(text: str) -> int:
    word = text.lower()
    if word in ("none", "a single"):
        return int(word == "a single")
    if word.endswith("dozen"):
        return 12 * {"a": 1}.get(word.split()[0], _VALUES.get(word.split()[0], 1))
    if word[0].isdigit():
        return int(re.sub(r"\D", "", word))
    return sum(_VALUES[part] for part in re.split(r"[- ]", word))
