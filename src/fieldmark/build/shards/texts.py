"""Text members of TreeOfLife shards: what do they say of a taxon, and which taxon do they name?

Ten `.txt` members a sample, as TreeOfLife-10M has them (BioCLIP, arXiv 2311.18803): three names and
seven sentences, "a photo of …". Where no common name is known, the scientific one stands for it.
Shards of this package also hold a `json` member with the ranks one by one, which is read first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from fieldmark.build.shards.samples import Read, Sample
from fieldmark.build.taxa import Taxon
from fieldmark.data import parse_name
from fieldmark.world import RANKS

Ranks = tuple[str, str, str, str, str, str, str]

COMMON = " with common name "
_PHOTO = "a photo of "
_TAG = re.compile(rf"(?:^|\s)({'|'.join(RANKS)})(?=\s|$)")
_MAX_BYTES = 1 << 16
"""a longer text is none of these"""
COMMON_KEYS = ("common_name", "common", "vernacular_name", "vernacular")
NAME_KEYS = ("scientific_name", "scientificname", "sci_name", "sciname", "taxon", "label")


def taxon_texts(taxon: Taxon) -> dict[str, str]:
    """Extension → text, for a taxon with a name of any kind."""
    scientific = taxon.name or taxon.common_name
    common = taxon.common_name or scientific
    known = [(rank, name) for rank, name in zip(RANKS, taxon.ranks, strict=True) if name]
    taxonomic = " ".join(name for _, name in known) or scientific
    tagged = " ".join(f"{rank} {name}" for rank, name in known) or scientific
    return {
        "sci.txt": f"{_PHOTO}{scientific}.",
        "com.txt": f"{_PHOTO}{common}.",
        "taxon.txt": f"{_PHOTO}{taxonomic}.",
        "taxonTag.txt": f"{_PHOTO}{tagged}.",
        "sci_com.txt": f"{_PHOTO}{scientific}{COMMON}{common}.",
        "taxon_com.txt": f"{_PHOTO}{taxonomic}{COMMON}{common}.",
        "taxonTag_com.txt": f"{_PHOTO}{tagged}{COMMON}{common}.",
        "scientific_name.txt": scientific,
        "common_name.txt": common,
        "taxonomic_name.txt": taxonomic,
    }


def sample_taxon(sample: Sample, read: Read) -> Taxon | None:
    """The taxon that the members of a sample name, from the most telling one; None = none does."""
    ranks, common = _from_json(_text(sample, read, "json"))
    for extension, parse in _PARSERS:
        if any(ranks):
            break
        body, _, tail = _bare(_text(sample, read, extension)).partition(COMMON)
        ranks, common = parse(body), common or tail
    common = (
        common or _text(sample, read, "common_name.txt") or _bare(_text(sample, read, "com.txt"))
    )
    taxon = Taxon(ranks)
    common = "" if common == taxon.name else common
    return Taxon(ranks, common) if common or any(ranks) else None


def _text(sample: Sample, read: Read, extension: str) -> str:
    member = sample.get(extension)
    if member is None or member.size > _MAX_BYTES:
        return ""
    return read(member).decode("utf-8", "replace").strip()


def _bare(text: str) -> str:
    """Without "a photo of" before it and the full stop behind it."""
    bare = text.removeprefix(_PHOTO)
    return bare if bare == text else bare.removesuffix(".")


def _ranks(names: dict[str, str]) -> Ranks:
    """Seven names; a species that is given as a binomial becomes its epithet."""
    values = {rank: " ".join(names.get(rank, "").split()) for rank in RANKS}
    values["species"] = values["species"].removeprefix(f"{values['genus']} ")
    kingdom, phylum, class_, order, family, genus, species = (values[rank] for rank in RANKS)
    return kingdom, phylum, class_, order, family, genus, species


def ranks_of_fields(fields: dict[str, str]) -> tuple[Ranks, str]:
    """Ranks and common name out of named fields, such as the columns of a table."""
    names = {name.strip().lower().replace(" ", "_"): value for name, value in fields.items()}
    common = next((names[key] for key in COMMON_KEYS if names.get(key)), "")
    ranks = _ranks(names)
    if not ranks[5]:
        name = next((names[key] for key in ("species", *NAME_KEYS) if names.get(key)), "")
        parsed = _from_binomial(name)
        if parsed[6] or (parsed[5] and parsed[5] not in ranks and name != names.get("label")):
            ranks = (*ranks[:5], *parsed[5:])
    return ranks, common


def _from_json(text: str) -> tuple[Ranks, str]:
    try:
        value = json.loads(text) if text else None
    except ValueError:
        value = None
    fields = value if isinstance(value, dict) else {}
    return ranks_of_fields({str(key): one for key, one in fields.items() if isinstance(one, str)})


def _from_tags(text: str) -> Ranks:
    """ "kingdom Animalia phylum Chordata …". Some published ones name the tag behind the value:
    these are not read, the plain names stand beside them.
    """
    before, *parts = _TAG.split(text)
    names = dict(zip(parts[::2], parts[1::2], strict=True))
    in_order = sorted(parts[::2], key=RANKS.index) == parts[::2]
    if before.strip() or not in_order or len(names) < len(parts) // 2:
        return _ranks({})
    return _ranks(names)


def _from_words(text: str) -> Ranks:
    """Seven names in a row; of fewer nobody can say which ranks they are."""
    words = text.split()
    if len(words) < len(RANKS):
        return _ranks({})
    return _ranks(dict(zip(RANKS, [*words[:6], " ".join(words[6:])], strict=True)))


def _from_binomial(text: str) -> Ranks:
    name = parse_name(text)
    return _ranks({"genus": name.genus, "species": name.species} if name else {})


_PARSERS: tuple[tuple[str, Callable[[str], Ranks]], ...] = (
    ("taxontag.txt", _from_tags),
    ("taxontag_com.txt", _from_tags),
    ("taxonomic_name.txt", _from_words),
    ("taxon.txt", _from_words),
    ("taxon_com.txt", _from_words),
    ("scientific_name.txt", _from_binomial),
    ("sci.txt", _from_binomial),
    ("sci_com.txt", _from_binomial),
)
