"""Parsing a count: which whole number does a text answer with?

Digits and English number words. A range, a bound ("more than ten", "5-7") or a fraction is no
count. Running text is a loose place: a number is taken only if exactly one can be meant, because it
is the only one or the sum of all the others ("7 zebras: 4 in front and 3 behind").
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fieldmark.chat.parse.stance import declines, retracts
from fieldmark.chat.parse.text import level
from fieldmark.chat.parse.values import Parsed, find_answer_field, single, spoken_values

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
    r"(?:\d{1,3}(?:[,' ]\d{3})+(?![\d])|\d+|(?:a|one|two|three) dozen|"
    rf"(?:{'|'.join(_TENS)})[- ](?:{_UNITS})|{_WORDS}|a single|none)"
)
_ANY = re.compile(
    rf"(?<![A-Za-z0-9_.,])(?<!\W-)(?<!^-)(?P<n>{_NUMBER})(?:\.0+)?(?![A-Za-z0-9_]|[.,]\d)"
    rf"(?P<range>\s*(?:-|to|or|/|~)\s*(?:{_NUMBER})(?!\w)|\s*\+(?!\s*\d)|\s*%|"
    rf" (?:or|and) (?:more|so|fewer)| dozens?\b| hundreds?\b| thousands?\b)?",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:at least|at most|more than|less than|fewer than|over|up to|between|from|minimum of|"
    r"maximum of|no more than|of the|[<>≥≤]|not|n't)\s*(?:\w+\s+and\s+)?$",
    re.IGNORECASE,
)
_NO_COUNT = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}:\d\d\b|\b(?:in|from|since|of|dated) (?:19|20)\d\d\b|"
    r"(?m:^[^\S\n]*\d+[.)]\s)|\b(?:step|picture|image|photo|frame|figure|panel|row|part) #?\d+\b|"
    r"\b\d+(?:\.\d+)? ?(?:° ?[CF]?|[ckm]?m|k?g|px|ft|feet|met(?:er|re)s?|(?:year|month|week|day|"
    r"hour|minute)s?)(?!\w)",
    re.IGNORECASE,
)
"""dates, places in a list, measures"""
_PRONOUN = re.compile(
    r"\b(?:this|that|each|the|no|any|which|every|another|last|first|other) one\b|\bone (?:of|"
    r"another|can|is|behind|side|more|by one|at a time|in front)\b|\bnone of\b",
    re.IGNORECASE,
)
_TOTAL_BEFORE = re.compile(
    r"(?:\btotal\w*(?: of| is)?|\baltogether|\bsum(?: of| is)?|=)\W*$|"
    r"\b(?:so|thus|hence|therefore|makes|giving)\b[^.\d]{0,30}$",
    re.I,
)
_TOTAL_AFTER = re.compile(
    r"[\s*_]*(?:\w+[\s*_]+){0,3}?(?:in total|in all|altogether|total\b|\w*[\s*_]*(?:[:(]|-\s))",
    re.I,
)
_NOTHING = re.compile(
    r"\W*(?:(?:there (?:are|is) )?no(?! other| more)|i (?:do not|don't|can't|cannot) see any) "
    r"(?:\w+ ){0,2}?\w+"
    r"(?: (?:are|is) (?:visible|present|seen|shown))?(?: in (?:the|this) \w+)?\W*",
    re.IGNORECASE,
)


def count(text: str, allowed: Sequence[str] = (), *, is_cut: bool = False) -> Parsed:
    """The number a text answers with, in digits; one of `allowed` where there are any.

    >>> count("Answer: twenty-one").label
    '21'
    """
    number = _read(text, is_cut)
    if number.label is not None and allowed and number.label not in allowed:
        return Parsed(None, number.how, "answer is not an option")
    return number


def _read(text: str, is_cut: bool) -> Parsed:
    field = find_answer_field(text)
    if field is not None:
        value = single(field.value)
        if field.why or isinstance(value, (bool, list, dict)):
            return Parsed(None, field.how, field.why or "no number")
        return _of_value("unknown" if value is None else str(value), field.how)
    if is_cut:
        return Parsed(None, "", "cut off")
    plain = level(text)
    if _ANY.fullmatch(plain.strip(" \n*_`\"'.~≈")):
        return _of_value(plain, "whole text")
    spoken = {_of_value(value, "answer line") for value in spoken_values(plain)}
    labels = {parsed.label for parsed in spoken} - {None}
    if len(labels) == 1:
        return Parsed(labels.pop(), "answer line")
    if labels:
        return Parsed(None, "answer line", "ambiguous")
    return _loose(plain)


def _of_value(value: str, how: str) -> Parsed:
    plain = level(value)
    numbers = _numbers(re.sub(r"\([^()]*\)", " ", plain)) or _numbers(plain)
    number = _the_one(numbers)
    if number is not None:
        return Parsed(str(number), how)
    return Parsed(None, how, "ambiguous" if numbers else declines(value) or "no number")


def _loose(plain: str) -> Parsed:
    refusal = declines(plain)
    numbers = _numbers(plain)
    number = _the_one(numbers)
    if refusal or retracts(plain):
        return Parsed(None, "", refusal or "ambiguous")
    if number is not None:
        return Parsed(str(number), "only number", is_loose=True)
    if not numbers and _NOTHING.fullmatch(plain):
        return Parsed("0", "none seen", is_loose=True)
    return Parsed(None, "", "several numbers are named" if numbers else "no number")


def _the_one(numbers: Sequence[tuple[int | None, bool]]) -> int | None:
    """The only number, or a total that is the sum of the others."""
    values = [value for value, _ in numbers]
    counts = {value for value in values if value is not None}
    if None in values or not counts:
        return None
    if len(counts) == 1:
        return counts.pop()
    total = max(counts)
    parts = [value for value in values if value is not None and value != total]
    is_sum = len(parts) > 1 and sum(parts) == total
    return total if is_sum and (total, True) in numbers else None


def _numbers(plain: str) -> list[tuple[int | None, bool]]:
    """Every number, None for a range or a bound, and whether it is said to be a total."""
    plain = _NO_COUNT.sub(" ", _PRONOUN.sub(" ", plain))
    numbers: list[tuple[int | None, bool]] = []
    for match in _ANY.finditer(plain):
        before = plain[max(0, match.start() - 40) : match.start()]
        is_vague = bool(match["range"] or _BOUND.search(before))
        is_total = bool(_TOTAL_BEFORE.search(before) or _TOTAL_AFTER.match(plain, match.end()))
        numbers.append((None if is_vague else _value(match["n"]), is_total))
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
