"""Parsing a multiple-choice answer: which one of the options does a free text choose?

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
    NameIndex,
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
    Parsed,
    cued,
    exactly,
    read_json,
    read_value,
    single,
    tagged,
    without_reasons,
)

Reading = str | object | Parsed | None
"""of one stage: a label, AMBIGUOUS, the end of the search, or None = the next stage may try"""


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The text and its echoes taken off, read once for all stages."""

    text: str
    plain: str
    passage: Passage
    mentions: tuple[Mention, ...]
    """options named and not ruled out"""
    denied: tuple[Mention, ...]
    """options named after a "not" """
    names: NameIndex
    is_yes_no: bool


_ITEM = re.compile(r"^\W{0,8}(?:[^\W\d_]\s*[.):\]]|[-*•]|\d+[.)])\s*")
_MARKED = re.compile(r"\*\*(.+?)\*\*|__(.+?)__|`([^`\n]+)`|(?<!\*)\*([^*\n]+)\*(?!\*)", re.DOTALL)
_TURNS = word_set("but however yet though although so therefore thus hence aber sondern pero")
_BEGINS_JSON = re.compile(r"\s*(?:```\w*\s*)?\{\s*[\"']")
_TICKED = re.compile(r"\[[xX]\]|[☑✅✓✔]")
_QUOTED_ANSWER = re.compile(r"[\"']answer[\"']\s*:\s*[\"']([^\"'\n]*)[\"']", re.IGNORECASE)
# From the start of a sentence only, and without going back: long texts must not take long.
_QUESTION = re.compile(r"(?<![^.!?\n])[^.!?\n]*+\?+[*_\"')\]]*")


def choose(text: str, names: NameIndex, *, is_yes_no: bool = False, is_cut: bool = False) -> Parsed:
    """The option a text chooses. Of a text that was cut off, only a strict place counts."""
    answer = _prepare(text, names, is_yes_no)
    stages = _STRICT if is_cut else (*_STRICT, *_SPOKEN, *_LOOSE)
    for how, stage in stages:
        result = stage(answer)
        if result is AMBIGUOUS:
            return Parsed(None, how, "ambiguous")
        if isinstance(result, str):
            return Parsed(result, how)
        if isinstance(result, Parsed):
            return result
    return Parsed(None, "", "cut off" if is_cut else declines(text) or _why(answer))


def _why(answer: AnswerText) -> str:
    return "ambiguous" if len(distinct(answer.mentions)) > 1 else "no option named"


def _prepare(text: str, names: NameIndex, is_yes_no: bool) -> AnswerText:
    plain = level(text)
    passage = read(_without_echo(plain, names))
    named = [*find_names(passage, names), *find_letters(passage, names)]
    named.sort(key=lambda mention: mention.first)
    kept = tuple(mention for mention in named if not is_rejected(passage, mention))
    denied = tuple(mention for mention in named if is_negated(passage, mention))
    return AnswerText(text, plain, passage, kept, denied, names, is_yes_no)


def _without_echo(plain: str, names: NameIndex) -> str:
    """The text without questions and without lists of options."""
    lines = _QUESTION.sub(" ", plain).split("\n")
    kept: list[str] = []
    run: list[tuple[str, str]] = []
    for line in [*lines, ""]:
        label = _listed(line, names)
        if label is not None and label not in (listed for _, listed in run):
            run.append((line, label))
            continue
        if len(run) < 2:
            kept += [listed for listed, _ in run]
        run = []
        kept.append(line)
    return "\n".join(kept)


def _listed(line: str, names: NameIndex) -> str | None:
    """The option a line of a list names, by letter and name or by a bullet and name."""
    item = _ITEM.match(line)
    if item is None:
        return exactly(line, names)
    mentions = find_names(read(line[item.end() :]), names)
    return mentions[0].label if mentions and mentions[0].first == 0 else exactly(line, names)


# --- strict ---


def _by_json(answer: AnswerText) -> Reading:
    value = read_json(answer.text)
    if value is AMBIGUOUS:
        return _of_broken_json(answer)
    value = single(value)
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if not isinstance(value, (str, int, float)):
        return Parsed(None, "json", "cannot tell" if value is None else "no option named")
    return _settled(str(value), answer.names, "json")


def _of_broken_json(answer: AnswerText) -> Reading:
    """A text that begins as JSON and is none: its quotes and keys must not be read as options."""
    if not _BEGINS_JSON.match(answer.text):
        return None
    quoted = _QUOTED_ANSWER.findall(answer.text)
    if quoted:
        return _settled(quoted[-1], answer.names, "json")
    return Parsed(None, "json", "broken JSON")


def _by_tag(answer: AnswerText) -> Reading:
    value = tagged(answer.text)
    return None if value is None else _settled(value, answer.names, "tag")


def _by_answer_line(answer: AnswerText) -> Reading:
    cue = cued(answer.plain)
    return _by_cue(answer) if cue is not None and cue[1] else None


def _by_cue(answer: AnswerText) -> Reading:
    cue = cued(answer.plain)
    if cue is None:
        return None
    value, is_final = cue
    reading = read_value(value, answer.names)
    if reading is not None:
        return reading
    if not is_final or not value.strip() or _names_some(value, answer.names):
        return None
    return Parsed(None, "answer line", declines(value) or "answer is not an option")


def _names_some(value: str, names: NameIndex) -> bool:
    passage = read(value)
    return bool(find_names(passage, names) or find_letters(passage, names))


def _settled(value: str, names: NameIndex, how: str) -> Reading:
    reading = read_value(value, names)
    if reading is None:
        return Parsed(None, how, declines(value) or "answer is not an option")
    return reading


def _by_whole(answer: AnswerText) -> Reading:
    return exactly(answer.plain, answer.names)


# --- loose ---


def _by_tick(answer: AnswerText) -> Reading:
    """ "[x] B": the one option of the lines that are ticked."""
    labels: list[str] = []
    for line in answer.plain.split("\n"):
        if _TICKED.search(line):
            value = read_value(_TICKED.sub(" ", line).strip(" \t-*"), answer.names)
            labels += [value] if isinstance(value, str) else []
    return labels[0] if len(set(labels)) == 1 else None


def _by_line(answer: AnswerText) -> Reading:
    lines = answer.passage.plain.split("\n")
    labels = [label for line in lines if (label := exactly(line, answer.names)) is not None]
    return labels[-1] if labels else None


def _by_sentence(answer: AnswerText) -> Reading:
    words, plain = answer.passage.words, answer.passage.plain
    sentences: list[tuple[str | None, bool]] = []
    for _, group in groupby(words, key=lambda word: word.sentence):
        own = list(group)
        label = exactly(plain[own[0].start : own[-1].end], answer.names)
        sentences.append((label, len(own) == 1 and len(own[0].text) == 1))
    # "A. female" where B is female: the letter and the name after it disagree
    for (letter, is_letter), (name, _) in pairwise(sentences):
        if is_letter and letter and name and letter != name:
            return AMBIGUOUS
    labels = [label for label, _ in sentences if label is not None]
    return labels[-1] if labels else None


def _by_first_word(answer: AnswerText) -> Reading:
    """ "Yes, …" and "B, because …": the first clause is the option, and no other clause is."""
    words = answer.passage.words
    if not words:
        return None
    plain = answer.passage.plain
    first = [word for word in words if word.sentence == 0]
    end = len(without_reasons(plain[: first[-1].end]))
    cut = segments([word for word in first if word.end <= end] or first)
    labels = [exactly(plain[own[0].start : own[-1].end], answer.names) for own in cut]
    has_or = any(own[0].text == "or" for own in cut)
    if labels[0] is None or has_or or labels[0] not in distinct(answer.mentions):
        return None
    others = set(labels) - {labels[0], None}
    if answer.is_yes_no:
        here = [mention for mention in answer.mentions if words[mention.first].sentence == 0]
        others |= set(distinct(here)) - {labels[0]}
    return AMBIGUOUS if others else labels[0]


def _by_mark(answer: AnswerText) -> Reading:
    words = answer.passage.words
    spans = [match.span() for match in _MARKED.finditer(answer.passage.plain)]

    def is_marked(mention: Mention) -> bool:
        start, end = words[mention.first].start, words[mention.last].end
        return any(low <= start and end <= high for low, high in spans)

    return _of_last_sentence(answer.passage, list(filter(is_marked, answer.mentions)))


def _by_commitment(answer: AnswerText) -> Reading:
    passage, words = answer.passage, answer.passage.words
    meant = [mention for mention in answer.mentions if is_committed(passage, mention)]
    if not meant:
        return None
    last = words[meant[-1].first]
    # "is either a male or a female": the rival needs no commitment of its own
    rivals = [rival for rival in answer.mentions if words[rival.first].clause == last.clause]
    # What a text says before its last "but" is taken back.
    turns = [
        place
        for place, word in enumerate(words[: meant[-1].first])
        if word.sentence == last.sentence and word.text in _TURNS
    ]
    after = [mention for mention in meant if mention.first >= max(turns, default=0)]
    here = [mention for mention in after if words[mention.first].sentence == last.sentence]
    return _only([*here, *rivals])


def _by_only_mention(answer: AnswerText) -> Reading:
    if declines(answer.text):
        return None
    full = [mention for mention in answer.mentions if not mention.is_core]
    return _only(full) if full else None


def _by_denial(answer: AnswerText) -> Reading:
    """ "They do not show the same whale", where the question was whether they do."""
    denied = distinct(answer.denied)
    if not answer.is_yes_no or answer.mentions or len(denied) != 1 or declines(answer.text):
        return None
    others = [label for label in answer.names.labels if label != denied[0]]
    is_open = any(word.text in ("if", "whether") for word in answer.passage.words)
    return others[0] if len(others) == 1 and not is_open else None


def _of_last_sentence(passage: Passage, mentions: Sequence[Mention]) -> Reading:
    if not mentions:
        return None
    last = passage.words[mentions[-1].first].sentence
    return _only([mention for mention in mentions if passage.words[mention.first].sentence == last])


def _only(mentions: Sequence[Mention]) -> Reading:
    labels = distinct(mentions)
    return labels[0] if len(labels) == 1 else AMBIGUOUS


Stage = Callable[[AnswerText], Reading]
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
