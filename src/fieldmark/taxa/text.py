"""Class texts (taxonomic names): which words stand for a class, or for a taxon in training data?

For a class: six forms, those of the BioCLIP family: as is, scientific, common, all seven ranks, and
the second and fourth with the common name. For training: the ten `.txt` members of TreeOfLife-10M,
three names and seven sentences. Names come as data have them: with authors, underscores, hybrid
signs, "sp.", in any case, and with ranks missing. arXiv:2311.18803
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fieldmark.taxa.name import capitalised, parse_name, plain, scientific_name
from fieldmark.taxa.taxon import RANKS, Taxon

COMMON = " with common name "
PHOTO = "a photo of "
TextType = Literal["asis", "sci", "com", "taxon", "sci_com", "taxon_com"]


@dataclass(frozen=True, slots=True)
class ClassNames:
    """The names of one class; "" or absent where nobody knows them."""

    label: str
    scientific: str = ""
    common: str = ""
    ranks: Mapping[str, str] | None = None
    """by rank; "species" is the epithet"""

    def text(self, kind: TextType) -> str:
        """The class in words. What is missing is left out: a class without a common name has its
        scientific one, one without a species its deepest rank, one without any its label.
        """
        latin, taxon, common = self.scientific, self.taxon, self.common
        deepest = latin or self.deepest
        if kind == "asis":
            return self.label
        if kind == "com":
            return common or deepest or plain(self.label)
        main = deepest if kind in ("sci", "sci_com") else taxon or latin
        if not main:
            return common or plain(self.label)
        with_common = kind.endswith("_com") and common and common.lower() != main.lower()
        return f"{main}{COMMON}{common}" if with_common else main

    @property
    def taxon(self) -> str:
        """All ranks there are, the highest first; the scientific name where they end above it."""
        ranks = self.ranks or {}
        last = [self.scientific] if ranks and "genus" not in ranks else []
        return " ".join(filter(None, (*(ranks.get(rank, "") for rank in RANKS), *last)))

    @property
    def deepest(self) -> str:
        """The lowest rank there is, above the species."""
        named = [(self.ranks or {}).get(rank, "") for rank in RANKS[:-1]]
        return next((name for name in reversed(named) if name), "")


def names_of(
    label: str, scientific: str | None, common: str | None, ranks: Mapping[str, str | None]
) -> ClassNames:
    """The names of a class, as they are written in texts.

    >>> names_of("x", "amanita_excelsa Gonn. & Rabenh.", "", {}).scientific
    'Amanita excelsa'
    """
    higher = {rank: capitalised(plain(ranks.get(rank) or "")) for rank in RANKS[:-1]}
    epithet = _epithet(ranks.get("species") or "", higher["genus"])
    lineage = {rank: name for rank, name in {**higher, "species": epithet}.items() if name}
    written = scientific_name(scientific or "")
    if not written and higher["genus"] and epithet:
        written = f"{higher['genus']} {epithet}"
    return ClassNames(label, written, plain(common or ""), lineage)


def _epithet(text: str, genus: str) -> str:
    """The species' own word, also where data write genus and species."""
    words = plain(text).split()
    is_binomial = len(words) > 1 and words[0][:1].isupper() and words[1][:1].islower()
    if is_binomial or (len(words) > 1 and words[0].lower() == genus.lower()):
        words = words[1:]
    if not words:
        return ""
    parsed = parse_name(" ".join(["Genus", words[0].lower(), *words[1:]]))
    return "" if parsed is None else " ".join(filter(None, (parsed.species, parsed.below)))


def taxon_texts(taxon: Taxon) -> dict[str, str]:
    """Extension → text, for a taxon with a name of any kind; where no common name is known, the
    scientific one takes its place.
    """
    scientific = taxon.name or taxon.common_name
    common = taxon.common_name or scientific
    named = [(rank, name) for rank, name in zip(RANKS, taxon.ranks, strict=True) if name]
    taxonomic = " ".join(name for _, name in named) or scientific
    tagged = " ".join(f"{rank} {name}" for rank, name in named) or scientific
    return {
        "sci.txt": f"{PHOTO}{scientific}.",
        "com.txt": f"{PHOTO}{common}.",
        "taxon.txt": f"{PHOTO}{taxonomic}.",
        "taxonTag.txt": f"{PHOTO}{tagged}.",
        "sci_com.txt": f"{PHOTO}{scientific}{COMMON}{common}.",
        "taxon_com.txt": f"{PHOTO}{taxonomic}{COMMON}{common}.",
        "taxonTag_com.txt": f"{PHOTO}{tagged}{COMMON}{common}.",
        "scientific_name.txt": scientific,
        "common_name.txt": common,
        "taxonomic_name.txt": taxonomic,
    }
