"""Taxon: a name with its seven ranks, which tell apart what one name alone does not.

A binomial can stand for two organisms (a plant genus and an animal genus may share a name: a
hemihomonym), so a taxon is known by all its ranks. Common names are no part of what it is. Most
binomials that occur twice in a list are one organism in two systems, though: `same_organism` tells
the two cases apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
"""of the Linnean hierarchy, the highest first; the species is its epithet"""


@dataclass(frozen=True, slots=True)
class Taxon:
    """Ranks from kingdom to species; "" where one is not known."""

    ranks: tuple[str, str, str, str, str, str, str]
    """in the order of `RANKS`; the last one is the epithet alone ("corax")"""
    common_name: str = ""

    @property
    def key(self) -> str:
        """16 hexadecimal digits that stand for the ranks."""
        return hashlib.blake2b("\0".join(self.ranks).encode(), digest_size=8).hexdigest()

    @property
    def rank(self) -> str:
        """The lowest rank that is known; "" = none is."""
        ranks = [rank for rank, name in zip(RANKS, self.ranks, strict=True) if name]
        return ranks[-1] if ranks else ""

    @property
    def name(self) -> str:
        """The scientific name: the binomial, or the name of the lowest rank that is known."""
        genus, epithet = self.ranks[5:]
        if epithet:
            return f"{genus} {epithet}".strip()
        return next((name for name in reversed(self.ranks) if name), "")

    def at(self, rank: str) -> str:
        """The name at a rank of `RANKS`; "" = not known."""
        return self.ranks[RANKS.index(rank)]


# --- names that mean the same ---

_KINGDOMS = {
    "animal": "animalia metazoa animals",
    "plant": "plantae plants viridiplantae archaeplastida chloroplastida",
    "fungus": "fungi eumycota mycota",
    "prokaryote": "bacteria eubacteria monera archaea archaebacteria bacillati pseudomonadati "
    "fusobacteriati thermotogati methanobacteriati thermoproteati promethearchaeati nanobdellati",
    "virus": "viruses virus riboviria duplodnaviria monodnaviria varidnaviria orthornavirae "
    "pararnavirae bamfordvirae helvetiavirae heunggongvirae shotokuvirae loebvirae sangervirae "
    "trapavirae",
    "protist": "chromista protista protozoa protoctista sar stramenopiles heterokonta alveolata "
    "rhizaria harosa chromalveolata excavata discoba amoebozoa haptista cryptista",
}
_KINGDOM_OF = {name: kind for kind, names in _KINGDOMS.items() for name in names.split()}
_SAME_NAMES = {
    other: names.split()[0]
    for names in (
        "asteraceae compositae", "poaceae gramineae", "fabaceae leguminosae papilionaceae",
        "lamiaceae labiatae", "brassicaceae cruciferae", "apiaceae umbelliferae",
        "arecaceae palmae", "clusiaceae guttiferae",
        "actinopterygii actinopteri teleostei osteichthyes",
        "chondrichthyes elasmobranchii", "reptilia sauropsida lepidosauria",
        "insecta hexapoda", "magnoliopsida dicotyledonae dicotyledoneae eudicots",
        "liliopsida monocots monocotyledonae monocotyledoneae", "pinopsida coniferopsida",
        "polypodiopsida pteridopsida filicopsida",
        "tracheophyta tracheophytes magnoliophyta angiosperms angiospermae anthophyta spermatophyta"
        " pteridophyta pinophyta streptophyta",
        "ochrophyta heterokontophyta", "annelida sipuncula",
        "proteobacteria pseudomonadota", "firmicutes bacillota", "actinobacteria actinomycetota",
    )
    for other in names.split()[1:]
}  # fmt: skip
"""names of families, classes and phyla that different systems give to (nearly) the same group"""


def plain_rank(name: str) -> str:
    """A rank's name for comparison: two systems' names for one group become equal.

    >>> plain_rank("Compositae") == plain_rank("Asteraceae")
    True
    """
    name = name.strip().lower()
    return _SAME_NAMES.get(name, _KINGDOM_OF.get(name, name))


def kingdom_kind(names: Iterable[str]) -> str:
    """ "animal", "plant", … by the first of the names that is a kingdom's; "" = none is."""
    return next((_KINGDOM_OF[name.lower()] for name in names if name.lower() in _KINGDOM_OF), "")


def kingdoms_differ(one: str, other: str) -> bool:
    """Do two kinds of kingdom exclude each other? Protists were in all of them at some time."""
    return bool(one and other) and one != other and "protist" not in (one, other)


def same_organism(one: Taxon, other: Taxon) -> bool:
    """Of two taxa of one name: one organism in two systems (or a row with fewer ranks)?

    Systems move classes and split families, but rarely change family and order at once; kingdoms
    that exclude each other never hold the same organism.
    """
    family, order, class_, phylum = (_agree(one, other, rank) for rank in RANKS[4:0:-1])
    if family or order:
        return True
    if _in_other_kingdoms(one, other) or (family is False and order is False):
        return False
    return (phylum if class_ is None else class_) is not False


def _agree(one: Taxon, other: Taxon, rank: str) -> bool | None:
    names = plain_rank(one.at(rank)), plain_rank(other.at(rank))
    return names[0] == names[1] if all(names) else None


def find_homonyms(taxa: Iterable[Taxon]) -> dict[str, str]:
    """Keys of the taxa whose name another organism of the list has too → of what sort they are.

    "hemihomonym": kingdoms tell them apart; "homonym": only other ranks do.
    """
    by_name: dict[str, list[Taxon]] = {}
    for taxon in taxa:
        by_name.setdefault(taxon.name, []).append(taxon)
    kinds: dict[str, str] = {}
    for group in by_name.values():
        for one in group if len(group) > 1 else ():
            others = [other for other in group if not same_organism(one, other)]
            is_apart = all(_in_other_kingdoms(one, other) for other in others)
            if others:
                kinds[one.key] = "hemihomonym" if is_apart else "homonym"
    return kinds


def _in_other_kingdoms(one: Taxon, other: Taxon) -> bool:
    return kingdoms_differ(*(kingdom_kind([taxon.at("kingdom")]) for taxon in (one, other)))
