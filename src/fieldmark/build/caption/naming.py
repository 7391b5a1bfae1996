"""Name matching: does a sentence name this species, whatever its spelling?

Scientific names are Latin and stand for themselves. Common names are English words: they have
plurals ("wolves"), two spellings ("gray", "honeybee") and lists ("Common blackbird, Eurasian
blackbird").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from fieldmark.build.describe.lexicon import group_of, word_set
from fieldmark.chat.parse.text import Word, read

_MARKS = word_set("x ssp subsp var f forma")
"""signs of a hybrid and of a rank below the species: they may be left out"""
_SPELLINGS = {
    "gray": "grey", "color": "colour", "colored": "coloured", "mustached": "moustached",
    "sulfur": "sulphur", "saint": "st",
}  # fmt: skip
_PLURALS = (
    ("goose", "geese"), ("mouse", "mice"), ("louse", "lice"), ("foot", "feet"), ("tooth", "teeth"),
    ("man", "men"), ("ox", "oxen"), ("fe", "ves"), ("f", "ves"), ("us", "i"), ("y", "ies"),
    ("", "s"), ("", "es"),
)  # fmt: skip
"""end of a word and of its plural; all that fit are taken, for nobody writes the wrong ones"""
_ORDINARY = word_set("colour pattern shape texture part size habit person look")
"""groups of words that any description has"""


def listed_names(text: str) -> tuple[str, ...]:
    """The names of a field that may hold several, without notes.

    >>> listed_names("Common blackbird, Eurasian blackbird"), listed_names("Warbler, Yellow")
    (('Common blackbird', 'Eurasian blackbird'), ('Yellow Warbler', 'Warbler'))
    """
    bare = " ".join(re.sub(r"\([^()]*\)|\[[^\[\]]*\]", " ", text).split())
    parts = [part.strip() for part in re.split(r"[,;/|]| or ", bare) if part.strip()]
    if len(parts) == 2 and "," in bare and " " not in parts[1]:
        parts.insert(0, f"{parts[1]} {parts[0]}")
    names = [part for part in parts if " " in part or group_of(part.lower()) not in _ORDINARY]
    return tuple(dict.fromkeys(names or parts))


@lru_cache(4096)
def _forms(name: str) -> frozenset[str]:
    """The ways to write a name, without spaces: "honey bee" is "honeybee"."""
    words = (word.text for word in read(name.replace("×", " ")).words)
    *modifiers, last = [_SPELLINGS.get(word, word) for word in words if word not in _MARKS] or [""]
    forms = {"".join([*modifiers, form]) for form in _numbers(last)}
    if "of" in modifiers:  # birds of paradise
        index = modifiers.index("of")
        before = "".join(modifiers[:index])
        forms |= {"".join([form, *modifiers[index:], last]) for form in _numbers(before)}
    return frozenset(forms - {""})


def _numbers(word: str) -> set[str]:
    """Singular, plural, genitive (whose apostrophe is gone)."""
    ends = {word.removesuffix(one) + many for one, many in _PLURALS if word.endswith(one)}
    return {word, *ends}


def name_places(words: Sequence[Word], names: Sequence[str]) -> list[range]:
    """The runs of words that are one of the names."""
    forms = frozenset[str]().union(*map(_forms, names))
    longest = max(map(len, forms), default=0)
    numbers = [number for number, word in enumerate(words) if word.text not in _MARKS]
    runs: list[range] = []
    for position, start in enumerate(numbers):
        if runs and start in runs[-1]:
            continue
        ends, joined = [], ""
        for number in numbers[position:]:
            joined += _SPELLINGS.get(words[number].text, words[number].text)
            if len(joined) > longest:
                break
            ends += [number] if joined in forms else []
        runs += [range(start, ends[-1] + 1)] if ends else []
    return runs
