"""Parsing a multiple-choice answer: which one of the options does a free text choose?

Strict places first (`values`), then a text that is an option and nothing else, or begins or ends
with one that stands alone. Running text is a loose place, and the gate is narrow: an option is
taken only if the text stands by it, names no other and rules nothing out. Where two options fit,
neither is taken.
"""

from __future__ import annotations

import re

from fieldmark.chat.parse.mentions import NameIndex, distinct, find_mentions
from fieldmark.chat.parse.names import nearest, spellings
from fieldmark.chat.parse.stance import beside_doubt, declines, is_rejected, is_stated, retracts
from fieldmark.chat.parse.text import Passage, fold, level, read
from fieldmark.chat.parse.values import (
    AMBIGUOUS,
    AnswerField,
    Parsed,
    bare,
    find_answer_field,
    single,
    spoken_values,
)

Reading = str | object | None
"""a label, AMBIGUOUS, or None = nothing is named"""

_REASONS = (
    "because|since|due to|based on|given|as (?:it|the|there|its)|which|while|although|whereas|"
    "though|weil|porque|car|perche"
)
_CLAUSE_ENDS = re.compile(
    r"[,;()\[\]!\n]|\.(?=[\s*_\"')]|$)|:(?=[\s*_]|$)|\s-+\s|"
    rf"\s(?=(?:{_REASONS}|rather than|instead of|and not|but not)\b)"
)
_DOUBTED = re.compile(r"\?\W*$|[✗✘❌☒]")
_TICKED = re.compile(r"\[[xX]\]|[☑✅✓✔]")
_LEAD = re.compile(r"\(?(?P<letter>[^\W\d_])[\s*_`]*[.):\](-](?=\W*\w)")
_TAIL = re.compile(r"(?P<name>.*\w)\W*[\s([]+(?P<letter>[A-Z])$", re.DOTALL)
_SAYS_LETTER = re.compile(r"^(?:(?:option|choice|letter|answer)\b\W*)+(?=\w)", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[-*•]\s|\d+[.)])")
_HEAD_ENDS = re.compile(rf"(?<!\b\w)[.!](?=\s)|(?<=\b\w)[.](?=\s+[A-Z])|\b(?:{_REASONS})\b")
_GOES_ON = re.compile(
    r"\W*(?:let(?! me know)|here|i'll|i will|i can|i cannot|i can't|sure|of course)\b"
    r"|[^()\n]*\)\s*(?:is|are|has|have|was|were|can|would|could|may|might)\b",
    re.IGNORECASE,
)
"""small talk ("Yes, I can help"; a closing "Let me know" is none), or the verb of a subject: "The
lion (Panthera leo) is" """
_LAST_SENTENCE = re.compile(
    r"(?:(?<!\bvs)[.!?]|\b(?:so|hence|confident|answer|verdict|conclusion|clear):)\s+"
    r"(?:(?:hence|thus|therefore|so|overall|final(?:ly)?)[,:]? )?",
    re.IGNORECASE,
)
_CROSSED = {
    "yes": re.compile(r"\bdiffer\w*|\bthere (?:are|is)\b|\btwo\b", re.IGNORECASE),
    "no": re.compile(r"\bno (?:\w+ )?differ\w*|\bidentical\b|\bare the same\b", re.IGNORECASE),
}
_OTHERWISE = re.compile(r"\W*(?:or|and|oder|ou|o)\b", re.IGNORECASE)
_MOST_WORDS = 6
"""longer phrases are sentences: they are never compared with a name by likeness"""


def choose(text: str, names: NameIndex, *, is_cut: bool = False) -> Parsed:
    """The option a text chooses. Of a text that was cut off, only a strict place counts."""
    field = find_answer_field(text)
    if field is not None:
        return _of_field(field, names)
    if is_cut:
        return Parsed(None, "", "cut off")
    plain = _without_list(level(text), names)
    label = exactly(plain, names)
    if label is not None:
        return Parsed(label, "whole text")
    spoken = [opening(value, names) for value in spoken_values(plain)]
    ends = [opening(plain, names), _closing(plain, names)]
    # "[x] B": the options whose lines are ticked.
    lines = [line for line in plain.split("\n") if _TICKED.search(line)]
    ticked = [exactly(_TICKED.sub(" ", line).strip(" -*"), names) for line in lines]
    for how, readings in (("answer line", spoken), ("tick", ticked), ("line", ends)):
        labels = set(readings) - {None}
        if labels:
            return _parsed(labels.pop() if len(labels) == 1 else AMBIGUOUS, how)
    return only_option(plain, names)


def _of_field(field: AnswerField, names: NameIndex) -> Parsed:
    value = single(field.value)
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if field.why or not isinstance(value, (str, int, float)):
        why = field.why or ("cannot tell" if value is None else "no option named")
        return Parsed(None, field.how, why)
    reading = read_value(str(value), names)
    if reading is None:
        why = _refusal(str(value), names) or "answer is not an option"
        return Parsed(None, field.how, why)
    return _parsed(reading, field.how)


def _parsed(reading: Reading, how: str) -> Parsed:
    return Parsed(reading, how) if isinstance(reading, str) else Parsed(None, how, "ambiguous")


def read_value(value: str, names: NameIndex) -> Reading:
    """The label of the one option a short text stands by; misspelt, if it is clear which.

    >>> from fieldmark.chat.parse.mentions import Option, index
    >>> names = index((Option("m", "male", "A"), Option("f", "female", "B")))
    >>> read_value("B, because a male is red", names)
    'f'
    """
    reading = exactly(value, names) or opening(value, names)
    if reading is not None:
        return reading
    passage = read(_CLAUSE_ENDS.split(bare(value))[0] if ":" not in value else value)
    mentions = find_mentions(passage, names)
    if not mentions:
        mentions = find_mentions(passage := read(value), names)
    stated = [mention for mention in mentions if not is_rejected(passage, mention)]
    if mentions:
        labels = distinct(stated)
        is_one = len(labels) == 1 and len(distinct(mentions)) == 1
        return labels[0] if is_one and declines(value) == "" else AMBIGUOUS if labels else None
    return _misspelt(value, names)


def exactly(value: str, names: NameIndex) -> str | None:
    """The label, if the text is an option's letter or name, or both, and nothing else."""
    if _DOUBTED.search(value):
        return None
    text = _SAYS_LETTER.sub("", bare(level(value)))
    words = tuple(word.text for word in read(text).words)
    if len(words) == 1 and words[0] in names.letters:
        return names.letters[words[0]]
    if words in names.by_words:
        return names.by_words[words][0]
    lead, tail = _LEAD.match(text), _TAIL.match(text)
    for letter, name in ((lead, text[lead.end() :] if lead else ""), (tail, tail and tail["name"])):
        label = names.letters.get(letter["letter"].casefold()) if letter else None
        if label is not None:
            return label if _named(name or "", names) == label else None
    return _named(text, names)


def _named(text: str, names: NameIndex) -> str | None:
    words = fold(bare(text))
    return names.by_words[words][0] if words in names.by_words else names.parts.get(words)


def opening(text: str, names: NameIndex) -> Reading:
    """ "B, because …": the first clause is an option. What follows, up to its reasons, may name
    others only to rule them out; the rest must not stand by another.
    """
    raw = level(text).strip()
    text = bare(raw)
    clause, end, rest = _split_clause(text)
    label = exactly(clause, names)
    if (
        label is None
        or _is_heading(raw, clause)
        or (end == "," and clause.strip() == "I")
        or _GOES_ON.match(rest)
    ):
        return None
    line, _, below = text.partition("\n")
    starts = [exactly(_split_clause(bare(part))[0], names) for part in (rest, *below.split("\n"))]
    if set(starts) - {None, label} or _OTHERWISE.match(rest):
        return AMBIGUOUS
    passage = read(text)
    others = [mention for mention in find_mentions(passage, names) if mention.label != label]
    named = [other for other in others if not is_rejected(passage, other)]
    head = _HEAD_ENDS.split(line, maxsplit=1)[0]
    is_alone = exactly(head, names) is not None
    if end == ":" and label != starts[0] and (named or len(clause.strip()) > 1):
        return None  # a heading
    is_open = any(
        (passage.words[other.first].start < len(head) and not is_alone) or is_stated(passage, other)
        for other in named
    )
    is_open = is_open or bool(others and retracts(rest)) or _is_crossed(clause, passage, names)
    return AMBIGUOUS if is_open else label


def _is_heading(raw: str, clause: str) -> bool:
    """ "# Adult", or "Adult" and points below; and what is doubted."""
    line, _, below = raw.partition("\n")
    is_listed = len(clause.strip()) > 1 and _BULLET.match(below.lstrip("\n")) is not None
    return line.startswith("#") or is_listed or _DOUBTED.search(line) is not None


def _is_crossed(clause: str, passage: Passage, names: NameIndex) -> bool:
    """ "Yes, there are differences", where the question was whether two are the same."""
    crossed = _CROSSED.get(clause.strip().casefold())
    is_same = ("same", "individual") in names.by_words
    head = passage.plain.split("\n")[0]
    return bool(is_same and crossed and crossed.search(head))


def _split_clause(text: str) -> tuple[str, str, str]:
    end = _CLAUSE_ENDS.search(text)
    if end is None:
        return text, "", ""
    return text[: end.start()], end[0].strip(), text[end.end() :]


def _closing(plain: str, names: NameIndex) -> Reading:
    """The last line, or the last sentence, where it is an option and no item of a list."""
    lines = [line for line in plain.split("\n") if bare(line)]
    *before, last = _LAST_SENTENCE.split(lines[-1])
    label = exactly(last, names)
    if label is None or _BULLET.match(lines[-1]) or not (before or lines[:-1]):
        return None
    if not before:
        is_open = bool({exactly(line, names) for line in lines[:-1]} - {None, label})
        return None if lines[-2].rstrip(" *_").endswith(":") else AMBIGUOUS if is_open else label
    passage = read(plain)
    others = [mention for mention in find_mentions(passage, names) if mention.label != label]
    return label if all(is_rejected(passage, other) for other in others) else AMBIGUOUS


def _without_list(plain: str, names: NameIndex) -> str:
    """Without a list of all options that the text repeats."""
    lines = plain.split("\n")
    labels = [exactly(line, names) for line in lines]
    n = len(names.labels)
    for start in range(len(lines) - n):
        if n > 1 and set(labels[start : start + n]) == set(names.labels):
            return "\n".join([*lines[:start], *lines[start + n :]])
    return plain


SEVERAL = "several options are named"


def _refusal(text: str, names: NameIndex) -> str:
    """Why a text gives no answer; who names several options as possible has not refused."""
    refusal = declines(text)
    if refusal != "cannot tell":
        return refusal
    return SEVERAL if len(distinct(find_mentions(read(beside_doubt(text)), names))) > 1 else refusal


def only_option(plain: str, names: NameIndex) -> Parsed:
    """The gate of running text: the one option it names and stands by, if nothing is in its way."""
    passage = read(plain)
    mentions = find_mentions(passage, names)
    kept = [mention for mention in mentions if not is_rejected(passage, mention)]
    is_meant = any(is_stated(passage, mention) for mention in kept)
    refusal = _refusal(plain, names)
    if refusal and not is_meant:
        return Parsed(None, "", refusal)
    if not mentions:
        return Parsed(None, "", "no option named")
    if len(distinct(mentions)) > 1:
        return Parsed(None, "", SEVERAL)
    if declines(plain, is_doubt_allowed=True):
        return Parsed(None, "", "an option is named by a text that declines")
    if len(kept) < len(mentions):
        return Parsed(None, "", "an option is ruled out or only weighed")
    if not is_meant:
        return Parsed(None, "", "an option is named in passing")
    return Parsed(mentions[0].label, "only option named", is_loose=True)


def _misspelt(value: str, names: NameIndex) -> str | None:
    words = fold(_split_clause(bare(level(value)))[0])
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    spelt = spellings({" ".join(name): [label] for name, (label, _) in names.by_words.items()})
    return nearest(" ".join(words), spelt).label
