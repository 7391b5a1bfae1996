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
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fieldmark.build.describe.match import OPEN, SAME, has_ranks, level_of, match_name, match_ranks
from fieldmark.build.wiki import Lookup, WikiPage
from fieldmark.build.wiki.store import PageStore, is_title, normal_title
from fieldmark.build.wiki.taxobox import (
    SET_INDEX_TEMPLATES,
    Taxobox,
    TaxonomyEntry,
    read_taxoboxes,
    read_taxonomy,
    taxonomy_title,
    template_names,
)
from fieldmark.progress import Progress
from fieldmark.taxa import Taxon, find_homonyms
from fieldmark.taxa.name import fold

if TYPE_CHECKING:
    from fieldmark.build.wiki.api import WikiSource

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
    for start in range(0, len(taxa), BLOCK):
        steps = [search.taxon(taxon) for taxon in taxa[start : start + BLOCK]]
        yield from _together(steps, store, source, progress)


def _together(
    all_steps: list[Steps], store: PageStore, source: WikiSource | None, progress: Progress
) -> list[Resolution]:
    """Runs all of them in rounds, each of which fetches what is needed for the next."""
    done: dict[int, Resolution] = {}
    while len(done) < len(all_steps):
        titles_wanted: dict[str, None] = {}
        for number, steps in enumerate(all_steps):
            if number in done:
                continue
            try:
                titles_wanted.update(dict.fromkeys(next(steps)))
            except StopIteration as stop:
                done[number] = stop.value
                progress.advance()
        if source is not None and (titles := store.unknown(titles_wanted)):
            progress.status(f"asking for {len(titles):,} titles")
            source.fetch(titles, store)
    return [done[number] for number in range(len(all_steps))]


@dataclass(frozen=True, slots=True)
class _Try:
    """What came of one title."""

    title: str
    page: WikiPage | None = None
    how: str = ""
    reason: str = ""
    chain: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    """titles that the page names for other meanings"""


Trying = Generator[list[str], None, _Try]


class _Search:
    """Looks taxa up in one store; what it read of the classification it keeps."""

    def __init__(self, store: PageStore, homonyms: Mapping[str, str]) -> None:
        self._store, self._homonyms = store, homonyms
        self._levels: dict[str, TaxonomyEntry | None] = {}

    def taxon(self, taxon: Taxon) -> Steps:
        """Title by title until one leads to the right page."""
        refused = []
        for how, title in _candidates(taxon):
            result = yield from self._try(taxon, title, how)
            if result.page is None and result.more:
                result = yield from self._try_more(taxon, result)
            if result.page is not None:
                chain = (result.title, *result.chain)
                return Resolution(taxon, result.page, result.how, "", chain)
            refused.append(result)
        best_try = next((one for one in refused if one.reason != "no_page"), None)
        best_try = best_try or (refused[0] if refused else _Try(taxon.name, reason="not_a_name"))
        reason = f"{best_try.reason}: {REASONS[best_try.reason]}"
        return Resolution(taxon, None, "", reason, (best_try.title, *best_try.chain))

    def _try(self, taxon: Taxon, title: str, how: str) -> Trying:
        """Is the page under a title the taxon's?"""
        yield [title]
        lookup = self._store.lookup(title)
        if lookup is None or lookup.page is None:
            return _Try(title, reason="no_page")
        page, chain = lookup.page, lookup.chain
        reason, boxes = _look(lookup)
        if reason:
            more = _links(page, taxon, title) if reason == "disambiguation" else ()
            return _Try(title, None, "disambiguation", reason, chain, more)
        match = match_name(taxon, boxes, page.title, how == "title")
        reason = match.reason
        if not reason:
            reason = yield from self._check_ranks(taxon, boxes[0], match.needs_family)
        elif reason == "other_taxon" and level_of(taxon) not in ("species", "subspecies"):
            reason = yield from self._name_level(boxes[0])
        if reason:
            is_other = reason in ("other_taxon", "other_kingdom")
            more = _hatnotes(page, title) if is_other else ()
            return _Try(title, None, "hatnote", reason, chain, more)
        if how == "title" and not same_title(lookup):
            how = "redirect"
        return _Try(title, page, match.how or how, "", chain)

    def _try_more(self, taxon: Taxon, attempt: _Try, is_last: bool = False) -> Trying:
        """The other meanings that a page names: one of them, or none.

        A note above a page may lead to a disambiguation page, which leads on.
        """
        yield list(attempt.more)
        right: dict[str, _Try] = {}
        for title in attempt.more:
            result = yield from self._try(taxon, title, attempt.how)
            if result.page is None and result.more and not is_last:
                result = yield from self._try_more(taxon, result, is_last=True)
            if result.page is not None:
                right.setdefault(result.page.title, result)
        if len(right) != 1:
            return attempt
        (result,) = right.values()
        return replace(
            result, title=attempt.title, chain=(*attempt.chain, result.title, *result.chain)
        )

    def _check_ranks(
        self, taxon: Taxon, box: Taxobox, needs_family: bool
    ) -> Generator[list[str], None, str]:
        """Why the ranks do not fit, in a word; "" = they do, or nothing speaks against them."""
        if not has_ranks(taxon):
            return ""
        is_homonym = self._homonyms.get(taxon.key) == "homonym"
        lineage = list(box.ranks.items())
        verdict = match_ranks(taxon, lineage, is_homonym, needs_family)
        key = box.taxonomy
        for _ in range(_MOST_LEVELS):
            if verdict != OPEN or not key:
                break
            entry = yield from self._level(key)
            if entry is None:
                break
            lineage.append((entry.rank, entry.name))
            verdict = match_ranks(taxon, lineage, is_homonym, needs_family)
            key = entry.parent
        if verdict == OPEN:
            return "other_taxon" if taxon.key in self._homonyms or needs_family else ""
        return "" if verdict == SAME else verdict

    def _level(
        self, name: str, is_alias: bool = False
    ) -> Generator[list[str], None, TaxonomyEntry | None]:
        """One level of the classification, with what it leaves to another one filled in."""
        if name not in self._levels:
            title = taxonomy_title(name)
            yield [title]
            lookup = self._store.lookup(title)
            page = lookup.page if lookup is not None else None
            entry = read_taxonomy(page.wikitext, name) if page is not None else None
            if entry is not None and entry.same_as and not is_alias:
                other = yield from self._level(entry.same_as, is_alias=True)
                if other is not None:
                    rank, parent = entry.rank or other.rank, entry.parent or other.parent
                    entry = replace(entry, rank=rank, parent=parent)
            self._levels[name] = entry
        return self._levels[name]

    def _name_level(self, box: Taxobox) -> Generator[list[str], None, str]:
        """What a page about another group is about."""
        entry = (yield from self._level(box.taxonomy)) if box.taxonomy else None
        is_genus = box.rank == "genus" or (entry is not None and entry.rank == "genus")
        return "genus_page" if is_genus and not box.genus else "other_taxon"


def same_title(lookup: Lookup) -> bool:
    """Is the page's title what was asked for, but for the wiki's spelling?"""
    return lookup.page is not None and normal_title(lookup.asked) == lookup.page.title


def _candidates(taxon: Taxon) -> Iterator[tuple[str, str]]:
    """(how, title) in the order of trust."""
    titles: dict[str, str] = {}
    for name in _spellings(taxon.name):
        titles.setdefault(name, "title")
    common = taxon.common_name.replace("_", " ").replace("’", "'")
    for name in (common, common[:1].upper() + common[1:].lower()):
        titles.setdefault(name, "common_name")
    if level_of(taxon) == "species":
        titles.setdefault(taxon.at("genus"), "genus")
    for title, how in titles.items():
        if title and is_title(title):
            yield how, title


def _spellings(name: str) -> Iterator[str]:
    name = re.sub(r"(^| )x ", r"\1× ", name)
    yield name
    yield fold(name)
    if "×" in name:
        yield name.replace("× ", "x ")
        yield name.replace("× ", "")


# --- what pages say of themselves ---


def _look(lookup: Lookup) -> tuple[str, list[Taxobox]]:
    """Why a page is not one of a taxon, in a word, or its boxes."""
    page = lookup.page
    assert page is not None
    if page.is_disambiguation:
        return "disambiguation", []
    if lookup.fragment:
        return "redirect_to_section", []
    if re.match(r"Lists? of ", page.title):
        return "list_page", []
    boxes = read_taxoboxes(page.wikitext, page.title)
    if boxes:
        return "", boxes
    is_index = not SET_INDEX_TEMPLATES.isdisjoint(template_names(page.wikitext))
    return "disambiguation" if is_index else "no_taxobox", []


_WIKILINK = re.compile(r"\[\[:?([^\[\]|#<>{}]+)(?:#[^\[\]|]*)?(?:\|[^\[\]]*)?\]\]")


def _links(page: WikiPage, taxon: Taxon, title: str) -> tuple[str, ...]:
    """Links of a disambiguation page that can matter, those that carry its own title first."""
    ours = [word for word in (taxon.name, taxon.at("genus"), taxon.at("species")) if word]
    scored: dict[str, int] = {}
    for line in page.wikitext.splitlines():
        links = [normal_title(match[1]) for match in _WIKILINK.finditer(line)]
        for link in links:
            if link.startswith((page.title, title, taxon.name)):
                scored[link] = 0
            elif any(word in line for word in ours):
                scored.setdefault(link, 1)
    scored.pop(page.title, None)
    ranked = sorted(scored, key=lambda link: scored[link])
    return tuple(link for link in ranked if is_title(link))[:_MOST_LINKS]


_HATNOTE = re.compile(
    r"\{\{\s*(?:about|for|for-multi|other[ _]uses?|other[ _]use|redirect|redirect2|distinguish"
    r"|hatnote|dablink|similar|for2|see[ _]also|other[ _]plants|other[ _]species)\b([^{}]*)\}\}"
    r"|^:+\s*(''.*)$",
    re.IGNORECASE | re.MULTILINE,
)


def _hatnotes(page: WikiPage, wanted_title: str) -> tuple[str, ...]:
    """Titles in the notes above a page that carry its name."""
    titles: dict[str, None] = {}
    for match in _HATNOTE.finditer(page.wikitext[:4000]):
        inside = match[1] or match[2] or ""
        pieces = [*_WIKILINK.findall(inside), *inside.split("|")]
        titles.update(dict.fromkeys(normal_title(piece) for piece in pieces))
        if inside == "":
            titles[f"{page.title} (disambiguation)"] = None
    starts = (page.title, wanted_title)
    names = (title for title in titles if title.startswith(starts) and title not in starts)
    return tuple(title for title in names if is_title(title))[:_MOST_LINKS]
