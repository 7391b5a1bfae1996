"""Caption checks: may this sentence stand beside this photo, and if not, why not?

A caption is one whole sentence of few words that names its species, tells something of its looks,
and says nothing that a photo cannot show. What only looks untidy is mended, and the mend is written
down; what says too much, too little or something else is a problem, told to the model in the same
words as to the user. `naming` knows names, `statements` what photos do not show; here is the form.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from fieldmark.build.caption.naming import (
    capital_names,
    folded_name,
    is_telling_name,
    listed_names,
    name_places,
)
from fieldmark.build.caption.statements import NAME, statements, tells_looks
from fieldmark.build.describe.lexicon import group_of, word_set
from fieldmark.chat.parse.text import Passage, Word, read, strip_reasoning

RULES_VERSION = 2
"""part of every manifest: captions that other rules let through are checked anew"""


class CheckedCaption(NamedTuple):
    caption: str
    """as it may be used, mends included"""
    mends: tuple[str, ...]
    problem: str
    """`kind: what is wrong`; "" = nothing is"""


_LABEL = re.compile(r"^(?:the )?(?:caption|answer|sentence)\s*[:\-–]\s*", re.IGNORECASE)
"""a label that can be taken away"""
_PREFACE = re.compile(
    r"^(?:(?:[\w']+ ){0,4}(?:assistant|user|system|model|description|image|photo|species|name|"
    r"caption|answer|here|output|response|note|title)(?: [\w']+){0,2}\s*:"
    r"|(?:sure|certainly|of course|ok|okay|here(?:'s| is| are))\b|[-–—•·*+]\s|\(?\d+[.)]\s)",
    re.IGNORECASE,
)
"""what models say before a caption: who speaks, a courtesy, the mark of a list"""
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "`": "`"}
_EMPHASIS = re.compile(r"(?<![\w*_])([*_]{1,3})(?=\S)([^*_\n]+?)(?<=\S)\1(?![\w*_])")
_QUOTED_WORD = re.compile(r"(?<!\w)[\"“]([\w-]+)[\"”](?!\w)")
_MARKUP = re.compile(r"[*`#<>{}\[\]|\\\"“”«»_=§]|https?:|\n")
_SYMBOLS = frozenset("♂♀×°±+~µ%′″'´")
_SHORT = word_set("sp spp subsp ssp var cf aff f st mt nr l c ca approx no fig vs dr incl")
"""abbreviations whose full stop ends no sentence"""
_LEAST_WORDS = 3
"""besides the name: fewer describe nothing"""
_MOST_LETTERS = 40
"""of what stands between two spaces"""
_MOST_NAMES = 2
"""scientific and common name"""
_GRAM, _COPIED = 4, 0.6
"""a caption whose runs of so many words are an example's, by this share, is a copy of it"""
_OPEN_WORDS = word_set("""
    a an the this these its their his her and or but nor with without of at to by from for as into
    onto among beside against toward towards which whose who where while when if than very
    slightly rather more most less is are was has have having showing featuring including some
    """)
"""words that end no sentence"""
_ADVERBS = word_set("in on that over under near between beneath behind through each both several")
"""words that end one where a full stop says so"""
_DETERMINERS = word_set("a an the its their his her each two three four five with of")
_ADJECTIVES = frozenset({"colour", "size", "shape", "texture"})
_NOUNS = word_set("sheen hue tinge tint shade iridescence cup cushion spiral sides rosette")
"""of these groups, yet what a phrase may end in"""


class KnownNames(NamedTuple):
    """Names of species as `folded_name` gives them, of two words or more."""

    scientific: frozenset[str]
    common: frozenset[str]

    @classmethod
    def of(cls, common: Mapping[str, Iterable[str]]) -> KnownNames:
        """Scientific name → common names."""
        fields = (field for names in common.values() for field in names)
        every = (name for field in fields for name in listed_names(field))
        return cls(*(frozenset(folded_name(n) for n in ns if " " in n) for ns in (common, every)))

    def has(self, words: Sequence[Word]) -> bool:
        """Small White is a butterfly, "small white flowers" are none: common names that could
        describe count where capitals show that they are meant.
        """
        name = " ".join(word.text for word in words)
        if name not in self.common:
            return name in self.scientific
        is_title = words[0].raw[0].isupper() and words[-1].raw[0].isupper()
        return is_title or is_telling_name(name)


NO_NAMES = KnownNames(frozenset(), frozenset())


@dataclass(frozen=True)
class CaptionRules:
    """What the caption of one photo is held against."""

    names: tuple[str, ...]
    """scientific name, then the common name where there is one (or several, with commas)"""
    max_words: int
    examples: Sequence[str] = ()
    others: KnownNames = NO_NAMES
    """names of all species; those of this one may be among them"""

    @cached_property
    def _own(self) -> tuple[str, ...]:
        common = (own for name in self.names[1:] for own in listed_names(name))
        return (*self.names, *common)

    def check(self, answer: str) -> CheckedCaption:
        """The caption of a model's answer."""
        text = strip_reasoning(answer)
        if text is None:
            return CheckedCaption("", (), "cut_off: ends inside its reasoning")
        caption, mends = mend(text)
        problem = next(self._problems(caption), "")
        return CheckedCaption(caption, mends, problem)

    def _problems(self, caption: str) -> Iterator[str]:
        passage = read(caption)
        words = passage.words
        if not words:
            yield "empty: has no words"
            return
        runs = name_places(words, self._own)
        own = {number for run in runs for number in run}
        rest = _without(passage, runs)
        yield from _form(caption, rest, words)
        n_words = len(caption.split())
        if n_words > self.max_words:
            yield f"words: has {n_words} words, at most {self.max_words} are allowed"
        if not own:
            yield f"name: does not name the species as {' or '.join(self.names)}"
        if len(words) - len(own) < _LEAST_WORDS:
            yield "empty: describes nothing"
        if len(runs) > _MOST_NAMES or _is_repeated(rest):
            yield "repeated: says the same words again and again"
        yield from statements(rest)
        if other := self._other(words, own):
            yield f"other_species: names another species, {other}"
        if not tells_looks(rest):
            yield "no_looks: tells no colour, pattern, shape or part of the organism"
        if any(_is_copy(words, example) for example in self.examples):
            yield "example: copies an example"

    def _other(self, words: Sequence[Word], own: set[int]) -> str:
        """A name of another species, of two words or more; "" = there is none."""
        for n in (2, 3, 4) if any(self.others) else ():
            for start in range(len(words) - n + 1):
                run = words[start : start + n]
                if own.isdisjoint(range(start, start + n)) and self.others.has(run):
                    return " ".join(word.raw for word in run)
        return next(capital_names(words, own), "")


def mend(text: str) -> tuple[str, tuple[str, ...]]:
    """Untidy form made tidy, and what was done.

    >>> mend('Caption: "A *Corvus corax* on snow"')
    ('A Corvus corax on snow.', ('label', 'quotes', 'emphasis', 'full stop'))
    """
    mends: list[str] = []

    def note(before: str, after: str, name: str) -> str:
        if after != before and name not in mends:
            mends.append(name)
        return after

    shown = "".join(char for char in text if unicodedata.category(char) != "Cf")
    text = note(text, shown, "invisible characters")
    text = "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
    for _ in range(2):  # a label may stand inside the quotes, or before them
        text = note(text, _LABEL.sub("", text), "label")
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
            text = note(text, text[1:-1].strip(), "quotes")
    text = note(text, _EMPHASIS.sub(r"\2", text), "emphasis")
    text = note(text, _QUOTED_WORD.sub(r"\1", text), "quotes")
    if text and (text[-1].isalnum() or text[-1] == ")") and not _is_cut(text):
        text = note(text, f"{text}.", "full stop")
    return text, tuple(mends)


# --- form ---


def _form(caption: str, rest: str, words: Sequence[Word]) -> Iterator[str]:
    if match := _PREFACE.match(caption):
        yield f"preface: begins with {match[0].strip()!r}, not with the caption"
    if "\n" in caption:
        yield "lines: has several lines, one is allowed"
    if match := _MARKUP.search(caption):
        yield f"markup: holds {match[0]!r}"
    if strange := next(filter(_is_strange, rest.replace(NAME, "")), ""):
        yield f"characters: holds {strange!r}, which is no Latin letter or punctuation"
    if n_sentences(words) > 1:
        yield f"sentences: has {n_sentences(words)} sentences, one is allowed"
    if caption[-1] not in ".!)" or words[-1].text in _OPEN_WORDS or caption.endswith(".."):
        yield "cut_off: ends in mid-sentence"
    if (longest := max(map(len, caption.split()))) > _MOST_LETTERS:
        yield f"words: has a word of {longest} letters"


def _is_strange(char: str) -> bool:
    kind = unicodedata.category(char)
    if kind in ("Ll", "Lu", "Lo", "Lt"):
        return "LATIN" not in unicodedata.name(char, "") and char != "µ"
    return kind[0] in "CS" and char != "\n" and char not in _SYMBOLS


def n_sentences(words: Sequence[Word]) -> int:
    """As many as the reader counts, less those that an abbreviation seems to end."""
    n = 1
    for before, word in pairwise(words):
        n += word.sentence != before.sentence and before.text not in _SHORT
    return n


def _is_cut(text: str) -> bool:
    """Does a text without a full stop end in mid-sentence?

    A phrase that a determiner opened ("with a very long") still waits for its noun.

    >>> _is_cut("plumage and a long"), _is_cut("its tail red and long"), _is_cut("arms covered in")
    (True, False, True)
    """
    words = [word.text for word in read(text).words]
    if not words or words[-1] in _OPEN_WORDS | _ADVERBS:
        return True
    if group_of(words[-1]) not in _ADJECTIVES or words[-1] in _NOUNS:
        return False
    place = len(words) - 1
    while place >= 0 and (group_of(words[place]) in _ADJECTIVES or words[place] in ("and", "very")):
        place -= 1
    return place >= 0 and words[place] in _DETERMINERS


def _without(passage: Passage, runs: Sequence[range]) -> str:
    """The text with `NAME` in place of the species' name."""
    text = passage.plain
    for run in reversed(runs):
        first, last = passage.words[run[0]], passage.words[run[-1]]
        text = f"{text[: first.start]}{NAME}{text[last.end :]}"
    return text


# --- repetitions and copies ---


def _is_repeated(text: str) -> bool:
    """A word twice running, or a run of words twice."""
    words = read(text.replace(NAME, "its-name")).words
    grams = Counter(tuple(word.text for word in words[i : i + _GRAM]) for i in range(len(words)))
    is_twice = any(n > 1 and len(gram) == _GRAM for gram, n in grams.items())
    return is_twice or any(
        one.text == other.text and not other.is_after_break for one, other in pairwise(words)
    )


def _is_copy(words: Sequence[Word], example: str) -> bool:
    mine, theirs = _grams(words), _example_grams(example)
    return bool(mine) and len(mine & theirs) >= _COPIED * len(mine)


@lru_cache(4096)
def _example_grams(example: str) -> set[tuple[str, ...]]:
    return _grams(read(example).words)


def _grams(words: Sequence[Word]) -> set[tuple[str, ...]]:
    texts = [word.text for word in words]
    return {tuple(texts[i : i + _GRAM]) for i in range(len(texts) - _GRAM + 1)}
