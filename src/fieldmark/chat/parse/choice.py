"""Which one of the options does a free text choose?

Strict places first (JSON, tags, "Answer:"), then looser ones: a line or a sentence that is an
option and nothing else, marked words, a sentence that commits itself, and last a text that names
one option only. Each takes its LAST match. Echoes of the question and of the list of options are
not answers. Where two options fit equally, neither is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from fieldmark.chat.parse.mentions import (
    Mention,
    Names,
    declines,
    distinct,
    find_letters,
    find_names,
    is_committed,
    is_negated,
    is_rejected,
)
from fieldmark.chat.parse.text import Passage, level, read, segments, word_set
from fieldmark.chat.parse.values import (
    AMBIGUOUS,
    cued,
    exactly,
    read_json,
    read_value,
    single,
    tagged,
    without_reasons,
)


@dataclass(frozen=True, slots=True)
class Found:
    """What one stage made of the text: a label, or why none can be had."""

    label: str | None
    how: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """The text and its echoes taken off, read once for all stages."""

    text: str
    plain: str
    passage: Passage
    mentions: tuple[Mention, ...]
    """options named and not ruled out"""
    denied: tuple[Mention, ...]
    """options named after a "not" """
    names: Names
    is_yes_no: bool


_ITEM = re.compile(r"^\W{0,8}(?:[^\W\d_]\s*[.):\]]|[-*•]|\d+[.)])\s*")
_MARKED = re.compile(r"\*\*(.+?)\*\*|__(.+?)__|`([^`\n]+)`|(?<!\*)\*([^*\n]+)\*(?!\*)", re.DOTALL)
_TURNS = word_set("but however yet though although so therefore thus hence aber sondern pero")
_BEGINS_JSON = re.compile(r"\s*(?:```\w*\s*)?\{\s*[\"']")
_TICKED = re.compile(r"\[[xX]\]|[☑✅✓✔]")
_SAID = re.compile(r"[\"']answer[\"']\s*:\s*[\"']([^\"'\n]*)[\"']", re.IGNORECASE)
# From the start of a sentence only, and without going back: long texts must not take long.
_QUESTION = re.compile(r"(?<![^.!?\n])[^.!?\n]*+\?+[*_\"')\]]*")


def choose(text: str, names: Names, *, is_yes_no: bool = False, is_cut: bool = False) -> Found:
    """The option a text chooses. Of a text that was cut off, only a strict place counts."""
    answered = _prepare(text, names, is_yes_no)
    stages = _STRICT if is_cut else (*_STRICT, *_SPOKEN, *_LOOSE)
    for how, stage in stages:
        result = stage(answered)
        if result is AMBIGUOUS:
            return Found(None, how, "ambiguous")
        if isinstance(result, str):
            return Found(result, how)
        if isinstance(result, Found):
            return result
    return Found(None, "", "cut off" if is_cut else declines(text) or _why(answered))


def _why(answered: Answered) -> str:
    return "ambiguous" if len(distinct(answered.mentions)) > 1 else "no option named"


def _prepare(text: str, names: Names, is_yes_no: bool) -> Answered:
    plain = level(text)
    told = _without_echo(plain, names)
    passage = read(told)
    found = sorted(
        (*find_names(passage, names), *find_letters(passage, names)), key=lambda each: each.first
    )
    kept = tuple(each for each in found if not is_rejected(passage, each))
    denied = tuple(each for each in found if is_negated(passage, each))
    return Answered(text, plain, passage, kept, denied, names, is_yes_no)


def _without_echo(plain: str, names: Names) -> str:
    """The text without questions and without lists of options."""
    lines = _QUESTION.sub(" ", plain).split("\n")
    kept: list[str] = []
    run: list[tuple[str, str]] = []
    for line in [*lines, ""]:
        label = _listed(line, names)
        if label is not None and label not in (each for _, each in run):
            run.append((line, label))
            continue
        if len(run) < 2:
            kept += [each for each, _ in run]
        run = []
        kept.append(line)
    return "\n".join(kept)


def _listed(line: str, names: Names) -> str | None:
    """The option a line of a list names, by letter and name or by a bullet and name."""
    item = _ITEM.match(line)
    if item is None:
        return exactly(line, names)
    mentions = find_names(read(line[item.end() :]), names)
    return mentions[0].label if mentions and mentions[0].first == 0 else exactly(line, names)


# --- strict ---


def _by_json(answered: Answered) -> str | object | Found | None:
    value = read_json(answered.text)
    if value is AMBIGUOUS:
        return _of_broken_json(answered)
    value = single(value)
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if not isinstance(value, (str, int, float)):
        return Found(None, "json", "cannot tell" if value is None else "no option named")
    return _settled(str(value), answered.names, "json")


def _of_broken_json(answered: Answered) -> str | object | Found | None:
    """A text that begins as JSON and is none: its quotes and keys must not be read as options."""
    if not _BEGINS_JSON.match(answered.text):
        return None
    said = _SAID.findall(answered.text)
    if said:
        return _settled(said[-1], answered.names, "json")
    return Found(None, "json", "broken JSON")


def _by_tag(answered: Answered) -> str | object | Found | None:
    value = tagged(answered.text)
    return None if value is None else _settled(value, answered.names, "tag")


def _by_answer_line(answered: Answered) -> str | object | Found | None:
    cue = cued(answered.plain)
    return _by_cue(answered) if cue is not None and cue[1] else None


def _by_cue(answered: Answered) -> str | object | Found | None:
    cue = cued(answered.plain)
    if cue is None:
        return None
    value, is_final = cue
    found = read_value(value, answered.names)
    if found is not None:
        return found
    if not is_final or not value.strip() or _names_some(value, answered.names):
        return None
    return Found(None, "answer line", declines(value) or "answer is not an option")


def _names_some(value: str, names: Names) -> bool:
    passage = read(value)
    return bool(find_names(passage, names) or find_letters(passage, names))


def _settled(value: str, names: Names, how: str) -> str | object | Found:
    found = read_value(value, names)
    if found is None:
        return Found(None, how, declines(value) or "answer is not an option")
    return found


def _by_whole(answered: Answered) -> str | object | None:
    return exactly(answered.plain, answered.names)


# --- loose ---


def _by_tick(answered: Answered) -> str | object | None:
    """ "[x] B": the one option of the lines that are ticked."""
    found: list[str] = []
    for line in answered.plain.split("\n"):
        if _TICKED.search(line):
            value = read_value(_TICKED.sub(" ", line).strip(" \t-*"), answered.names)
            found += [value] if isinstance(value, str) else []
    return found[0] if len(set(found)) == 1 else None


def _by_line(answered: Answered) -> str | object | None:
    found = [exactly(line, answered.names) for line in answered.passage.plain.split("\n")]
    labels = [each for each in found if each is not None]
    return labels[-1] if labels else None


def _by_sentence(answered: Answered) -> str | object | None:
    words, plain = answered.passage.words, answered.passage.plain
    found: list[tuple[str | None, bool]] = []
    for _, group in groupby(words, key=lambda word: word.sentence):
        own = list(group)
        label = exactly(plain[own[0].start : own[-1].end], answered.names)
        found.append((label, len(own) == 1 and len(own[0].text) == 1))
    # "A. female" where B is female: the letter and the name after it disagree
    for (letter, is_letter), (name, _) in pairwise(found):
        if is_letter and letter and name and letter != name:
            return AMBIGUOUS
    labels = [label for label, _ in found if label is not None]
    return labels[-1] if labels else None


def _by_first_word(answered: Answered) -> str | object | None:
    """ "Yes, …" and "B, because …": the first clause is the option, and no other clause is."""
    words = answered.passage.words
    if not words:
        return None
    plain = answered.passage.plain
    first = [word for word in words if word.sentence == 0]
    end = len(without_reasons(plain[: first[-1].end]))
    cut = segments([word for word in first if word.end <= end] or first)
    found = [exactly(plain[own[0].start : own[-1].end], answered.names) for own in cut]
    has_or = any(own[0].text == "or" for own in cut)
    if found[0] is None or has_or or found[0] not in distinct(answered.mentions):
        return None
    others = {each for each in found if each is not None} - {found[0]}
    if answered.is_yes_no:
        here = [each for each in answered.mentions if words[each.first].sentence == 0]
        others |= set(distinct(here)) - {found[0]}
    return AMBIGUOUS if others else found[0]


def _by_mark(answered: Answered) -> str | object | None:
    plain = answered.passage.plain
    spans = [match.span() for match in _MARKED.finditer(plain)]
    words = answered.passage.words
    marked = [
        each
        for each in answered.mentions
        if any(lo <= words[each.first].start and words[each.last].end <= hi for lo, hi in spans)
    ]
    return _of_last_sentence(answered.passage, marked)


def _by_commitment(answered: Answered) -> str | object | None:
    meant = [each for each in answered.mentions if is_committed(answered.passage, each)]
    if not meant:
        return None
    passage, last = answered.passage, meant[-1]
    # "is either a male or a female": the rival needs no commitment of its own
    rivals = [each for each in answered.mentions if _shares_clause(passage, each, last)]
    start = _turn(passage, last)
    sentence = passage.words[last.first].sentence
    here = [e for e in meant if passage.words[e.first].sentence == sentence and e.first >= start]
    return _only([*here, *rivals])


def _turn(passage: Passage, mention: Mention) -> int:
    """The last "but" before a mention: what a text says before it is taken back."""
    sentence = passage.words[mention.first].sentence
    return max(
        (
            place
            for place, word in enumerate(passage.words[: mention.first])
            if word.sentence == sentence and word.text in _TURNS
        ),
        default=0,
    )


def _shares_clause(passage: Passage, one: Mention, two: Mention) -> bool:
    return passage.words[one.first].clause == passage.words[two.first].clause


def _by_only_mention(answered: Answered) -> str | object | None:
    if declines(answered.text):
        return None
    full = [each for each in answered.mentions if not each.is_core]
    return _only(full) if full else None


def _by_denial(answered: Answered) -> str | object | None:
    """ "They do not show the same whale", where the question was whether they do."""
    denied = distinct(answered.denied)
    if not answered.is_yes_no or answered.mentions or len(denied) != 1 or declines(answered.text):
        return None
    others = [each for each in answered.names.labels if each != denied[0]]
    is_open = any(word.text in ("if", "whether") for word in answered.passage.words)
    return others[0] if len(others) == 1 and not is_open else None


def _of_last_sentence(passage: Passage, mentions: Sequence[Mention]) -> str | object | None:
    if not mentions:
        return None
    last = passage.words[mentions[-1].first].sentence
    return _only([each for each in mentions if passage.words[each.first].sentence == last])


def _only(mentions: Sequence[Mention]) -> str | object:
    labels = distinct(mentions)
    return labels[0] if len(labels) == 1 else AMBIGUOUS


Stage = Callable[[Answered], "str | object | Found | None"]
_STRICT: tuple[tuple[str, Stage], ...] = (
    ("json", _by_json),
    ("tag", _by_tag),
    ("answer line", _by_answer_line),
)
_SPOKEN: tuple[tuple[str, Stage], ...] = (
    ("answer line", _by_cue),
    ("whole text", _by_whole),
)
_LOOSE: tuple[tuple[str, Stage], ...] = (
    ("tick", _by_tick),
    ("line", _by_line),
    ("sentence", _by_sentence),
    ("first word", _by_first_word),
    ("marked", _by_mark),
    ("sentence that commits", _by_commitment),
    ("only mention", _by_only_mention),
    ("denial", _by_denial),
)
