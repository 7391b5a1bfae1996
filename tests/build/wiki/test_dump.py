"""Dumps: what is kept of which page, the same in every packing, after kills, and never half."""

from __future__ import annotations

import bz2
import os
import random
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.wiki import WikiPage, WikiSite
from fieldmark.build.wiki.api import Etiquette, WikiApi
from fieldmark.build.wiki.dump import read_dump
from fieldmark.build.wiki.dump_index import DumpIndex, index_path, open_dump
from fieldmark.build.wiki.export import read_pages
from fieldmark.build.wiki.store import PageStore
from fieldmark.errors import DataError
from fieldmark.progress import Silent
from kit.mediawiki import CONTACT, MediaWiki
from kit.mock_wiki import mock_pages
from kit.wiki_dump import DumpPage, DumpRevision, head, page, page_xml, redirect, write_dump

BOX = "{{Speciesbox | taxon = Corvus corax}}\nThe '''common raven''' is black."
PACKINGS = ("wiki.xml", "wiki.xml.gz", "wiki.xml.bz2", "wiki-multistream.xml.bz2")


def little_wiki() -> list[DumpPage]:
    """Every kind of page, with what is hard about it."""
    hard = "a < b & c > d \"e\" 'f' &amp;nbsp; &lt;ref&gt;<page>no</page></text> \t\r\n é 鳥 🐦\n"
    old, new = DumpRevision("{{taxobox}} old", 5, "2020-01-01T00:00:00Z"), DumpRevision(BOX, 9)
    return [
        page("Common raven", BOX + hard, 1),
        page("Paris", "{{Infobox settlement}} A town. <!-- {{ no taxobox }} -->", 2),
        redirect("Corvus corax", "Common raven", 3),
        redirect("Corvus corax sinuatus", "Common raven", 4, "Sub_species"),
        page("Raven (disambiguation)", "'''Raven''' may be:\n* a bird\n{{Disambiguation}}", 5),
        page("Merkur", "__DISAMBIG__", 6),
        page("Template:Taxonomy/Corvus", "{{Don't edit}}\n|rank=genus|parent=Corvinae", 7, 10),
        page("Template:Speciesbox", "{{Taxobox}}", 8, 10),
        page("Talk:Common raven", BOX, 9, 1),
        page("Category:Corvus", BOX, 10, 14),
        page('Q & A "quoted"', "{{ automatic_Taxobox\n|taxon=Corvus}}", 11),
        DumpPage("History", 12, [new, old]),
        DumpPage("Gone", 13, [old, DumpRevision(None, 6, "2021-01-01T00:00:00Z")]),
        page("Empty", "", 14),
        DumpPage("Two slots", 15, [DumpRevision(BOX, 3, slots={"aux": "{{taxobox}} other"})]),
        redirect("Loop", "Loop", 16),
        redirect("Q&A", 'Q & A "quoted"', 17),
        redirect("To nowhere", "Nowhere", 18),
        redirect("Far", "Corvus corax", 19),
        page("Beetles", "{{Animal common name}}", 20),
        DumpPage("Said in a comment", 21, [DumpRevision("A town.", 4, comment="{{taxobox}}")]),
    ]


def filled(path: Path, name: str = "pages.db") -> PageStore:
    store = PageStore.open(path.with_name(name))
    read_dump(path, store)
    return store


def content(store: PageStore, pages: list[DumpPage]) -> list[object]:
    titles = [item.title for item in pages] + ["Nowhere", "common raven", "Not in the dump"]
    return [*store.pages(), *map(store.lookup, titles)]


def test_what_is_kept(tmp_path: Path) -> None:
    store = filled(write_dump(tmp_path / "wiki.xml.bz2", little_wiki()))
    assert store.is_whole
    assert store.site == WikiSite(
        "Wikipedia (en)", "https://en.wikipedia.org/wiki/", "CC BY-SA 4.0"
    )
    kept = {item.title: item for item in store.pages()}
    assert set(kept) == {
        "Common raven", "Raven (disambiguation)", "Merkur", "Template:Taxonomy/Corvus",
        'Q & A "quoted"', "History", "Two slots", "Beetles",
    }  # fmt: skip
    assert {title for title, item in kept.items() if item.is_disambiguation} == {
        "Raven (disambiguation)",
        "Merkur",
    }
    assert kept["History"] == WikiPage("History", 12, 9, "2026-01-02T03:04:05Z", BOX)
    assert kept["Two slots"].wikitext == BOX
    subspecies = store.lookup("Corvus corax sinuatus")
    assert subspecies is not None and subspecies.page == kept["Common raven"]
    assert subspecies.fragment == "Sub species"
    for title in ("Paris", "Loop", "To nowhere", "Gone", "Talk:Common raven"):
        answer = store.lookup(title)
        assert answer is not None and answer.page is None, title


@pytest.mark.parametrize("name", PACKINGS)
def test_every_packing_gives_the_same(tmp_path: Path, name: str) -> None:
    pages = little_wiki()
    plain = filled(write_dump(tmp_path / "plain.xml", pages), "plain.db")
    packed = filled(write_dump(tmp_path / name, pages, per_stream=3))
    assert content(packed, pages) == content(plain, pages)


def test_streams_cut_inside_a_page(tmp_path: Path) -> None:
    """As parallel packers write them."""
    pages = little_wiki()
    plain = write_dump(tmp_path / "plain.xml", pages)
    data, packed = plain.read_bytes(), tmp_path / "wiki.xml.bz2"
    cuts = range(0, len(data), 1000)
    packed.write_bytes(b"".join(bz2.compress(data[cut : cut + 1000]) for cut in cuts))
    assert content(filled(packed, "b.db"), pages) == content(filled(plain, "a.db"), pages)


def oracle(data: bytes) -> list[tuple[str, int, int, str]]:
    """Pages by a parser of the whole document."""
    space = "{http://www.mediawiki.org/xml/export-0.11/}"
    rows = []
    for item in ElementTree.fromstring(data).iter(space + "page"):
        revision = item.findall(space + "revision")[-1]
        number = int(revision.findtext(space + "id") or 0)
        text = revision.findtext(space + "text") or ""
        title = item.findtext(space + "title") or ""
        rows.append((title, int(item.findtext(space + "id") or 0), number, text))
    return rows


xml_text = st.text(
    st.one_of(
        st.characters(
            codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"
        ),
        st.sampled_from("<>&\"'\n\t{}[]|#=_-! "),
    ),
    max_size=80,
)


@given(st.lists(xml_text, max_size=6), st.integers(0, 2**32))
def test_texts_are_those_of_an_xml_parser(texts: list[str], seed: int) -> None:
    traps = [
        "",
        "</page>",
        "<page>",
        "]]>",
        "<!-- {{x}} -->",
        "&lt;/page&gt;",
        "\n\n",
        "{{taxobox}}",
    ]
    rng = random.Random(seed)
    pages = [
        page(f"Page {number} <&>", "{{Taxobox|" + text + rng.choice(traps) + "}}", number)
        for number, text in enumerate(texts)
    ]
    body = b"".join(map(page_xml, pages))
    kept = read_pages(body)
    rows = [(item.title, item.page_id, item.revision_id, item.wikitext) for item in kept.pages]
    assert rows == oracle(head() + body + b"</mediawiki>")
    assert kept.n_read == len(pages)


@pytest.mark.parametrize(
    "call",
    [
        "{{Taxobox", "{{taxobox|", "{{ Taxobox ", "{{Automatic_taxobox", "{{\nSubspeciesbox",
        "{{speciesbox<!-- x -->", "{{Template:Taxobox", "{{Hybridbox\n", "{{Ichnobox",
        "{{\u00a0Taxobox\u00a0|",
    ],
)  # fmt: skip
def test_taxobox_in_any_spelling(call: str) -> None:
    kept = read_pages(page_xml(page("A", "Hatnote.\n" + call + "}}\nText", 1)))
    assert [item.title for item in kept.pages] == ["A"]


@pytest.mark.parametrize(
    "text", ["{{Taxobox color}}", "Taxobox", "{{Infobox}}", "{{about|taxobox}}"]
)
def test_no_taxobox(text: str) -> None:
    assert read_pages(page_xml(page("A", text, 1))).pages == []


pieces = st.sampled_from(
    [
        *("{{", "}}", "|", "\n", " ", "_", "\u00a0", "<!-- -->", "Template:", "template", ":", "x"),
        *(
            "Taxobox",
            "taxobox",
            "Automatic taxobox",
            "speciesBox",
            "Disambiguation",
            "__DISAMBIG__",
        ),
        *("SIA", "dab", "Hndis", "letter–number combination disambiguation", "Human_name"),
    ]
)


@given(st.lists(st.lists(pieces, max_size=8).map("".join), min_size=1, max_size=30))
def test_bytes_rule_out_no_page_that_is_kept(texts: list[str]) -> None:
    pages = [page(f"Page {number}", text, number) for number, text in enumerate(texts)]
    data = b"".join(map(page_xml, pages))
    assert read_pages(data) == read_pages(data, titles={item.title for item in pages})


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("#REDIRECT [[Raven]]", ""),
        ("#redirect[[Raven#Taxonomy_and names]]", "Taxonomy and names"),
        ("\n #Redirect: [[:raven#Caf%C3%A9|see there]] [[Other#No]]", "Café"),
        ("#WEITERLEITUNG [[Raven#A &amp; B]]", "A & B"),
        ("", ""),
    ],
)
def test_fragment_of_a_redirect(text: str, fragment: str) -> None:
    item = DumpPage("Old", 1, [DumpRevision(text, 2)], redirect="Raven")
    assert read_pages(page_xml(item)).redirects == [("Old", "Raven", fragment)]


# --- through the index ---


def many_pages(n: int) -> list[DumpPage]:
    kinds = [
        lambda i: redirect(f"Old name {i}", f"Species {(i * 7) % n // 2 * 2}", i),
        lambda i: page(f"Species {i}", f"{BOX} {i}", i),
        lambda i: page(f"Town {i}", "A town.", i),
    ]
    return [kinds[(i % 2) + (i % 6 == 5)](i) for i in range(n)]


def test_the_index_reads_few_streams(tmp_path: Path) -> None:
    pages = many_pages(600) + little_wiki()
    path = write_dump(tmp_path / "wiki-multistream.xml.bz2", pages, per_stream=10)
    whole = filled(path)
    index = index_path(path)
    assert index is not None
    source = DumpIndex(path, index)
    some = PageStore.open(tmp_path / "some.db")
    titles = [item.title for item in pages[::50]] + ["Q&A", "Far", "Loop", "corvus_corax", "None"]
    source.fetch(titles, some)
    assert not some.is_whole and some.unknown(titles) == []
    assert [some.lookup(title) for title in titles] == [whole.lookup(title) for title in titles]
    assert source.n_streams == -(-len(pages) // 10)
    assert source.n_read <= 2 * len(titles) < source.n_streams


def test_few_names_go_through_the_index(tmp_path: Path) -> None:
    pages = many_pages(200)
    path = write_dump(tmp_path / "wiki-multistream.xml.bz2", pages, per_stream=2)
    with PageStore.open(tmp_path / "few") as store:
        source = open_dump(path, store, 5, 1, Silent())
        assert source is not None and not store.is_whole
        source.fetch(["Old name 0"], store)
        few = store.lookup("Old name 0")
    for name in ("many", "few"):
        with PageStore.open(tmp_path / name) as store:
            assert open_dump(path, store, 6, 1, Silent()) is None and store.is_whole
            assert store.lookup("Old name 0") == few
    with PageStore.open(tmp_path / "few") as store:
        assert open_dump(path, store, 1, 1, Silent()) is None and store.is_whole


def test_all_titles_by_either_way(tmp_path: Path) -> None:
    pages = many_pages(300) + little_wiki()
    path = write_dump(tmp_path / "wiki-multistream.xml.bz2", pages, per_stream=7)
    whole, asked = filled(path), PageStore.open(tmp_path / "asked.db")
    titles = [item.title for item in pages] + ["Missing"]
    DumpIndex(path, index_path(path) or path).fetch(titles, asked)
    kept = [item.title for item in pages if item.namespace in (0, 10)]
    assert [asked.lookup(title) for title in kept] == [whole.lookup(title) for title in kept]
    read_dump(path, asked)
    assert list(asked.pages()) == list(whole.pages())


@pytest.mark.parametrize(
    ("dump", "index"),
    [
        ("en-multistream.xml.bz2", "en-multistream-index.txt.bz2"),
        ("en-multistream.xml.bz2", "en-multistream-index.txt"),
        ("en-20261101.xml.bz2", "en-20261101-index.txt.bz2"),
        ("en-multistream12.xml-p1p41242.bz2", "en-multistream-index12.txt-p1p41242.bz2"),
    ],
)
def test_the_index_lies_beside(tmp_path: Path, dump: str, index: str) -> None:
    assert index_path(tmp_path / dump) is None
    (tmp_path / index).touch()
    assert index_path(tmp_path / dump) == tmp_path / index


def test_index_of_another_dump(tmp_path: Path) -> None:
    path = write_dump(tmp_path / "a-multistream.xml.bz2", many_pages(50), per_stream=5)
    index = tmp_path / "b.txt"
    index.write_text("700:1:Species 1\n")
    with pytest.raises(DataError, match=r"a-multistream.xml.bz2  is damaged .* stream at byte 700"):
        DumpIndex(path, index).fetch(["Species 1"], PageStore.open(tmp_path / "b.db"))
    index.write_text("700:1:Species 1\nno index\n")
    with pytest.raises(DataError, match=r"b\.txt:2  expected offset:page id:title"):
        DumpIndex(path, index).fetch(["Species 1"], PageStore.open(tmp_path / "c.db"))


def test_index_cut_short(tmp_path: Path) -> None:
    """Titles of the lines that are gone would count as missing."""
    path = write_dump(tmp_path / "wiki-multistream.xml.bz2", many_pages(50), per_stream=5)
    index = index_path(path)
    assert index is not None
    lines = bz2.decompress(index.read_bytes()).splitlines(keepends=True)
    store = PageStore.open(tmp_path / "b.db")
    index.write_bytes(bz2.compress(b"".join(lines[:30])))
    with pytest.raises(DataError, match=r"-index.txt.bz2  ends before"):
        DumpIndex(path, index).fetch(["Species 1"], store)
    halves = [bz2.compress(b"".join(part)) for part in (lines[:30], lines[30:])]
    index.write_bytes(halves[0] + halves[1][:-20] + bytes(20))
    with pytest.raises(DataError, match=rf"damaged .* stream at byte {len(halves[0])}"):
        DumpIndex(path, index).fetch(["Species 1"], store)
    index.write_bytes(b"".join(halves))
    DumpIndex(path, index).fetch(["Species 1"], store)


# --- faults of files ---


def is_refused(path: Path, match: str, processes: int = 1) -> None:
    store = PageStore.open(path.with_name(f"{path.name}.db"))
    with pytest.raises(DataError, match=match):
        read_dump(path, store, processes=processes)
    assert not store.is_whole
    store.close()


@pytest.mark.parametrize("name", PACKINGS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_cut_short(tmp_path: Path, name: str, share: float) -> None:
    path = write_dump(tmp_path / name, many_pages(400), per_stream=20)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    is_refused(path, r"wiki.*cut short.*download it again")


def test_cut_between_two_streams(tmp_path: Path) -> None:
    path = write_dump(tmp_path / "wiki-multistream.xml.bz2", many_pages(40), per_stream=20)
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"BZh9")])
    is_refused(path, r"ends without </mediawiki> at byte \d+")


@pytest.mark.parametrize("name", PACKINGS[1:])
def test_damaged(tmp_path: Path, name: str) -> None:
    path = write_dump(tmp_path / name, many_pages(400), per_stream=20)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    is_refused(path, "damaged|cannot be read")


def test_damaged_behind_sound_streams(tmp_path: Path) -> None:
    """What bz2.open takes for the end of the file."""
    path = write_dump(tmp_path / "wiki-multistream.xml.bz2", many_pages(400), per_stream=20)
    data = path.read_bytes()
    last_pages = data.rindex(b"BZh9", 0, data.rindex(b"BZh9"))
    path.write_bytes(data[: last_pages + 4] + bytes(10) + data[last_pages + 14 :])
    with bz2.open(path) as file:
        assert file.read().endswith(b"</page>\n")
    is_refused(path, f"damaged in the bzip2 stream at byte {last_pages}")
    is_refused(path, f"damaged in the bzip2 stream at byte {last_pages}", processes=2)


@pytest.mark.parametrize(
    ("before", "after", "match"),
    [
        (b"  </page>", b"  </pag3>", r"has a page without an end, at byte \d+"),
        (b"  <page>", b"  <pag3>", r"something between two pages, at byte \d+"),
        (b"<ns>0</ns>", b"<n>0</n>", "schema older than 0.6"),
        (b"{{Speciesbox", b"&box;{{Speciesbox", r"undefined entity.*, at byte \d+\."),
        (b"<mediawiki", b"<html", "not an XML export of a MediaWiki"),
        (b"<text bytes", b'<text id="7" bytes', "stub dump"),
    ],
)
def test_not_an_export(tmp_path: Path, before: bytes, after: bytes, match: str) -> None:
    path = write_dump(tmp_path / "wiki.xml", many_pages(4))
    data = path.read_bytes()
    place = data.index(before, data.index(before) + 1) if b"page>" in before else data.index(before)
    path.write_bytes(data[:place] + after + data[place + len(before) :])
    is_refused(path, match)


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "wiki.7z"
    path.write_bytes(b"7z\xbc\xaf\x27\x1c")
    is_refused(path, "wiki.7z  is not a dump in XML")
    is_refused(tmp_path / "none.xml", "none.xml  cannot be read")


# --- again, and after kills ---


def test_a_whole_store_is_not_read_again(tmp_path: Path) -> None:
    path = write_dump(tmp_path / "wiki.xml", little_wiki())
    store = filled(path)
    assert read_dump(path, store).n_pages == 0


def test_a_changed_dump_is_noticed(tmp_path: Path) -> None:
    path = write_dump(tmp_path / "wiki.xml", little_wiki())
    store = filled(path)
    time_ns = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes().replace(b"black", b"white"))
    os.utime(path, ns=(time_ns, time_ns))
    with pytest.raises(DataError, match=r"pages.db  contains pages of another dump"):
        read_dump(path, store)
    with pytest.raises(DataError, match=r"contains pages of another dump"):
        DumpIndex(path, path).fetch(["A"], store)


def test_a_store_of_other_pages_is_refused(tmp_path: Path) -> None:
    path = write_dump(tmp_path / "wiki.xml", little_wiki())
    store = PageStore.open(tmp_path / "pages.db")
    store.add([WikiPage("A", 1, 2, "2026-01-02T03:04:05Z", "from elsewhere")])
    with pytest.raises(DataError, match=r"contains pages that are not from"):
        read_dump(path, store)


READER = """
import os, signal, sys
from pathlib import Path
from fieldmark.build.wiki.api import Etiquette, WikiApi
from fieldmark.build.wiki.dump import read_dump
from fieldmark.build.wiki.store import PageStore
from fieldmark.progress import Silent

class Killed(Silent):
    left = int(sys.argv[3])
    def status(self, text):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

store = PageStore.open(Path(sys.argv[2]))
print(read_dump(Path(sys.argv[1]), store, Killed()).n_pages)
"""


def read_killed(path: Path, store_path: Path, n_steps: int) -> subprocess.CompletedProcess[str]:
    """Reads on in a process that is killed after so many steps, if it is not done before."""
    command = [sys.executable, "-c", READER, path, store_path, str(n_steps)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    with PageStore.open(store_path) as store:
        assert store.is_whole == (run.returncode == 0)
    return run


def is_as_unkilled(path: Path, store_path: Path, pages: list[DumpPage]) -> bool:
    with PageStore.open(store_path) as store, filled(path) as whole:
        titles = [item.title for item in pages[::7]]
        lookups = [list(map(pages.lookup, titles)) for pages in (store, whole)]
        return list(store.pages()) == list(whole.pages()) and lookups[0] == lookups[1]


def pages_of_three_commits() -> list[DumpPage]:
    pages = [redirect(f"Old {i}", f"Species {i % 1000}", i) for i in range(12_000)]
    return pages + many_pages(2000)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_steps"), [("wiki.xml", 3), ("wiki-multistream.xml.bz2", 14)])
def test_killed_runs_go_on(tmp_path: Path, name: str, n_steps: int) -> None:
    pages = pages_of_three_commits()
    path, store_path = write_dump(tmp_path / name, pages, per_stream=500), tmp_path / "killed.db"
    n_killed = 0
    while (run := read_killed(path, store_path, n_steps)).returncode and n_killed < 20:
        n_killed += 1
    assert n_killed > 0 and run.returncode == 0
    assert int(run.stdout) < 10_000, "the last run went on from where the one before was killed"
    assert is_as_unkilled(path, store_path, pages)


@pytest.mark.slow
@pytest.mark.parametrize("n_bytes", [10_000_000, 20_000])
def test_killed_where_no_stream_ends_with_a_page(tmp_path: Path, n_bytes: int) -> None:
    pages, store_path = pages_of_three_commits(), tmp_path / "killed.db"
    plain, path = write_dump(tmp_path / "plain.xml", pages), tmp_path / "wiki.xml.bz2"
    data = plain.read_bytes()
    cuts = range(0, len(data), n_bytes)
    path.write_bytes(b"".join(bz2.compress(data[cut : cut + n_bytes]) for cut in cuts))
    assert read_killed(path, store_path, 3 if len(cuts) < 10 else len(cuts) * 9 // 10).returncode
    assert read_killed(path, store_path, 0).returncode == 0
    assert is_as_unkilled(path, store_path, pages)


def test_processes_give_the_same(tmp_path: Path) -> None:
    pages = many_pages(3000) + little_wiki()
    path = write_dump(tmp_path / "wiki-multistream.xml.bz2", pages, per_stream=10)
    with PageStore.open(tmp_path / "two.db") as store, filled(path) as whole:
        counts = read_dump(path, store, processes=2)
        assert counts.n_pages == len(pages)
        assert content(store, pages) == content(whole, pages)


def test_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    path = write_dump(tmp_path / "wiki-multistream.xml.bz2", many_pages(200), per_stream=10)
    code = (
        "import os, signal, sys, pathlib\n"
        "from fieldmark.build.wiki import dump, store\n"
        "from fieldmark.progress import Silent\n"
        "class Killed(Silent):\n"
        "    def status(self, text):\n"
        "        pid = os.getpid()\n"
        "        print(pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text(), flush=True)\n"
        "        os.kill(pid, signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    pages = store.PageStore.open(pathlib.Path(sys.argv[2]))\n"
        "    dump.read_dump(pathlib.Path(sys.argv[1]), pages, Killed(), processes=2)\n"
    )
    command = [sys.executable, "-c", code, path, tmp_path / "pages.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        children = [Path("/proc") / pid for pid in run.stdout.readline().split()]
        assert run.wait() == -signal.SIGKILL
        assert len(children) >= 2
        deadline = time.monotonic() + 30
        while any(map(is_alive, children)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(is_alive, children))


def is_alive(process: Path) -> bool:
    try:
        return "Z (zombie)" not in (process / "status").read_text()
    except OSError:
        return False


# --- a real wiki ---


@pytest.mark.parametrize("schema", ["0.10", "0.11"])
def test_an_export_of_a_real_wiki_says_what_its_api_says(
    mediawiki: MediaWiki, tmp_path: Path, schema: str
) -> None:
    texts = {
        "Dumped raven": BOX + ' <ref>a & b</ref> &nbsp; "é" 鳥 </page>\n\n== Taxonomy ==\nx',
        "Dumped Corvus": "#REDIRECT [[dumped raven#Taxonomy_and &amp; names|x]]",
        "Dumped crow": "#redirect: [[:Dumped_Corvus]] {{R from move}}",
        "Dumped café": "#REDIRECT [[Dumped raven#Caf%C3%A9]]",
        "Dumped loop": "#REDIRECT [[Dumped loop]]",
        "Dumped nowhere": "#REDIRECT [[Dumped hole]]",
        "Dumped names": "* a bird\n* a plant\n__DISAMBIG__",
        "Template:Taxonomy/Dumped": "{{Don't edit this line}}\n|rank=genus",
    }
    mediawiki.load(mock_pages(texts))
    query = {"action": "query", "export": "1", "exportnowrap": "1", "exportschema": schema}
    data = urllib.parse.urlencode(query | {"titles": "|".join(texts)}).encode()
    path = tmp_path / "export.xml"
    path.write_bytes(urllib.request.urlopen(mediawiki.endpoint, data, timeout=60).read())
    titles = [*texts, "dumped_raven", "Dumped hole"]
    with (
        filled(path) as dumped,
        PageStore.open(tmp_path / "api.db") as asked,
        WikiApi(mediawiki.endpoint, CONTACT, Etiquette(per_minute=1e6)) as api,
    ):
        api.fetch(titles, asked)
        assert [dumped.lookup(title) for title in titles] == [asked.lookup(t) for t in titles]
        assert dumped.site is not None
        assert (dumped.site.name, dumped.site.url) == (api.site().name, api.site().url)
