"""Species names: which species does an open answer name?

Scientific and common names, synonyms, abbreviated genera ("P. leo"), names with their authors, and
misspelt ones, as long as one species is clearly the nearest. An answer that names a genus or a
family only is reported as such: it is no species. Names that several species share are ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from fieldmark.chat.parse.mentions import (
    NameIndex,
    distinct,
    find_names,
    names_of,
    sole_owners,
)
from fieldmark.chat.parse.stance import beside_doubt, declines, is_rejected, is_stated, retracts
from fieldmark.chat.parse.text import fold, level, read, word_set
from fieldmark.chat.parse.values import Parsed, bare, find_answer_field, single, spoken_values
from fieldmark.taxa import RANKS
from fieldmark.words import counted

if TYPE_CHECKING:
    import numpy as np


# --- Misspelt names (edit distance): which of many names does a text misspell?
# Optimal string alignment: insert, delete, replace, swap of neighbours, with a limit that grows
# with the name's length. The nearest name counts only if every name of another label is clearly
# farther.

MARGIN = 2
"""edits by which the runner-up must be farther"""
_SHORTEST = 5
_BINS = 32


@dataclass(frozen=True, slots=True)
class Spellings:
    """Names with the letters each is made of, so that few have to be compared."""

    owners: Mapping[str, frozenset[str]]
    """name → the labels it stands for"""
    names: tuple[str, ...]
    letters_nb: np.ndarray
    """how often each name has letters of each of 32 bins"""


@dataclass(frozen=True, slots=True)
class NearestName:
    """What a text misspells."""

    label: str | None
    distance: int = 0
    is_tie: bool = False
    """a name of another species is about as near"""


def spellings(owners: Mapping[str, Iterable[str]]) -> Spellings:
    names = tuple(owners)
    return Spellings(
        {name: frozenset(labels) for name, labels in owners.items()}, names, _letters(names)
    )


def _letters(names: Sequence[str]) -> np.ndarray:
    import numpy as np

    letters_nb = np.zeros((len(names), _BINS), np.int16)
    for row, name in enumerate(names):
        for letter in name:
            letters_nb[row, ord(letter) % _BINS] += 1
    return letters_nb


def most_edits(name: str) -> int:
    """Edits a name of this length may have: none below 5 letters, then one for each 7.

    >>> [most_edits("x" * n) for n in (4, 5, 13, 14, 21, 40)]
    [0, 1, 1, 2, 3, 3]
    """
    return 0 if len(name) < _SHORTEST else min(3, max(1, len(name) // 7))


def nearest(text: str, names: Spellings, margin: int = MARGIN) -> NearestName:
    """The label of the name that `text` misspells, if there is one and only one.

    >>> nearest("melospiza meloida", spellings({"melospiza melodia": ["song sparrow"]})).label
    'song sparrow'
    """
    limit = most_edits(text)
    near = _within(text, names, limit) if limit else {}
    if not near:
        return NearestName(None)
    best = min(near.values())
    rivals = _within(text, names, best + margin - 1)
    label = None if len(rivals) > 1 else next(iter(rivals))
    return NearestName(label, best, is_tie=label is None)


def _within(text: str, names: Spellings, most: int) -> dict[str, int]:
    """label → distance of its nearest name, where that is at most so many edits away."""
    distances: dict[str, int] = {}
    # Names whose letters differ little: one edit adds at most one letter and takes at most one, so
    # more letters too many, or too few, than edits allowed rule a name out.
    import numpy as np

    excess_nb = names.letters_nb - _letters([text])
    n_more = np.where(excess_nb > 0, excess_nb, 0).sum(axis=1)
    n_fewer = n_more - excess_nb.sum(axis=1)
    for name in [names.names[row] for row in np.flatnonzero(np.maximum(n_more, n_fewer) <= most)]:
        distance = edits(text, name, most)
        if distance <= most:
            for label in names.owners[name]:
                distances[label] = min(distances.get(label, distance), distance)
    return distances


def edits(one: str, two: str, most: int) -> int:
    """The distance, or `most + 1` when it is larger.

    >>> edits("leo", "loe", 3), edits("panthera", "pantera", 3), edits("abc", "xyz", 1)
    (1, 1, 2)
    """
    if abs(len(one) - len(two)) > most:
        return most + 1
    before: list[int] = []
    above = list(range(len(two) + 1))
    for row, letter in enumerate(one, start=1):
        here = [row]
        for column, other in enumerate(two, start=1):
            cost = min(
                above[column] + 1, here[column - 1] + 1, above[column - 1] + (letter != other)
            )
            if row > 1 and column > 1 and letter == two[column - 2] and one[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            here.append(cost)
        if min(here) > most and (not above or min(above) > most):
            return most + 1
        before, above = above, here
    return min(above[-1], most + 1)


# --- species


_FILLER = word_set("sp spp species genus family order class of unknown unidentified cf aff")
_GENUS_AND_SPECIES = re.compile(
    r"\bgenus\W+(\w+)\W+(?:species|epithet)\W+(\w+)\s*$", re.IGNORECASE | re.MULTILINE
)
_SCIENTIFIC = re.compile(r"(?:(?<=[*_(])[A-Z][a-z]+|\b[A-Z]\.) [a-z]{3,}")
"""in italics or brackets, or abbreviated"""
_OF_SENTENCES = re.compile(r"\b(?:is|are|it|near|with|like|from|by|at|to|for|and|of|seen)\b", re.I)
_MOST_WORDS = 6
"""longer phrases are sentences: they are searched for names, never compared as one"""


@dataclass(frozen=True, slots=True)
class NamedTaxon:
    """A species (or another class) and what it is called."""

    label: str
    scientific: str = ""
    common: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    lineage: tuple[str | None, ...] = ()
    """kingdom to species"""


@dataclass(frozen=True, slots=True)
class TaxonNames:
    """The names of all taxa, ready to be searched for."""

    names: NameIndex
    kinds: dict[tuple[str, ...], str]
    """words → scientific name, common name, synonym or label"""
    shared: frozenset[tuple[str, ...]]
    """names of several taxa"""
    short: dict[tuple[str, str], frozenset[str]]
    """(first letter of the genus, epithet) → labels"""
    ranks: dict[tuple[str, ...], str]
    """a taxon above species → its rank"""
    spelt: Spellings


def index_taxa(taxa: Iterable[NamedTaxon]) -> TaxonNames:
    """Made once for all answers about the same taxa."""
    owners: dict[tuple[str, ...], set[str]] = {}
    kinds: dict[tuple[str, ...], str] = {}
    short: dict[tuple[str, str], set[str]] = {}
    ranks: dict[tuple[str, ...], str] = {}
    labels = []
    for taxon in taxa:
        labels.append(taxon.label)
        for kind, words in _names_of(taxon):
            owners.setdefault(words, set()).add(taxon.label)
            kinds.setdefault(words, kind)
            if kind == "scientific name" and len(words) == 2:
                short.setdefault((words[0][0], words[1]), set()).add(taxon.label)
        ranks |= _ranks_of(taxon)
    full_names = {words: (label, False) for words, label in sole_owners(owners).items()}
    return TaxonNames(
        names_of(full_names, labels),
        kinds,
        frozenset(words for words, own_labels in owners.items() if len(own_labels) > 1),
        {key: frozenset(own_labels) for key, own_labels in short.items()},
        {words: rank for words, rank in ranks.items() if words not in owners},
        spellings({" ".join(words): own_labels for words, own_labels in owners.items()}),
    )


def _names_of(taxon: NamedTaxon) -> list[tuple[str, tuple[str, ...]]]:
    given = [("scientific name", taxon.scientific)]
    given += [("common name", name) for name in taxon.common]
    given += [("synonym", name) for name in taxon.synonyms]
    if len(taxon.lineage) >= 2 and taxon.lineage[-2] and taxon.lineage[-1]:
        given.append(("scientific name", f"{taxon.lineage[-2]} {taxon.lineage[-1]}"))
    given.append(("label", taxon.label))
    return [(kind, words) for kind, words in ((k, fold(name)) for k, name in given) if words]


def _ranks_of(taxon: NamedTaxon) -> dict[tuple[str, ...], str]:
    genus = taxon.scientific.split(" ")[0] if " " in taxon.scientific else ""
    ranks = {fold(genus): "genus"} if genus else {}
    above = zip(reversed(RANKS[:-1]), reversed(taxon.lineage[:-1]), strict=False)
    return ranks | {fold(name): rank for rank, name in above if name}


def read_name(text: str, taxa: TaxonNames, *, is_cut: bool = False) -> Parsed:
    """The species a free text answers with: strict places first, then what it names alone."""
    field = find_answer_field(text)
    if field is not None:
        value = single(field.value)
        phrase = "unknown" if value is None else str(value)
        match = match_name(phrase, taxa)
        refusal = declines(phrase) if match.label is None else ""
        return Parsed(
            match.label, f"{match.how} in {field.how}".lstrip(" in"), refusal or match.why
        )
    if is_cut:
        return Parsed(None, "", "cut off")
    plain = level(text)
    for how, phrases in (
        ("answer line", _named_phrases(plain)),
        ("whole text", [plain] if _is_phrase(plain) else []),
        ("line", _first_line(plain)),
    ):
        matches = [match_name(phrase, taxa) for phrase in phrases]
        labels = {match.label for match in matches} - {None}
        if len(labels) == 1 and not retracts(plain):
            how_named = next(match.how for match in matches if match.label)
            return Parsed(labels.pop(), f"{how_named} in {how}")
        if labels:
            return Parsed(None, how, "ambiguous")
        if matches and how == "whole text" and matches[0].why != "no name is near":
            return matches[0]
    return _only_species(plain, taxa)


def _named_phrases(plain: str) -> list[str]:
    """What "Genus: …, species: …" and "the species is …" name, each up to its first mark."""
    both = [f"{match[1]} {match[2]}" for match in _GENUS_AND_SPECIES.finditer(plain)]
    return both or [re.split(r"[,;]|\.\s", bare(value))[0] for value in spoken_values(plain)]


def _first_line(plain: str) -> list[str]:
    """The first of several lines, if it is a phrase and no heading."""
    line = plain.strip().split("\n")[0]
    is_heading = line.startswith("#") or line.rstrip(" *_").endswith(":")
    return [line] if _is_phrase(line) and not is_heading else []


def _is_phrase(text: str) -> bool:
    """Is this a name, perhaps with its author, and no sentence?"""
    return len(read(text).words) <= _MOST_WORDS and _OF_SENTENCES.search(text) is None


def match_name(phrase: str, taxa: TaxonNames) -> Parsed:
    """The species a short phrase names.

    >>> taxa = index_taxa([NamedTaxon("song sparrow", "Melospiza melodia")])
    >>> match_name("Melospiza melodia (Wilson, 1810)", taxa).label
    'song sparrow'
    >>> match_name("Melospiza sp.", taxa).why
    'genus only'
    """
    passage = read(phrase)
    mentions = list(find_names(passage, taxa.names))
    labels = distinct(mentions)
    is_open = any(is_rejected(passage, mention) for mention in mentions)
    if len(labels) > 1 or is_open:
        return Parsed(None, "", "ambiguous")
    if labels:
        name_words = passage.words[mentions[0].first : mentions[0].last + 1]
        name = fold(" ".join(word.text for word in name_words))
        return Parsed(labels[0], taxa.kinds.get(name, "inflected name"))
    words = tuple(word.text for word in passage.words)
    return _abbreviated(words, taxa) or _not_a_species(words, taxa) or _misspelt(phrase, taxa)


def _abbreviated(words: tuple[str, ...], taxa: TaxonNames) -> Parsed | None:
    for letter, epithet in pairwise(words):
        labels = taxa.short.get((letter, epithet)) if len(letter) == 1 else None
        if labels:
            one = next(iter(labels)) if len(labels) == 1 else None
            return Parsed(one, "abbreviated", "" if one else "ambiguous")
    return None


def _not_a_species(words: tuple[str, ...], taxa: TaxonNames) -> Parsed | None:
    bare = fold(" ".join(word for word in words if word not in _FILLER))
    if bare in taxa.shared:
        return Parsed(None, "", "ambiguous")
    rank = taxa.ranks.get(bare)
    return Parsed(None, "", f"{rank} only") if rank else None


def _misspelt(phrase: str, taxa: TaxonNames) -> Parsed:
    """Compares the phrase without what stands in brackets, that alone, and its first two words."""
    bare = re.sub(r"\([^()]*\)", " ", phrase)
    inside = " ".join(re.findall(r"\(([^()]*)\)", phrase))
    is_tie = False
    for part in (fold(bare), fold(bare)[:2], fold(inside)):
        near = nearest(" ".join(part), taxa.spelt) if 0 < len(part) <= _MOST_WORDS else None
        if near is not None and near.label is not None:
            return Parsed(near.label, f"misspelt ({counted(near.distance, 'edit')})")
        is_tie = is_tie or (near is not None and near.is_tie)
    return Parsed(None, "", "ambiguous" if is_tie else "no name is near")


SEVERAL = "several species are named"


def _only_species(plain: str, taxa: TaxonNames) -> Parsed:
    """The gate of running text: the one species it names and stands by, if it names no other."""
    passage = read(plain)
    mentions = list(find_names(passage, taxa.names))
    stated = [mention for mention in mentions if not is_rejected(passage, mention)]
    committed = [mention for mention in stated if is_stated(passage, mention)]
    labels = distinct(mentions)
    refusal = declines(plain)
    if refusal and not committed:
        weighed = distinct(list(find_names(read(beside_doubt(plain)), taxa.names)))
        is_open = refusal == "cannot tell" and len(weighed) > 1
        return Parsed(None, "", SEVERAL if is_open else refusal)
    if not mentions:
        # What is said instead of a species: the lowest rank named, or nothing.
        named = {taxa.ranks[(word.text,)] for word in passage.words if (word.text,) in taxa.ranks}
        lowest = next((rank for rank in reversed(RANKS[:-1]) if rank in named), "")
        return Parsed(None, "", (f"{lowest} only" if lowest else "no name is near"))
    if len(labels) > 1 or _has_other_species(plain, labels[0], taxa):
        return Parsed(None, "", SEVERAL)
    if refusal or len(stated) < len(mentions) or not committed:
        return Parsed(None, "", "a species is ruled out or only weighed")
    return Parsed(labels[0], "only species named", is_loose=True)


def _has_other_species(plain: str, label: str, taxa: TaxonNames) -> bool:
    """Is there a scientific name, whole or abbreviated, that is not of this species?"""
    for marked in _SCIENTIFIC.finditer(plain):
        words = fold(marked[0])
        label_of_name = taxa.names.by_words.get(words, ("", False))[0]
        short = marked[0][0].lower(), words[-1] if words else ""  # folding drops an "A."
        if label_of_name != label and label not in taxa.short.get(short, ()):
            return True
    return False
