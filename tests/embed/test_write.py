"""Feature files: what numpy, safetensors and polars read is what the cache holds, in the order of
the source; whole or not at all.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fieldmark.data import ImageSource, ListedImage, find_sources
from fieldmark.embed import (
    EmbedOptions,
    FileForm,
    Throughput,
    add_throughputs,
    cached_models,
    embed,
    embed_chunks,
    write_chunks,
)
from fieldmark.errors import DataError
from fieldmark.models import Features
from fieldmark.progress import Silent
from kit.made import make_dataset
from kit.pictures import write_image

N = 23
SUFFIXES = [".npy", ".safetensors", ".parquet"]


class Tiles:
    """Mean colours of the picture; counts what it is asked."""

    name, dim, fingerprint, batch_size = "tiles", 3, "tiles-1", 4

    def __init__(self, scale: float = 1.0) -> None:
        self.n_images, self.scale = 0, scale

    def transform(self, image: Any) -> np.ndarray:
        return np.asarray(image.resize((32, 32)), np.float32)

    def embed_images(self, batch: np.ndarray) -> Features:
        self.n_images += len(batch)
        return Features(batch.mean(axis=(1, 2)) * self.scale)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageSource:
    monkeypatch.chdir(tmp_path)
    for number in range(N):
        write_image(tmp_path / "photos" / f"{number % 3}" / f"{number:02}.png", number)
    return folder()


def folder(*names: str) -> ImageSource:
    (source,) = find_sources(names or ["photos"], [], lambda name: pytest.fail(name))
    return source


def options(**changes: Any) -> EmbedOptions:
    return EmbedOptions(Path("cache"), **changes)


def expected(source: ImageSource) -> np.ndarray:
    """By the engine, all at once, in a cache of its own."""
    refs = [image.ref for image in source.images()]
    return embed(Tiles(), source.root, refs, EmbedOptions(Path("other"))).features


def write(out: str, *sources: ImageSource, n_chunk: int = 7, **changes: Any) -> list[Path]:
    policy = changes.pop("bad_images", "fail")
    form = FileForm(Path(out), 3, about={"model": "tiles", "dim": "3"}, **changes)
    chunks = embed_chunks(Tiles(), sources, options(bad_images=policy), n_chunk=n_chunk)
    return write_chunks(form, chunks, len(sources) > 1)


def read(out: str) -> np.ndarray:
    if out.endswith(".npy"):
        return np.load(out, allow_pickle=False)
    if out.endswith(".safetensors"):
        from safetensors.numpy import load_file

        return load_file(out)["features"]
    return pl.read_parquet(out)["feature"].to_numpy()


def ids(out: str) -> list[str]:
    if out.endswith(".parquet"):
        return pl.read_parquet(out)["id"].to_list()
    with Path(f"{out}.ids.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["row"]) for row in rows] == list(range(len(rows)))
    return [row["id"] for row in rows]


def files() -> set[str]:
    return {path.name for path in Path().iterdir()} - {"photos", "cache", "other"}


# --- features


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_tools_read_what_was_computed(photos: ImageSource, suffix: str, dtype: str) -> None:
    out = f"f{suffix}"
    made = write(out, photos, dtype=dtype)
    values = read(out)
    assert values.dtype == dtype and values.shape == (N, 3)
    np.testing.assert_array_equal(values, expected(photos).astype(dtype))
    assert ids(out) == [image.id for image in photos.images()]
    assert {path.name for path in made} == files(), "nothing else is left"


def test_safetensors_says_what_the_features_are_of(photos: ImageSource) -> None:
    from safetensors import safe_open

    write("f.safetensors", photos)
    with safe_open("f.safetensors", "np") as file:
        assert file.metadata() == {"model": "tiles", "dim": "3"}


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_rows_start_where_memory_maps_want_them(photos: ImageSource, suffix: str) -> None:
    """Both readers refuse or copy what is not aligned."""
    out = f"f{suffix}"
    write(out, photos)
    assert (Path(out).stat().st_size - N * 3 * 4) % 8 == 0
    if suffix == ".npy":
        np.testing.assert_array_equal(np.load(out, mmap_mode="r"), expected(photos))


def test_chunks_do_not_matter(photos: ImageSource) -> None:
    for suffix in SUFFIXES:
        write(f"one{suffix}", photos, n_chunk=1000)
        write(f"many{suffix}", photos, n_chunk=1)
        assert ids(f"one{suffix}") == ids(f"many{suffix}")
        np.testing.assert_array_equal(read(f"one{suffix}"), read(f"many{suffix}"))


def test_equal_images_share_one_feature_and_keep_their_rows(photos: ImageSource) -> None:
    first = Path("photos/0/00.png")
    Path("photos/2/zz.png").write_bytes(first.read_bytes())
    model = Tiles()
    sizes = [len(chunk.images) for chunk in embed_chunks(model, [folder()], options(), n_chunk=5)]
    assert model.n_images == N
    assert sizes == [5, 5, 5, 5, 4]


def test_only_one_chunk_is_held_at_a_time(photos: ImageSource) -> None:
    chunks = embed_chunks(Tiles(), [photos], options(), n_chunk=5)
    first, second = next(chunks), next(chunks)
    assert (len(first.images), len(first.keys)) == (0, 0)
    assert (len(second.images), len(second.keys)) == (5, 5)


def test_of_several_sources_ids_begin_with_their_names(photos: ImageSource) -> None:
    one, two = folder("photos/1"), folder("photos/2/")
    write("f.npy", one, two)
    assert ids("f.npy")[0] == "photos/1/01.png" and ids("f.npy")[-1] == "photos/2/20.png"
    write("f.npy", two)
    assert ids("f.npy")[-1] == "20.png"


def test_labels_and_splits_come_along(photos: ImageSource) -> None:
    from fieldmark.data import dataset_source, load_dataset

    make_dataset("folder", Path("made"), 12)
    source = dataset_source("folder", Path("made"))
    table = load_dataset("folder").table(Path("made"))
    write("f.parquet", source, has_labels=True)
    kept = pl.read_parquet("f.parquet")
    assert kept.select("id", "label", "split").equals(table.select("id", "label", "split"))
    write("f.npy", source, has_labels=True)
    beside = pl.read_csv("f.npy.ids.csv", schema_overrides={"id": pl.String})
    assert beside.columns == ["row", "id", "image", "label", "split"]
    assert beside.select("id", "label", "split").equals(table.select("id", "label", "split"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bad_images_are_left_out_and_listed(photos: ImageSource, suffix: str) -> None:
    Path("photos/1/04.png").write_bytes(b"no image")
    Path("photos/2/05.png").write_bytes(Path("photos/2/05.png").read_bytes()[:60])
    with pytest.raises(DataError, match=r"2 of 23 images cannot be read: .*04\.png"):
        write(f"f{suffix}", photos, n_chunk=100)
    assert files() == set(), "nothing half is left"
    made = write(f"f{suffix}", photos, bad_images="skip")
    rest = [image.id for image in photos.images() if image.id not in ("1/04.png", "2/05.png")]
    assert ids(f"f{suffix}") == rest and read(f"f{suffix}").shape == (N - 2, 3)
    assert np.isfinite(read(f"f{suffix}")).all()
    bad = pl.read_csv(f"f{suffix}.bad.csv")
    assert bad["id"].to_list() == ["1/04.png", "2/05.png"]
    assert bad["image"].to_list() == ["photos/1/04.png", "photos/2/05.png"]
    assert "is not an image" in bad["reason"][0] and Path(f"f{suffix}.bad.csv") in made
    for name in ("1/04.png", "2/05.png"):
        write_image(Path("photos") / name, 77)
    write(f"f{suffix}", photos)
    assert not Path(f"f{suffix}.bad.csv").exists(), "an old list must not stay"


def test_nothing_readable_is_an_error_even_when_bad_ones_are_skipped(photos: ImageSource) -> None:
    for path in Path("photos").rglob("*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(DataError, match=r"^none of the images can be read: the first is not an im"):
        write("f.npy", photos, bad_images="skip")
    assert files() == set()


def test_what_does_not_fit_float16_is_refused(photos: ImageSource) -> None:
    form = FileForm(Path("f.npy"), 3, "float16")
    with pytest.raises(DataError, match=r"are too large for float16: use --dtype float32"):
        write_chunks(form, embed_chunks(Tiles(scale=1e4), [photos], options()))
    assert files() == set()


def test_an_older_file_stays_until_the_new_one_is_whole(photos: ImageSource) -> None:
    Path("f.npy").write_bytes(b"older")

    def broken() -> Iterator[Any]:
        yield from islice(embed_chunks(Tiles(), [photos], options(), n_chunk=5), 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_chunks(FileForm(Path("f.npy"), 3), broken())
    assert Path("f.npy").read_bytes() == b"older" and files() == {"f.npy"}


@pytest.mark.parametrize("name", ["f.npy", "f.parquet"])
def test_two_processes_do_not_write_one_file(photos: ImageSource, name: str) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from fieldmark.embed.write import FileForm, feature_file;"
        f"opened = feature_file(FileForm(Path('{name}'), 3)); opened.__enter__();"
        "print('ready', flush=True); sys.stdin.read(); opened.__exit__(None, None, None)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout and other.stdout.readline() == "ready\n"
    with pytest.raises(DataError, match="is being written by another process"):
        write(name, photos)
    other.communicate("")
    write(name, photos)


def test_images_are_listed_no_further_than_the_chunk(photos: ImageSource) -> None:
    n_listed = 0

    def images() -> Iterator[ListedImage]:
        nonlocal n_listed
        for image in photos.images():
            n_listed += 1
            yield image

    watched = ImageSource("photos", photos.root, N, images, "/")
    chunks = embed_chunks(Tiles(), [watched], options(), n_chunk=5)
    for n_chunks in range(1, 4):
        next(chunks)
        assert n_listed == 5 * n_chunks


def test_missing_files_of_a_table_are_told_before_the_first_chunk(photos: ImageSource) -> None:
    listed = list(photos.images())
    (photos.root / listed[-1].ref.image).unlink()
    table = ImageSource("album", photos.root, N, lambda: listed, "/", has_labels=True)
    with pytest.raises(DataError, match=rf"^album  1 of {len(listed)} images cannot be read: "):
        next(embed_chunks(Tiles(), [table], options(), n_chunk=5))
    assert cached_models(options().cache) == []
    n_chunks = len(list(embed_chunks(Tiles(), [table], options(bad_images="skip"), n_chunk=5)))
    assert n_chunks == -(-len(listed) // 5)


class Shown(Silent):
    def __init__(self) -> None:
        self.starts: list[tuple[str, int]] = []
        self.n = 0

    def start(self, label: str, total: int) -> None:
        self.starts.append((label, total))

    def advance(self, n: int = 1) -> None:
        assert n > 0
        self.n += n


def test_one_bar_over_all_chunks(photos: ImageSource) -> None:
    shown = Shown()
    for _ in embed_chunks(Tiles(), [photos], options(), shown, n_chunk=5):
        pass
    assert shown.starts == [("embedding with tiles", N)] and shown.n == N


def test_throughputs_add_up() -> None:
    one = Throughput(10, 2.0, "cpu", 1, {"read": 1.0, "forward": 0.5}, 0.5, True, 8)
    two = Throughput(30, 6.0, "cpu", 0, {"read": 2.0}, 0.9, True, 8)
    total = add_throughputs([one, two, Throughput()])
    assert (total.n_computed, total.seconds, total.n_fallback) == (40, 8.0, 1)
    assert total.busy_s == {"read": 3.0, "forward": 0.5} and total.images_per_s == 5.0
    assert total.decode == "cpu" and total.device_busy == pytest.approx((0.5 * 2 + 0.9 * 6) / 8)
    assert add_throughputs([]) == Throughput()
