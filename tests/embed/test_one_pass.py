"""A file is read once: its bytes are hashed, checked and decoded together, and never again."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from fieldmark import evaluate
from fieldmark.data import MEMORY, Contents, ImageRef
from fieldmark.embed import EmbedOptions, Filled, cached_models, embed, fill
from fieldmark.embed.cpu.threads import AHEAD, run_threads
from fieldmark.embed.work import HashedFile, ImagePart, WantedFile
from fieldmark.errors import DataError
from fieldmark.models import Features, Recipe, load_model
from fieldmark.progress import Silent
from kit import forked
from kit.duals import Album, HashDual
from kit.kills import kill_when, start
from kit.pictures import write_image


class Mean:
    """The mean colour; what it is asked may do something to the files."""

    name, dim, fingerprint, batch_size = "test/mean", 3, "mean-1", 2

    def __init__(self, on_batch=lambda n: None) -> None:  # type: ignore[no-untyped-def]
        self.n_images, self.on_batch = 0, on_batch

    def transform(self, image):  # type: ignore[no-untyped-def]
        return np.asarray(image.resize((4, 4)), np.float32)

    def embed_images(self, batch):  # type: ignore[no-untyped-def]
        self.on_batch(self.n_images)
        self.n_images += len(batch)
        return Features(batch.mean(axis=(1, 2)))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(20):
        write_image(tmp_path / "photos" / f"{number:02d}.png", number)
    return tmp_path / "photos"


def refs(photos: Path) -> list[ImageRef]:
    return [ImageRef(path.name) for path in sorted(photos.glob("*.png"))]


def options(tmp_path: Path, **changes: Any) -> EmbedOptions:
    return EmbedOptions(tmp_path / "cache", **changes)


OPENED: list[str] | None = None


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if OPENED is not None and event == "open":
        OPENED.append(str(arguments[0]))


@pytest.fixture(scope="module")
def _audited() -> None:
    sys.addaudithook(_note_opened)  # there is no way to take it away again


@pytest.fixture
def opened(_audited: None) -> Iterator[list[str]]:
    """The names of all files that this process opens."""
    global OPENED
    OPENED = []
    yield OPENED
    OPENED = None


def images_of(opened: list[str]) -> Counter[str]:
    return Counter(Path(name).name for name in opened if name.endswith(".png"))


# --- through the command line

COUNTING = """
import json, sys
from pathlib import Path

opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from fieldmark.cli import main

code = main(sys.argv[1:])
Path("opened.json").write_text(json.dumps([n for n in opened if n.endswith(".png")]))
sys.exit(code)
"""
TASK = """task: mine
title: Mine
dataset: folder
metric: accuracy
probe: {classifier: simpleshot%s}
"""
TILES = """import os, time
import numpy as np
from fieldmark.models import Features, Recipe, load_model

class Tiles:
    dim = 3
    batch_size = 4
    def transform(self, image):
        return np.asarray(image.resize((8, 8)), np.float32)
    def embed_images(self, batch, *, patches=False):
        time.sleep(float(os.environ.get("PAUSE", "0")))
        tiles = batch.reshape(len(batch), 4, 16, 3)
        return Features(tiles.mean(axis=(1, 2)), tiles.mean(axis=2) if patches else None)
"""


@pytest.fixture(scope="module")
def old_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of three classes, old enough to be remembered."""
    root = tmp_path_factory.mktemp("old") / "photos"
    for number in range(24):
        split, label = ("train", "test")[number % 2], "abc"[number % 3]
        write_image(root / split / label / f"{number}.png", number)
    time.sleep(2.1)
    return root


@pytest.fixture
def place(tmp_path: Path, old_photos: Path) -> Path:
    (tmp_path / "t.yaml").write_text(TASK % "")
    (tmp_path / "patches.yaml").write_text(TASK % ", features: patches")
    (tmp_path / "m.py").write_text(TILES)
    return tmp_path


def command(
    place: Path,
    photos: Path,
    *words: str,
    task: str = "t.yaml",
    cache: str = "cache",
    **environment: str,
) -> tuple[int, str, Counter[str]]:
    """Exit code, what it said, and how often it opened each picture."""
    (place / "opened.json").unlink(missing_ok=True)
    done = forked.run(
        [sys.executable, "-c", COUNTING, "run", "--model", "m.py:Tiles", "--task", task,
         "--data", f"folder={photos}", "--cache", cache, *words],
        cwd=place, env={**os.environ, **environment},
    )  # fmt: skip
    return done.returncode, done.stderr, Counter(json.loads((place / "opened.json").read_text()))


def n_embedded(place: Path) -> int:
    """By all commands that came to their end."""
    written = (place / "cache" / "features").glob("*/model.json")
    return sum(json.loads(path.read_text()).get("n_computed", 0) for path in written)


def all_once(photos: Path) -> Counter[str]:
    return Counter(str(path) for path in photos.rglob("*.png"))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["t.yaml", "patches.yaml"])
def test_the_first_run_reads_each_file_once_and_the_second_none(
    place: Path, old_photos: Path, task: str
) -> None:
    code, _, reads = command(place, old_photos, task=task)
    assert code == 0 and reads == all_once(old_photos) and n_embedded(place) == 24
    code, said, reads = command(place, old_photos, task=task)
    assert code == 0 and reads == {} and n_embedded(place) == 24, said


@pytest.mark.slow
def test_touched_files_are_read_and_the_run_is_done_before(place: Path, old_photos: Path) -> None:
    """Also without the features, which are then not computed again."""
    assert command(place, old_photos)[0] == 0
    for path in old_photos.rglob("*.png"):
        path.touch()
    for rows in (place / "cache" / "features").rglob("rows-*"):
        rows.unlink()
    code, _, reads = command(place, old_photos)
    assert code == 0 and reads == all_once(old_photos) and n_embedded(place) == 24


@pytest.mark.slow
def test_other_results_take_features_of_touched_files_from_the_cache(
    place: Path, old_photos: Path
) -> None:
    assert command(place, old_photos)[0] == 0
    for path in old_photos.rglob("*.png"):
        path.touch()
    code, _, reads = command(place, old_photos, "--results", "others")
    assert code == 0 and reads == all_once(old_photos) and n_embedded(place) == 24


@pytest.mark.slow
def test_a_bad_image_fails_the_run_and_loses_no_feature(place: Path) -> None:
    for number in range(24):
        split, label = ("train", "test")[number % 2], "abc"[number % 3]
        write_image(place / "photos" / split / label / f"{number}.png", number)
    victim = place / "photos" / "test" / "b" / "1.png"
    whole = victim.read_bytes()
    victim.write_bytes(whole[:100])
    code, said, _ = command(place, place / "photos")
    assert code == 3 and n_embedded(place) == 23
    assert "1 of 24 images cannot be read: test/b/1.png (is cut off: the PNG has no IEND" in said
    code, said, _ = command(place, place / "photos", "--bad-images", "skip")
    assert code == 0 and n_embedded(place) == 23, said
    victim.write_bytes(whole)
    assert command(place, place / "photos")[0] == 0
    assert n_embedded(place) == 24


@pytest.mark.slow
def test_a_missing_image_is_told_before_anything_is_computed(place: Path) -> None:
    lines = ["image,split,label"]
    for number in range(12):
        write_image(place / "photos" / f"{number}.png", number)
        lines.append(f"{number}.png,{('train', 'test')[number % 2]},{'abc'[number % 3]}")
    (place / "photos" / "labels.csv").write_text("\n".join(lines) + "\n")
    (place / "t.yaml").write_text((TASK % "").replace("dataset: folder", "dataset: csv"))
    (place / "photos" / "3.png").unlink()
    cut = place / "photos" / "8.png"
    cut.write_bytes(cut.read_bytes()[:60])
    code, said, _ = command(place, place / "photos", "--data", f"csv={place / 'photos'}")
    assert code == 3 and n_embedded(place) == 0
    assert "2 of 12 images cannot be read" in said and "3.png (is missing)" in said


@pytest.mark.slow
def test_killed_while_it_reads_it_goes_on(place: Path, old_photos: Path) -> None:
    words = ["run", "--model", "m.py:Tiles", "--task", "t.yaml", "--quiet"]
    words += ["--data", f"folder={old_photos}", "--cache", "cache"]
    victim = start(words, cwd=place, env={**os.environ, "PAUSE": "0.2"})
    kill_when(victim, lambda: n_kept(place) >= 12)
    assert n_kept(place) < 24, "it was killed on the way"
    n_left = 24 - n_kept(place)
    code, said, _ = command(place, old_photos)
    assert code == 0, said
    assert n_embedded(place) <= n_left
    assert command(place, old_photos, "--results", "fresh", cache="fresh")[0] == 0
    one, two = (sorted_answers(place / name) for name in ("results", "fresh"))
    assert one == two and len(one) == 12


def n_kept(place: Path) -> int:
    return sum(kept.n_features for kept in cached_models(place / "cache"))


def sorted_answers(results: Path) -> list[tuple[object, ...]]:
    from fieldmark.store import Store

    with Store.open(results / "fieldmark.db", read_only=True) as store:
        (run,) = store.runs()
        return store.predictions(run.id).select("id", "prediction", "score").sort("id").rows()


DUAL_TASKS: dict[str, dict[str, Any]] = {
    "zero_shot": {"metric": "accuracy", "zero_shot": {"text": "asis", "templates": ["a {}"]}},
    "retrieve": {"metric": "recall_at_5", "retrieve": {}},
    "rerank": {"metric": "ap_at_k", "rerank": {}},
}


@pytest.mark.parametrize("protocol", DUAL_TASKS)
def test_dual_encoders_read_each_file_once(
    tmp_path: Path, opened: list[str], protocol: str
) -> None:
    album = Album(tmp_path)
    album.write(
        [
            {"id": f"{n:02}", "image": f"{n}.png", "label": f"c{n % 4}", "split": "test",
             "caption": f"words {n}", "query_id": f"q{n % 3}", "query": f"birds {n % 3}",
             "relevant": ("yes", "no")[n % 2]}
            for n in range(18)
        ]
    )  # fmt: skip
    opened.clear()
    model = HashDual()
    evaluate(model, album.task(**DUAL_TASKS[protocol]), settings=album.settings)
    assert images_of(opened) == {f"{n}.png": 1 for n in range(18)}


# --- archives are streamed


def test_members_of_tars_are_read_in_their_order(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, places = [], {}
    for name in ("b.tar", "a.tar"):
        with tarfile.open(photos / name, "w") as archive:
            for number in (7, 3, 11, 0, 5, 2, 9):
                archive.add(photos / f"{number:02d}.png", f"{name[0]}/{number}.png")
        with tarfile.open(photos / name) as archive:
            for member in archive:
                places[name, member.offset_data] = member.name
                items.append(ImageRef(f"{name}::{member.name}"))
    reads = []
    open_file = Path.open

    class Noting(io.FileIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            if (Path(str(self.name)).name, offset) in places:
                reads.append((Path(str(self.name)).name, offset))
            return super().seek(offset, whence)

    def noting(path: Path, mode: str = "r", *more: Any, **others: Any) -> Any:
        is_tar = path.suffix == ".tar" and mode == "rb"
        return Noting(path, "rb") if is_tar else open_file(path, mode, *more, **others)

    monkeypatch.setattr(Path, "open", noting)
    done = fill(Mean(), photos, sorted(items, key=hash), options(tmp_path, threads=5))
    assert len(done.keys) == 14 and not done.bad
    assert reads == sorted(places), "each once, with growing offsets"


def test_rows_of_parquet_files_are_read_block_by_block(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fieldmark.data import _bytes

    data = [path.read_bytes() for path in sorted(photos.glob("*.png"))]
    pl.DataFrame({"image": data, "small": data[::-1]}).write_parquet(photos / "t.parquet")
    monkeypatch.setattr(_bytes, "PARQUET_BLOCK_BYTES", 4 * len(data[0]))
    blocks = []
    read = _bytes._read_block

    def noting(path: Path, column: str, facts: Any, index: int) -> pl.Series:
        blocks.append((column, index))
        return read(path, column, facts, index)

    monkeypatch.setattr(_bytes, "_read_block", noting)
    names = [f"t.parquet::{n}{column}" for n in range(20) for column in ("", "::small")]
    done = fill(Mean(), photos, [ImageRef(name) for name in names], options(tmp_path, threads=5))
    assert len(done.keys) == 40 and done.throughput.n_computed == 20
    assert blocks == sorted(set(blocks)) and len(blocks) > 4


# --- one file, many parts; many files, one content


def test_all_crops_of_a_file_come_from_one_reading(
    photos: Path, tmp_path: Path, opened: list[str]
) -> None:
    crops = [ImageRef(f"0{n}.png", (float(x), 0.0, 4.0, 4.0)) for x in range(5) for n in range(3)]
    done = fill(Mean(), photos, crops, options(tmp_path))
    assert done.throughput.n_computed == 15
    assert images_of(opened) == {"00.png": 1, "01.png": 1, "02.png": 1}
    opened.clear()
    more = [*crops, ImageRef("00.png", (1.0, 1.0, 5.0, 5.0))]
    assert fill(Mean(), photos, more, options(tmp_path)).throughput.n_computed == 1


def test_a_crop_outside_its_image_is_bad_and_the_others_are_not(
    photos: Path, tmp_path: Path
) -> None:
    inside, outside = ImageRef("00.png", (0.0, 0.0, 4.0, 4.0)), ImageRef("00.png", (900, 0, 4, 4))
    done = fill(Mean(), photos, [outside, inside], options(tmp_path, bad_images="skip"))
    assert list(done.keys) == [inside] and "is empty in an image of" in done.bad["00.png"]


def test_equal_files_are_computed_once_while_both_are_on_their_way(
    photos: Path, tmp_path: Path
) -> None:
    for number in range(10, 20):
        (photos / f"{number}.png").write_bytes((photos / "00.png").read_bytes())
    model = Mean()
    done = embed(model, photos, refs(photos), options(tmp_path, threads=4, batch_size=50))
    assert model.n_images == done.n_computed == 10 and done.is_ok.all()
    assert np.array_equal(done.features[10:], np.repeat(done.features[:1], 10, axis=0))


# --- files that change or go while others are embedded


def test_a_file_replaced_after_it_was_read_is_what_was_read(photos: Path, tmp_path: Path) -> None:
    """And the next command sees what it has become."""
    fresh = embed(Mean(), photos, refs(photos), options(tmp_path / "fresh"))
    swap = Mean(lambda n: write_image(photos / "00.png", 77) if n == 0 else None)
    kept = Contents(None)
    first = embed(swap, photos, refs(photos), options(tmp_path, threads=1, contents=kept))
    assert np.array_equal(first.features, fresh.features)
    known = kept.known(photos, ["00.png"])["00.png"].key
    assert known == first.keys[ImageRef("00.png")]
    second = embed(Mean(), photos, refs(photos), options(tmp_path))
    assert second.n_computed == 1 and not np.array_equal(first.features[0], second.features[0])


def test_a_file_that_goes_while_others_are_embedded(photos: Path, tmp_path: Path) -> None:
    items = refs(photos)
    gone = Mean(lambda _: (photos / "19.png").unlink(missing_ok=True))
    with pytest.raises(DataError, match=r"1 of 20 images cannot be read: 19\.png \(is missing\)"):
        embed(gone, photos, items, options(tmp_path, threads=1))
    assert gone.n_images == 19
    left = embed(Mean(), photos, items, options(tmp_path, bad_images="skip"))
    assert left.n_computed == 0 and left.bad == {"19.png": "is missing"}
    assert list(np.flatnonzero(~left.is_ok)) == [19]


def test_a_known_file_that_goes_is_bad_and_keeps_what_is_cached(
    photos: Path, tmp_path: Path
) -> None:
    known = Contents(None)
    known.learn(photos, ["00.png", "01.png"])
    crops = [ImageRef("00.png", (float(x), 0.0, 4.0, 4.0)) for x in range(3)]
    how = options(tmp_path, bad_images="skip", contents=known)
    fill(Mean(), photos, crops[:1], how)
    (photos / "00.png").unlink()
    done = fill(Mean(), photos, [*crops, ImageRef("01.png")], how)
    assert done.bad == {"00.png": "is missing"}
    assert set(done.keys) == {crops[0], ImageRef("01.png")}


# --- bad images


def test_what_shows_in_the_bytes_is_told_at_the_end_with_all_features_kept(
    photos: Path, tmp_path: Path
) -> None:
    whole = (photos / "11.png").read_bytes()
    for name in ("11.png", "05.png"):
        (photos / name).write_bytes(whole[:100])
    hurt = bytearray(whole)
    hurt[60:80] = bytes(20)
    (photos / "02.png").write_bytes(hurt)
    contents = Contents(None)
    how, items = options(tmp_path, threads=4, contents=contents), refs(photos)[::-1]
    expected = (
        r"3 of 20 images cannot be read: 11\.png \(is cut off: .*; 05\.png \(is cut off: .*; "
        r"02\.png \(cannot be decoded: "
    )
    model = Mean()
    with pytest.raises(DataError, match=expected):
        embed(model, photos, items, how)
    assert model.n_images == 17
    with pytest.raises(DataError, match="of 20 images cannot be read"):
        embed(model, photos, items, how)
    assert model.n_images == 17
    (kept,) = cached_models(tmp_path / "cache")
    assert kept.n_features == 17
    left = embed(model, photos, items, options(tmp_path, bad_images="skip", contents=contents))
    assert left.n_computed == 0 and list(left.bad) == ["11.png", "05.png", "02.png"]


@pytest.mark.parametrize("kind", ["missing", "empty", "folder", "pipe", "leads out", "archive"])
def test_what_is_no_file_is_told_before_any_is_read(
    photos: Path, tmp_path: Path, opened: list[str], kind: str
) -> None:
    items, victim = refs(photos), photos / "13.png"
    if kind == "leads out":
        items.append(ImageRef("../secret.png"))
    elif kind == "archive":
        items.append(ImageRef("none.tar::a.png"))
    else:
        victim.unlink()
        {"missing": lambda: None, "empty": victim.touch, "folder": victim.mkdir,
         "pipe": lambda: os.mkfifo(victim)}[kind]()  # fmt: skip
    model = Mean()
    opened.clear()
    done = fill(model, photos, items, options(tmp_path))
    assert model.n_images == 0 and len(done.bad) == 1 and len(done.keys) == len(items) - 1
    assert done.throughput.n_computed == 0
    assert max(images_of(opened).values()) == 1


# --- the pipeline itself


class Noting:
    """A sink that wants everything."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self.failures: dict[str, str] = {}
        self.threads: set[int] = set()

    def read(self, files: Sequence[HashedFile]) -> list[list[ImagePart]]:
        self.threads.add(threading.get_ident())
        return [[ImagePart(ref, repr(ref).encode()) for ref in file.wanted.refs] for file in files]

    def failed(self, part: ImagePart, reason: str) -> None:
        self.failures[part.ref.image] = reason

    def keep(self, parts: list[ImagePart], features_nd: np.ndarray) -> None:
        assert len(parts) == len(features_nd)
        self.kept += [part.key for part in parts]


@pytest.mark.parametrize("n_crops", [1, 5])
def test_no_more_than_some_batches_are_read_ahead(
    photos: Path, tmp_path: Path, n_crops: int
) -> None:
    n_files, batch_size, n_asked, most = 300, 10, 0, 0
    crops = [(float(x), 0.0, 4.0, 4.0) for x in range(n_crops)]

    def wanted() -> Iterator[WantedFile]:
        nonlocal n_asked
        for number in range(n_files):
            name = f"{number % 20:02d}.png"
            n_asked += n_crops
            yield WantedFile(name, tuple(ImageRef(name, crop) for crop in crops))

    def look(n_embedded: int) -> None:
        nonlocal most
        most = max(most, n_asked - n_embedded)

    sink = Noting()
    how = options(tmp_path, threads=3, batch_size=batch_size)
    done = run_threads(Mean(look), photos, wanted(), sink, how, Silent())
    assert done.n_computed == len(sink.kept) == n_files * n_crops
    assert most <= (AHEAD + 2) * batch_size, "what is read ahead, a batch, and what waits for one"


def test_where_the_time_went(photos: Path, tmp_path: Path) -> None:
    slow = Mean(lambda _: time.sleep(0.05))
    done = fill(slow, photos, refs(photos), options(tmp_path, batch_size=5))
    made = done.throughput
    assert set(made.busy_s) == {"read", "decode", "forward", "write"}
    assert 0.2 <= made.busy_s["forward"] <= made.seconds
    assert (made.n_computed, made.decode, made.batch_size) == (20, "reference", 5)
    about = json.loads((tmp_path / "cache" / "features" / "mean-1" / "model.json").read_text())
    assert about["images_per_s"] == pytest.approx(made.images_per_s)
    assert about["busy_s"] == made.busy_s and about["device_busy"] is None
    (photos / "20.png").write_bytes(write_image(tmp_path / "more.png", 99).read_bytes())
    again = fill(slow, photos, refs(photos), options(tmp_path)).throughput
    about = json.loads((tmp_path / "cache" / "features" / "mean-1" / "model.json").read_text())
    assert about["n_computed"] == 21 and about["n_fallback"] == 0
    assert about["seconds"] == pytest.approx(made.seconds + again.seconds)
    total = made.busy_s["forward"] + again.busy_s["forward"]
    assert about["busy_s"]["forward"] == pytest.approx(total)


def test_what_the_fast_decoder_does_not_take_is_decoded_exactly_and_counted(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torchvision")

    class Fast(Mean):
        decode, preprocess = "cpu", Recipe((16, 16), (20, 20))

        def transform(self, image):  # type: ignore[no-untyped-def]
            return self.preprocess(image)

    class Exact(Fast):
        decode, fingerprint = "reference", "mean-2"

    for number in range(4):
        image = Image.open(write_image(tmp_path / "x.png", number, (64, 48)))
        image.save(tmp_path / f"{number}.jpg", quality=95)
    whole = [ImageRef(f"{number}.jpg") for number in range(4)]
    outside = ImageRef("3.jpg", (900.0, 0.0, 4.0, 4.0))
    how = options(tmp_path, bad_images="skip")
    fast = embed(Fast(), tmp_path, [*whole[:3], outside], how)
    assert (fast.throughput.decode, fast.throughput.n_fallback) == ("cpu", 1)
    assert list(fast.bad) == ["3.jpg"] and "is empty in an image of 64 × 48" in fast.bad["3.jpg"]
    exact = embed(Exact(), tmp_path, whole[:3], how)
    assert exact.throughput.n_fallback == 0
    np.testing.assert_allclose(fast.features[:3], exact.features, atol=1.0)


def test_an_error_in_a_thread_ends_the_pass(photos: Path, tmp_path: Path) -> None:
    class Picky(Mean):
        def transform(self, image):  # type: ignore[no-untyped-def]
            raise ValueError("too blue")

    with pytest.raises(Exception, match=r"failed in transform of \d\d\.png: ValueError: too blue"):
        fill(Picky(), photos, refs(photos), options(tmp_path, threads=4))
    done = fill(Mean(), photos, refs(photos), options(tmp_path))
    assert isinstance(done, Filled) and done.throughput.n_computed == 20


@pytest.mark.slow
def test_a_kill_keeps_what_was_read(photos: Path, tmp_path: Path) -> None:
    """The memory of contents is written every second, the features of every batch."""
    body = f"""
        import sys, time
        from pathlib import Path
        sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
        import fieldmark.files
        fieldmark.files.RACY_NS = 0
        from test_one_pass import Mean, fill, options, refs
        photos = Path({str(photos)!r})
        def pause(n):
            print(n, flush=True)
            time.sleep(0.3)
        fill(Mean(pause), photos, refs(photos), options(Path({str(tmp_path)!r}), threads=1))
    """
    command = [sys.executable, "-c", textwrap.dedent(body)]
    victim = forked.Popen(command, stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    while int(victim.stdout.readline()) < 14:
        pass
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    time.sleep(2.1)
    known = Contents(tmp_path / "cache" / "contents.db").known(
        photos, [r.image for r in refs(photos)]
    )
    assert 6 <= len(known) <= 20
    done = fill(Mean(), photos, refs(photos), options(tmp_path))
    assert done.throughput.n_computed == 6 and len(done.keys) == 20


def test_a_damaged_packed_archive_is_told(photos: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(photos / "00.png", "a.png")
    (photos / "a.tgz").write_bytes(buffer.getvalue()[:-40])
    items = [ImageRef("a.tgz::a.png"), ImageRef("a.tgz::b.png"), ImageRef("01.png")]
    done = fill(Mean(), photos, items, options(tmp_path, bad_images="skip"))
    assert set(done.bad) == {"a.tgz::a.png", "a.tgz::b.png"} and len(done.keys) == 1


@pytest.mark.slow
def test_a_file_that_cannot_be_decoded_is_remembered_as_bad(tmp_path: Path) -> None:
    """It shows only in its pixels; told alike each time, whatever was asked before."""
    root = tmp_path / "photos"
    for number in range(3):
        write_image(root / f"{number}.png", number)
    data = bytearray((root / "1.png").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 60] = bytes(60)
    (root / "1.png").write_bytes(bytes(data))
    time.sleep(2.1)  # younger files are not remembered
    refs = [ImageRef(f"{number}.png") for number in range(3)]
    model = load_model("classical/colour")
    skip = EmbedOptions(tmp_path / "cache", bad_images="skip")
    first = embed(model, root, refs, skip)
    assert list(first.bad) == ["1.png"]
    known = Contents(tmp_path / "cache" / MEMORY).known(root, ["1.png"])
    assert known["1.png"].problem == first.bad["1.png"]
    for _ in range(2):
        with pytest.raises(DataError, match=r"1 of 3 images cannot be read: 1\.png"):
            embed(model, root, refs, EmbedOptions(tmp_path / "cache"))
    crop = [ImageRef("0.png", (9000.0, 0.0, 5.0, 5.0)), ImageRef("0.png")]
    embedded = embed(model, root, crop, skip)
    assert list(embedded.is_ok) == [False, True], "a bad crop says nothing of its file"
    assert not Contents(tmp_path / "cache" / MEMORY).known(root, ["0.png"])["0.png"].problem
