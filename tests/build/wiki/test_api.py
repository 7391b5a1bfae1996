"""The client of the API against the mock wiki: what it stores, how it asks, what faults do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fieldmark.build.wiki import Lookup, WikiPage, WikiSite
from fieldmark.build.wiki.api import BATCH, Etiquette, WikiApi, user_agent
from fieldmark.build.wiki.store import PageStore
from fieldmark.errors import ModelError, StoreError, UsageError
from kit.chat import running
from kit.fault_proxy import FaultProxy, LeapClock, drawn
from kit.mediawiki import CONTACT
from kit.mock_wiki import MockWiki, mock_pages
from kit.raw_server import OK, Script, raw_server, repeating, sending

TEXTS = {
    "Common raven": "The '''common raven''' is black.",
    "Corvus corax": "#REDIRECT [[Northern raven]]",
    "Northern raven": "#REDIRECT [[Common raven#Taxonomy]]",
    "Abronia": "* a plant\n* a lizard\n{{disambiguation}}",
    "Loop A": "#REDIRECT [[Loop B]]",
    "Loop B": "#redirect [[Loop A]]",
    "Self": "#REDIRECT [[Self]]",
    "Gone": "#REDIRECT [[Nowhere]]",
    "Abroad": "#REDIRECT [[wikipedia:Raven]]",
    "Жаба": "Жаба",
    "Template:Taxonomy/Corvus": "{{Don't edit this line}}|rank=genus",
    **{f"Species {i}": f"'''Species {i}''' " + "x" * (i % 17) * 100 for i in range(170)},
}
ITEMS = {"Common raven": "Q25357"}
ASKED = [
    *("corvus_corax", "Abronia", "Loop A", "Self", "Gone", "Abroad", "жаба", "No such page"),
    *("template:taxonomy/Corvus", "wikipedia:Raven", "a[b]", "x" * 300, "de:Rabe"),
    *(f"Species {i}" for i in range(170)),
]
N_REQUESTS = 1 + -(-(len(ASKED) - 2) // BATCH)
"""one about the site; two of the titles are illegal"""


@pytest.fixture
def wiki() -> MockWiki:
    return MockWiki(mock_pages(TEXTS, ITEMS))


@pytest.fixture
def store(tmp_path: Path):
    with PageStore.open(tmp_path / "pages.db") as store:
        yield store


def content(store: PageStore) -> dict[str, list[Any]]:
    """Every row of the file."""
    with sqlite3.connect(store.path) as db:
        tables = ("page", "signpost", "fact")
        rows = {name: sorted(db.execute(f"SELECT * FROM {name}"), key=repr) for name in tables}
    db.close()
    return rows


def fetched(url: str, path: Path, etiquette: Etiquette, titles: list[str] = ASKED) -> Any:
    with PageStore.open(path) as store, WikiApi(url, CONTACT, etiquette) as api:
        api.fetch(titles, store)
        assert store.unknown(titles) == []
        return content(store)


def hurried(**changes: Any) -> Etiquette:
    return Etiquette(clock=LeapClock().clock, **changes)


def test_titles_become_pages(wiki: MockWiki, store: PageStore) -> None:
    with running(wiki) as url, WikiApi(url, CONTACT, hurried()) as api:
        api.fetch(ASKED, store)
        assert api.n_requests == wiki.counts.n_requests == N_REQUESTS
        api.fetch(ASKED, store)
        assert api.n_requests == N_REQUESTS, "nothing is asked twice"
    assert store.unknown(ASKED) == []
    raven = WikiPage(
        "Common raven", 1, 1, "2026-01-02T03:04:05Z", TEXTS["Common raven"], False, "Q25357"
    )
    chain = ("Corvus corax", "Northern raven", "Common raven")
    assert store.lookup("corvus_corax") == Lookup("corvus_corax", raven, chain, "Taxonomy")
    abronia = store.lookup("Abronia")
    assert abronia is not None and abronia.page is not None and abronia.page.is_disambiguation
    for title in ("Loop A", "Self", "Gone", "Abroad", "No such page", "wikipedia:Raven", "a[b]"):
        lookup = store.lookup(title)
        assert lookup is not None and lookup.page is None, title
    for i in range(170):
        lookup = store.lookup(f"Species {i}")
        assert lookup is not None and lookup.page is not None
        assert lookup.page.wikitext == TEXTS[f"Species {i}"]
    assert store.site == WikiSite("Mock wiki (en)", "http://127.0.0.1/index.php/", "CC BY-SA 4.0")


def test_requests_are_as_etiquette_says(wiki: MockWiki, store: PageStore) -> None:
    with running(wiki) as url, WikiApi(url, CONTACT, hurried()) as api:
        api.fetch(ASKED, store)
    assert max(map(len, wiki.titles)) == BATCH
    assert wiki.counts.max_in_flight == 1
    for headers in wiki.headers:
        assert headers["User-Agent"].startswith("fieldmark/")
        assert f"({CONTACT}) aiohttp/" in headers["User-Agent"]
        assert "gzip" in headers["Accept-Encoding"]
        assert headers["Promise-Non-Write-API-Action"] == "true", "long titles need a POST"


def test_no_more_requests_a_minute_than_allowed(wiki: MockWiki, store: PageStore) -> None:
    time, titles = LeapClock(), [f"Species {i}" for i in range(170)]
    proxy_of = lambda url: FaultProxy(url, [], clock=time.clock)  # noqa: E731
    with running(wiki) as url, running(proxy := proxy_of(url)) as front:
        etiquette = Etiquette(per_minute=2, clock=time.clock)
        with WikiApi(front, CONTACT, etiquette) as api:
            api.fetch(titles, store)
    assert len(proxy.arrivals) == 5
    for first, third in zip(proxy.arrivals, proxy.arrivals[2:], strict=False):
        assert third - first >= 60 - 1e-6


def test_several_at_a_time_fill_the_same_store(wiki: MockWiki, tmp_path: Path) -> None:
    with running(wiki) as url:
        one = fetched(url, tmp_path / "one.db", hurried())
        wiki.latency_s = 0.05
        assert fetched(url, tmp_path / "four.db", hurried(concurrency=4)) == one
    assert 2 <= wiki.counts.max_in_flight <= 4


def test_answers_that_are_cut_are_asked_on(wiki: MockWiki, tmp_path: Path) -> None:
    with running(wiki) as url:
        whole = fetched(url, tmp_path / "whole.db", hurried())
        wiki.most_bytes, before = 5_000, wiki.counts.n_requests
        assert fetched(url, tmp_path / "cut.db", hurried()) == whole
    assert wiki.counts.n_requests - before > 2 * N_REQUESTS


def test_page_properties_may_come_after_the_text(store: PageStore) -> None:
    """Then a page is not stored before they came."""

    class LateProperties(MockWiki):
        def answer(self, query: Any) -> dict[str, Any]:
            answer = super().answer(query)
            if "titles" not in query:
                return answer
            is_first = "ppcontinue" not in query
            for page in answer["query"]["pages"]:
                page.pop("pageprops" if is_first else "revisions", None)
            if is_first:
                del answer["batchcomplete"]
                answer["continue"] = {"ppcontinue": "1", "continue": "||info|revisions"}
            return answer

    wiki = LateProperties(mock_pages(TEXTS, ITEMS))
    with running(wiki) as url, WikiApi(url, CONTACT, hurried()) as api:
        api.fetch(["Abronia", "Common raven"], store)
    abronia, raven = store.lookup("Abronia"), store.lookup("Common raven")
    assert abronia is not None and abronia.page is not None and abronia.page.is_disambiguation
    assert raven is not None and raven.page is not None and raven.page.wikidata == "Q25357"


def test_hidden_text_is_no_text(store: PageStore) -> None:
    class Hidden(MockWiki):
        def answer(self, query: Any) -> dict[str, Any]:
            answer = super().answer(query)
            for page in answer["query"].get("pages", ()):
                page["revisions"] = [{"revid": 1, "slots": {"main": {"texthidden": True}}}]
            return answer

    with running(Hidden(mock_pages(TEXTS))) as url, WikiApi(url, CONTACT, hurried()) as api:
        api.fetch(["Common raven"], store)
    lookup = store.lookup("Common raven")
    assert lookup is not None and lookup.page is not None and lookup.page.wikitext == ""


def test_a_wiki_that_takes_fewer_titles_is_asked_one_by_one(store: PageStore) -> None:
    class Stingy(MockWiki):
        def answer(self, query: Any) -> dict[str, Any]:
            some = "|".join(query.get("titles", "").split("|")[:5])
            answer = super().answer({**query, "titles": some} if "titles" in query else query)
            return answer | {"warnings": {"query": {"warnings": "Too many values"}}}

    titles = [f"Species {i}" for i in range(8)]
    with running(Stingy(mock_pages(TEXTS))) as url, WikiApi(url, CONTACT, hurried()) as api:
        api.fetch(titles, store)
    assert len(store) == 8


RUBBISH: list[Any] = [
    [], "text", None, 7, {}, {"query": None}, {"query": []}, {"query": {"pages": 3}},
    {"query": {"pages": {"1": {"title": "A"}}}},  # format version 1
    {"query": {"pages": [{"title": "A", "revisions": [{"revid": "x"}]}]}},
    {"query": {"pages": [{"pageid": 1, "title": "A", "revisions": [{}]}]}},
    {"query": {"pages": [{}]}}, {"query": {"redirects": [{"from": "A"}]}}, {"error": "no"},
    {"error": None}, {"query": {"pages": []}, "continue": {"rvcontinue": "1"}},
    {"query": {"pages": []}, "continue": "on"}, {"query": {"pages": []}}, {"query": {}},
    {"query": {"pages": [{"pageid": 1, "title": "A"}]}},
]  # fmt: skip


@pytest.mark.parametrize("body", RUBBISH, ids=str)
def test_rubbish_is_told_in_one_line(store: PageStore, body: Any) -> None:
    class Rubbish(MockWiki):
        def answer(self, query: Any) -> Any:
            return body if "titles" in query else super().answer(query)

    with running(Rubbish([])) as url, WikiApi(url, CONTACT, hurried()) as api:
        with pytest.raises(ModelError) as caught:
            api.fetch(["A", "B"], store)
        assert "\n" not in str(caught.value)
        assert store.lookup("A") is None


# --- faults ---

PASSING = ("429", "429 date", "429 bare", "503", "maxlag", "ratelimited", "gzip", "cut", "reset")


@pytest.mark.parametrize("fault", [*PASSING, "drip"])
def test_a_fault_changes_nothing_in_the_store(wiki: MockWiki, tmp_path: Path, fault: str) -> None:
    time = LeapClock()
    timeout_s = 0.4 if fault == "drip" else 60.0
    with running(wiki) as url:
        proxy = FaultProxy(url, ["", fault, "", fault, fault], clock=time.clock)
        plain = fetched(url, tmp_path / "plain.db", hurried())
        with running(proxy) as front:
            etiquette = Etiquette(clock=time.clock, timeout_s=timeout_s)
            assert fetched(front, tmp_path / "faulty.db", etiquette) == plain
    assert len(proxy.faults) == N_REQUESTS + 3, "every fault costs one request"
    waits = [
        later - earlier for earlier, later in zip(proxy.arrivals, proxy.arrivals[1:], strict=False)
    ]
    if fault in ("429", "429 date", "maxlag"):
        # a date has whole seconds, and one more may have begun
        least = proxy.retry_after_s - (2 if fault == "429 date" else 0)
        assert min(waits[1], waits[3], waits[4]) >= least
    assert min(waits[1], waits[3], waits[4]) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "text"),
    [
        (repeating(OK + b"\r\n", b" " * 65536), "a reply of more than 64 MB"),
        (sending(OK + b"\r\n", b"[" * 200_000), "nested too deep"),
        (repeating(OK, b"X-A: b\r\n", 0.05), "no answer within 0.5 s"),
    ],
    ids=["endless", "deep", "dripped header"],
)
def test_defect_third_look_n4_a_reply_has_limits(
    store: PageStore, script: Script, text: str
) -> None:
    etiquette = hurried(max_attempts=1, timeout_s=60 if "reply" in text else 0.5)
    with raw_server(script) as url, pytest.raises(ModelError, match=text):
        fetched(url, store.path, etiquette)


@pytest.mark.slow
def test_a_pause_is_for_all(wiki: MockWiki, store: PageStore) -> None:
    """Also for requests that waited for their turn when it came. By the real clock."""
    with running(wiki) as url:
        proxy = FaultProxy(url, ["", "429"], retry_after_s=2)
        with running(proxy) as front:
            etiquette = Etiquette(concurrency=4, per_minute=120)
            with WikiApi(front, CONTACT, etiquette) as api:
                api.fetch([f"Species {i}" for i in range(170)], store)
    assert len(proxy.arrivals) == 1 + 4 + 1
    assert proxy.arrivals[2] - proxy.arrivals[1] >= 2
    gaps = [b - a for a, b in zip(proxy.arrivals[2:], proxy.arrivals[3:], strict=False)]
    assert min(gaps) > 0.3, "no burst after the pause"


@pytest.mark.parametrize("seed", range(3))
def test_faults_by_chance(wiki: MockWiki, tmp_path: Path, seed: int) -> None:
    shares = dict.fromkeys(PASSING, 0.06)
    with running(wiki) as url, running(proxy := FaultProxy(url, drawn(shares, seed))) as front:
        plain = fetched(url, tmp_path / "plain.db", hurried())
        assert fetched(front, tmp_path / "faulty.db", hurried(concurrency=2)) == plain
    assert proxy.n_passed <= N_REQUESTS + sum(map(proxy.faults.count, ("gzip", "cut", "reset")))


def fault_text(wiki: MockWiki, store: PageStore, *faults: str, **changes: Any) -> str:
    with running(wiki) as url, running(FaultProxy(url, faults)) as front:
        with (
            pytest.raises(ModelError) as caught,
            WikiApi(front, CONTACT, hurried(**changes)) as api,
        ):
            api.fetch(ASKED, store)
        assert "\n" not in str(caught.value)
        return str(caught.value).replace(front, "WIKI").replace(str(store.path), "STORE")


def test_a_block_says_why(wiki: MockWiki, store: PageStore) -> None:
    assert fault_text(wiki, store, "403") == "wiki WIKI: 403 Please set a user agent."
    text = fault_text(wiki, store, "", "", "blocked")
    assert text == (
        "wiki WIKI: blocked: You have been blocked from using the API. "
        "STORE has 43 pages. Run the same command to continue."
    )


def test_asking_stops_where_it_is_useless(wiki: MockWiki, store: PageStore) -> None:
    assert fault_text(wiki, store, "page").startswith("wiki WIKI: a web page, not JSON (Welcome to")
    assert fault_text(wiki, store, "404").startswith("wiki WIKI: 404 Not Found")
    text = fault_text(wiki, store, *["503"] * 3)
    assert text == "wiki WIKI: 503 upstream is down (3 attempts)."
    text = fault_text(wiki, store, "", *["reset"] * 10)
    assert text.endswith("(10 attempts).")
    text = fault_text(wiki, store, *["maxlag"] * 99, patience_s=60)
    assert "maxlag: Waiting for db1: 7.2 seconds lagged" in text and "minute" in text


def test_nobody_there(store: PageStore) -> None:
    with (
        pytest.raises(ModelError, match="nothing listens on 127.0.0.1:9 .3 attempts"),
        WikiApi("http://127.0.0.1:9/api.php", CONTACT, hurried()) as api,
    ):
        api.fetch(["Raven"], store)


def test_another_wiki_needs_another_store(wiki: MockWiki, store: PageStore) -> None:
    store.set_site(WikiSite("Other", "https://other.org/wiki/", ""))
    with (
        running(wiki) as url,
        WikiApi(url, CONTACT, hurried()) as api,
        pytest.raises(StoreError, match="contains pages of https://other.org/wiki/"),
    ):
        api.fetch(["Common raven"], store)


@pytest.mark.parametrize(
    "contact",
    ["", " ", "me", "me@example.com", "https://example.org/bot", "a@b", "you@museum.org",
     "http://localhost/", "a@wiki.invalid", "a(b)@c.org"],
)  # fmt: skip
def test_a_contact_that_reaches_nobody_is_refused(contact: str) -> None:
    with pytest.raises(UsageError, match="contact") as caught:
        WikiApi("https://en.wikipedia.org/w/api.php", contact)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "contact",
    ["ada@museum.org", "https://museum.org/~ada", "a.b@c.co.uk", "me@my.org", "youssef@museum.org"],
)
def test_contacts(contact: str) -> None:
    assert f"({contact})" in user_agent(contact)


def test_options_are_checked() -> None:
    for changes in (
        {"concurrency": 5},
        {"concurrency": 0},
        {"per_minute": 0},
        {"per_minute": float("inf")},
    ):
        with pytest.raises(UsageError):
            Etiquette(**changes)
    for endpoint in ("en.wikipedia.org", "ftp://a/api.php", ""):
        with pytest.raises(UsageError, match="is not the address"):
            WikiApi(endpoint, CONTACT)
