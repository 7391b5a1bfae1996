"""Scientific names (binomials): genus, epithet and what stands below, without the author.

Labels of published datasets carry authors, underscores and hybrid signs: `Amanita muscaria (L.)
Lam., 1783`, `Lamium_galeobdolon`, `Mentha x piperita L.`. Only the form of a name is known here,
never whether it is the accepted one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

HYBRID_SIGNS = ("x", "×")
_UNNAMED = ("sp", "sp.", "spp", "spp.", "indet.")
_UNSURE = ("cf", "cf.", "aff", "aff.")
_BELOW = ("subsp.", "ssp.", "var.", "subvar.", "f.", "forma", "subf.")
_PARTICLES = {
    "al", "and", "auct", "da", "de", "del", "des", "di", "du", "emend", "et", "ex", "hort", "in",
    "la", "le", "nec", "nom", "non", "sensu", "van", "von", "vom", "y", "zu", "zur",
}  # fmt: skip
"""lower-case words of author strings"""
_GENUS = re.compile(r"[A-Z][a-zà-ÿ]+(-[A-Za-zà-ÿ]+)?")
_EPITHET = re.compile(r"[a-zà-ÿ]{2,}(-[a-zà-ÿ]+)*")


@dataclass(frozen=True, slots=True)
class ScientificName:
    """`str(name)` is the whole name, as a class text wants it."""

    genus: str
    species: str = ""
    """the epithet, with the sign of a hybrid: `x piperita`; "" = only the genus is named"""
    below: str = ""
    """`var. formosa`; the third part alone where no rank is written, as zoologists do"""

    def __str__(self) -> str:
        return " ".join(part for part in (self.genus, self.species, self.below) if part)


def parse_name(text: str) -> ScientificName | None:
    """None where the text does not begin as a scientific name does.

    >>> str(parse_name("Amanita excelsa Gonn. & Rabenh."))
    'Amanita excelsa'
    >>> str(parse_name("Amanita muscaria (L.) Lam. var. formosa Pers."))
    'Amanita muscaria var. formosa'
    >>> parse_name("Dasineura sp."), parse_name("white backed plant hopper")
    (ScientificName(genus='Dasineura', species='', below=''), None)
    """
    words = text.replace("_", " ").replace("×", "× ").split()
    sign = f"{words.pop(0)} " if words and words[0] in HYBRID_SIGNS else ""
    if not words or not _GENUS.fullmatch(words[0]):
        return None
    genus, *rest = words
    if rest and rest[0] in _UNSURE:
        rest = rest[1:]
    n_words = 2 if rest and rest[0] in HYBRID_SIGNS else 1
    if len(rest) < n_words or not _is_epithet(rest[n_words - 1]):
        return ScientificName(sign + genus)
    return ScientificName(sign + genus, " ".join(rest[:n_words]), _below(rest[n_words:]))


def _is_epithet(word: str) -> bool:
    is_word = _EPITHET.fullmatch(word) is not None
    return is_word and word not in _PARTICLES and word not in _UNNAMED


def _below(words: list[str]) -> str:
    """The rank may stand behind the author of the species; a bare third part never does."""
    if words and _is_epithet(words[0]) and words[0] not in _BELOW:
        return words[0]
    for mark, word in pairwise(words):
        if mark in _BELOW and _is_epithet(word):
            return f"{mark} {word}"
    return ""
