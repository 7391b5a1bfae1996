"""`kill -9`, and the same command again: the same products, and nothing done or paid twice.

The table of activities that may be killed. Each says what it makes, how much work that is, and how
much of it a kill may cost; `kit/kills.py` does the rest.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fieldmark.build.wiki.api import BATCH
from fieldmark.build.wiki.store import PageStore
from fieldmark.chat import AnswerJournal, MockScript
from fieldmark.data import Contents, Source
from fieldmark.store import RunFilter, Store
from kit import kills, train_inputs, work
from kit.blobs import answers, make_blobs, n_lines
from kit.captions import make_shards, stubborn
from kit.chat import CountingServer, make_jpegs, running
from kit.documents import write_jsonl
from kit.kills import Activity, Moment, function
from kit.made import made
from kit.mediawiki import CONTACT
from kit.mock_wiki import MockWiki, mock_pages
from kit.pictures import write_image
from kit.rings import mostly_slow
from kit.shards import hashes, tar_bytes
from kit.site import dripping, goes_on
from kit.site_results import make_results
from kit.wiki_traps import texts_of, trap_wiki, write_names

Patch = pytest.MonkeyPatch
ACTIVITIES: dict[str, Callable[[Path, Patch], AbstractContextManager[Activity]]] = {}


def activity(name: str, *given: object) -> Callable[[Callable[..., Iterator[Activity]]], object]:
    """Puts what a function makes on the table."""

    def add(make: Callable[..., Iterator[Activity]]) -> object:
        ACTIVITIES[name] = lambda place, patch: contextmanager(make)(place, patch, *given)
        return make

    return add


# --- models are asked


def n_journalled(out: Path) -> int:
    """Answers that are safe."""
    with AnswerJournal(next(iter(out.rglob("journal")), out / "journal")) as journal:
        return len(journal)


def json_of(out: Path) -> object:
    return json.loads((out / "answers.json").read_text())


@activity("questions")
def questions(place: Path, _: Patch) -> Iterator[Activity]:
    """Many questions with photos."""
    n = 2000
    photos = [hashlib.sha256(photo).hexdigest() for photo in make_jpegs(n)]
    labels = {photo: ("wren", "robin")[i % 2] for i, photo in enumerate(photos)}
    server = CountingServer(MockScript(skill=0.7, latency_s=0.003), labels)

    def products(out: Path) -> object:
        found = json_of(out)
        assert len(found) == n and len(set(map(tuple, found.values()))) == 2
        return found

    with running(server) as url:
        yield Activity(
            command=lambda out: function(work.ask_questions, url, n, out),
            products=products,
            n_done=lambda _: server.counts.n_requests,
            size=n,
            n_kills=10,
            in_flight=16,
            n_kept=n_journalled,
        )


@activity("filter")
def filtered_texts(place: Path, _: Patch) -> Iterator[Activity]:
    """Texts that a model reads, some of them twice."""
    n = 600
    server = CountingServer(MockScript(skill=0.9, p_invent=0.3, latency_s=0.004))

    def products(out: Path) -> object:
        found = json_of(out)
        assert len(found) == n and any(spans[-1] for spans in found.values())
        return found

    with running(server) as url:
        yield Activity(
            command=lambda out: function(work.filter_texts, url, n, out),
            products=products,
            n_done=lambda _: server.counts.n_requests,
            size=774,
            n_kills=8,
            in_flight=8,
            n_kept=n_journalled,
        )


COLUMNS = ["repeat", "id", "target", "prediction", "outcome", "unit", "score"]


def predictions(out: Path) -> list[tuple[object, ...]]:
    with Store.open(out / "results" / "fieldmark.db", read_only=True) as store:
        (run,) = store.runs(RunFilter(states=("done",)))
        return store.predictions(run.id).select(COLUMNS).rows()


def is_running(out: Path) -> None:
    with Store.open(out / "results" / "fieldmark.db") as store:
        assert [run.state for run in store.runs()] == ["running"]


PONDS = """
from fieldmark.data import Info, Source

class PONDS:
    INFO = Info(title="Ponds", licence="CC0", citation="none", sources=({source!r},))
    check = lambda root: []
    table = make = None
"""
DOCUMENTS = """
task: many
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
doc_to_text: "What comes after {{n}}?"
doc_to_target: "{{n + 1}}"
"""


@activity("documents")
def documents(place: Path, _: Patch) -> Iterator[Activity]:
    n = 300
    write_jsonl(place / "rows.jsonl", [{"n": number} for number in range(n)])
    (place / "task.yaml").write_text(DOCUMENTS)
    right = {f"What comes after {number}?": str(number + number % 2) for number in range(n)}
    server = CountingServer(MockScript(latency_s=0.02), answers=right)

    def products(out: Path) -> object:
        rows = predictions(out)
        assert len(rows) == n and sum(row[-1] for row in rows) == n // 2
        return rows

    with running(server) as url:
        words = ["run", "--task", "task.yaml", "--model", f"chat/mock/wren?base_url={url}"]
        words += ["--concurrency", "8", "--quiet", "--results"]
        yield Activity(
            command=lambda out: [*words, out / "results"],
            products=products,
            n_done=lambda _: server.counts.n_requests,
            size=n,
            n_kills=3,
            in_flight=16,
            n_kept=n_journalled,
        )


def n_paid(out: Path) -> int:
    """Answers from the endpoint; a line may be torn."""
    return sum(path.read_bytes().count(b"\n") for path in out.glob("results/journal/*.jsonl"))


@activity("ask", ("world", 150), 312, "--task", "world-species", "--repeats", "13")
@activity("rerank", ("inquire", 40), 90, "--task", "inquire-rerank")
def ask(
    place: Path, _: Patch, dataset: tuple[str, int], size: int, *words: str
) -> Iterator[Activity]:
    model = "chat/mock/wren?skill=0.7&latency_s=0.05"
    data = f"{dataset[0]}={made(*dataset)}"
    command = ["run", *words, "--data", data, "--model", model, "--concurrency", "8"]
    yield Activity(
        command=lambda out: [*command, "--results", out / "results"],
        products=predictions,
        n_done=n_paid,
        size=size,
        n_kills=2,
        n_kept=n_paid,
        look=is_running,
    )


@activity("caption")
def caption(place: Path, _: Patch) -> Iterator[Activity]:
    """Shards of photos, of which a third has to be asked about twice and a third in vain."""
    n_shards, n = 8, 120
    make_shards(place / "shards", n_shards, n)
    server = CountingServer(MockScript(latency_s=0.004), answers=stubborn)

    def products(out: Path) -> object:
        table = pl.read_parquet(out / "captions/*.parquet")
        assert table.height == table.select("shard", "key").n_unique() == n_shards * n
        assert not list((out / "state/leases").iterdir()), "no leases are left"
        return {path.name: path.read_bytes() for path in (out / "captions").iterdir()}

    with running(server) as url:
        words = ["caption", place / "shards", "--model", f"chat/vllm/seer?base_url={url}"]
        yield Activity(
            command=lambda out: [*words, "--out", out, "--concurrency", "8", "--quiet"],
            products=products,
            n_done=lambda _: server.counts.n_requests,
            size=n_shards * n * 2,
            n_kills=20,
            in_flight=8,
            later_s=0.05,
        )


# --- pages of an encyclopedia


@activity("wiki")
def wiki_pages(place: Path, _: Patch) -> Iterator[Activity]:
    """Half are pages, a quarter redirects, a quarter is missing."""
    n = 2000
    texts = {f"Species {i}": f"'''Species {i}''' is grey. " * 20 for i in range(0, n, 2)}
    texts |= {f"Species {i}": f"#REDIRECT [[Species {i - 1}]]" for i in range(1, n, 4)}
    wiki = MockWiki(mock_pages(texts), latency_s=0.06)

    def products(out: Path) -> object:
        with PageStore.open(out / "pages.db") as store:
            pages = list(store.pages())
            assert sorted(page.title for page in pages) == sorted(list(texts)[: n // 2])
            for i in range(n):
                lookup, target = store.lookup(f"species_{i}"), (i, i - 1, i, None)[i % 4]
                title = lookup and lookup.page and lookup.page.title
                assert lookup and title == (None if target is None else f"Species {target}")
            return pages

    with running(wiki) as url:
        yield Activity(
            command=lambda out: function(work.fetch_pages, url, n, out),
            products=products,
            n_done=lambda _: wiki.counts.n_requests,
            size=1 + n // BATCH,
            n_kills=20,
            in_flight=1,
            later_s=0.07,
        )


@activity("describe")
def describe(place: Path, _: Patch) -> Iterator[Activity]:
    """A thousand names; what is in flight is asked for again, and what the site is."""
    names, world = write_names(place / "names.csv", 18), trap_wiki(0, 18)
    wiki = MockWiki(mock_pages(texts_of(world.pages)), latency_s=0.05)

    def products(out: Path) -> object:
        table = pl.read_parquet(out / "descriptions.parquet").drop("url", "licence")
        assert table["key"].n_unique() == table.height == len(world.traps) >= 900
        titles = zip(table["title"], world.traps, strict=True)
        right = sum((title or "") == trap.title for title, trap in titles)
        assert right >= 0.99 * len(world.traps)
        return table.rows()

    with running(wiki) as url:
        words = ["describe", names, "--wiki", url, "--contact", CONTACT, "--wiki-rpm", "1e6"]
        yield Activity(
            command=lambda out: [*words, "--out", out, "--quiet"],
            products=products,
            n_done=lambda _: wiki.counts.n_requests,
            size=82,
            n_kills=20,
            in_flight=2,
            later_s=0.1,
        )


# --- files are fetched, hashed, packed


def noise(n: int, seed: int) -> bytes:
    """Bytes that no compression makes smaller."""
    return hashlib.shake_128(str(seed).encode()).digest(n)


@activity("download")
def download(place: Path, patch: Patch) -> Iterator[Activity]:
    """An archive, and what is in it."""
    photos = {f"images/{number}.jpg": noise(40_000, number) for number in range(25)}
    archive = gzip.compress(tar_bytes(list(photos.items())))
    with dripping(patch, {"/images.tar.gz": archive}) as site:
        url, md5 = site.url("/images.tar.gz"), hashlib.md5(archive).hexdigest()
        source = Source(url=url, filename="images.tar.gz", md5=md5)
        (place / "ponds.py").write_text(PONDS.format(source=source))
        look, check = goes_on(site, {"images.tar.gz": "/images.tar.gz"})

        def products(out: Path) -> object:
            check()
            found = {name: (out / name).read_bytes() for name in photos}
            assert found == photos and not list(out.rglob("*.part"))
            return found

        def n_done(out: Path) -> int:
            return sum(path.stat().st_size for path in out.glob("images.tar.gz*"))

        yield Activity(
            command=lambda out: ["data", "get", "ponds.py:PONDS", "--out", out],
            products=products,
            n_done=n_done,
            size=len(archive),
            n_kills=2,
            look=look,
        )


@activity("downloads")
def downloads(place: Path, patch: Patch) -> Iterator[Activity]:
    """Photos that a table lists."""
    photos = {f"{100 + number}": noise(400_000, number) for number in range(4)}
    with dripping(patch, {f"/asset/{name}/1200": data for name, data in photos.items()}) as site:
        lines = [",id,source_url,captions,md5"]
        for number, (name, data) in enumerate(photos.items()):
            md5 = hashlib.md5(data).hexdigest()
            lines.append(f'{number},{name},{site.url(f"/asset/{name}/1200")},"Bog_Wren.",{md5}')
        for out in (place / "calm", place / "killed"):
            out.mkdir()
            (out / "cornell_bird.csv").write_text("\n".join(lines) + "\n")
        paths = {f"images/{name}.jpg": f"/asset/{name}/1200" for name in photos}
        look, check = goes_on(site, paths)

        def products(out: Path) -> object:
            check()
            found = {path.stem: path.read_bytes() for path in (out / "images").iterdir()}
            assert found == photos
            return found

        yield Activity(
            command=lambda out: ["data", "get", "cornell_bird", "--only", "images", "--out", out],
            products=products,
            n_done=lambda out: sum(path.stat().st_size for path in out.glob("images/*")),
            size=sum(map(len, photos.values())),
            n_kills=2,
            look=look,
        )


@activity("hash")
def hash_photos(place: Path, patch: Patch) -> Iterator[Activity]:
    """Defect: a kill in the first pass lost all of it (one commit at the end)."""
    n, photos = 12, place / "photos"
    for number in range(n):
        write_image(photos / f"{number:02}.png", number)
    patch.setattr("fieldmark.files.RACY_NS", 0)

    def known(out: Path) -> dict[str, object]:
        return Contents(out / "contents.db").known(photos, [path.name for path in photos.iterdir()])

    yield Activity(
        command=lambda out: function(work.hash_photos, photos, out),
        products=known,
        n_done=lambda out: n_lines(out / "log"),
        size=n,
        n_kills=2,
        in_flight=1,
        n_kept=lambda out: len(known(out)),
    )


@activity("shards make")
def shards_make(place: Path, _: Patch) -> Iterator[Activity]:
    rows = []
    for number in range(240):
        write_image(place / "photos" / f"{number}.jpg", number)
        rows.append({"id": number, "image": f"photos/{number}.jpg", "species": f"s{number % 3}"})
    pl.DataFrame(rows).write_csv(place / "birds.csv")

    def whole_ones(out: Path) -> None:
        calm, seen = hashes(place / "calm"), hashes(out)
        assert {name: calm[name] for name in seen} == seen, "whatever has a name is whole"

    def products(out: Path) -> object:
        assert not list(out.glob(".*.part"))
        return hashes(out)

    words = ["shards", "make", "birds.csv", "--per-shard", "4", "--out"]
    yield Activity(
        command=lambda out: [*words, out],
        products=products,
        n_done=lambda out: len(list(out.glob("*.tar"))),
        size=60,
        moments=[Moment("os", "fsync", count) for count in range(1, 21)],
        look=whole_ones,
    )


@activity("shards join")
def shards_join(place: Path, _: Patch) -> Iterator[Activity]:
    """A copy is whole or absent."""
    keys = [f"{number:05}" for number in range(1_500)]
    photos = np.random.default_rng(1).bytes(6_000)
    (place / "big.tar").write_bytes(tar_bytes([(f"{key}.jpg", photos) for key in keys]))
    texts = {"key": keys, "caption": [f"Caption of {key}." for key in keys]}
    pl.DataFrame(texts).write_parquet(place / "captions.parquet")
    given = (place / "big.tar", place / "captions.parquet")
    writing = "fieldmark.build.shards.captions"

    def is_absent(out: Path) -> None:
        assert not (out / "copy.tar").exists()

    yield Activity(
        command=lambda out: function(work.join, *given, out),
        products=lambda out: (out / "copy.tar").read_bytes(),
        moments=[
            *(Moment(writing, "tar_member", count) for count in (1, 2, 400, 800, 1_200, 1_500)),
            Moment("os", "fsync"),
            Moment("os", "fsync", is_after=True),
            Moment("pathlib", "Path.replace"),
        ],
        look=is_absent,
    )


# --- models embed, are probed, are trained


@activity("run")
def run(place: Path, patch: Patch) -> Iterator[Activity]:
    make_blobs(place, patch)
    patch.setenv("EMBED_PAUSE", "0.05")
    words = ["run", "--model", "m.py:Slow", "--model", "m.py:Other", "--task", "blobs.yaml"]
    words += ["--n-train", "3", "-1", "--quiet", "--results"]
    yield Activity(
        command=lambda out: [*words, out / "results"],
        products=lambda out: answers(out / "results"),
        n_done=lambda out: n_lines(out / "log"),
        size=72 * 2,
        n_kills=6,
        moments=[
            Moment("fieldmark.store", "Store.write_part"),
            Moment("fieldmark.store", "Store.write_part", is_after=True),
            Moment("fieldmark.store", "Store.finish_run"),
            Moment("fieldmark.store", "Store.finish_run", is_after=True),
        ],
        in_flight=4,
        later_s=0.05,
    )


@activity("embed")
def embed(place: Path, patch: Patch) -> Iterator[Activity]:
    make_blobs(place, patch)
    patch.setenv("EMBED_PAUSE", "0.05")

    def products(out: Path) -> object:
        assert not list(out.glob("*.part"))
        return np.load(out / "f.npy").tolist()

    yield Activity(
        command=lambda out: ["embed", "m.py:Slow", "photos", "--out", out / "f.npy"],
        products=products,
        n_done=lambda out: n_lines(out / "log"),
        size=72,
        n_kills=2,
        in_flight=4,
        n_kept=lambda out: sum(path.stat().st_size // 24 for path in out.rglob("rows-*.keys")),
    )


@activity("try")
def try_photos(place: Path, patch: Patch) -> Iterator[Activity]:
    """Killed while it looks, embeds and writes. No row of the cache is there twice."""
    make_blobs(place, patch)
    patch.setenv("EMBED_PAUSE", "0.05")
    words = ["try", "photos", "--models", "m.py:Slow", "m.py:Other", "--quiet", "--out"]
    speed = re.compile(r"It processes about [\d,]+ photos per second|<td[^>]*>\d*</td></tr>")
    n_rows = 72 * 3

    def products(out: Path) -> object:
        every = [path for path in (out / "try").rglob("[!.]*") if path.is_file()]
        files = {path.name: path for path in every}
        page = speed.sub("", files.pop("index.html").read_text())
        text = speed.sub("", out.with_suffix(".txt").read_text())
        assert text.startswith("Use m.py:") and len(files) == 7
        return page, text, {name: path.read_bytes() for name, path in files.items()}

    def n_kept(out: Path) -> int:
        return sum(path.stat().st_size // 24 for path in out.rglob("rows-*.keys"))

    writing = "fieldmark.tryout.products"
    yield Activity(
        command=lambda out: [*words, out / "try"],
        products=products,
        n_done=n_kept,
        size=n_rows,
        n_kills=4,
        moments=[
            Moment("fieldmark.tryout.evaluate", "fit_temperature"),
            Moment("fieldmark.tryout.fitted", "write_file", 2),
            Moment(writing, "write_table", 2),
            Moment(writing, "write_file", 3, is_after=True),
            Moment("pathlib", "Path.replace", 6),
        ],
    )


@activity("train")
def train(place: Path, _: Patch) -> Iterator[Activity]:
    """Losses and weights are equal to the last bit."""
    pytest.importorskip("torch")
    pytest.importorskip("open_clip")
    train_inputs.write_inputs(place)
    record = "fieldmark.build.train.record"
    yield Activity(
        command=lambda out: train_inputs.words(place, out),
        products=lambda out: (train_inputs.curve(out), train_inputs.weights(out)),
        n_done=train_inputs.last_step,
        size=20,
        moments=[
            Moment(f"{record}.checkpoint", "CheckpointFolder.save", 2),
            Moment(f"{record}.checkpoint", "_HashingWriter.write", 2, is_after=True),
            Moment(f"{record}.log", "RunLog.write", 2, is_after=True),
        ],
        says="continuing after step",
    )


# --- data are drawn, results scored again and shown; work is given to other processes


@activity("make")
def make(place: Path, _: Patch) -> Iterator[Activity]:
    yield Activity(
        command=lambda out: ["data", "make", "newt", "--size", "120", "--out", out / "newt"],
        products=lambda out: files_of(out / "newt"),
    )


@activity("site")
def site(place: Path, _: Patch) -> Iterator[Activity]:
    make_results(place)
    yield Activity(
        command=lambda out: ["site", out / "page", "--results", place / "results", "--quiet"],
        products=lambda out: files_of(out / "page"),
    )


@activity("rescore")
def rescore(place: Path, _: Patch) -> Iterator[Activity]:
    make_results(place)
    yield Activity(
        command=lambda out: function(work.rescore, place / "results", out),
        products=lambda out: answers(out / "results"),
    )


@activity("local")
def local(place: Path, patch: Patch) -> Iterator[Activity]:
    """The command is killed, and in turn with it one of its workers."""
    make_blobs(place, patch)
    patch.setenv("EMBED_PAUSE", "0.05")
    words = ["run", "--model", "m.py:Slow", "--task", "blobs.yaml", "--n-train", "3", "-1"]
    yield Activity(
        command=lambda out: [*words, "--on", "local", "--quiet", "--results", out / "results"],
        products=lambda out: answers(out / "results"),
        has_workers=True,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    every = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in every}


AIMED = [name for name in ACTIVITIES if name not in ("make", "site", "rescore", "local")]
ANYWHEN = [
    "run", "ask", "documents", "download", "make", "site", "describe", "caption", "train", "local",
    "rescore", "try",
]  # fmt: skip
N_KILLS = int(os.environ.get("KILLS", "3"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ANYWHEN)
def test_kills_at_any_time_change_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`KILLS=20 pytest -m slow -k at_any_time -s tests/test_kills.py` kills each more often."""
    with ACTIVITIES[name](tmp_path, monkeypatch) as given:
        kills.check_at_random(given, tmp_path, N_KILLS)


@pytest.mark.parametrize("name", mostly_slow(AIMED, "shards join"))
def test_after_kills_the_same_command_gives_what_an_undisturbed_one_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ACTIVITIES[name](tmp_path, monkeypatch) as given:
        kills.check(given, tmp_path)
