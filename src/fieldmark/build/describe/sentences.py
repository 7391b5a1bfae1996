"""Sentence boundary detection: where does each sentence of a text start and end?

Rules and a list of abbreviations, made for descriptions of organisms: "C. lupus var. arctos (L.)
is ca. 1.5 m long." is one sentence. Answers with offsets, so that what is kept of a text is always
a part of it. A line break ends a sentence, since items of lists have no full stop; a semicolon
does not.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from fieldmark.build.describe.lexicon import word_set


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text: `text[start:end]`."""

    start: int
    end: int


def split_sentences(text: str) -> list[Span]:
    """Sentences in order: they do not overlap, start and end with no space, and hold all the rest.

    >>> [text[s.start : s.end] for text in ["Fur grey. Tail 5 cm."] for s in split_sentences(text)]
    ['Fur grey.', 'Tail 5 cm.']
    """
    spans: list[Span] = []
    start = 0
    for end in (*_boundaries(text), len(text)):
        piece = text[start:end]
        if body := piece.strip():
            begin = start + len(piece) - len(piece.lstrip())
            spans.append(Span(begin, begin + len(body)))
        start = end
    return spans


_STOP = re.compile(
    r"\n"
    r"|(?<![.!?…])(?P<stop>[.!?…]++)(?P<closing>[\"'”’»)\]]*+)"
    r"(?:(?P<space>[^\S\n]++)(?=[\"'“‘«(\[]{0,3}(?:[^\W_a-z]|\ufffc))|(?=[A-Z][a-z]{1,30}[\s,]))"
)
"""a line break; or a stop, with what closes behind it, and a sentence that may start: behind a
space anything but a small letter (or U+FFFC, where words are missing), without one a capitalised
word"""
_ASIDE = re.compile(r"\([^()\n]{0,400}\)")
_WORD_BEFORE = re.compile(r"(?P<digit>\d\s)?(?P<word>(?:[^\W_]|[.'’-])+)$")
_WORD_AFTER = re.compile(
    r"[\"'“‘«(\[]{0,3}(?:(?P<number>\d)|(?P<word>[^\W_]{1,30}+)(?!\.))"
)  # "A." is no article


def _boundaries(text: str) -> Iterator[int]:
    asides = [aside.span() for aside in _ASIDE.finditer(text)]
    openings = [start for start, _ in asides]
    for stop in _STOP.finditer(text):
        if stop["stop"] is None:
            yield stop.end()
            continue
        end = stop.end("closing")
        index = bisect_right(openings, stop.start()) - 1
        is_aside = index >= 0 and end < asides[index][1]
        if not is_aside and _ends_sentence(text, stop):
            yield end


def _ends_sentence(text: str, stop: re.Match[str]) -> bool:
    if stop["stop"] != ".":
        return bool(stop["space"])
    before = _WORD_BEFORE.search(text, max(0, stop.start() - 30), stop.start())
    word = before["word"] if before else ""
    if not stop["space"]:
        return len(word) > 1 and word.islower() and word not in _NEVER_LAST
    after = _WORD_AFTER.match(text, stop.end())
    if word.lower() in _NEVER_LAST:
        return False
    if word.lower() in _BEFORE_NUMBERS and after and after["number"]:
        return False
    is_unit = before is not None and before["digit"] is not None and word in ("m", "g")
    return is_unit or not _is_ambiguous(word) or bool(after and after["word"] in _STARTERS)


def _is_ambiguous(word: str) -> bool:
    """An abbreviation that may also be the last word: an author, initials, "sp.", "etc."."""
    letters = word.split(".")
    return (
        word.lower() in _SOMETIMES_LAST
        or (len(letters[-1]) == 1 and letters[-1].isalpha())
        or word in _AUTHORS
    )


_NEVER_LAST = word_set(
    """
    e.g eg i.e ie cf ca approx var subsp ssp subvar nothosubsp aff cv vs viz dr mr mrs ms prof
    st mt lit resp incl esp ser sect subg subgen nom fl syn dept gen sen rev hon gov capt lt sgt
    """
)
_BEFORE_NUMBERS = word_set("c fig figs no nos p pp pl vol vols ch")
_SOMETIMES_LAST = word_set(
    """
    sp spp etc al auct hort jr sr inc ltd co a.m p.m u.s u.k diam alt max min avg temp jan feb
    mar apr jun jul aug sep sept oct nov dec
    """
)
_AUTHORS = word_set(
    """
    L Mill Lam Willd Thunb Benth Hook DC Juss Nutt Michx Pers Fr Schrad Spreng Vahl Gaertn Torr
    Engelm Wedd Roxb Wall Lindl Sm Ait Cav Jacq Desf Poir Pall Forssk Scop Linn Fabr Latr Cuv Gm
    Gould Temm Bonap Sw Sibth Boiss Steud Rchb Nees Kunth Humb Bonpl Salisb Hort Muell Mart
    Griseb Maxim Franch Hemsl Rehd Wils Baill Planch Endl Britt Berk Quél Sacc Bull Schaeff
    Batsch
    """
)
_STARTERS = word_set(
    """
    The It Its This These Those That They Their There In On At By From For With Both Each Most
    Many Some All Males Females Male Female Adults Adult Juveniles Young A An He She His Her
    When While Although However Like Unlike As Other Another Two Three Four Five Several Leaves
    Leaf Flowers Flower Fruits Fruit Stems Bark Seeds Wings Larvae Eggs Head Body Tail Upper
    Lower Legs Plants Plant Trees One No If After Before During Within Under Over Often Usually
    Sometimes Length Wingspan Colour Color Size Similar
    """
)
