"""Does the world write a dataset that can be read, checked and made again?"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from fieldmark.data import COLUMNS
from fieldmark.data.sets import world as dataset
from fieldmark.data.sets.world import SUBCOLLECTIONS, plan_photos
from fieldmark.errors import DataError, UsageError
from fieldmark.taxa import RANKS
from fieldmark.world import Scene, World, write_photo

NAMES = ["species", "night", "individual", "stage", "behaviour", "habitat", "health"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    dataset.make(folder, World(), 300)
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    dataset.make(folder, World(), 90)
    return folder


@pytest.fixture
def copy(small: Path, tmp_path: Path) -> Path:
    """A folder with the same files, to be damaged."""
    for path in small.rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(small)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path


def test_the_table_keeps_the_contract(root: Path) -> None:
    frame = dataset.table(root)
    assert list(frame.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert {"question", "answer", "caption", "individual", "background", *RANKS} <= set(
        frame.columns
    )
    assert frame["id"].is_unique().all() and 250 <= len(frame) <= 350
    assert frame["label"].equals(frame["scientific_name"].rename("label"))
    assert all((root / one).is_file() for one in frame["image"])
    with Image.open(root / frame["image"][0]) as image:
        assert image.size == (256, 256) and image.format == "JPEG"
    assert dataset.check(root)[0].level == "note"


@pytest.mark.parametrize("size", [60, 300, 1500])
def test_every_question_is_balanced_at_every_size(size: int) -> None:
    world = World()
    items = list(plan_photos(world, size))
    assert 0.8 * size <= len(items) <= 1.25 * size
    assert [subcollection.name for subcollection in SUBCOLLECTIONS] == NAMES
    for name in NAMES:
        splits = {
            split: [item for item in items if (item.question, item.split) == (name, split)]
            for split in ("train", "test")
        }
        assert len(splits["train"]) == len(splits["test"]) >= 2
    if size >= 300:
        species = {item.scene.species for item in items if item.question == "species"}
        assert len(species) == 24


def test_defect_splits_units_never_cross_splits() -> None:
    """A burst lies in one split and belongs to one question."""
    owners: dict[tuple[int, int], set[tuple[str, str]]] = {}
    for item in plan_photos(World(), 1500):
        unit = (item.scene.species, item.scene.burst)
        owners.setdefault(unit, set()).add((item.question, item.split))
    assert all(len(splits) == 1 for splits in owners.values())


def test_units_in_the_table_never_cross_splits(root: Path) -> None:
    frame = dataset.table(root)
    assert frame.group_by("unit").agg(pl.col("split").n_unique())["split"].max() == 1


def test_night_shifts_and_individuals_return(root: Path) -> None:
    frame = dataset.table(root)
    night = frame.filter(pl.col("question") == "night")
    assert set(night.filter(pl.col("split") == "train")["condition"]) == {"day"}
    assert set(night.filter(pl.col("split") == "test")["condition"]) == {"night"}
    seen = frame.filter(pl.col("question") == "individual")
    by_one = seen.group_by("individual").agg(pl.col("unit").n_unique(), pl.col("split").n_unique())
    assert by_one["unit"].min() >= 2 and by_one["split"].min() == 2
    health = frame.filter(pl.col("question") == "health")
    assert set(health["answer"]) == {"healthy", "sick"}


@pytest.mark.slow
def test_making_again_gives_the_same_bytes(copy: Path) -> None:
    before = {path.name: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    dataset.make(copy, World(), 90)
    after = {path.name: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert before == after
    own = copy / "images" / "mine.jpg"
    own.write_bytes(b"not ours")
    dataset.make(copy, World(), 60)
    left = {path.name for path in (copy / "images").iterdir()}
    assert left == {Path(image).name for image in dataset.table(copy)["image"]} | {"mine.jpg"}


def test_species_table_describes_all(root: Path) -> None:
    frame = pl.read_csv(root / "species.csv")
    assert len(frame) == 48 and frame["scientific_name"].is_unique().all()
    assert {*RANKS, "description", "has_crest", "main_colour"} <= set(frame.columns)


@pytest.mark.parametrize(
    ("damage", "level", "words"),
    [
        ("delete", "error", "1 of 96 images are missing: 'images/species-0000.jpg'."),
        ("truncate", "error", "1 of 96 images cannot be read: 'images/species-0000.jpg' ("),
        ("extra", "warning", "1 file in images that no row names: 'extra.jpg'."),
        ("species", "warning", "species.csv  is missing"),
        ("split", "error", "1 unit in more than one split: '"),
        ("table", "error", "photos.csv  is missing: the table of the photos."),
        ("column", "error", "photos.csv:1  has no column 'label'"),
        ("binary", "error", "photos.csv:1  has no column 'id'"),
        ("empty", "error", "photos.csv  is not a table"),
    ],
)
def test_check_reports_damage(copy: Path, damage: str, level: str, words: str) -> None:
    _damage(copy, damage)
    findings = dataset.check(copy)
    assert len(findings) == 1 and findings[0].level == level
    assert words in findings[0].text and "\n" not in findings[0].text


def _damage(root: Path, damage: str) -> None:
    image, photos = root / "images" / "species-0000.jpg", root / "photos.csv"
    if damage == "delete":
        image.unlink()
    elif damage == "truncate":
        image.write_bytes(image.read_bytes()[:-2000])
    elif damage == "extra":
        (root / "images" / "extra.jpg").write_bytes(image.read_bytes())
    elif damage == "species":
        (root / "species.csv").unlink()
    elif damage == "table":
        photos.unlink()
    elif damage == "column":
        pl.read_csv(photos).drop("label").write_csv(photos)
    elif damage == "empty":
        photos.write_bytes(b"")
    elif damage == "binary":
        photos.write_bytes(b"\x00\xff\xfe" * 50)
    else:
        frame = pl.read_csv(photos)
        pl.concat([frame[:-1], frame[-1:].with_columns(unit=pl.lit(frame["unit"][0]))]).write_csv(
            photos
        )


def test_write_photo_is_atomic_and_makes_folders(tmp_path: Path) -> None:
    photo = World(n_species=1).photo(Scene(0))
    path = tmp_path / "a" / "b" / "bird.png"
    write_photo(photo, path)
    with Image.open(path) as image:
        assert image.convert("RGB").tobytes() == photo.image.tobytes()
    assert [one.name for one in path.parent.iterdir()] == ["bird.png"]
    with pytest.raises(UsageError, match="no known suffix"):
        write_photo(photo, tmp_path / "bird.xyz")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_photo(photo, tmp_path / "file" / "bird.jpg")


def test_small_worlds_can_be_made_too(tmp_path: Path) -> None:
    dataset.make(tmp_path, World(n_species=2), 40)
    assert len(dataset.table(tmp_path)) >= 20
    assert dataset.check(tmp_path)[0].level == "note"


def test_info_says_what_a_user_needs() -> None:
    assert dataset.INFO.licence == "CC0-1.0" and "photos.csv" in dataset.INFO.layout
