"""The mock wiki and the client against a real MediaWiki."""

from __future__ import annotations

import json
import sqlite3
import urllib.parse
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fieldmark.build.wiki.api import Etiquette, WikiApi
from fieldmark.build.wiki.store import PageStore, is_title, normal_title
from kit.chat import running
from kit.fault_proxy import FaultProxy, LeapClock
from kit.mediawiki import CONTACT, MediaWiki
from kit.mock_wiki import MockWiki, mock_pages, redirect_target
from kit.wiki_traps import trap_wiki

TEXTS = {
    "Common raven": "The '''common raven''' (''Corvus corax'') is [[black]].\n\n== Taxonomy ==\n…",
    "Corvus corax": "#REDIRECT [[Northern raven]]",
    "Northern raven": "#REDIRECT [[Common raven#Taxonomy_and_names]]",
    "Raven (bird)": "#redirect: [[common_raven]] {{R from move}}",
    "Abronia": "* a plant\n* a lizard\n__DISAMBIG__",
    "Adesmia": "* a plant\n* a beetle\n{{disambiguation}}",
    "Loop A": "#REDIRECT [[Loop B]]",
    "Loop B": "#REDIRECT [[Loop A]]",
    "Self": "#REDIRECT [[Self]]",
    "Gone": "#REDIRECT [[Nowhere]]",
    "Abroad": "#REDIRECT [[wikipedia:Raven]]",
    "Жаба": "Жаба — род земноводных.",
    "鴉": "烏鴉",
    "×Fatshedera": "A hybrid genus.",
    "Éider": "Eider & co. <nowiki>&amp;</nowiki>",
    "IPod": "no animal",
    "Template:Taxonomy/Corvus": "{{Don't edit this line}}\n|rank=genus",
    "Empty": "",
    **{f"Species {i}": f"'''Species {i}''' " + "long text " * 40 * (i % 5) for i in range(40)},
}
ITEMS = {"Common raven": "Q25357", "Abronia": "Q340187"}
PAGES = mock_pages({title: text for title, text in TEXTS.items() if text}, ITEMS)
TITLES = [
    *("corvus_corax", "Raven (bird)", "Abronia", "Adesmia", "Loop A", "Self", "Gone", "Abroad"),
    *("жаба", "鴉", "×Fatshedera", "éider", "iPod", "template:taxonomy/Corvus", "Empty"),
    *("No such page", "wikipedia:Raven", "Wikispecies:Corvus", "de:Rabe", "Species 3", "species_3"),
    *("Bad [title]", "a<b", "Corvus  corax", " Common raven ", "Template:No such template"),
]


@pytest.fixture(scope="module")
def wiki(mediawiki: MediaWiki) -> MediaWiki:
    mediawiki.load(PAGES)
    return mediawiki


def ask(endpoint: str, **query: str) -> Any:
    data = urllib.parse.urlencode({"format": "json", "formatversion": "2", **query}).encode()
    with urllib.request.urlopen(endpoint, data, timeout=60) as reply:
        return json.load(reply)


def without_numbers(value: Any) -> Any:
    """An answer without what differs between any two wikis, rows in a fixed order."""
    ignored = ("pageid", "revid", "lastrevid", "touched", "timestamp", "invalidreason", "docref")
    if isinstance(value, dict):
        return {k: without_numbers(v) for k, v in sorted(value.items()) if k not in ignored}
    if isinstance(value, list):
        return sorted(map(without_numbers, value), key=repr)
    return value


QUERY = {
    "action": "query", "redirects": "1", "prop": "info|pageprops|revisions",
    "ppprop": "disambiguation|wikibase_item", "rvprop": "ids|timestamp|content", "rvslots": "main",
    "maxlag": "5",
}  # fmt: skip


def test_the_mock_answers_as_mediawiki_does(wiki: MediaWiki) -> None:
    with running(MockWiki(PAGES)) as mock:
        for titles in ("|".join(TITLES), *TITLES):
            query = QUERY | {"titles": titles}
            real, mocked = ask(wiki.endpoint, **query), ask(mock, **query)
            assert without_numbers(mocked) == without_numbers(real), titles
        many = "|".join(f"T{i}" for i in range(51))
        errors = [ask(url, **QUERY, titles=many)["error"]["code"] for url in (wiki.endpoint, mock)]
        assert errors == ["toomanyvalues"] * 2
        errors = [ask(url, action="x")["error"]["code"] for url in (wiki.endpoint, mock)]
        assert errors == ["badvalue"] * 2
        site = {"action": "query", "meta": "siteinfo", "siprop": "general|rightsinfo"}
        real, mocked = ask(wiki.endpoint, **site)["query"], ask(mock, **site)["query"]
        assert mocked["general"].keys() <= real["general"].keys()
        assert mocked["rightsinfo"].keys() <= real["rightsinfo"].keys()


ASKED = [*TITLES, *(f"Species {i}" for i in range(40))]


def fetched(endpoint: str, path: Path, titles: list[str] = ASKED, **changes: Any) -> dict[str, Any]:
    """What titles lead to, without the numbers of pages, which differ between wikis."""
    etiquette = Etiquette(clock=LeapClock().clock, **changes)
    with PageStore.open(path) as store, WikiApi(endpoint, CONTACT, etiquette) as api:
        api.fetch(titles, store)
        assert store.unknown(titles) == []
        with sqlite3.connect(path) as db:
            signposts = sorted(db.execute("SELECT * FROM signpost"), key=repr)
        db.close()
        pages = [
            (page.title, page.timestamp, page.wikitext, page.is_disambiguation, page.wikidata)
            for page in store.pages()
        ]
    return {"pages": pages, "signposts": signposts}


def test_both_fill_the_same_store(wiki: MediaWiki, tmp_path: Path) -> None:
    with running(MockWiki(PAGES)) as mock:
        mocked = fetched(mock, tmp_path / "mock.db")
    real = fetched(wiki.endpoint, tmp_path / "real.db")
    assert real == mocked
    assert len(real["pages"]) == len(TEXTS) - 9, "nine are redirects or empty"


def test_both_hold_the_worlds_encyclopedia(mediawiki: MediaWiki, tmp_path: Path) -> None:
    """Taxoboxes, hemihomonyms, hybrids, other scripts, titles as long as they may be."""
    world = trap_wiki(0, 1)
    texts = {page.title: page.wikitext for page in world.pages}
    ambiguous = {page.title for page in world.pages if page.is_disambiguation}
    pages = [
        replace(page, is_disambiguation=page.is_disambiguation or page.title in ambiguous)
        for page in mock_pages(texts)
    ]
    names = [name for trap in world.traps for name in (" ".join(trap.ranks[5:]), trap.common_name)]
    titles = [*texts, *names]
    mediawiki.load(pages)
    with running(MockWiki(pages)) as mock:
        mocked = fetched(mock, tmp_path / "mock.db", titles)
    assert fetched(mediawiki.endpoint, tmp_path / "real.db", titles) == mocked
    n_redirects = sum(redirect_target(text) is not None for text in texts.values())
    assert len(mocked["pages"]) == len(texts) - n_redirects


def test_the_site_is_known(wiki: MediaWiki, tmp_path: Path) -> None:
    with WikiApi(wiki.endpoint, CONTACT) as api:
        site = api.site()
    assert site.name == "Test wiki (en)"
    assert site.url == f"{wiki.url}/index.php/"
    assert site.licence == "CC BY-SA 4.0"


def test_answers_that_mediawiki_cuts_are_asked_on(wiki: MediaWiki, tmp_path: Path) -> None:
    whole = fetched(wiki.endpoint, tmp_path / "whole.db")
    proxy = FaultProxy(wiki.endpoint, [], headers={"X-Result-Size": "12000"})
    with running(proxy) as front:
        assert fetched(front, tmp_path / "cut.db") == whole
    assert len(proxy.faults) > 4, "the wiki did cut"


@pytest.mark.slow
def test_faults_in_front_of_it_change_nothing(wiki: MediaWiki, tmp_path: Path) -> None:
    whole = fetched(wiki.endpoint, tmp_path / "whole.db")
    faults = ["429", "503", "", "maxlag", "drip", "gzip", "ratelimited", "reset", "", "cut"]
    proxy = FaultProxy(wiki.endpoint, faults)
    with running(proxy) as front:
        assert fetched(front, tmp_path / "faulty.db", timeout_s=4.0) == whole
    assert proxy.faults[: len(faults)] == faults
    assert proxy.n_passed == 3, "the site and two batches"


SPELLINGS = [
    "corvus corax", "Corvus_corax", "Corvus__ corax_", ":Corvus", "e\u0301cureuil",
    "template:taxonomy/corvus", "TEMPLATE : foo", "\u200eCorvus", "жаба", "×fatshedera", "ǆ",
    "Corvus\u3000corax", "Corvus\xa0corax", "ɐ", "category:birds", "ά", "ა", "Foo:", "a:b",
    "ſ", "ⅰ", "Ⓐ", "𐐨", ": Corvus",
]  # fmt: skip
ILLEGAL = [
    "a[b]", "a{b", "a<b", "a>b", "a%20b", "a&nosuch;b", "~~~~", ".", "./a", "a/../b", "a/..",
    "x" * 256, "é" * 128, "Talk:", ":", "::a", "\ufffd", "a\tb", "Template:", " ",
]  # fmt: skip


def test_titles_are_spelled_as_mediawiki_spells_them(wiki: MediaWiki) -> None:
    ours = {text: (normal_title(text), is_title(text)) for text in SPELLINGS}
    pages = {text: ask(wiki.endpoint, action="query", titles=text)["query"] for text in SPELLINGS}
    assert ours == {text: (query["pages"][0]["title"], True) for text, query in pages.items()}
    pages = {text: ask(wiki.endpoint, action="query", titles=text)["query"] for text in ILLEGAL}
    theirs = {text: "invalid" not in query["pages"][0] for text, query in pages.items()}
    assert {text: is_title(text) for text in ILLEGAL} == theirs
