"""The synthetic encyclopedia: pages as in nature, the same for the same seed."""

from __future__ import annotations

import re
from collections import Counter

from fieldmark.world import World
from fieldmark.world.wiki import visual_sentences, wiki_pages
from kit.wiki_traps import trap_wiki

WORLD = World(n_species=200)


def test_titles_are_as_in_nature() -> None:
    wiki = wiki_pages(WORLD)
    titles = {page.title: page for page in wiki.pages}
    assert len(titles) == len(wiki.pages), "a title is one page"
    kinds = Counter(
        "none" if not title else "binomial" if title == name
        else "genus" if title == name.split()[0] else "common name"
        for name, title in wiki.titles.items()
    )  # fmt: skip
    assert min(kinds[kind] for kind in ("none", "binomial", "genus", "common name")) >= 3
    for name, title in wiki.titles.items():
        assert not title or name in titles, "the binomial leads to every page"
        assert title or name not in titles


def test_taxonomy_leads_up_to_the_kingdom() -> None:
    pages = {page.title: page.wikitext for page in wiki_pages(WORLD).pages}
    for species in WORLD.species:
        names, here = set(), species.ranks["genus"]
        while (title := f"Template:Taxonomy/{here}") in pages:
            names.add(here)
            here = re.search(r"\|parent=(.*)", pages[title])[1]  # type: ignore[index]
        assert names >= {species.ranks[rank] for rank in list(species.ranks)[:6]}


def test_what_can_be_seen_stands_between_what_cannot() -> None:
    wiki = wiki_pages(WORLD)
    pages = {page.title: page.wikitext for page in wiki.pages}
    species = next(one for one in WORLD.species if wiki.titles[one.scientific_name])
    text = pages[wiki.titles[species.scientific_name]]
    kept = visual_sentences(WORLD, species)
    assert 2 <= len(kept) < text.count(". ") / 2
    assert str(species.traits["main_colour"]) in kept[0]
    assert not any("{{" in sentence or "[[" in sentence or "<" in sentence for sentence in kept)
    assert text.count("{{") == text.count("}}") and text.count("===") == 4


def test_the_same_world_has_the_same_wiki() -> None:
    assert wiki_pages(WORLD) == wiki_pages(World(n_species=200))
    assert wiki_pages(WORLD).pages != wiki_pages(World(seed=1, n_species=200)).pages


def test_traps_stand_alone() -> None:
    """Enough of them, no two with one title, none with a title of the world."""
    trapped = trap_wiki(seed=3)
    assert len(trapped.traps) > 200 and len({trap.kind for trap in trapped.traps}) > 50
    titles = [page.title for page in trapped.pages]
    assert len(set(titles)) == len(titles)
    assert max(len(title.encode()) for title in titles) == 255
    shared = {page.title for page in wiki_pages(WORLD).pages}.intersection(titles)
    assert all(title.startswith("Template:Taxonomy/") for title in shared)
    texts = {page.title: page.wikitext for page in trapped.pages}
    for trap in trapped.traps:
        assert bool(trap.title) != bool(trap.reason)
        assert not trap.title or not texts[trap.title].startswith("#REDIRECT")
    assert trap_wiki(seed=3) == trapped != trap_wiki(seed=4)
