"""Sources of images: which are listed, in what order, under which names; what is no source."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import polars as pl
import pytest

from fieldmark.data import ImageSource, dataset_source, find_sources, load_dataset, read_bytes
from fieldmark.errors import DataError, FieldmarkError, UnknownName, UsageError
from kit.made import make_dataset
from kit.pictures import write_image


def no_dataset(name: str) -> ImageSource:
    raise AssertionError(f"{name} is no dataset")


def sources(*words: str) -> list[ImageSource]:
    return find_sources(words, ["newt", "folder"], no_dataset)


def ids(source: ImageSource) -> list[str]:
    return [image.id for image in source.images()]


def readable(source: ImageSource) -> bool:
    return all(read_bytes(source.root, image.ref.image) for image in source.images())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(
        ["b/2.png", "b/1.JPG", "a/x.png", "a.png", "a-b/1.webp", "z.png"]
    ):
        write_image(tmp_path / "photos" / name, number)
    (tmp_path / "photos" / "LICENCE.txt").write_text("mine")
    (tmp_path / "photos" / ".hidden.png").write_bytes(b"")
    return tmp_path


def write_tar(path: Path, photos: Path, names: list[str], mode: str = "w") -> None:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name in names:
            archive.add(photos / name, name)
            about = tarfile.TarInfo(f"{name}.json")
            about.size = 2
            archive.addfile(about, io.BytesIO(b"{}"))


def test_a_folder_is_listed_in_the_order_of_its_paths(place: Path) -> None:
    (source,) = sources("photos")
    every = [path.relative_to("photos").as_posix() for path in Path("photos").rglob("*.*")]
    expected = sorted(name for name in every if not name.endswith((".txt", ".hidden.png")))
    assert ids(source) == expected and source.n_images == len(expected) == 6
    assert source.note == "Files that are not images, ignored: 1 (1 .txt)."
    assert readable(source)


def test_a_link_to_a_folder_above_does_not_go_round_for_ever(place: Path) -> None:
    (place / "photos" / "a" / "up").symlink_to(place / "photos")
    assert sources("photos")[0].n_images == 6


def test_files_are_named_as_they_were_typed(place: Path) -> None:
    first, second = sources("photos/z.png", "photos/a.png", str(place / "photos/b/1.JPG"))
    assert ids(first) == ["photos/z.png", "photos/a.png"]
    assert ids(second) == [str(place / "photos/b/1.JPG")]
    assert readable(first) and readable(second)


def test_what_is_given_twice_is_taken_once(place: Path) -> None:
    (source,) = sources("photos/z.png", "photos/z.png")
    assert source.n_images == 1


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tgz"])
def test_members_of_a_tar_come_in_its_order(place: Path, ending: str) -> None:
    names = ["z.png", "a.png", "b/2.png"]
    write_tar(place / f"one{ending}", place / "photos", names, "w" if ending == ".tar" else "w:gz")
    (source,) = sources(f"one{ending}")
    assert ids(source) == names and source.n_images == 3
    assert readable(source)


def test_shards_of_a_range_are_one_source(place: Path) -> None:
    Path("shards").mkdir()
    for number, name in enumerate(["z.png", "a.png", "b/2.png"], 8):
        write_tar(place / "shards" / f"s-{number:02}.tar", place / "photos", [name])
    (source,) = sources("shards/s-{08..10}.tar")
    assert ids(source) == ["s-08.tar::z.png", "s-09.tar::a.png", "s-10.tar::b/2.png"]
    first = next(iter(source.images()))
    assert source.full_id(first) == source.path_of(first) == "shards/s-08.tar::z.png"
    assert readable(source)
    with pytest.raises(DataError, match=r"^shards/s-11\.tar  does not exist\. Did you mean"):
        sources("shards/s-{08..11}.tar")


def test_ranges_expand_as_in_a_shell(place: Path) -> None:
    with pytest.raises(DataError, match=r"^x/0-01\.tar  does not exist"):
        sources("x/{0..1}-{01..12}.tar")
    with pytest.raises(UsageError, match=r"the range means 0 files"):
        sources("a-{5..2}.tar")
    with pytest.raises(UsageError, match=r"means 1,000,000,000 files"):
        sources("a-{1..1000000000}.tar")
    write_image(place / "odd-{1..2}.png", 3)
    assert ids(sources("odd-{1..2}.png")[0]) == ["odd-{1..2}.png"]


@pytest.mark.parametrize("as_pair", [True, False])
@pytest.mark.parametrize("column", ["image", "photo"])
def test_rows_of_a_parquet_file(place: Path, as_pair: bool, column: str) -> None:
    photos = [(place / "photos" / name).read_bytes() for name in ("z.png", "a.png")]
    values = [{"bytes": data, "path": None} for data in photos] if as_pair else photos
    pl.DataFrame({"label": ["x", "y"], column: values}).write_parquet("t.parquet")
    (source,) = sources("t.parquet")
    assert ids(source) == ["0", "1"]
    found = [read_bytes(source.root, image.ref.image) for image in source.images()]
    assert found == photos


def test_a_datasets_table_and_its_clips(tmp_path: Path) -> None:
    make_dataset("beluga", tmp_path / "beluga", 24)
    source = dataset_source("beluga", tmp_path / "beluga")
    table = load_dataset("beluga").table(tmp_path / "beluga")
    images = list(source.images())
    assert [image.id for image in images] == table["id"].to_list()
    assert [image.label for image in images] == table["label"].to_list()
    make_dataset("kabr", tmp_path / "kabr", 24)
    clips = dataset_source("kabr", tmp_path / "kabr")
    table = load_dataset("kabr").table(tmp_path / "kabr")
    assert clips.n_images == sum(map(len, table["image"])) > len(table)
    assert ids(clips)[:2] == [f"{table['id'][0]}/0", f"{table['id'][0]}/1"]


def test_crops_of_a_dataset_of_your_own(place: Path) -> None:
    Path("own.py").write_text(
        "import polars as pl\n"
        "from fieldmark.data import Info, finish_table\n"
        "INFO, check, make = Info('t', 'l', 'c'), None, None\n"
        "class Own:\n"
        "    INFO, check, make = INFO, check, make\n"
        "    def table(root):\n"
        "        rows = {'id': ['1', '2'], 'image': ['a.png'] * 2, 'crop': [[1, 2, 3, 4], None]}\n"
        "        return finish_table(pl.DataFrame(rows), root)\n"
    )
    source = dataset_source("own.py:Own", place / "photos")
    assert [image.ref.crop for image in source.images()] == [(1.0, 2.0, 3.0, 4.0), None]


def test_a_datasets_name_comes_before_a_folders(place: Path) -> None:
    write_image(place / "newt" / "1.png", 1)
    made = ImageSource("newt", place, 0, tuple)
    assert find_sources(["newt"], ["newt"], lambda _: made) == [made]
    assert ids(sources("./newt")[0]) == ["1.png"]


@pytest.mark.parametrize(
    ("word", "kind", "text"),
    [
        ("photo", UnknownName, "dataset or folder 'photo' is not known. Did you mean 'photos'? "),
        ("newtt", UnknownName, "dataset or folder 'newtt' is not known. Did you mean 'newt'? "),
        ("photos/c", DataError, "photos/c  does not exist."),
        ("phots/c.jpg", DataError, "phots/c.jpg  does not exist."),
        ("empty", DataError, "empty  contains no images."),
        ("shards", DataError, "It contains 2 .tar files: give these (FOLDER/*.tar)."),
        ("table.csv", UsageError, "table.csv  cannot be embedded: expected a dataset"),
        ("text.tar", DataError, "text.tar  is not a tar file that can be read"),
        ("short.tar", DataError, "short.tar  is cut off: fetch it again."),
        ("none.tar", DataError, "none.tar  contains no images."),
        ("text.parquet", DataError, "text.parquet  is not a parquet file that can be read"),
        ("two.parquet", DataError, "two.parquet  has no column `image` with bytes; columns that "),
        ("none.parquet", DataError, "none.parquet  contains no images."),
    ],
)
def test_what_is_no_source_gets_one_line(
    place: Path, word: str, kind: type[FieldmarkError], text: str
) -> None:
    Path("empty").mkdir()
    Path("shards").mkdir()
    for number in (1, 2):
        write_tar(place / "shards" / f"{number}.tar", place / "photos", ["z.png"])
    Path("table.csv").write_text("image\na.png\n")
    Path("text.tar").write_text("no tar")
    whole = (place / "shards" / "1.tar").read_bytes()
    write_tar(place / "long.tar", place / "photos", ["z.png", "a.png", "b/2.png"])
    Path("short.tar").write_bytes(Path("long.tar").read_bytes()[: len(whole) // 4])
    write_tar(place / "none.tar", place / "photos", [])
    Path("text.parquet").write_text("no parquet")
    pl.DataFrame({"a": [b"x"], "b": [b"y"]}).write_parquet("two.parquet")
    pl.DataFrame({"image": pl.Series([], dtype=pl.Binary)}).write_parquet("none.parquet")
    with pytest.raises(kind) as caught:
        sources(word)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_a_member_whose_name_is_no_text_is_refused(place: Path) -> None:
    odd = os.fsdecode(b"\xff.png")
    with tarfile.open("odd.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(place / "photos" / "z.png", odd)
    with pytest.raises(DataError, match="is not UTF-8"):
        sources("odd.tar")


@pytest.mark.parametrize("ending", [".png", ".tar"])
def test_a_file_whose_name_is_no_text_is_refused(place: Path, ending: str) -> None:
    odd = os.fsdecode(b"\xff" + ending.encode())
    Path(odd).write_bytes((place / "photos" / "z.png").read_bytes())
    with pytest.raises(DataError, match="is not UTF-8"):
        sources(odd)
