"""Which species does an open answer name?

Scientific and common names, synonyms, abbreviated genera ("P. leo"), names with their authors, and
misspelt ones, as long as one species is clearly the nearest. An answer that names a genus or a
family only is reported as such: it is no species. Names that several species share are ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fieldmark.chat._names_typo import Spellings, nearest, spellings
from fieldmark.chat._parse_index import Names, distinct, find_names, names_of
from fieldmark.chat._parse_stance import declines, is_committed, is_rejected
from fieldmark.chat._parse_text import Word, fold, level, read, word_set
from fieldmark.chat._parse_value import AMBIGUOUS, cued, read_json, single, tagged

_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
_FILLER = word_set("sp spp species genus family order class of unknown unidentified cf aff")
_GENUS_AND_SPECIES = re.compile(
    r"\bgenus\W+(\w+)\W+(?:species|epithet)\W+(\w+)\s*$", re.IGNORECASE | re.MULTILINE
)
_MOST_WORDS = 6
"""longer phrases are sentences: they are searched for names, never compared as one"""


@dataclass(frozen=True, slots=True)
class Taxon:
    """A species (or another class) and what it is called."""

    label: str
    scientific: str = ""
    common: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    lineage: tuple[str | None, ...] = ()
    """kingdom to species"""


@dataclass(frozen=True, slots=True)
class NameMatch:
    label: str | None
    how: str = ""
    """scientific name, common name, synonym, label, abbreviated, misspelt; and where it stood"""
    why: str = ""
    """why not: genus only, family only, …, ambiguous, no name is near, declined, cannot tell"""


@dataclass(frozen=True, slots=True)
class TaxonNames:
    """The names of all taxa, ready to be searched for."""

    names: Names
    kinds: dict[tuple[str, ...], str]
    """words → scientific name, common name, synonym or label"""
    shared: frozenset[tuple[str, ...]]
    """names of several taxa"""
    short: dict[tuple[str, str], frozenset[str]]
    """(first letter of the genus, epithet) → labels"""
    ranks: dict[tuple[str, ...], str]
    """a taxon above species → its rank"""
    spelt: Spellings


def index_taxa(taxa: Iterable[Taxon]) -> TaxonNames:
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
    own = {words: (min(found), False) for words, found in owners.items() if len(found) == 1}
    return TaxonNames(
        names_of(own, {}, labels),
        kinds,
        frozenset(words for words, found in owners.items() if len(found) > 1),
        {key: frozenset(found) for key, found in short.items()},
        {words: rank for words, rank in ranks.items() if words not in owners},
        spellings({" ".join(words): found for words, found in owners.items()}),
    )


def _names_of(taxon: Taxon) -> list[tuple[str, tuple[str, ...]]]:
    given = [("scientific name", taxon.scientific)]
    given += [("common name", each) for each in taxon.common]
    given += [("synonym", each) for each in taxon.synonyms]
    if len(taxon.lineage) >= 2 and taxon.lineage[-2] and taxon.lineage[-1]:
        given.append(("scientific name", f"{taxon.lineage[-2]} {taxon.lineage[-1]}"))
    given.append(("label", taxon.label))
    return [(kind, words) for kind, words in ((k, fold(name)) for k, name in given) if words]


def _ranks_of(taxon: Taxon) -> dict[tuple[str, ...], str]:
    genus = taxon.scientific.split(" ")[0] if " " in taxon.scientific else ""
    found = {fold(genus): "genus"} if genus else {}
    above = zip(reversed(_RANKS), reversed(taxon.lineage[:-1]), strict=False)
    return found | {fold(name): rank for rank, name in above if name}


def read_name(text: str, taxa: TaxonNames, *, is_cut: bool = False) -> NameMatch:
    """The species a free text answers with: strict places first, then what it names in passing."""
    for how, phrase, is_final in _phrases(text, is_cut):
        match = match_name(phrase, taxa)
        if match.label is not None or is_final or match.why not in ("no name is near", ""):
            said = declines(phrase) if match.label is None else ""
            return NameMatch(match.label, f"{match.how} in {how}".lstrip(" in"), said or match.why)
    if is_cut:
        return NameMatch(None, "", "cut off")
    return _in_passing(text, taxa)


def _phrases(text: str, is_cut: bool) -> list[tuple[str, str, bool]]:
    """(place, phrase, must that be the answer?)"""
    found: list[tuple[str, str, bool]] = []
    value = single(read_json(text))
    if value is not AMBIGUOUS:
        found.append(("json", "unknown" if value is None else str(value), True))
    inside = tagged(text)
    if inside is not None:
        found.append(("tag", inside, True))
    both = _GENUS_AND_SPECIES.search(level(text))
    if both is not None:
        found.append(("answer line", f"{both[1]} {both[2]}", False))
    cue = cued(level(text))
    if cue is not None and (cue[1] or not is_cut):
        found.append(("answer line", cue[0], cue[1]))
    if not is_cut:
        if len(read(text).words) <= _MOST_WORDS:
            found.append(("whole text", text, False))
        marked = re.findall(r"\*\*(.+?)\*\*|(?<!\*)\*([^*\n]+)\*(?!\*)", text)
        found += [("marked", one or two, False) for one, two in reversed(marked)]
    return found


def match_name(phrase: str, taxa: TaxonNames) -> NameMatch:
    """The species a short phrase names.

    >>> taxa = index_taxa([Taxon("song sparrow", "Melospiza melodia")])
    >>> match_name("Melospiza melodia (Wilson, 1810)", taxa).label
    'song sparrow'
    >>> match_name("Melospiza sp.", taxa).why
    'genus only'
    """
    passage = read(phrase)
    mentions = [e for e in find_names(passage, taxa.names) if not is_rejected(passage, e)]
    labels = distinct(mentions)
    if len(labels) > 1:
        return NameMatch(None, "", "ambiguous")
    if labels:
        said = passage.words[mentions[0].first : mentions[0].last + 1]
        return NameMatch(labels[0], taxa.kinds[fold(" ".join(word.text for word in said))])
    words = tuple(word.text for word in passage.words)
    return _abbreviated(words, taxa) or _not_a_species(words, taxa) or _misspelt(phrase, taxa)


def _abbreviated(words: tuple[str, ...], taxa: TaxonNames) -> NameMatch | None:
    for letter, epithet in pairwise(words):
        found = taxa.short.get((letter, epithet)) if len(letter) == 1 else None
        if found:
            one = next(iter(found)) if len(found) == 1 else None
            return NameMatch(one, "abbreviated", "" if one else "ambiguous")
    return None


def _not_a_species(words: tuple[str, ...], taxa: TaxonNames) -> NameMatch | None:
    bare = fold(" ".join(word for word in words if word not in _FILLER))
    if bare in taxa.shared:
        return NameMatch(None, "", "ambiguous")
    rank = taxa.ranks.get(bare)
    return NameMatch(None, "", f"{rank} only") if rank else None


def _misspelt(phrase: str, taxa: TaxonNames) -> NameMatch:
    """Compares the phrase without what stands in brackets, that alone, and its first two words."""
    bare = re.sub(r"\([^()]*\)", " ", phrase)
    inside = " ".join(re.findall(r"\(([^()]*)\)", phrase))
    is_tie = False
    for part in (fold(bare), fold(bare)[:2], fold(inside)):
        near = nearest(" ".join(part), taxa.spelt) if 0 < len(part) <= _MOST_WORDS else None
        if near is not None and near.label is not None:
            edits = "1 edit" if near.distance == 1 else f"{near.distance} edits"
            return NameMatch(near.label, f"misspelt ({edits})")
        is_tie = is_tie or (near is not None and near.is_tie)
    return NameMatch(None, "", "ambiguous" if is_tie else "no name is near")


def _in_passing(text: str, taxa: TaxonNames) -> NameMatch:
    passage = read(text)
    kept = [e for e in find_names(passage, taxa.names) if not is_rejected(passage, e)]
    meant = [each for each in kept if is_committed(passage, each)]
    if meant:
        last = passage.words[meant[-1].first].sentence
        labels = distinct(e for e in meant if passage.words[e.first].sentence == last)
        how = "sentence that commits"
    else:
        labels, how = distinct(kept), "only mention"
    said = declines(text)
    if len(labels) == 1 and (meant or not said):
        return NameMatch(labels[0], how)
    why = "ambiguous" if labels else _lowest_rank(passage.words, taxa)
    return NameMatch(None, how if labels else "", said or why)


def _lowest_rank(words: Sequence[Word], taxa: TaxonNames) -> str:
    """What is said instead of a species: the lowest rank named, or nothing."""
    named = {taxa.ranks[(word.text,)] for word in words if (word.text,) in taxa.ranks}
    lowest = next((rank for rank in reversed(_RANKS) if rank in named), "")
    return f"{lowest} only" if lowest else "no name is near"
