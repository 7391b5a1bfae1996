"""Taxobox (infobox of a taxon): which taxon is a page about, and where does it stand?

Names of templates are compared in lower case with spaces for underscores. The list is English
Wikipedia's, redirects of templates included.
"""

from __future__ import annotations

import re

TAXOBOX_TEMPLATES = frozenset(
    {
        "auto taxobox", "automatic taxobox", "automatic virus taxobox", "autotaxobox", "hybridbox",
        "ichnobox", "infraspeciesbox", "oobox", "species box", "speciesbox", "subspecies box",
        "subspeciesbox", "taxobox", "taxobox begin", "virus box", "virusbox",
    }
)  # fmt: skip
DISAMBIGUATION_TEMPLATES = frozenset(
    {
        "airport disambiguation", "biology disambiguation", "caselaw disambiguation",
        "chinese title disambiguation", "dab", "dab-cleanup", "disam", "disamb", "disambig",
        "disambig cleanup", "disambig-cleanup", "disambiguate", "disambiguation",
        "disambiguation cleanup", "disambiguation page", "genus disambiguation", "geodab", "geodis",
        "hndab", "hndis", "hospital disambiguation", "human name disambiguation",
        "latin name disambiguation", "letter disambiguation",
        "letter-number combination disambiguation", "letter–number combination disambiguation",
        "mathdab", "mathematical disambiguation", "mil-unit-dis", "military unit disambiguation",
        "music disambiguation", "number disambiguation", "numberdis", "opus number disambiguation",
        "phonetics disambiguation", "place name disambiguation", "road disambiguation", "roaddis",
        "school disambiguation", "schooldis", "species latin name abbreviation disambiguation",
        "species latin name disambiguation", "station disambiguation", "stationdis",
        "synagogue disambiguation", "taxonomy disambiguation", "temple disambiguation",
        "title and name disambiguation",
    }
)  # fmt: skip
SET_INDEX_TEMPLATES = frozenset(
    {
        "animal common name", "bird common name", "fish common name", "fungus common name",
        "insect common name", "plant common name", "set index", "set index article", "sia",
    }
)  # fmt: skip
"""of pages that list the taxa of one common name: no disambiguation by page property, yet of use"""

_TEMPLATE_NAME = re.compile(r"\{\{\s*([^{}|<\n]+?)\s*(?=[|}<\n])")


def template_names(wikitext: str) -> set[str]:
    """The templates that a text calls by a plain name, as they stand in the lists above."""
    return {plain_template(match[1]) for match in _TEMPLATE_NAME.finditer(wikitext)}


def plain_template(name: str) -> str:
    """
    >>> plain_template("Automatic_Taxobox ")
    'automatic taxobox'
    """
    return name.replace("_", " ").strip().lower().removeprefix("template:")


def says_disambiguation(wikitext: str) -> bool:
    """Is it a disambiguation page by its template? For dumps, which have no page properties."""
    has_mark = "__DISAMBIG__" in wikitext
    return has_mark or not DISAMBIGUATION_TEMPLATES.isdisjoint(template_names(wikitext))
