"""The page store: what a title leads to, what is still to fetch, and what a kill leaves."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.wiki import Lookup, WikiPage, WikiSite
from fieldmark.build.wiki.store import PageStore, is_title, normal_title
from fieldmark.errors import StoreError
from kit import forked


def page(title: str, text: str = "text") -> WikiPage:
    return WikiPage(title, len(title), 7, "2026-01-02T03:04:05Z", text)


@pytest.fixture
def store(tmp_path: Path):
    with PageStore.open(tmp_path / "deep" / "pages.db") as store:
        yield store


def test_a_page_comes_back_as_it_went_in(store: PageStore) -> None:
    raven = WikiPage("Common raven", 1, 2, "2026-01-02T03:04:05Z", "é" * 9_999, True, "Q25357")
    store.add([raven])
    assert store.lookup("Common raven") == Lookup("Common raven", raven)
    assert list(store.pages()) == [raven]
    assert len(store) == 1


def test_a_title_leads_on_by_spelling_and_redirects(store: PageStore) -> None:
    store.add(
        [page("Common raven")],
        [("Corvus corax", "Northern raven", ""), ("Northern raven", "Common raven", "Taxonomy")],
    )
    lookup = store.lookup("corvus_corax")
    assert lookup is not None
    assert lookup.page == page("Common raven")
    assert lookup.chain == ("Corvus corax", "Northern raven", "Common raven")
    assert lookup.fragment == "Taxonomy"


def test_the_wikis_own_spelling_goes_first(store: PageStore) -> None:
    store.add([page("IPod")], normalised=[("iPod", "IPod")])
    store.add([page("Vorlage:Taxobox")], normalised=[("template:taxobox", "Vorlage:Taxobox")])
    lookup = store.lookup("template:taxobox")
    assert lookup is not None and lookup.page == page("Vorlage:Taxobox")


def test_never_asked_differs_from_missing(store: PageStore) -> None:
    store.add([], missing=["Nonesuch"])
    assert store.lookup("Raven") is None
    assert store.lookup("Nonesuch") == Lookup("Nonesuch", None)
    assert store.lookup("nonesuch") == Lookup("nonesuch", None, ("Nonesuch",))


def test_loops_and_long_chains_lead_nowhere(store: PageStore) -> None:
    steps = [(f"T{i}", f"T{i + 1}", "") for i in range(30)]
    store.add([page("T30")], [("A", "B", ""), ("B", "A", ""), ("C", "C", ""), *steps])
    for title in ("A", "B", "C", "T0"):
        lookup = store.lookup(title)
        assert lookup is not None and lookup.page is None, title
    assert store.unknown(["A", "B", "C", "T0"]) == []
    lookup = store.lookup("T21")
    assert lookup is not None and lookup.page == page("T30")


def test_unknown_titles_come_once_in_order(store: PageStore) -> None:
    store.add([page("Known")], [("Old", "New", "")], ["Missing"])
    asked = ["b", "Known", "a", "B", "Missing", "Old", "a|b", "New", ""]
    assert store.unknown(asked) == ["B", "A", "New"]


def test_illegal_titles_have_no_page_and_are_never_fetched(store: PageStore) -> None:
    assert store.unknown(["a[b]", "x" * 256, "", "a#b", "\ud800"]) == []
    lookup = store.lookup("a[b]")
    assert lookup is not None and lookup.page is None


def test_a_whole_store_knows_what_is_not_there(store: PageStore) -> None:
    assert not store.is_whole
    store.add([page("Raven")], [("Crow", "Corvus", "")])
    store.is_whole = True
    assert store.unknown(["Nonesuch", "Crow"]) == []
    assert store.lookup("nonesuch") == Lookup("nonesuch", None, ("Nonesuch",))
    lookup = store.lookup("Crow")
    assert lookup is not None and lookup.page is None
    with PageStore.open(store.path) as again:
        assert again.is_whole


def test_what_is_added_later_replaces(store: PageStore) -> None:
    store.add([page("A", "old"), page("B")], [("C", "A", "")], ["D"])
    store.add([page("A", "new"), page("C"), page("D")], [("B", "A", "")])
    texts = {title: store.lookup(title) for title in "ABCD"}
    assert [lookup and lookup.page and lookup.page.title for lookup in texts.values()] == list(
        "AACD"
    )
    assert texts["A"] == Lookup("A", page("A", "new"))
    assert len(store) == 3


def test_a_store_holds_one_wiki(store: PageStore) -> None:
    assert store.site is None
    site = WikiSite("Test", "http://127.0.0.1/wiki/", "CC BY-SA 4.0")
    store.set_site(site)
    assert store.site == site
    with pytest.raises(StoreError, match="contains pages of"):
        store.set_site(WikiSite("Other", "http://127.0.0.2/wiki/", ""))


def test_other_files_are_refused_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to have a header " * 9)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    newer = tmp_path / "newer.db"
    PageStore.open(newer).close()
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    for path, words in ((text, "not a database"), (other, "another"), (newer, "newer")):
        with pytest.raises(StoreError, match=words) as caught:
            PageStore.open(path)
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    with pytest.raises(StoreError, match="cannot be"):
        PageStore.open(text / "below.db")
    with pytest.raises(StoreError, match="cannot be"):
        PageStore.open(tmp_path)


SPELLINGS = {
    "corvus corax": "Corvus corax",
    "Corvus_corax": "Corvus corax",
    "  Corvus \t corax\u3000": None,
    "Corvus__ corax_": "Corvus corax",
    ":Corvus": "Corvus",
    "e\u0301cureuil": "\u00c9cureuil",
    "ßtest": "ßtest",
    "template:taxonomy/corvus": "Template:Taxonomy/corvus",
    "TEMPLATE : foo": "Template:Foo",
    "\u200eCorvus": "Corvus",
    "жаба": "Жаба",
    "×Fatshedera": "×Fatshedera",
}


def test_spelling() -> None:
    for text, normal in SPELLINGS.items():
        if normal is not None:
            assert normal_title(text) == normal
    assert not is_title("Corvus \t corax")


@given(st.text())
def test_a_normal_title_is_normal(text: str) -> None:
    assert normal_title(normal_title(text)) == normal_title(text)


def test_titles_have_255_bytes() -> None:
    assert is_title("é" * 127) and not is_title("É" * 128)
    assert is_title("a" * 255) and not is_title("a" * 256)


WRITER = """
import sys
from pathlib import Path
from fieldmark.build.wiki import WikiPage
from fieldmark.build.wiki.store import PageStore
who, n_batches = sys.argv[2], int(sys.argv[3])
with PageStore.open(Path(sys.argv[1])) as store:
    print("open", flush=True)
    for batch in range(n_batches):
        names = [f"{who} {batch} {i}" for i in range(50)]
        text = names[0] * 99
        store.add([WikiPage(name, 1, 1, "", text) for name in names[:40]],
                  [(name, names[0], "") for name in names[40:45]], names[45:])
        print(batch, flush=True)
"""


def start_writer(path: Path, who: str, n_batches: int) -> forked.Popen:
    arguments = [sys.executable, "-c", WRITER, str(path), who, str(n_batches)]
    return forked.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "pages.db"
    writers = [start_writer(path, who, 30) for who in "AB"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with PageStore.open(path) as store:
        assert len(store) == 2 * 30 * 40


@pytest.mark.slow
def test_kill_leaves_whole_batches(tmp_path: Path) -> None:
    """What was reported as added is there; of what was not, all or nothing."""
    path, rng = tmp_path / "pages.db", random.Random(17)
    for turn in range(20):
        writer = start_writer(path, f"W{turn}", 100_000)
        assert writer.stdout is not None and writer.stdout.readline() == "open\n"
        time.sleep(rng.uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        reported = [int(line) for line in writer.communicate()[0].splitlines() if line.strip()]
        with PageStore.open(path) as store:
            kept = [sum(one.title.startswith(f"W{turn} ") for one in store.pages())]
            for batch in range(len(reported)):
                names = [f"W{turn} {batch} {i}" for i in range(50)]
                assert store.unknown(names) == []
            assert kept[0] % 40 == 0
            assert kept[0] // 40 - len(reported) in (0, 1)
