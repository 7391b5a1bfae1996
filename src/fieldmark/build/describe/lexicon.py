"""Lexicon: what does a sentence with this word speak of, for and against visible appearance?

The words are in `lexicon.toml`, by group. Plurals and regular verb forms are made from them.
"""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from pathlib import Path

_VERBS = ("arrange", "behaviour", "habitat", "use")
"""groups whose words may also end as verbs do"""
_ENDINGS = {
    **dict.fromkeys(("shaped", "like", "bodied", "winged", "legged", "tailed", "headed"), "shape"),
    **dict.fromkeys(("necked", "billed", "flowered", "leaved", "lobed", "toothed"), "shape"),
    **dict.fromkeys(("stemmed", "throated", "eyed", "eared", "footed", "fingered"), "shape"),
    **dict.fromkeys(("edged", "tipped", "spotted", "striped", "banded", "ringed"), "pattern"),
    **dict.fromkeys(("coloured", "colored", "tinged"), "colour"),
    **dict.fromkeys(("haired", "scaled", "skinned"), "texture"),
    **dict.fromkeys(("layered", "spored", "celled"), "hidden"),
}
"""what the last part of a compound makes of it"""


def word_set(text: str) -> frozenset[str]:
    """Words separated by blanks."""
    return frozenset(text.split())


@cache
def lexicon() -> dict[str, tuple[str, ...]]:
    """What words speak of → the words."""
    with Path(__file__).with_name("lexicon.toml").open("rb") as file:
        return {group: tuple(words.split()) for group, words in tomllib.load(file).items()}


@lru_cache(maxsize=1 << 16)
def group_of(word: str) -> str:
    """The group of a word in small letters, of a compound by its last part; "" = it has none.

    >>> group_of("wings"), group_of("heart-shaped"), group_of("the")
    ('part', 'shape', '')
    """
    groups = _groups()
    if word in groups or "-" not in word:
        return groups.get(word, "")
    stem, _, last = word.rpartition("-")
    return _ENDINGS.get(last) or groups.get(last) or groups.get(stem, "")


@cache
def _groups() -> dict[str, str]:
    """Every form of every word, and its group; a word that is listed is no form of another."""
    listed = {word: group for group, words in lexicon().items() for word in words}
    formed = {
        form: group
        for word, group in reversed(listed.items())
        for form in (_plural(word), *(_verb_forms(word) if group in _VERBS else ()))
    }
    return formed | listed


def _plural(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if _ends_in_y(word) else word + "s"


def _verb_forms(word: str) -> tuple[str, str]:
    stem = word.removesuffix("e")
    return (word[:-1] + "ied" if _ends_in_y(word) else stem + "ed"), stem + "ing"


def _ends_in_y(word: str) -> bool:
    return word.endswith("y") and word[-2:-1] not in tuple("aeiou")
