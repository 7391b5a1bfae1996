"""Which of the options does a text say hold, when any number of them may?

A JSON list or object of true and false, "Answer: one, two", a line of yes or no for each option,
or a list. In running text every option that is named and not ruled out counts; one that is both
named and ruled out makes the text ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fieldmark.chat.parse.mentions import (
    Mention,
    Names,
    declines,
    find_letters,
    find_names,
    is_rejected,
)
from fieldmark.chat.parse.text import Passage, level, read
from fieldmark.chat.parse.values import AMBIGUOUS, cued, exactly, read_json, read_value, tagged


@dataclass(frozen=True, slots=True)
class Some:
    labels: tuple[str, ...] | None
    """in offered order; () is "none of them", None is not understood"""
    how: str = ""
    why: str = ""


_NONE = re.compile(
    r"^\W*(?:none|nothing|no traits?|n/?a|0|\[\s*\]|"
    r"none of (?:them|these|the (?:above|options|traits)))"
    r"(?: appl(?:y|ies)| holds?)?\W*$",
    re.IGNORECASE,
)
_ALL = re.compile(r"^\W*all(?: of (?:them|these|the above))?(?: apply| hold)?\W*$", re.IGNORECASE)
_SPLIT = re.compile(r"[,;/&+\n•·]|\band\b|\bund\b|\by\b|\bet\b|\s-\s", re.IGNORECASE)
_TICK, _CROSS = re.compile(r"[✓✔✅☑]|\[[xX]\]"), re.compile(r"[✗✘❌☒☐]|\[ \]")
_VERDICT = re.compile(
    r"^(?P<name>.{1,80}?)\W*[:=→|-]\W*(?P<said>yes|no|true|false|present|absent|1|0)\b",
    re.IGNORECASE,
)
_IS_YES = frozenset(("yes", "true", "present", "1"))


def choose_some(text: str, names: Names, *, is_cut: bool = False) -> Some:
    """The options a text says hold."""
    value = read_json(text)
    if value is not AMBIGUOUS:
        return _of_json(value, names)
    inside = tagged(text)
    if inside is not None:
        return _of_list(inside, names, "tag")
    plain = level(text)
    cue = cued(plain, is_list=True)
    if cue is not None and cue[1]:
        return _of_list(cue[0], names, "answer line")
    if is_cut:
        return Some(None, "", "cut off")
    return _of_verdicts(plain, names) or _of_plain_list(plain, names) or _of_prose(plain, names)


def _of_json(value: Any, names: Names) -> Some:
    if isinstance(value, dict):
        said = {
            str(key): each in (True, 1, "yes", "true", "present") for key, each in value.items()
        }
        return _kept([key for key, is_so in said.items() if is_so], names, "json")
    if isinstance(value, list):
        return _kept([str(each) for each in value], names, "json")
    if isinstance(value, str):
        return _of_list(value, names, "json")
    return Some(None, "json", "cannot tell" if value is None else "no option named")


def _of_list(value: str, names: Names, how: str) -> Some:
    if _NONE.match(value):
        return Some((), how)
    if _ALL.match(value):
        return Some(names.labels, how)
    letters = _letters_only(value, names)
    if letters is not None:
        return Some(_ordered(letters, names), how)
    return _kept([each for each in _SPLIT.split(value) if each.strip(" .*_`\"'")], names, how)


def _letters_only(value: str, names: Names) -> list[str] | None:
    """ "A B C" or "ABC": capitals of options, each once."""
    letters = value.replace(" ", "").strip(".*_`\"'")
    is_so = letters.isupper() and len(set(letters)) == len(letters)
    labels = [names.letters.get(each.casefold()) for each in letters] if is_so else [None]
    return None if None in labels else [each for each in labels if each]


def _kept(items: list[str], names: Names, how: str) -> Some:
    """Items that are options; the others are named in `why`, and alone they are no answer."""
    if [each.strip().lower() for each in items] == ["none"]:
        return Some((), how)
    found = {item: read_value(item, names) for item in _ticked(items)}
    labels = [each for each in found.values() if isinstance(each, str)]
    other = [item.strip(" .*_`\"'") for item, label in found.items() if label not in labels]
    if items and not labels:
        return Some(None, how, declines(" ".join(items)) or "answer is not an option")
    why = f"not an option: {', '.join(other)}" if other else ""
    return Some(_ordered(labels, names), how, why)


def _ticked(items: Sequence[str]) -> list[str]:
    """Items without those crossed out; where some are ticked, only these."""
    ticked = [each for each in items if _TICK.search(each)]
    return ticked or [each for each in items if not _CROSS.search(each)]


def _of_verdicts(plain: str, names: Names) -> Some | None:
    """A line of yes or no for each option; all options must have one."""
    said: dict[str, bool] = {}
    for line in plain.split("\n"):
        match = _VERDICT.match(line.strip(" \t*_`-•"))
        label = exactly(match["name"], names) if match else None
        if match and label:
            said[label] = match["said"].lower() in _IS_YES
    if len(said) < len(names.labels):
        return None
    return Some(
        _ordered((label for label, is_so in said.items() if is_so), names), "yes or no each"
    )


def _of_plain_list(plain: str, names: Names) -> Some | None:
    """A text that is nothing but a list of options, or "none"."""
    if _NONE.match(plain) or _ALL.match(plain) or _letters_only(plain, names):
        return _of_list(plain, names, "whole text")
    items = [each for each in _SPLIT.split(plain) if each.strip(" .*_`\"'-")]
    labels = [exactly(each, names) for each in _ticked(items)]
    if not items or None in labels:
        return None
    return Some(_ordered((each for each in labels if each), names), "whole text")


def _of_prose(plain: str, names: Names) -> Some:
    passage = read(plain)
    mentions = [*find_names(passage, names), *find_letters(passage, names)]
    ruled_out = {each.label for each in mentions if is_rejected(passage, each)}
    kept = {each.label for each in mentions if not is_rejected(passage, each)}
    if declines(plain):
        return Some(None, "", declines(plain))
    if kept & ruled_out or _has_or(passage, [e for e in mentions if e.label in kept]):
        return Some(None, "mentions", "ambiguous")
    if not kept:
        return Some(None, "", "no option named")
    return Some(_ordered(kept, names), "mentions")


def _has_or(passage: Passage, mentions: Sequence[Mention]) -> bool:
    """Are two of them alternatives: "tropical or temperate"?"""
    order = sorted(mentions, key=lambda each: each.first)
    return any(
        "or" in (word.text for word in passage.words[one.last + 1 : two.first])
        and passage.words[one.first].sentence == passage.words[two.first].sentence
        for one, two in pairwise(order)
    )


def _ordered(labels: Iterable[str], names: Names) -> tuple[str, ...]:
    wanted = set(labels)
    return tuple(each for each in names.labels if each in wanted)
