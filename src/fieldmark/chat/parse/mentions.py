"""Mentions of options: which words of a text name which option, and does the text stand by it?

Names: longest first, whole words only. Besides its full name an option answers to its aliases, its
letter, and its core: what is left when the words that all options share are taken off ("adult" of
"adult bald eagle"). An alias or core that two options share belongs to neither.

Negation and commitment: "not a male, it is a female", "A rather than B", "a male would have a red
crown": the words around a mention decide. A negation reaches to the end of its clause, and only
over a few words. Declining to answer is told apart from answering badly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from fieldmark.chat.parse.text import ARTICLES, Passage, Word, fold, is_cjk, level, word_set

_SMALL = word_set("at by for in its no non not of off on that to with without")


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that was offered."""

    label: str
    """what is stored"""
    name: str
    """what the model was shown"""
    letter: str = ""
    """"" where options were listed without letters"""
    aliases: tuple[str, ...] = ()
    """other ways to say the same"""


@dataclass(frozen=True, slots=True)
class Mention:
    label: str
    first: int
    last: int
    """places of its first and last word"""
    is_core: bool = False
    is_letter: bool = False


@dataclass(frozen=True, slots=True)
class NameIndex:
    """What the options answer to, by their first word, longest first."""

    by_first: dict[str, tuple[tuple[tuple[str, ...], str, bool], ...]]
    """first word → (words, label, is_core)"""
    by_words: dict[tuple[str, ...], tuple[str, bool]]
    letters: dict[str, str]
    """letter, case-folded → label"""
    labels: tuple[str, ...]
    parts: dict[tuple[str, ...], str]
    """beginning or end of one name only → label: "in the wild", where one option ends so"""


@lru_cache(maxsize=512)
def index(options: tuple[Option, ...]) -> NameIndex:
    """What the options answer to; the same options are indexed once."""
    owners: dict[tuple[str, ...], set[str]] = {}
    for option in options:
        owners.setdefault(fold(option.name), set()).add(option.label)
    full = dict(owners)
    for option in options:
        for words in map(fold, (*option.aliases, option.label)):
            if words not in full:
                owners.setdefault(words, set()).add(option.label)
    core_owners: dict[tuple[str, ...], set[str]] = {}
    cores = _cores([fold(option.name) for option in options])
    for option, words in zip(options, cores, strict=True):
        if words and words not in owners:
            core_owners.setdefault(words, set()).add(option.label)
    by_words = {words: (label, False) for words, label in sole_owners(owners).items()}
    by_words |= {words: (label, True) for words, label in sole_owners(core_owners).items()}
    letters = {option.letter.casefold(): option.label for option in options if option.letter}
    taken = by_words | owners
    parts = {words: label for words, label in _parts(options).items() if words not in taken}
    return names_of(by_words, letters, [option.label for option in options], parts)


def sole_owners(owners: Mapping[tuple[str, ...], set[str]]) -> dict[tuple[str, ...], str]:
    """The names that stand for one label only."""
    return {words: min(labels) for words, labels in owners.items() if len(labels) == 1}


def names_of(
    by_words: Mapping[tuple[str, ...], tuple[str, bool]],
    letters: Mapping[str, str],
    labels: Iterable[str],
    parts: Mapping[tuple[str, ...], str] | None = None,
) -> NameIndex:
    """words → (label, is_core), made ready to be searched for."""
    names = {words: owner for words, owner in by_words.items() if words}
    by_first: dict[str, list[tuple[tuple[str, ...], str, bool]]] = {}
    for words in sorted(names, key=len, reverse=True):
        by_first.setdefault(words[0], []).append((words, *names[words]))
    first_words = {first: tuple(entries) for first, entries in by_first.items()}
    return NameIndex(first_words, names, dict(letters), tuple(labels), dict(parts or {}))


_YES = word_set("y yeah yep true si oui ja sim да 是 はい")
_NO = word_set("n nope false nein non nao нет 否 いいえ")


def with_yes_and_no(names: NameIndex) -> NameIndex:
    """Other words for yes and no, understood where they stand alone."""
    parts = dict(names.parts)
    for answer, synonyms in ((("yes",), _YES), (("no",), _NO)):
        if answer in names.by_words:
            parts |= {fold(word): names.by_words[answer][0] for word in synonyms}
    return replace(names, parts={words: label for words, label in parts.items() if words})


def _parts(options: Iterable[Option]) -> dict[tuple[str, ...], str]:
    """Beginnings and ends of names that no other name has; small words alone are none."""
    owners: dict[tuple[str, ...], set[str]] = {}
    for option in options:
        name = fold(option.name)
        for n in range(1, len(name)):
            for words in (name[:n], name[n:]):
                owners.setdefault(words, set()).add(option.label)
    sole = sole_owners(owners)
    return {words: label for words, label in sole.items() if not _SMALL.issuperset(words)}


def _cores(names: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The names without the words that all of them begin and end with; () where one has no rest."""
    if len(names) < 2:
        return [()] * len(names)
    shortest = min(map(len, names))
    head = next((n for n in range(shortest) if len({name[n] for name in names}) > 1), shortest)
    rest = [name[head:] for name in names]
    shortest = min(map(len, rest))
    tail = next((n for n in range(shortest) if len({name[-1 - n] for name in rest}) > 1), shortest)
    cores = [name[: len(name) - tail] for name in rest]
    return cores if all(cores) else [()] * len(names)


def find_names(passage: Passage, names: NameIndex) -> list[Mention]:
    """Every option named in the text, leftmost and longest; a name never spans punctuation."""
    places = [n for n, word in enumerate(passage.words) if word.text not in ARTICLES]
    mentions: list[Mention] = []
    at = 0
    while at < len(places):
        mention = _name_at(passage, names, places[at : at + 24])
        if mention is None or _is_determiner(passage, mention) or _is_joined(passage, mention):
            at += 1
            continue
        mentions.append(mention)
        while at < len(places) and places[at] <= mention.last:
            at += 1
    return mentions


def _name_at(passage: Passage, names: NameIndex, places: Sequence[int]) -> Mention | None:
    first = passage.words[places[0]]
    for words, label, is_core in names.by_first.get(first.text, ()):
        if len(words) > len(places):
            continue
        there = places[: len(words)]
        if all(passage.words[n].text == word for n, word in zip(there, words, strict=True)):
            inside = range(there[0] + 1, there[-1] + 1)
            if not any(passage.words[n].is_after_break for n in inside):
                return Mention(label, there[0], there[-1], is_core)
    return None


def _is_joined(passage: Passage, mention: Mention) -> bool:
    """Is the name only part of a word with hyphens, as in "sub-adult"?"""
    before = mention.first and passage.gap_before(mention.first)
    after = mention.last + 1 < len(passage.words) and passage.gap_after(mention.last)
    return before == "-" or after == "-"


def _is_determiner(passage: Passage, mention: Mention) -> bool:
    """Is this the "no" of "no spots", not the answer no?"""
    if mention.first != mention.last or passage.words[mention.last].text != "no":
        return False
    gap = passage.gap_after(mention.last)
    return mention.last + 1 < len(passage.words) and not gap.strip(" ")


_SAYS_LETTER = word_set("answer choice letter option opcion antwort respuesta reponse")
_AFTER_LETTER = word_set(
    "and appears are as because both but can could due fit fits for given instead is it looks "
    "match matches must not or over rather seem seems shows since than was with would"
)


def find_letters(passage: Passage, names: NameIndex) -> list[Mention]:
    """Every option named by its letter; the article "a" and the pronoun "I" are not letters."""
    if not names.letters:
        return []
    is_mixed = any(char.islower() for char in passage.plain) or not any(
        len(word.raw) > 1 and word.raw.isupper() for word in passage.words
    )
    return [
        Mention(names.letters[word.text], place, place, is_letter=True)
        for place, word in enumerate(passage.words)
        if word.text in names.letters and _is_letter(passage, place, is_mixed)
    ]


def _is_letter(passage: Passage, place: int, is_mixed: bool) -> bool:
    word = passage.words[place]
    before, after = passage.gap_before(place), passage.gap_after(place)
    if before[-1:] in ("°", "º") or (place and passage.words[place - 1].text.isdigit()):
        return False
    is_wrapped = before[-1:] in tuple("([{'\"*`_") and after[:1] in tuple(")]}'\"*`_")
    is_listed = after[:1] in (")", ".", ":") and (place == 0 or "\n" in before)
    is_said = bool(place) and passage.words[place - 1].text in _SAYS_LETTER
    is_said = is_said and not passage.words[place].is_after_break
    if is_wrapped or is_listed or (is_said and word.text not in ("a", "i")):
        return True
    if not (is_mixed and word.raw.isupper()):
        return False
    if is_said or place + 1 == len(passage.words) or after.strip():
        return True
    following = passage.words[place + 1].text
    return is_cjk(following) or following in (
        _AFTER_LETTER if word.text != "i" else ("is", "because")
    )


def distinct(mentions: Iterable[Mention]) -> list[str]:
    return list(dict.fromkeys(mention.label for mention in mentions))


_REACH = 5
"""words over which a negation holds"""
_FAR = 60
"""words back that are looked at at all"""
_NEGATORS = word_set(
    "aint arent cannot cant didnt doesnt dont eliminate eliminates eliminating exclude excluded "
    "excludes excluding isnt kein keine ne neither never no non nor not nicht rule ruled rules "
    "ruling than unlike unlikely versus vs wasnt werent without wont wouldnt"
)
_COMPARISONS = word_set("from over opposed against")
"""rule out what follows them closely: "chosen over B", "distinguished from B" """
_OPEN_QUESTIONS = word_set(
    "absence absent between confused differentiate difficult distinguish hard if impossible lack "
    "lacking lacks missing mistaken similar unable unclear unsure uncertain unknown whether ob si"
)
_UNDONE_AFTER = word_set(
    "isnt arent wasnt incorrect wrong unlikely excluded eliminated impossible not cannot cant "
    "doesnt lacks"
)
_GENERAL = word_set("has have typically usually often tend tends generally normally")
"""say what such a one is like, not that this is one"""
_VERDICTS = word_set("no unlikely incorrect wrong false excluded impossible")
_PRAISE = word_set("my the best correct right answer choice")
_NOT_NEGATIONS = re.compile(
    r"\b(?:no doubt|no question|without (?:a |any )?(?:doubt|question)|not only|not just|"
    r"cannot be (?:anything|other)|nothing but)\b",
    re.IGNORECASE,
)
_COMMITMENTS = word_set(
    "answer are be believe choose chose choice classify classified conclude confirm confirms "
    "depicts guess identify identified im is its indicate indicates indicating label likely looks "
    "most option pick predict probably say select selected seems shows suggest suggests suggesting "
    "favor favors favour favours go going lean toward towards went "
    "appears think thats was es est ist e sont sind son"
)
_CONCLUSIONS = word_set(
    "therefore thus so hence overall finally conclusion conclude consequently final based given "
    "also donc entonces deshalb"
)
_HEDGES = word_set("could might may can possibly perhaps maybe either")

_SORRY = re.compile(
    r"\b(?:i'?m sorry|i am sorry|i apologi[sz]e|my apologies|as an ai|as a language model|"
    r"(?:cannot|can't|can not|unable to|won't|not able to|not comfortable) "
    r"(?:assist|help|comply|provide|answer|engage|fulfil|fulfill|process|view|see|analy[sz]e|"
    r"identifying|discuss)|against my (?:policy|guidelines)|i must decline|i have to decline|"
    r"no image (?:was |is |has been )?(?:provided|attached|visible)|don't see (?:an|any) image|"
    r"tut mir leid|lo siento|desole|mi dispiace|抱歉|无法协助)",
    re.IGNORECASE,
)
_CANNOT_TELL = re.compile(
    r"\b(?:(?:cannot|can't|can not|could not|couldn't|unable to|not able to|impossible to|"
    r"not possible to|difficult to|hard to|don't|do not) (?:\w+ly )?(?:be )?"
    r"(?:tell|say|determine|determined|identify|know|discern|distinguish|judge|decide|make out|"
    r"conclude|see enough|confirm|ascertain|count)|"
    r"(?:not|isn't|insufficient|lacks?|without) (?:enough |sufficient )?"
    r"(?:enough|sufficient|information|detail|evidence|clear enough)|"
    r"inconclusive|indeterminate|undetermined|unidentifiable|unknown|unclear|"
    r"none of (?:the|these) (?:above|options|choices)|neither of (?:the|these)|not sure|unsure|"
    r"uncertain|no idea|n/a|not applicable|cannot be (?:sure|certain|determined)|"
    r"kann (?:ich )?(?:es )?nicht (?:sagen|erkennen)|no (?:lo )?se|no puedo|je ne (?:sais|peux)|"
    r"non (?:lo )?so)\b|无法|不确定|分からない|わかりません",
    re.IGNORECASE,
)


def declines(text: str) -> Literal["", "declined", "cannot tell"]:
    """Does the text refuse to answer, or say that it cannot know?

    >>> declines("I’m sorry, I can't help with that.")
    'declined'
    """
    plain = level(text)
    if _SORRY.search(plain):
        return "declined"
    return "cannot tell" if _CANNOT_TELL.search(plain) else ""


def is_rejected(passage: Passage, mention: Mention) -> bool:
    """Is the option ruled out, or only weighed, where it is named?"""
    before = _before(passage, mention)
    if any(word.text in _OPEN_QUESTIONS for word in before):
        return True
    if is_negated(passage, mention):
        return True
    if any(word.text in _COMPARISONS for word in before[-3:]):
        return True
    if any(one.text == "instead" and two.text == "of" for one, two in pairwise(before[-4:])):
        return True
    return _is_undone(passage, mention)


def is_negated(passage: Passage, mention: Mention) -> bool:
    """Does a "not" stand before it?"""
    near = [word for word in _before(passage, mention)[-_REACH:] if not _is_idiom(passage, word)]
    return any(word.text in _NEGATORS for word in near)


def is_committed(passage: Passage, mention: Mention) -> bool:
    """Does the text say that this is the answer, not only name it?"""
    before = _before(passage, mention)
    if any(word.text in _HEDGES for word in before):
        return False
    if any(word.text in _COMMITMENTS for word in before[-6:]):
        return True
    sentence = passage.words[mention.first].sentence
    far = passage.words[max(0, mention.first - _FAR) : mention.first]
    opening = [word for word in far if word.sentence == sentence]
    return any(word.text in _CONCLUSIONS for word in opening)


def _before(passage: Passage, mention: Mention) -> list[Word]:
    """The words before a mention in its clause."""
    clause = passage.words[mention.first].clause
    start = mention.first
    least = max(0, start - _FAR)
    joint = start - 1
    while joint > 0 and passage.words[joint].text in ARTICLES:
        joint -= 1
    if joint > 0 and passage.words[joint].text == "and":
        # "can't choose between A and B": the second is part of what was begun before
        clause, start = passage.words[joint - 1].clause, joint
    while start > least and passage.words[start - 1].clause == clause:
        start -= 1
    return list(passage.words[start : mention.first])


def _is_idiom(passage: Passage, word: Word) -> bool:
    """Is this the "no" of "no doubt"?"""
    around = passage.plain[max(0, word.start - 12) : word.end + 24]
    offset = word.start - max(0, word.start - 12)
    return any(match.start() <= offset < match.end() for match in _NOT_NEGATIONS.finditer(around))


def _is_undone(passage: Passage, mention: Mention) -> bool:
    """ "B is incorrect", "a male would have", but not "B would be my answer"."""
    last = _after_others(passage, mention.last)
    clause = passage.words[last].clause
    after = [word.text for word in passage.words[last + 1 : last + 5] if word.clause == clause]
    if not mention.is_letter and after[:1] and after[0] in _GENERAL:
        return True
    if after[:1] == ["would"] or after[:1] == ["should"]:
        return after[1:2] != ["be"] or not _PRAISE.intersection(after)
    if ":" in passage.gap_after(mention.last) and _is_verdict_no(passage, mention.last + 1):
        return True
    is_verb = after[:1] and after[0] in ("is", "are", "was", "can", "seems", "does", "could")
    if is_verb:
        return any(word in _UNDONE_AFTER for word in after[1:3]) or "ruled" in after
    return bool(after) and after[0] in _UNDONE_AFTER - {"not"}


def _after_others(passage: Passage, place: int) -> int:
    """ "A and B are wrong": what is said of B is said of A."""
    words = passage.words
    while place + 2 < len(words) and words[place + 1].text in ("and", "or"):
        if len(words[place + 2].text) > 1 or words[place + 2].is_after_break:
            break
        place += 2
    return place


def _is_verdict_no(passage: Passage, place: int) -> bool:
    """The "no" of "male: no.", not of "male: no red crown"."""
    if place >= len(passage.words) or passage.words[place].text not in _VERDICTS:
        return False
    return place + 1 == len(passage.words) or bool(passage.gap_after(place).strip(" *_"))
