"""Scientific names (binomials): genus, epithet and what stands below, without the author.

Labels of published datasets carry authors, underscores and hybrid signs: `Amanita muscaria (L.)
Lam., 1783`, `Lamium_galeobdolon`, `Mentha x piperita L.`. Only the form of a name is known here,
never whether it is the accepted one. A hybrid formula (`Corvus corax × corone`) names two taxa,
so it is no name.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise

HYBRID_SIGNS = ("x", "×")
_UNNAMED = ("sp", "sp.", "spp", "spp.", "indet.")
_UNSURE = ("cf", "cf.", "aff", "aff.")
_BELOW = (
    "subsp.", "ssp.", "nothosubsp.", "var.", "subvar.", "nothovar.", "f.", "fo.", "forma", "subf.",
)  # fmt: skip
_BARE_MARKS = {"subsp", "ssp", "var", "subvar", "nothosubsp", "nothovar"}
"""marks that are written without their full stop now and then"""
_PARTICLES = {
    "al", "and", "auct", "da", "de", "del", "des", "di", "du", "emend", "et", "ex", "hort", "in",
    "la", "le", "nec", "nom", "non", "sensu", "van", "von", "vom", "y", "zu", "zur",
}  # fmt: skip
"""lower-case words of author strings"""
_NOTES = {"agg", "aggr", "complex", "group", "hybrid", "cultivar", "cv", *_BARE_MARKS}
"""lower-case words that stand behind a species and name nothing below it"""
_GENUS = re.compile(r"[A-ZÀ-ÖØ-ÞŒ][a-zà-öø-ÿœ]+(-[A-Za-zà-öø-ÿœ]+)?")
_EPITHET = re.compile(r"(?=..)[a-zà-öø-ÿœ]+([-'’][a-zà-öø-ÿœ]+)*")
_SUBGENUS = re.compile(rf"\({_GENUS.pattern}\)")
_STOPS = (",", ";")


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
    sign, words = _split(text)
    if not words or not _GENUS.fullmatch(words[0]) or _crosses(words):
        return None
    genus, *rest = words
    if rest and rest[0] in _STOPS:
        return None
    if len(rest) > 1 and _SUBGENUS.fullmatch(rest[0]) and _EPITHET.fullmatch(rest[1]):
        rest = rest[1:]
    if rest and rest[0] in _UNSURE:
        rest = rest[1:]
    n_words = 2 if rest and rest[0] in HYBRID_SIGNS else 1
    if len(rest) < n_words or not _is_epithet(rest[n_words - 1]):
        return ScientificName(sign + genus)
    species, rest = " ".join(rest[:n_words]), rest[n_words:]
    if len(rest) > 1 and _is_epithet(rest[0]) and _is_epithet(rest[1]):
        return None  # a sentence: "Severe acute respiratory syndrome"
    return ScientificName(sign + genus, species, _below(rest))


def plain(text: str) -> str:
    """Without underscores and doubled blanks.

    >>> plain("Tomato___Late_blight ")
    'Tomato Late blight'
    """
    return " ".join(text.replace("_", " ").split())


def scientific_name(text: str) -> str:
    """Genus, epithet and what lies below the species, without authors, years and doubts.

    >>> [scientific_name(name) for name in ("PANTHERA LEO (Linnaeus, 1758)", "Amanita sp. 3")]
    ['Panthera leo', 'Amanita']
    >>> scientific_name("quercus x rosacea Bechst."), scientific_name("Salix cf. alba L.")
    ('Quercus x rosacea', 'Salix alba')
    """
    words = plain(text).split()
    if words and all(word.isupper() for word in words[:2]):
        n_shouted = len(words) if plain(text).isupper() else 2
        words = [*(word.lower() for word in words[:n_shouted]), *words[n_shouted:]]
    parsed = parse_name(capitalised(" ".join(words)))
    return "" if parsed is None else str(parsed)


def capitalised(name: str) -> str:
    """`animalia`, `ANIMALIA` → `Animalia`; names of several words keep their case after the first.

    >>> capitalised("ANIMALIA"), capitalised("incertae sedis")
    ('Animalia', 'Incertae sedis')
    """
    return name[:1].upper() + (name[1:].lower() if name.isupper() else name[1:])


def is_formula(text: str) -> bool:
    """Does it name the parents of a hybrid?

    >>> is_formula("Corvus corax × C. corone"), is_formula("Mentha × piperita")
    (True, False)
    """
    return _crosses(_split(text)[1])


def _split(text: str) -> tuple[str, list[str]]:
    """A sign that stands before the genus, and the words behind it."""
    words = re.sub(r"([×,;])", r" \1 ", text.replace("_", " ")).split()
    words = ["x" if word == "X" else word for word in words]
    sign = ""
    if len(words) > 1 and words[0] in HYBRID_SIGNS:
        sign = f"{words[0]} "
        words = words[1:]
    if len(words) > 1 and words[0].strip("'\"") == "Candidatus":
        words = words[1:]
    return sign, words


def _crosses(words: list[str]) -> bool:
    """A sign behind the epithet, or one before a capital: another parent follows."""
    for number, word in enumerate(words[1:], start=1):
        if word in HYBRID_SIGNS and words[number - 1] not in _BELOW:
            after = words[number + 1] if number + 1 < len(words) else ""
            if number > 1 or after[:1].isupper():
                return True
    return False


def _is_epithet(word: str) -> bool:
    is_word = _EPITHET.fullmatch(word) is not None
    return is_word and word not in _PARTICLES and word not in _UNNAMED and word not in _NOTES


def _below(words: list[str]) -> str:
    """The rank may stand behind the author of the species; a bare third part never does."""
    if words and _is_epithet(words[0]) and words[0] not in _BELOW:
        return words[0]
    for mark, word in pairwise(words):
        rank = f"{mark}." if mark in _BARE_MARKS else mark
        if rank in _BELOW and _is_epithet(word):
            return f"{rank} {word}"
    return ""


# --- Matching: are two spellings one name?
#
# Gender (albus, alba), hybrid signs, marks of ranks, diacritics and usual spellings (silvestris,
# sylvestris) do not make another name; another genus or another epithet does.

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
