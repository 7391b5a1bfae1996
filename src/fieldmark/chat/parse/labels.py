"""Parsing several labels: which of the options does a text say hold, when any number of them may?

A JSON list or object of true and false, "Answer: one, two", a line of yes or no for each option,
or a list. Running text is a loose place: what it names counts only if it rules nothing out, weighs
nothing and does not decline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from fieldmark.chat.parse.choice import Reading, exactly, read_value
from fieldmark.chat.parse.mentions import NameIndex, distinct, find_mentions
from fieldmark.chat.parse.stance import declines, is_rejected, is_stated
from fieldmark.chat.parse.text import level, read
from fieldmark.chat.parse.values import Parsed, bare, find_answer_field

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
_BRACKETS = re.compile(r"\([^()]*\)")
_SENTENCE_ENDS = re.compile(
    r"\.(?=\s+[A-Z])|(?<=\w{3})\.(?=\s)|\b(?:because|since|based on|as the)\b"
)
_HEDGED = re.compile(
    r"\b(?:or|may|might|could|possibly|perhaps|except|only one|all of|none|no|not|but)\b|n't\b",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"\b(?:all|but|except|everything|to|or)\b|\b\w-\w\b", re.IGNORECASE)
_MOST_WORDS = 5
_IS_YES = frozenset(("yes", "true", "present", "1"))


def choose_some(text: str, names: NameIndex, *, is_cut: bool = False) -> Parsed:
    """The options a text says hold."""
    field = find_answer_field(text, is_list=True)
    if field is not None and field.why:
        return Parsed(None, field.how, field.why)
    if field is not None:
        value = field.value
        return _of_json(value, names) if field.how == "json" else _of_list(value, names, field.how)
    if is_cut:
        return Parsed(None, "", "cut off")
    plain = level(text)
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
    """The options of a list; what is said in brackets, or after it, is left aside."""
    value = _SENTENCE_ENDS.split(
        _BRACKETS.sub(" ", value) if bare(_BRACKETS.sub("", value)) else value
    )[0]
    if _NONE.match(value):
        return _parsed((), names, how)
    if _ALL.match(value):
        return _parsed(names.labels, names, how)
    letters = _letters_only(value, names)
    if letters is not None:
        return _parsed(letters, names, how)
    return _kept([item for item in _SPLIT.split(value) if bare(item)], names, how)


def _letters_only(value: str, names: NameIndex) -> list[str] | None:
    """ "A B C" or "ABC": capitals of options, each once."""
    letters = value.replace(" ", "").strip(".*_`\"'")
    is_so = letters.isupper() and len(set(letters)) == len(letters)
    labels = [names.letters.get(letter.casefold()) for letter in letters] if is_so else [None]
    return None if None in labels else [label for label in labels if label]


def _kept(items: list[str], names: NameIndex, how: str) -> Parsed:
    """Items that are options, all of them: with another one it is not clear what is meant."""
    if [item.strip().lower() for item in items] == ["none"]:
        return _parsed((), names, how)
    labels_of = {item: _of_item(item, names) for item in _ticked(items)}
    labels = [label for label in labels_of.values() if isinstance(label, str)]
    others = [bare(item) for item, label in labels_of.items() if not isinstance(label, str)]
    if others:
        why = declines(" ".join(items)) or f"not an option: {', '.join(others)}"
        return Parsed(None, how, why)
    return _parsed(labels, names, how)


def _of_item(item: str, names: NameIndex) -> Reading:
    """ "brackish water" names an option, "all but polar" and "A to C" do not."""
    is_more = len(read(item).words) > _MOST_WORDS or _SEVERAL.search(item) is not None
    return exactly(item, names) if is_more else read_value(item, names)


def _ticked(items: Sequence[str]) -> list[str]:
    """Items without those crossed out; where some are ticked, only these."""
    ticked = [item for item in items if _TICK.search(item)]
    return ticked or [item for item in items if not _CROSS.search(item)]


def _of_verdicts(plain: str, names: NameIndex) -> Parsed | None:
    """A line of yes or no for each option; all options must have one."""
    verdicts: dict[str, bool] = {}
    for line in re.split(r"\n|[.;](?:\s|$)", plain):
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
    items = [item for item in _SPLIT.split(plain) if bare(item)]
    labels = [exactly(item, names) for item in _ticked(items)]
    if not items or None in labels:
        return None
    return _parsed([label for label in labels if label], names, "whole text")


def _of_prose(plain: str, names: NameIndex) -> Parsed:
    passage = read(plain)
    mentions = find_mentions(passage, names)
    if refusal := declines(plain):
        return Parsed(None, "", refusal)
    if not mentions:
        return Parsed(None, "", "no option named")
    if not all(mention.is_sure for mention in mentions) or _HEDGED.search(plain):
        return Parsed(None, "", "options are named in passing")
    if any(is_rejected(passage, mention) for mention in mentions):
        return Parsed(None, "", "an option is ruled out or only weighed")
    if not any(is_stated(passage, mention) for mention in mentions):
        return Parsed(None, "", "options are named in passing")
    return _parsed(distinct(mentions), names, "options named", is_loose=True)


def _parsed(labels: Iterable[str], names: NameIndex, how: str, *, is_loose: bool = False) -> Parsed:
    """The labels in offered order; no label at all is "none of them"."""
    chosen = set(labels)
    ordered = tuple(label for label in names.labels if label in chosen)
    return Parsed("; ".join(ordered), how, "", ordered, is_loose)
