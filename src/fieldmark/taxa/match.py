"""Matching of scientific names: are two spellings one name?

Gender (albus, alba), hybrid signs, marks of ranks, diacritics and usual spellings (silvestris,
sylvestris) do not make another name; another genus or another epithet does.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence

_MARKS = {"×", "x", "subsp.", "ssp.", "var.", "subvar.", "f.", "forma", "subf."}
_GERMAN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "æ": "ae"})


def same_name(one: str, other: str) -> bool:
    """Equal but for hybrid signs, marks of ranks, diacritics, gender and usual spellings.

    >>> same_name("Salix × müllerii", "Salix muelleri"), same_name("Aus albus", "Aus nigra")
    (True, False)
    """
    words, others = name_words(one), name_words(other)
    if len(words) != len(others) or not words:
        return False
    genera, epithets = (words[0], others[0]), zip(words[1:], others[1:], strict=True)
    return _equal(*genera) and all(same_epithet(*pair) for pair in epithets)


def same_epithet(one: str, other: str) -> bool:
    return _equal(one, other) or not {_stem(form) for form in _forms(one)}.isdisjoint(
        _stem(form) for form in _forms(other)
    )


def name_words(name: str) -> list[str]:
    return [word for word in name.lower().split() if word not in _MARKS]


def _equal(one: str, other: str) -> bool:
    return not _forms(one).isdisjoint(_forms(other))


def _forms(word: str) -> set[str]:
    """Without diacritics, and with the vowels that Germans write for theirs."""
    word = unicodedata.normalize("NFC", word.lower())
    return {fold(form) for form in (word, word.translate(_GERMAN))}


def fold(text: str) -> str:
    """Without diacritics."""
    parts = unicodedata.normalize("NFKD", text)
    return "".join(part for part in parts if not unicodedata.combining(part))


def _stem(epithet: str) -> str:
    """What gender (albus, alba, album; niger, nigra) and usual spellings leave alone."""
    stem = re.sub(r"er$", "r", epithet)
    if stem == epithet:
        stem = re.sub(r"ii$", "i", epithet)
    if stem == epithet and not epithet.endswith("ae"):
        stem = re.sub(r"(?<=\w\w)(us|a|um|is|e)$", "", epithet)
    return re.sub(r"ae|oe", "e", stem).replace("y", "i").replace("sylv", "silv")


def merge_spellings(labels: Sequence[str]) -> dict[str, str]:
    """Each spelling → the commonest spelling of that label."""
    counts = Counter(labels)
    by_key: dict[str, list[str]] = defaultdict(list)
    for name in sorted(counts):
        by_key[spelling_key(name)].append(name)
    best = {key: max(names, key=lambda name: counts[name]) for key, names in by_key.items()}
    return {name: best[spelling_key(name)] for name in counts}


def spelling_key(label: str) -> str:
    """The same for all spellings of one label; numbers have one spelling.

    >>> spelling_key("Acer_rubrum ") == spelling_key("acer  Rubrum")
    True
    >>> spelling_key("-1") == spelling_key("1")
    False
    """
    if re.fullmatch(r"[+-]?[\d.,]+", label):
        return label
    label = unicodedata.normalize("NFC", label)
    return re.sub(r"[\s_\-\u00a0\u200b-\u200d\ufeff]+", " ", label).strip(" .").casefold()
