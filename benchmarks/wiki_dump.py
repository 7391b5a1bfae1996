"""How fast does a dump of a wiki become a store of pages, and within how much memory?

    python benchmarks/wiki_dump.py [--pages 100000] [--processes 1]
                                   [--packing multistream|bz2|xml] [--quick]

A dump in the layout of English Wikipedia's pages-articles is written: 45 % redirects, 28 % articles
(8 % of them about a taxon, 4 % disambiguation pages), the rest templates, categories and portals.
Articles are log-normal in length, mean 12 kB: the pages of the dump of November 2024 have 4.3 kB of
XML on average (103 GB for 24 million), those written here a little more. Words follow Zipf's law
over a vocabulary of 60,000; links, templates and entities are about as frequent as in 106 real
articles, and bzip2 packs the whole about as tightly (4.3 to 1 there).

Printed: three ways to find the pages that matter, on the same XML, with what they kept (ours also
reads the redirects); sizes; the whole run from file to store in a process of its own; 100 titles
through the index. The bar: 3,000 pages per second of one core's CPU time, within 500 MB. (Of a
second of CPU time, bzip2 takes four fifths: 2026-11-16.)
"""

from __future__ import annotations

import argparse
import bz2
import io
import json
import random
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
import xml.parsers.expat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _quick import Flags, finish
from fieldmark.build.wiki.dump import read_dump
from fieldmark.build.wiki.dump_index import DumpIndex, index_path
from fieldmark.build.wiki.export import read_pages
from fieldmark.build.wiki.store import PageStore
from fieldmark.build.wiki.taxobox import TAXOBOX_TEMPLATES, template_names
from kit.wiki_dump import DumpPage, page, redirect, write_dump

BAR_PAGES_S, BAR_MB = 3_000, 500
N_WORDS = 60_000
MEAN_TEXT, SIGMA = 12_000, 1.2
KINDS = {"redirect": 45, "article": 28, "template": 8, "category": 14, "portal": 5}
PARSED_MB = 60
"""of XML, for the comparison of parsers"""


class Writer:
    """Wikitext of words that no two pages share in order."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        vowels = "aeiou" * 12 + "yyyé"
        syllables = [rng.choice("bcdfghklmnprstvz") + rng.choice(vowels) for _ in range(90)]
        words = {
            "".join(rng.choices(syllables, k=rng.choice((1, 2, 2, 3, 3, 4))))
            + rng.choice(("", "s", "n", "r"))
            for _ in range(3 * N_WORDS)
        }
        self.words = np.array(sorted(words), dtype=object)
        rng.shuffle(self.words)
        self.words = self.words[:N_WORDS]
        self.words[20:40:5] = ["cañón", "naïve", "Žižek", "東京"]
        share = 1 / (np.arange(len(self.words)) + 2.7)
        self.share = np.cumsum(share / share.sum())
        self.rng, self.np_rng = rng, np.random.default_rng(seed)

    def prose(self, n_chars: int) -> list[str]:
        numbers = np.searchsorted(self.share, self.np_rng.random(n_chars // 6 + 1))
        return list(self.words[np.minimum(numbers, len(self.words) - 1)])

    def article(self, n_chars: int, box: str) -> str:
        """Some 5.4 links, 1.7 templates and 9.7 entities per 1,000 characters."""
        words, rng = self.prose(int(n_chars * 0.53)), self.rng
        for at in range(0, len(words), 16):
            words[at] = f"[[{words[at].title()} {words[at - 1]}|{words[at]}]]"
        for at in range(7, len(words), 33):
            words[at] += "."
        for at in range(11, len(words), 60):
            words[at] += (
                f'.<ref name="{words[at - 3]}">{{{{cite web|title={words[at - 1].title()} & '
                f"{words[at - 2]} |date={rng.randint(1900, 2026)}-0{rng.randint(1, 9)} |url=https://"
                f"{words[at - 4]}.org/{rng.getrandbits(32):x}}}}}</ref>"
            )
        for at in range(200, len(words), 260):
            words[at] += f"\n\n== {words[at - 1].title()} ==\n"
        ending = "".join(f"\n[[Category:{word.title()}]]" for word in words[1:40:11])
        return f"{box}\n{' '.join(words)}\n{{{{reflist}}}}{ending}"

    def name(self) -> str:
        first, second = self.prose(6)[:2]
        return f"{first.title()} {second} {self.rng.getrandbits(24)}"


def make_pages(n: int, seed: int = 0) -> Iterator[DumpPage]:
    writer, rng = Writer(seed), random.Random(seed)
    kinds = rng.choices(list(KINDS), list(KINDS.values()), k=n)
    mean_log = np.log(MEAN_TEXT) - SIGMA**2 / 2
    for number, kind in enumerate(kinds, 1):
        name = writer.name()
        if kind == "redirect":
            fragment = writer.name() if rng.random() < 0.1 else ""
            yield redirect(name, writer.name(), number, fragment)
        elif kind == "article":
            n_chars = min(int(rng.lognormvariate(mean_log, SIGMA)), 500_000)
            yield page(name, writer.article(n_chars, box_of(writer, rng)), number)
        elif kind == "template":
            is_taxonomy = rng.random() < 0.15
            text = f"{{{{Don't edit this line\n|rank=genus\n|link={name}\n|parent=Aves\n}}}}"
            title = f"Template:Taxonomy/{name}" if is_taxonomy else f"Template:{name}"
            yield page(title, text if is_taxonomy else writer.article(2_500, text), number, 10)
        else:
            space = 14 if kind == "category" else 100
            yield page(
                f"{kind.title()}:{name}", writer.article(400, "{{catdiffuse}}"), number, space
            )


def box_of(writer: Writer, rng: random.Random) -> str:
    """The template at the top of an article."""
    draw, words = rng.random(), writer.prose(120)
    if draw < 0.08:
        box = rng.choice(("Speciesbox", "speciesbox", "Automatic taxobox", "Taxobox"))
        genus, species = words[1].title(), words[2]
        return (
            f"{{{{{box}\n| image = {words[0]}.jpg\n| genus = {genus}\n| species = {species}\n}}}}"
        )
    if draw < 0.12:
        return "{{disambiguation}}"
    return (
        f"{{{{Infobox {words[0]}\n| name = {words[1]}\n| type = {words[2]}\n| area = 12 & 4\n}}}}"
    )


# --- three ways to find the pages that matter ---


def by_iterparse(data: bytes) -> set[str]:
    titles, root = set(), None
    for event, element in ElementTree.iterparse(io.BytesIO(data), events=("start", "end")):
        if root is None:
            root = element
        tag = element.tag.rpartition("}")[2]
        if event == "end" and tag == "page":
            space = element.tag[: -len("page")]
            text = element.findtext(f"{space}revision/{space}text") or ""
            if element.findtext(f"{space}ns") == "0" and is_taxon(text):
                titles.add(element.findtext(f"{space}title") or "")
            root.clear()
    return titles


def by_expat(data: bytes) -> set[str]:
    parser, titles, parts, values = xml.parsers.expat.ParserCreate(), set(), [], {}

    def start(_tag: str, _marks: dict[str, str]) -> None:
        parts.clear()

    def end(tag: str) -> None:
        if tag in ("title", "ns", "text"):
            values[tag] = "".join(parts)
        elif tag == "page" and values["ns"] == "0" and is_taxon(values["text"]):
            titles.add(values["title"])

    parser.buffer_text, parser.buffer_size = True, 2**20
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = parts.append
    parser.Parse(data, True)
    return titles


def by_cutting(data: bytes) -> set[str]:
    pages = read_pages(data, has_head=True).pages
    return {item.title for item in pages if ":" not in item.title and is_taxon(item.wikitext)}


def is_taxon(text: str) -> bool:
    return not TAXOBOX_TEMPLATES.isdisjoint(template_names(text))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def compare_parsers(path: Path) -> None:
    opened = bz2.open if path.suffix == ".bz2" else open
    with opened(path, "rb") as file:
        data = file.read(PARSED_MB * 2**20)
    data = data[: data.rindex(b"</page>") + len(b"</page>")] + b"</mediawiki>"
    n_pages, kept = data.count(b"<page>"), {}
    ways = {"ElementTree.iterparse": by_iterparse, "expat": by_expat, "cut, then parse": by_cutting}
    for name, way in ways.items():
        taken_s, kept[name] = timed(lambda way=way: way(data))
        print(
            f"  {name:22} {n_pages / taken_s:9,.0f} pages/s  {len(data) / taken_s / 1e6:6.0f} MB/s"
        )
    print(f"  kept: {[len(titles) for titles in kept.values()]} taxa of {n_pages:,} pages")
    assert len({frozenset(titles) for titles in kept.values()}) == 1, "not the same taxa"


def run_child(path: Path, processes: int) -> None:
    """The whole run, and how it was for this process; then some titles through the index."""
    run: dict[str, float] = {}
    run["unpack_s"], run["n_bytes"] = timed(lambda: unpacked_size(path))
    with PageStore.open(path.with_suffix(".db")) as store:
        began, cpu = time.perf_counter(), time.process_time()
        counts = read_dump(path, store, processes=processes)
        run["wall_s"], run["cpu_s"] = time.perf_counter() - began, time.process_time() - cpu
        titles = [item.title for item in islice(store.pages(), 0, None, max(1, len(store) // 100))]
    run |= {"n_pages": counts.n_pages, "n_kept": counts.n_kept, "peak_mb": peak_mb()}
    if index := index_path(path):
        source = DumpIndex(path, index)
        with PageStore.open(path.with_suffix(".some.db")) as store:
            run["fetch_s"], _ = timed(lambda: source.fetch(titles, store))
        run |= {"n_titles": len(titles), "n_streams": source.n_streams, "n_unpacked": source.n_read}
    print(json.dumps(run))


def unpacked_size(path: Path) -> int:
    with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as file:
        return sum(len(data) for data in iter(lambda: file.read(2**20), b""))


def peak_mb() -> float:
    """Linux: getrusage would count the program that started this one."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--pages", type=int, default=100_000)
    flags.add_argument("--processes", type=int, default=1)
    flags.add_argument("--packing", choices=("multistream", "bz2", "xml"), default="multistream")
    flags.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = flags.parse(pages=500)
    if args.child:
        run_child(args.child, args.processes)
        return 0
    names = {"multistream": "wiki-multistream.xml.bz2", "bz2": "wiki.xml.bz2", "xml": "wiki.xml"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / names[args.packing]
        write_dump(path, make_pages(args.pages))
        return measure(path, args.processes, args.quick)


def measure(path: Path, processes: int, is_quick: bool) -> int:
    print("ways to find pages of taxa:")
    compare_parsers(path)
    command = [sys.executable, __file__, "--child", str(path), "--processes", str(processes)]
    run = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    size, n_bytes, n_pages = path.stat().st_size, run["n_bytes"], run["n_pages"]
    print(
        f"dump: {n_pages:,} pages, {run['n_kept']:,} of them kept; {n_bytes / 1e6:,.0f} MB of XML"
    )
    print(f"  {n_bytes / n_pages:,.0f} bytes a page, packed {n_bytes / size:.1f} to 1")
    print(f"whole run: {run['wall_s']:.1f} s, {run['cpu_s']:.1f} s of CPU time in this process")
    print(f"  unpacking alone: {run['unpack_s']:.1f} s; processes that read: {processes}")
    if "fetch_s" in run:
        print(f"through the index: {run['n_titles']} titles in {run['fetch_s']:.1f} s of CPU time")
        print(f"  {run['n_unpacked']} of {run['n_streams']} streams unpacked")
    rate = n_pages / (run["cpu_s"] if processes == 1 else run["wall_s"])
    kind = "pages per second of CPU time" if processes == 1 else "pages/s"
    bars = {
        f"≥ {BAR_PAGES_S:,} pages": rate >= BAR_PAGES_S,
        f"≤ {BAR_MB} MB": run["peak_mb"] <= BAR_MB,
    }
    figure = f"wiki_dump: {rate:,.0f} {kind}, peak {run['peak_mb']:.0f} MB"
    return finish(figure, bars, is_quick)


if __name__ == "__main__":
    sys.exit(main())
