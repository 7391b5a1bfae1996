"""Text members of TreeOfLife shards: which taxon do they name?

The members are those that `taxa.text.taxon_texts` writes. Shards of this package also hold a `json`
member with the ranks one by one, which is read first. Names are brought into the form that
descriptions are kept under (`normal_taxon`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fieldmark.build.shards.samples import Read, Sample
from fieldmark.files import parse_json
from fieldmark.taxa import RANKS, Taxon, taxon_of_fields
from fieldmark.taxa.text import COMMON, PHOTO

_TAG = re.compile(rf"(?:^|\s)({'|'.join(RANKS)})(?=\s|$)")
_MAX_BYTES = 1 << 16
"""a longer text is none of these"""


def sample_taxon(sample: Sample, read: Read) -> Taxon | None:
    """The taxon that the members of a sample name, from the most telling one; None = none does."""
    fields = _json_fields(_text(sample, read, "json"))
    taxon = taxon_of_fields(fields)
    common = taxon.common_name
    for extension, parse in _PARSERS:
        if taxon.name or fields.keys() >= set(RANKS):  # it says which are known, or that none is
            break
        body, _, tail = _bare(_text(sample, read, extension)).partition(COMMON)
        taxon, common = taxon_of_fields(parse(body)), common or tail
    if not common:
        common = _text(sample, read, "common_name.txt") or _bare(_text(sample, read, "com.txt"))
    if taxon.name and taxon_of_fields({"scientific_name": common}).name == taxon.name:
        common = ""  # stands for one that is not known
    return Taxon(taxon.ranks, common) if common or taxon.name else None


def _text(sample: Sample, read: Read, extension: str) -> str:
    member = sample.get(extension)
    if member is None or member.size > _MAX_BYTES:
        return ""
    return read(member).decode("utf-8", "replace").strip()


def _bare(text: str) -> str:
    """Without "a photo of" before it and the full stop behind it."""
    bare = text.removeprefix(PHOTO)
    return bare if bare == text else bare.removesuffix(".")


def _json_fields(text: str) -> dict[str, str]:
    try:
        value = parse_json(text) if text else None
    except ValueError:
        value = None
    fields = value if isinstance(value, dict) else {}
    return {key: text for key, text in fields.items() if isinstance(text, str)}


def _tags(text: str) -> dict[str, str]:
    """ "kingdom Animalia phylum Chordata …". Some published ones name the tag behind the value:
    these are not read, the plain names stand beside them.
    """
    before, *parts = _TAG.split(text)
    ranks = parts[::2]
    if before.strip() or ranks != sorted(set(ranks), key=RANKS.index):
        return {}
    return dict(zip(ranks, parts[1::2], strict=True))


def _words(text: str) -> dict[str, str]:
    """Seven names in a row; of fewer nobody can say which ranks they are."""
    words = text.split()
    if len(words) < len(RANKS):
        return {}
    return dict(zip(RANKS, [*words[:6], " ".join(words[6:])], strict=True))


def _name(text: str) -> dict[str, str]:
    return {"scientific_name": text}


_PARSERS: tuple[tuple[str, Callable[[str], dict[str, str]]], ...] = (
    ("taxontag.txt", _tags),
    ("taxontag_com.txt", _tags),
    ("taxonomic_name.txt", _words),
    ("taxon.txt", _words),
    ("taxon_com.txt", _words),
    ("scientific_name.txt", _name),
    ("sci.txt", _name),
    ("sci_com.txt", _name),
)
