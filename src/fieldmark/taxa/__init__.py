"""Names of taxa: parsed, cleaned, matched and printed. No other package does that.

>>> from fieldmark.taxa import parse_name, same_name
>>> str(parse_name("Amanita muscaria (L.) Lam., 1783"))
'Amanita muscaria'
>>> same_name("Salix × müllerii", "Salix muelleri")
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.taxa.name import (
        parse_name,
        plain,
        same_epithet,
        same_name,
        scientific_name,
    )
    from fieldmark.taxa.record import taxon_columns, taxon_of_fields
    from fieldmark.taxa.taxon import (
        RANKS,
        Taxon,
        find_homonyms,
        kingdom_kind,
        kingdoms_differ,
        plain_rank,
        same_organism,
    )
    from fieldmark.taxa.text import ClassNames, TextType, names_of, taxon_texts

__all__ = [
    "RANKS",
    "ClassNames",
    "Taxon",
    "TextType",
    "find_homonyms",
    "kingdom_kind",
    "kingdoms_differ",
    "names_of",
    "parse_name",
    "plain",
    "plain_rank",
    "same_epithet",
    "same_name",
    "same_organism",
    "scientific_name",
    "taxon_columns",
    "taxon_of_fields",
    "taxon_texts",
]

__getattr__ = exports(__name__)
