"""Caption checks: may this sentence stand beside this photo, and if not, why not?

A caption is one sentence of few words that names its species and says nothing that a photo cannot
show. What only looks untidy is mended, and the mend is written down; what says too much, too little
or something else is a problem, told to the model in the same words as to the user. The lists of
words are short on purpose: each stands for a kind of statement that language models add from what
they know of a species, not from the photo.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from fieldmark.chat.parse.text import Passage, Word, read, strip_reasoning

RULES_VERSION = 1
"""part of every manifest: captions that other rules let through are checked anew"""


class CheckedCaption(NamedTuple):
    caption: str
    """as it may be used, mends included"""
    mends: tuple[str, ...]
    problem: str
    """`kind: what is wrong`; "" = nothing is"""


def _phrases(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\b", re.IGNORECASE)


KINDS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (
        "image_talk",
        "speaks of the photo itself",
        _phrases(
            "images?", "photos?", "photographs?", "photographed", "pictures?", "pictured",
            "captions?", "close-ups?", "camera", "depict(?:s|ed|ing)", "viewer", "watermark",
        ),
    ),
    (
        "guess",
        "is unsure",
        _phrases(
            "probably", "possibly", "perhaps", "maybe", "likely", "presumably", "apparently",
            "(?:may|might|could|must) be", "(?:appears?|seems?) to be", "unknown", "unidentified",
            "unclear", "uncertain", "cannot", "can't", "unable", "sorry", "not visible",
        ),
    ),
    (
        "general",  # what is true of the species on other days
        "speaks of the species in general",
        _phrases(
            "typically", "usually", "often", "commonly", "generally", "sometimes", "occasionally",
            "known (?:for|as|to)", "named (?:after|for)", "used (?:for|as|in)", "belongs? to",
        ),
    ),
    (
        "range",
        "tells where the species lives",
        _phrases(
            "endemic", "native (?:to|of)", "found (?:in|throughout|across|only)",
            "distributed", "distribution", "widespread", "occurs?", "inhabits?", "habitats?",
            "introduced", "invasive", "endangered", "threatened",
        ),
    ),
    (
        "measurement",
        "tells sizes or weights, which a photo without a scale does not show",
        re.compile(
            r"\b\d+(?:[.,]\d+)?\s*(?:mm|cm|m|km|µm|um|g|kg|mg|inch(?:es)?|ft|feet|lb)\b"
            r"|\b(?:millimet|centimet|met)(?:re|er)s?\b|\binch(?:es)?\b|\bwingspan of\b"
            r"|\b(?:weigh(?:s|ing)|grow(?:s|ing) (?:up )?to|measur(?:es|ing))\b",
            re.IGNORECASE,
        ),
    ),
    (
        "sense",
        "tells what is heard, smelt or tasted",
        _phrases(
            "sounds?", "vocali[sz]\\w*", "songs?", "voice", "smells?", "smelling", "scent(?:ed)?",
            "odou?r", "fragrant", "fragrance", "aroma(?:tic)?", "tastes?", "tasting", "edible",
            "poisonous", "toxic", "venomous",
        ),
    ),
    (
        "habit",
        "tells habits, which one moment does not show",
        _phrases(
            "nocturnal", "diurnal", "crepuscular", "migrat(?:es|ory|ing)", "hibernat\\w+",
            "feeds (?:on|mainly)", "preys", "diet", "lifespan", "lives", "breeds", "monogamous",
            "solitary by nature", "pollinated", "blooms in", "flowers in", "perennial", "annual",
            "biennial",
        ),
    ),
)  # fmt: skip
"""kind, what it is called, the words that show it"""

_LABEL = re.compile(r"^(?:the )?(?:caption|answer|sentence)\s*[:\-–]\s*", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "`": "`"}
_EMPHASIS = re.compile(r"(?<![\w*_])([*_]{1,3})(?=\S)([^*_\n]+?)(?<=\S)\1(?![\w*_])")
_MARKUP = re.compile(r"[*`#<>{}\[\]|\\\"“”«»]|https?:|\n")
_SHORT = frozenset({"sp", "spp", "subsp", "ssp", "var", "cf", "aff", "f", "st", "mt", "nr"})
"""abbreviations whose full stop ends no sentence"""
_LEAST_WORDS = 3
"""besides the name: fewer describe nothing"""
_GRAM, _COPIED = 4, 0.6
"""a caption whose runs of so many words are an example's, by this share, is a copy of it"""


class KnownNames(NamedTuple):
    """Names of species as `folded_name` gives them, of two words or more."""

    scientific: frozenset[str]
    common: frozenset[str]

    @classmethod
    def of(cls, common: Mapping[str, Iterable[str]]) -> KnownNames:
        """Scientific name → common names."""
        every = (name for names in common.values() for name in names)
        return cls(*(frozenset(folded_name(n) for n in ns if " " in n) for ns in (common, every)))

    def has(self, words: Sequence[Word]) -> bool:
        """Small White is a butterfly, "small white flowers" are none: common names are capitalised
        where they are meant.
        """
        name = " ".join(word.text for word in words)
        is_title = all(word.raw[0].isupper() for word in words)
        return name in self.scientific or (is_title and name in self.common)


NO_NAMES = KnownNames(frozenset(), frozenset())


@dataclass(frozen=True)
class CaptionRules:
    """What the caption of one photo is held against."""

    names: tuple[str, ...]
    """scientific name, then the common name where there is one"""
    max_words: int
    examples: Sequence[str] = ()
    others: KnownNames = NO_NAMES

    @cached_property
    def _own(self) -> list[tuple[str, ...]]:
        return [folded for name in self.names if (folded := fold_name(name))]

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
        if "\n" in caption:
            yield "lines: has several lines, one is allowed"
        if match := _MARKUP.search(caption):
            yield f"markup: holds {match[0]!r}"
        if n_sentences(words) > 1:
            yield f"sentences: has {n_sentences(words)} sentences, one is allowed"
        n_words = len(caption.split())
        if n_words > self.max_words:
            yield f"words: has {n_words} words, at most {self.max_words} are allowed"
        own = self._places(words)
        if not own:
            yield f"name: does not name the species as {' or '.join(self.names)}"
        if len(words) - len(own) < _LEAST_WORDS:
            yield "empty: describes nothing"
        yield from _statements(_without(passage, own))
        if other := self._other(words, own):
            yield f"other_species: names another species, {other}"
        if any(_is_copy(words, example) for example in self.examples):
            yield "example: copies an example"

    def _places(self, words: Sequence[Word]) -> set[int]:
        """Numbers of the words that are the species' name."""
        numbers = [number for number, word in enumerate(words) if word.text != "x"]
        places: set[int] = set()
        for name in self._own:
            for start in range(len(numbers) - len(name) + 1):
                run = numbers[start : start + len(name)]
                if _is_name([words[number].text for number in run], name):
                    places.update(range(run[0], run[-1] + 1))
        return places

    def _other(self, words: Sequence[Word], own: set[int]) -> str:
        """A name of another species, of two words or more; "" = there is none."""
        for n in (2, 3, 4) if any(self.others) else ():
            for start in range(len(words) - n + 1):
                run = words[start : start + n]
                is_own = own.issuperset(range(start, start + n))
                if not is_own and self.others.has(run):
                    return " ".join(word.raw for word in run)
        return ""


@lru_cache(4096)
def fold_name(name: str) -> tuple[str, ...]:
    """The words of a name whatever its case, hyphens, accents and the sign of a hybrid.

    >>> fold_name("Mentha × piperita"), fold_name("Red-tailed Hawk")
    (('mentha', 'piperita'), ('red', 'tailed', 'hawk'))
    """
    return tuple(word.text for word in read(name.replace("×", " ")).words if word.text != "x")


_PLAIN_NAME = re.compile(r"[A-Za-z \-]+")


def folded_name(name: str) -> str:
    """The words of `fold_name` in one string; quick, for there may be a million of them."""
    if _PLAIN_NAME.fullmatch(name):
        return " ".join(word for word in name.lower().replace("-", " ").split() if word != "x")
    return " ".join(fold_name(name))


def _is_name(words: Sequence[str], name: Sequence[str]) -> bool:
    """Equal, or the plural or genitive of it ("Mallards", "a raven's bill")."""
    *first, last = name
    return [*words[:-1]] == first and words[-1] in (last, f"{last}s", f"{last}es")


def n_sentences(words: Sequence[Word]) -> int:
    """As many as the reader counts, less those that an abbreviation seems to end."""
    n = 1
    for before, word in pairwise(words):
        n += word.sentence != before.sentence and before.text not in _SHORT
    return n


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

    text = "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
    for _ in range(2):  # a label may stand inside the quotes, or before them
        text = note(text, _LABEL.sub("", text), "label")
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
            text = note(text, text[1:-1].strip(), "quotes")
    text = note(text, _EMPHASIS.sub(r"\2", text), "emphasis")
    if text and text[-1].isalnum():
        text = note(text, f"{text}.", "full stop")
    return text, tuple(mends)


def _without(passage: Passage, own: Collection[int]) -> str:
    """The text without the species' name: a song sparrow says nothing of songs."""
    text = passage.plain
    for number in sorted(own, reverse=True):
        word = passage.words[number]
        text = f"{text[: word.start]} {text[word.end :]}"
    return text


def _statements(text: str) -> Iterator[str]:
    for kind, what, pattern in KINDS:
        if match := pattern.search(text):
            yield f"{kind}: {what} ({match[0].strip()!r})"


def _is_copy(words: Sequence[Word], example: str) -> bool:
    mine, theirs = _grams(words), _example_grams(example)
    return bool(mine) and len(mine & theirs) >= _COPIED * len(mine)


@lru_cache(4096)
def _example_grams(example: str) -> set[tuple[str, ...]]:
    return _grams(read(example).words)


def _grams(words: Sequence[Word]) -> set[tuple[str, ...]]:
    texts = [word.text for word in words]
    return {tuple(texts[i : i + _GRAM]) for i in range(len(texts) - _GRAM + 1)}
