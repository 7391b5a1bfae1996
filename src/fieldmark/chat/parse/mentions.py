"""Mentions of options: which words of a text name which option?

Names: longest first, whole words only, in the singular or plural. Besides its full name an option
answers to its aliases, its letter, and its core: what is left when the words that all options share
are taken off ("adult" of "adult bald eagle"). An alias or core that two options share belongs to
neither. Whether the text stands by what it names is the question of `stance`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from fieldmark.chat.parse.text import ARTICLES, Passage, fold, is_cjk, word_set

_BINOMIAL = re.compile(r"[A-Z][a-z]+ [a-z-]{3,}")
_SHORT_GENUS = re.compile(r"\b([A-Z])\. ?([a-z-]{3,})")
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
    is_sure: bool = True
    """False: perhaps no name at all, as "purple" of "purple finch", or the C of "vitamin C" """
    is_letter: bool = False


NamesByWords = Mapping[tuple[str, ...], tuple[str, bool]]
"""words → (label, is_core)"""


@dataclass(frozen=True, slots=True)
class NameIndex:
    """What the options answer to."""

    by_first: dict[str, tuple[tuple[tuple[str, ...], str, bool], ...]]
    """first word → (words, label, is_core), longest first"""
    by_words: NamesByWords
    letters: dict[str, str]
    """letter, case-folded → label"""
    labels: tuple[str, ...]
    parts: dict[tuple[str, ...], str]
    """understood where it stands alone: a label, the beginning or end of one name only"""
    shared: frozenset[str]
    """words of all names: "bald", "eagle" """
    short: dict[tuple[str, str], str]
    """("P", "leo") → Panthera leo"""


@lru_cache(maxsize=512)
def index(options: tuple[Option, ...]) -> NameIndex:
    """What the options answer to; the same options are indexed once."""
    full = [fold(option.name) for option in options]
    owners: dict[tuple[str, ...], set[str]] = {}
    for option, words in zip(options, full, strict=True):
        owners.setdefault(words, set()).add(option.label)
    for option in options:
        for words in map(fold, (*option.aliases, option.label)):
            # A label of one word ("same") is understood only where it stands alone.
            is_name = len(words) > 1 or option.label in option.aliases
            if is_name and words not in full:
                owners.setdefault(words, set()).add(option.label)
    cores: dict[tuple[str, ...], set[str]] = {}
    for option, words in zip(options, _cores(full), strict=True):
        if words and words not in owners:
            cores.setdefault(words, set()).add(option.label)
    by_words = {words: (label, False) for words, label in sole_owners(owners).items()}
    by_words |= {words: (label, True) for words, label in sole_owners(cores).items()}
    letters = {option.letter.casefold(): option.label for option in options if option.letter}
    # "Point A", "Point B": without letters of their own, these are told by the last one.
    letters = letters or {w[0]: owner for w, (owner, _) in by_words.items() if _is_letter_name(w)}
    parts = {w: label for w, label in _parts(options).items() if w not in by_words | owners}
    shared = frozenset.intersection(*map(frozenset, full)) if full else frozenset()
    names = names_of(by_words, [option.label for option in options])
    return replace(names, letters=letters, parts=parts, shared=shared, short=_short(options))


def with_genera(plain: str, names: NameIndex) -> str:
    """The text with "P. leo" written out, where one option is so called."""
    return _SHORT_GENUS.sub(lambda match: names.short.get((match[1], match[2]), match[0]), plain)


def _short(options: Iterable[Option]) -> dict[tuple[str, str], str]:
    """(first letter, epithet) → scientific name"""
    shown = {name for option in options for name in (option.name, *option.aliases)}
    owners: dict[tuple[str, ...], set[str]] = {}
    for name in filter(_BINOMIAL.fullmatch, shown):
        owners.setdefault((name[0], name.split()[1]), set()).add(name)
    return {(words[0], words[1]): name for words, name in sole_owners(owners).items()}


def sole_owners(owners: Mapping[tuple[str, ...], set[str]]) -> dict[tuple[str, ...], str]:
    """The names that stand for one label only."""
    return {words: min(labels) for words, labels in owners.items() if len(labels) == 1}


def names_of(by_words: NamesByWords, labels: Iterable[str]) -> NameIndex:
    """Names without letters, made ready to be searched for. A name of one letter is not searched
    for: in running text it is an article or a pronoun.
    """
    names = {words: owner for words, owner in by_words.items() if words}
    by_first: dict[str, list[tuple[tuple[str, ...], str, bool]]] = {}
    for words in sorted(names, key=len, reverse=True):
        if not _is_letter_name(words):
            by_first.setdefault(words[0], []).append((words, *names[words]))
    first_words = {initial: tuple(entries) for initial, entries in by_first.items()}
    return NameIndex(first_words, names, {}, tuple(labels), {}, frozenset(), {})


def _is_letter_name(words: tuple[str, ...]) -> bool:
    return len(words) == 1 and len(words[0]) == 1 and words[0].isalpha() and not is_cjk(words[0])


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
    """Labels, and beginnings and ends of names that no other name has, but for small words."""
    owners: dict[tuple[str, ...], set[str]] = {}
    for option in options:
        name = fold(option.name)
        owners.setdefault(fold(option.label), set()).add(option.label)
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


def find_mentions(passage: Passage, names: NameIndex) -> list[Mention]:
    """Every option named in the text, by name or by letter, in order."""
    named = list(find_names(passage, names))
    inside = {n for mention in named for n in range(mention.first, mention.last + 1)}
    letters = [mention for mention in _find_letters(passage, names) if mention.first not in inside]
    return sorted([*named, *letters], key=lambda mention: mention.first)


def find_names(passage: Passage, names: NameIndex) -> Iterator[Mention]:
    """Every option named, leftmost and longest; a name never spans punctuation."""
    at = 0
    while at < len(passage.words):
        mention = _name_at(passage, names, at)
        if mention is not None and not _is_determiner(passage, mention):
            yield mention
            at = mention.last
        at += 1


def _name_at(passage: Passage, names: NameIndex, start: int) -> Mention | None:
    initial = passage.words[start].text
    if initial in ARTICLES:
        return None
    for key in dict.fromkeys((initial, initial.removesuffix("s"), initial.removesuffix("es"))):
        for words, label, is_core in names.by_first.get(key, ()):
            last = _end_of_name(passage, words, start)
            if last is not None:
                is_sure = not is_core or _stands_alone(passage, last, names.shared)
                return Mention(label, start, last, is_sure and not _is_joined(passage, start, last))
    return None


def _end_of_name(passage: Passage, words: tuple[str, ...], start: int) -> int | None:
    """The place of the last word, where the words stand there; articles between may differ."""
    at = start
    for n, word in enumerate(words):
        while n and at < len(passage.words) and passage.words[at].text in ARTICLES - {word}:
            at += 1
        if at >= len(passage.words) or (n and passage.words[at].is_after_break):
            return None
        here = passage.words[at]
        is_last = n == len(words) - 1
        if here.text != word and not (is_last and here.text in (f"{word}s", f"{word}es")):
            return None
        # "point a" is no "Point A"
        if is_last and n and word in ARTICLES and here.raw.islower():
            return None
        at += 1
    return at - 1


def _stands_alone(passage: Passage, last: int, shared: frozenset[str]) -> bool:
    """ "is an adult in flight", "an adult eagle", but not "an adult feather": cores are common
    words.
    """
    if last + 1 == len(passage.words):
        return True
    after = passage.words[last + 1]
    return after.is_after_break or after.text in _SMALL | shared | _GOES_ON


_GOES_ON = word_set("and as based because but due given is rather since so therefore though which")


def _is_joined(passage: Passage, first: int, last: int) -> bool:
    """Is the name only part of a word with hyphens, as in "sub-adult"?"""
    start, end = passage.words[first].start, passage.words[last].end
    around = passage.plain[max(0, start - 2) : start], passage.plain[end : end + 2]
    return re.fullmatch(r"\w-", around[0]) is not None or bool(re.fullmatch(r"-\w", around[1]))


def _is_determiner(passage: Passage, mention: Mention) -> bool:
    """Is this the "no" of "no spots", not the answer no?"""
    if mention.first != mention.last or passage.words[mention.last].text != "no":
        return False
    return re.match(r" +\w", passage.plain[passage.words[mention.last].end :]) is not None


_CALLED = re.compile(
    r"\b(?:options?|choices?|letters?|answer|opcion|antwort|respuesta|reponse)[\s:*_`\"'(\[]*$",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"(?:\b(?:say|choose|pick|select|guess|with|is|be|leaves|likely|probably)|→|->|:)[\s*_`\"'(\[]*$",
    re.IGNORECASE,
)
_ENUMERATED = re.compile(r"(?:^|\n)[\s*_`#>-]*\(?$")
_MARK_AFTER = re.compile(r"[*_`]*[.):\]]")
_NOUN_AFTER = re.compile(
    r"[ -](?!(?:or|and|nor|vs|versus|than|rather|not|but|would|are|is|fits)\b)\w"
)
_PAIRED = re.compile(r"[(\[{'\"*`_]$"), re.compile(r"^[)\]}'\"*`_]")


def _find_letters(passage: Passage, names: NameIndex) -> Iterator[Mention]:
    """Every option named by its letter; the article "a" and the pronoun "I" are not letters."""
    plain, words = passage.plain, passage.words
    has_words = any(word.text.isalpha() and len(word.text) > 1 for word in words)
    if not names.letters or (plain.isupper() and has_words):
        return
    for index, word in enumerate(words):
        if word.text in names.letters:
            before = plain[max(0, word.start - 24) : word.start]
            after = plain[word.end : word.end + 12]
            is_sure = _is_said(before, after, word.raw)
            is_perhaps = word.raw.isupper() and word.text != "i"
            if is_sure or (is_perhaps and not (word.text == "a" and _NOUN_AFTER.match(after))):
                yield Mention(names.letters[word.text], index, index, is_sure, is_letter=True)


def _is_said(before: str, after: str, letter: str) -> bool:
    """Is a letter clearly meant as that of an option: "(B)", "option B", "B is"?"""
    if _PAIRED[0].search(before) and _PAIRED[1].match(after):
        return True
    is_called = _CALLED.search(before) is not None
    is_listed = bool(_ENUMERATED.search(before) and _MARK_AFTER.match(after))
    if letter.casefold() in ("a", "i") and _NOUN_AFTER.match(after):
        return False
    if letter.islower() or letter == "I":
        return is_called or (is_listed and letter == "I")
    is_near_cjk = is_cjk(before[-1:]) or is_cjk(after[:1])
    return is_called or is_listed or is_near_cjk or bool(_SAID.search(before))


def distinct(mentions: Iterable[Mention]) -> list[str]:
    return list(dict.fromkeys(mention.label for mention in mentions))
