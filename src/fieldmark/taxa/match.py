"""Matching of scientific names: are two spellings one name?

Gender (albus, alba), hybrid signs, marks of ranks, diacritics and usual spellings (silvestris,
sylvestris) do not make another name; another genus or another epithet does.
"""

from __future__ import annotations

import re
import unicodedata

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
