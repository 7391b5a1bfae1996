"""Name resolution (entity linking): which page of a wiki is about a taxon, or why is none?

A page is taken only when its own taxobox names the taxon: by its name, or as a synonym with
evidence; titles, redirects and common names only lead to candidates, and nothing is ever searched.
Kingdom must agree, and family or order too where a list has homonyms, by the classification that
the wiki holds in `Template:Taxonomy/…`, climbed only as far as it takes to decide.

Taxa are asked for together: every one is a generator that yields the titles it needs next, and a
round fetches what all of them need. The answer depends on the store's content alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched

from fieldmark.build.taxa import (
    RANKS,
    Taxon,
    find_homonyms,
    kingdom_kind,
    kingdoms_differ,
    plain_rank,
)
from fieldmark.build.wiki.api import WikiSource
from fieldmark.build.wiki.page import Lookup, WikiPage
from fieldmark.build.wiki.store import PageStore, is_title
from fieldmark.build.wiki.taxobox import (
    SET_INDEX_TEMPLATES,
    Taxobox,
    TaxonomyEntry,
    n_words,
    read_taxoboxes,
    read_taxonomy,
    taxonomy_title,
    template_names,
)
from fieldmark.progress import Progress

REASONS = {
    "not_a_name": "the row has no name that a page could carry",
    "no_page": "the wiki has no page under its names",
    "disambiguation": "the page only lists meanings, and none of them is the taxon",
    "several_taxa": "the page is about several taxa",
    "list_page": "the page is a list",
    "redirect_to_section": "the name leads to a section of another page",
    "no_taxobox": "the page has no taxobox that could be checked",
    "other_taxon": "the taxobox names another taxon",
    "other_kingdom": "the page is about an organism of another kingdom",
    "genus_page": "the page is about the genus, which has other species",
    "species_page": "the page is about the species, not about the taxon above or below it",
    "subspecies_page": "the page is about a subspecies",
}
BLOCK = 4000
"""taxa that are asked for together"""
_MOST_LINKS, _MOST_LEVELS = 12, 80


@dataclass(frozen=True, slots=True)
class Resolution:
    """The page of a taxon, or why there is none."""

    taxon: Taxon
    page: WikiPage | None
    how: str
    """"title", "redirect", "synonym", "common_name", "genus", "disambiguation", "hatnote" """
    reason: str
    """"word: sentence" with a word of `REASONS`; "" = there is a page"""
    chain: tuple[str, ...]
    """titles from the one asked for to the page's"""


Steps = Generator[list[str], None, "Resolution"]


def resolve(
    taxa: Sequence[Taxon],
    store: PageStore,
    source: WikiSource | None,
    progress: Progress,
    among: Iterable[Taxon] | None = None,
) -> Iterator[Resolution]:
    """One resolution per taxon, in order; without a source, from what the store has.

    `among` is the whole list where `taxa` is a part of it: homonyms are known from it.
    """
    homonyms = find_homonyms(taxa if among is None else among)
    search = _Search(store, homonyms)
    progress.start("pages", len(taxa))
    for block in batched(taxa, BLOCK):
        for resolution in _together([search.taxon(taxon) for taxon in block], store, source):
            progress.advance()
            yield resolution


def _together(
    all_steps: list[Steps], store: PageStore, source: WikiSource | None
) -> list[Resolution]:
    """Runs all of them in rounds, each of which fetches what is needed for the next."""
    done: dict[int, Resolution] = {}
    while len(done) < len(all_steps):
        wanted: dict[str, None] = {}
        for number, steps in enumerate(all_steps):
            if number in done:
                continue
            try:
                wanted.update(dict.fromkeys(next(steps)))
            except StopIteration as stop:
                done[number] = stop.value
        if source is not None and (titles := store.unknown(wanted)):
            source.fetch(titles, store)
    return [done[number] for number in range(len(all_steps))]
