"""Pages of a MediaWiki: fetched through its API or read from a dump, kept in one store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WikiPage:
    """One revision of one page."""

    title: str
    page_id: int
    revision_id: int
    timestamp: str
    """of the revision, ISO 8601 in UTC"""
    wikitext: str
    is_disambiguation: bool = False
    """by page property; in a dump, which has none, by the page's template"""
    wikidata: str = ""
    """item id ("Q144"); "" = not known"""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a wiki has under a title."""

    asked: str
    page: WikiPage | None
    """None = the wiki has no such page"""
    chain: tuple[str, ...] = ()
    """titles on the way from what was asked to the page: normalisation, then redirects"""
    fragment: str = ""
    """section that the last redirect points to: the page is about more than what was asked"""


@dataclass(frozen=True, slots=True)
class WikiSite:
    """Where pages come from, for the record."""

    name: str
    """"English Wikipedia", as the site calls itself"""
    url: str
    """start of a page's address, to which a title is added"""
    licence: str
    """as the site states it: "CC BY-SA 4.0" """
