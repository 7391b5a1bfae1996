"""Taxonomic name matching: does a taxobox speak of this very taxon?

Two questions, both without a wiki: is the name ours (the same, a spelling of it, a synonym that the
box lists, or its epithet in another genus), and do the ranks above fit? A rank fits when the wiki's
classification holds a group of its name at any level, since systems disagree about levels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fieldmark.build.wiki.taxobox import Taxobox, levels_up_to, n_words
from fieldmark.taxa import Taxon, kingdom_kind, kingdoms_differ, plain_rank
from fieldmark.taxa.name import name_words, same_epithet, same_name

SAME, OPEN, OTHER_TAXON, OTHER_KINGDOM = "same", "open", "other_taxon", "other_kingdom"


@dataclass(frozen=True, slots=True)
class TaxonMatch:
    """How a box's name fits."""

    reason: str = ""
    """why it does not, in a word; "" = it does"""
    how: str = ""
    """"synonym" or "genus" where the box's name is not ours"""
    needs_family: bool = False
    """nothing but a redirect and the epithet speak for it: the family must agree"""


def level_of(taxon: Taxon) -> str:
    """The rank of a taxon, "subspecies" for all below species."""
    return "subspecies" if n_words(taxon.name) > 2 and taxon.at("species") else taxon.rank


def match_name(taxon: Taxon, boxes: Sequence[Taxobox], title: str, is_own_name: bool) -> TaxonMatch:
    """Do the boxes of a page name the taxon? `is_own_name`: its own name led to the page."""
    names = (name_words(box.name) for box in boxes if box.rank in ("species", "subspecies"))
    if len({tuple(words[:2]) for words in names}) > 1:
        return TaxonMatch("several_taxa")
    box, level = boxes[0], level_of(taxon)
    if level in ("species", "subspecies"):
        return _match_species(taxon, box, level, is_own_name)
    return _match_group(taxon, box, level, title)


def _match_species(taxon: Taxon, box: Taxobox, level: str, is_own_name: bool) -> TaxonMatch:
    if box.rank not in ("species", "subspecies"):
        return _match_genus_page(taxon, box, level)
    if box.rank == level and same_name(taxon.name, box.name):
        return TaxonMatch()
    if box.rank == level and any(same_name(taxon.name, name) for name in box.synonyms):
        return TaxonMatch(how="synonym")
    ours, theirs = name_words(taxon.name), name_words(box.name)
    if box.rank != level:
        is_near = same_name(" ".join(ours[:2]), " ".join(theirs[:2]))
        return TaxonMatch(f"{box.rank}_page" if is_near else OTHER_TAXON)
    if is_own_name and same_epithet(ours[-1], theirs[-1]) and ours[0] != theirs[0]:
        return TaxonMatch(how="synonym", needs_family=True)
    return TaxonMatch(OTHER_TAXON)


def _match_genus_page(taxon: Taxon, box: Taxobox, level: str) -> TaxonMatch:
    """The page of a genus is a species' page only where there is no other species."""
    is_only = len(box.subdivisions) == 1 and same_name(taxon.name, box.subdivisions[0])
    if level == "species" and is_only:
        return TaxonMatch(how="genus")
    is_ours = same_name(taxon.at("genus"), box.name) or box.rank == "genus"
    return TaxonMatch("genus_page" if is_ours else OTHER_TAXON)


def _match_group(taxon: Taxon, box: Taxobox, level: str, title: str) -> TaxonMatch:
    """A genus or above: the box's own name; or the genus' title over the box of its species."""
    if box.rank in ("species", "subspecies"):
        is_inside = level == "genus" and same_name(box.genus, taxon.name)
        if is_inside and same_name(re.sub(r" \(.*\)$", "", title), taxon.name):
            return TaxonMatch(how="genus")
        return TaxonMatch("species_page" if is_inside else OTHER_TAXON)
    if same_name(taxon.name, box.name):
        return TaxonMatch()
    if any(same_name(taxon.name, name) for name in box.synonyms):
        return TaxonMatch(how="synonym")
    return TaxonMatch("genus_page" if box.rank == "genus" else OTHER_TAXON)


# --- ranks ---

Lineage = Sequence[tuple[str, str]]
"""(rank, name) from the bottom up"""
_BETWEEN = ("family", "order", "class", "phylum")
_BELOW_KINGDOM = frozenset(levels_up_to("class"))
"""genera and families have the names of kingdoms too: Bacteria, Archaea; clades are any level"""


def match_ranks(
    taxon: Taxon, lineage: Lineage, is_homonym: bool = False, needs_family: bool = False
) -> str:
    """Do the ranks fit? `OPEN` = what is known so far does not decide.

    Family or order in common: the same organism. Class or phylum in common will do unless the
    list has homonyms. Otherwise kingdoms must not exclude each other, and not all may differ.
    """
    names = {plain_rank(name) for _, name in lineage}
    agree = [bool(taxon.at(rank)) and plain_rank(taxon.at(rank)) in names for rank in _BETWEEN]
    if agree[0] or (not needs_family and (agree[1] or (not is_homonym and any(agree)))):
        return SAME
    above = [name for rank, name in lineage if rank not in _BELOW_KINGDOM]
    kinds = kingdom_kind([taxon.at("kingdom")]), kingdom_kind(above)
    if kingdoms_differ(*kinds):
        return OTHER_KINGDOM
    if not kinds[1]:
        return OPEN
    return OTHER_TAXON if _is_other(taxon, lineage, is_homonym, needs_family) else SAME


def _is_other(taxon: Taxon, lineage: Lineage, is_homonym: bool, needs_family: bool) -> bool:
    """The lineage is known up to the kingdom and has none of our ranks that count."""
    if needs_family:
        return bool(taxon.at("family")) or not taxon.at("kingdom")
    ranks = {rank for rank, _ in lineage}
    n_differ = sum(1 for rank in _BETWEEN if taxon.at(rank) and rank in ranks)
    if is_homonym:
        return n_differ > 0
    is_animal = kingdom_kind([taxon.at("kingdom")]) == "animal"
    has_phylum = bool(taxon.at("phylum")) and "phylum" in ranks
    return n_differ >= 3 or (is_animal and has_phylum)


def has_ranks(taxon: Taxon) -> bool:
    """Is anything known above the genus (or above the taxon itself)?"""
    return any(taxon.at(rank) for rank in ("kingdom", *_BETWEEN) if rank != taxon.rank)
