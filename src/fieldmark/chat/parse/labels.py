"""Parsing several labels: which of the options does a text say hold, when any number of them may?

A JSON list or object of true and false, "Answer: one, two", a line of yes or no for each option,
or a list. In running text every option that is named and not ruled out counts; one that is both
named and ruled out makes the text ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from fieldmark.chat.parse.mentions import (
    Mention,
    NameIndex,
    declines,
    find_letters,
    find_names,
    is_rejected,
)
from fieldmark.chat.parse.text import Passage, level, read
from fieldmark.chat.parse.values import (
    AMBIGUOUS,
    Parsed,
    cued,
    exactly,
    read_json,
    read_value,
    tagged,
)

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
    r"^(?P<name>.{1,80}?)\W*[:=→|-]\W*(?P<verdict>yes|no|true|false|present|absent|1|0)\b",
    re.IGNORECASE,
)
_IS_YES = frozenset(("yes", "true", "present", "1"))


def choose_some(text: str, names: NameIndex, *, is_cut: bool = False) -> Parsed:
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
        return Parsed(None, "", "cut off")
    return _of_verdicts(plain, names) or _of_plain_list(plain, names) or _of_prose(plain, names)


def _of_json(value: Any, names: NameIndex) -> Parsed:
    if isinstance(value, dict):
        yes = (True, 1, "yes", "true", "present")
        return _kept([str(key) for key, verdict in value.items() if verdict in yes], names, "json")
    if isinstance(value, list):
        return _kept([str(item) for item in value], names, "json")
    if isinstance(value, str):
        return _of_list(value, names, "json")
    return Parsed(None, "json", "cannot tell" if value is None else "no option named")


def _of_list(value: str, names: NameIndex, how: str) -> Parsed:
    if _NONE.match(value):
        return _parsed((), names, how)
    if _ALL.match(value):
        return _parsed(names.labels, names, how)
    letters = _letters_only(value, names)
    if letters is not None:
        return _parsed(letters, names, how)
    return _kept([item for item in _SPLIT.split(value) if item.strip(" .*_`\"'")], names, how)


def _letters_only(value: str, names: NameIndex) -> list[str] | None:
    """ "A B C" or "ABC": capitals of options, each once."""
    letters = value.replace(" ", "").strip(".*_`\"'")
    is_so = letters.isupper() and len(set(letters)) == len(letters)
    labels = [names.letters.get(letter.casefold()) for letter in letters] if is_so else [None]
    return None if None in labels else [label for label in labels if label]


def _kept(items: list[str], names: NameIndex, how: str) -> Parsed:
    """Items that are options; the others are named in `why`, and alone they are no answer."""
    if [item.strip().lower() for item in items] == ["none"]:
        return _parsed((), names, how)
    labels_of = {item: read_value(item, names) for item in _ticked(items)}
    labels = [label for label in labels_of.values() if isinstance(label, str)]
    other = [item.strip(" .*_`\"'") for item, label in labels_of.items() if label not in labels]
    if items and not labels:
        return Parsed(None, how, declines(" ".join(items)) or "answer is not an option")
    why = f"not an option: {', '.join(other)}" if other else ""
    return _parsed(labels, names, how, why)


def _ticked(items: Sequence[str]) -> list[str]:
    """Items without those crossed out; where some are ticked, only these."""
    ticked = [item for item in items if _TICK.search(item)]
    return ticked or [item for item in items if not _CROSS.search(item)]


def _of_verdicts(plain: str, names: NameIndex) -> Parsed | None:
    """A line of yes or no for each option; all options must have one."""
    verdicts: dict[str, bool] = {}
    for line in plain.split("\n"):
        match = _VERDICT.match(line.strip(" \t*_`-•"))
        label = exactly(match["name"], names) if match else None
        if match and label:
            verdicts[label] = match["verdict"].lower() in _IS_YES
    if len(verdicts) < len(names.labels):
        return None
    holding = [label for label, is_so in verdicts.items() if is_so]
    return _parsed(holding, names, "yes or no each")


def _of_plain_list(plain: str, names: NameIndex) -> Parsed | None:
    """A text that is nothing but a list of options, or "none"."""
    if _NONE.match(plain) or _ALL.match(plain) or _letters_only(plain, names):
        return _of_list(plain, names, "whole text")
    items = [item for item in _SPLIT.split(plain) if item.strip(" .*_`\"'-")]
    labels = [exactly(item, names) for item in _ticked(items)]
    if not items or None in labels:
        return None
    return _parsed([label for label in labels if label], names, "whole text")


def _of_prose(plain: str, names: NameIndex) -> Parsed:
    passage = read(plain)
    mentions = [*find_names(passage, names), *find_letters(passage, names)]
    named = [mention for mention in mentions if not is_rejected(passage, mention)]
    ruled_out = {mention.label for mention in mentions if mention not in named}
    kept = {mention.label for mention in named}
    if refusal := declines(plain):
        return Parsed(None, "", refusal)
    if kept & ruled_out or _has_or(passage, named):
        return Parsed(None, "mentions", "ambiguous")
    if not kept:
        return Parsed(None, "", "no option named")
    return _parsed(kept, names, "mentions")


def _has_or(passage: Passage, mentions: Sequence[Mention]) -> bool:
    """Are two of them alternatives: "tropical or temperate"?"""
    order = sorted(mentions, key=lambda mention: mention.first)
    return any(
        "or" in (word.text for word in passage.words[one.last + 1 : two.first])
        and passage.words[one.first].sentence == passage.words[two.first].sentence
        for one, two in pairwise(order)
    )


def _parsed(labels: Iterable[str], names: NameIndex, how: str, why: str = "") -> Parsed:
    """The labels in offered order; no label at all is "none of them"."""
    wanted = set(labels)
    ordered = tuple(label for label in names.labels if label in wanted)
    return Parsed("; ".join(ordered), how, why, ordered)
