"""Do the five camera-trap tables keep their classes apart, with ranks as biologists write them?"""

import csv
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from fieldmark.data.sets import camera_traps
from fieldmark.taxa import RANKS
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, camera_traps)
refusal = partial(table_error, camera_traps)

MOUSE = {
    "image_id": "Ohio Small Animals : a.JPG", "sequence_id": "Ohio Small Animals : seq_7",
    "location_id": "Ohio Small Animals : A1E", "original_label": "house_mouse",
    "scientific_name": "mus musculus", "common_name": "mouse", "kingdom": "animalia",
    "phylum": "chordata", "cls": "mammalia", "order": "rodentia", "family": "muridae",
    "genus": "mus", "species": "musculus", "filepath": "island/a.png",
}  # fmt: skip
VOLE = MOUSE | {
    "scientific_name": "microtus pennsylvanicus", "family": "cricetidae", "genus": "microtus",
    "species": "pennsylvanicus", "common_name": "meadow vole", "filepath": "island/b.png",
}  # fmt: skip
BIRD = dict.fromkeys(MOUSE, "") | {
    "scientific_name": "aves", "common_name": "bird", "kingdom": "animalia", "phylum": "chordata",
    "cls": "aves", "filepath": "island/c.png", "sequence_id": "Island : unknown",
    "location_id": "Island",
}  # fmt: skip


def write(root: Path, *rows: dict[str, str], name: str = "island", home: str = "") -> Path:
    path = root / home / f"{name}-balanced.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, camera_traps.FILE_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return root


def test_the_table(tmp_path: Path):
    rows = camera_traps.table(write(tmp_path, MOUSE, BIRD))
    assert rows.columns[6:] == [
        "set", *RANKS, "scientific_name", "common_name", "location", "original_label",
    ]  # fmt: skip
    assert rows.row(0) == (
        "island/a.png", "data/test/island/a.png", None, "test", "mouse",
        "Ohio Small Animals : seq_7", "island", "Animalia", "Chordata", "Mammalia", "Rodentia",
        "Muridae", "Mus", "musculus", "Mus musculus", "mouse", "Ohio Small Animals : A1E",
        "house_mouse",
    )  # fmt: skip
    assert rows.row(1) == (
        "island/c.png", "data/test/island/c.png", None, "test", "bird", None, "island", "Animalia",
        "Chordata", "Aves", None, None, None, None, "Aves", "bird", None, None,
    )  # fmt: skip


def test_animals_of_one_common_name_stay_apart(tmp_path: Path):
    vole = VOLE | {"common_name": "mouse"}
    chick = BIRD | {"common_name": "bird chick", "filepath": "island/d.png"}
    rows = camera_traps.table(write(tmp_path, MOUSE, vole, BIRD, chick))
    assert rows["label"].to_list() == [
        "mouse (mus musculus)", "mouse (microtus pennsylvanicus)", "bird", "bird chick",
    ]  # fmt: skip
    assert rows["common_name"].to_list() == ["mouse", "mouse", "bird", "bird chick"]


def test_the_same_animal_has_one_label_in_all_sets(tmp_path: Path):
    write(tmp_path, MOUSE)
    write(tmp_path, MOUSE | {"filepath": "ENA24/a.png"}, name="ENA24")
    rows = camera_traps.table(tmp_path)
    assert rows.select("set", "label").rows() == [("ENA24", "mouse"), ("island", "mouse")]
    assert rows["id"].to_list() == ["ENA24/a.png", "island/a.png"]


def test_a_row_without_a_common_name_takes_another(tmp_path: Path):
    rows = camera_traps.table(write(tmp_path, MOUSE, VOLE | {"common_name": ""}))
    assert rows["label"].to_list() == ["mouse", "microtus pennsylvanicus"]
    assert rows["common_name"].to_list() == ["mouse", None]


@pytest.mark.parametrize("home", ["data/test", "images", "."])
def test_where_images_may_lie(tmp_path: Path, home: str):
    (tmp_path / home / "island").mkdir(parents=True)
    (tmp_path / home / "island" / "a.png").write_bytes(jpeg())
    image = camera_traps.table(write(tmp_path, MOUSE))["image"][0]
    assert (tmp_path / image).is_file() and not image.startswith(".")


def test_tables_may_lie_beside_the_images(tmp_path: Path):
    assert len(camera_traps.table(write(tmp_path, MOUSE, home="data/test"))) == 1


def test_sequences_in_the_path_of_the_original(tmp_path: Path):
    """Rows of desert-lion have no sequence, but their originals lie in folders of sequences."""
    path = "Desert Lion : panthera leo/2017/02/PvL_seq_362e9fdb-9291/20170218-PICT0056.JPG"
    lion = MOUSE | {"image_id": path, "sequence_id": "Desert Lion : unknown"}
    assert camera_traps.table(write(tmp_path, lion))["unit"][0] == "PvL_seq_362e9fdb-9291"


def test_what_check_says(tmp_path: Path):
    for name in camera_traps.PUBLISHED:
        if name != "orinoquia":
            rows = [
                row | {"filepath": row["filepath"].replace("island", name)}
                for row in (MOUSE, MOUSE | {"filepath": "island/e.png"}, VOLE)
            ]
            write(tmp_path, *rows, BIRD) if name == "island" else write(tmp_path, *rows, name=name)
    lines = findings(tmp_path)
    assert lines[:3] == [
        "warning: ROOT/orinoquia-balanced.csv  is missing: the published mean is of all five sets.",
        "note: desert-lion: not the published size: images 3 of 352, classes 2 of 32.",
        "note: ENA24: not the published size: images 3 of 1,120, classes 2 of 20.",
    ]
    assert "note: 1 image with an empty rank: 'bird'." in lines
    assert "note: 2 classes of 3 with only one image: 'bird', 'meadow vole'." in lines
    assert lines[-1].startswith("error: 13 of 13 images are missing: 'data/test/ENA24/a.png', ")


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT  has none of the tables desert-lion-balanced.csv, ENA24-balanced.csv, "
        "island-balanced.csv, ohio-small-animals-balanced.csv, orinoquia-balanced.csv: expected at "
        "least one. `fieldmark datasets camera_traps` shows layout and sources."
    )
    path = tmp_path / "island-balanced.csv"
    path.write_text("filepath,common_name\na.png,bird\n")
    assert refusal(tmp_path) == (
        "ROOT/island-balanced.csv:1  lacks the columns 'scientific_name', 'kingdom', 'phylum' and "
        "5 more: expected filepath, scientific_name, common_name, kingdom, phylum, cls, order, "
        "family, genus, species."
    )
    write(tmp_path, MOUSE, VOLE | {"filepath": ""})
    assert refusal(tmp_path) == (
        "ROOT/island-balanced.csv:3  filepath is None: expected the path of an image."
    )
    write(tmp_path, MOUSE, dict.fromkeys(MOUSE, "") | {"filepath": "island/b.png"})
    assert refusal(tmp_path) == (
        "ROOT/island-balanced.csv:3  common_name is None: expected a name here or in "
        "scientific_name."
    )
    write(tmp_path, MOUSE, MOUSE)
    assert refusal(tmp_path) == (
        "ROOT  1 ids are on more than one row ('island/a.png'): ids must be unique."
    )
    write(tmp_path)
    assert refusal(tmp_path) == "ROOT  lists no photos: an empty dataset cannot be used."


@pytest.mark.parametrize("name", ["desert-lion", "ENA24", "ohio-small-animals"])
def test_the_published_tables(real_table: Callable[[str], Path], tmp_path: Path, name: str):
    path = real_table(f"{name}-balanced.csv")
    shutil.copy(path, tmp_path)
    rows = camera_traps.table(tmp_path)
    assert (len(rows), rows["label"].n_unique()) == camera_traps.PUBLISHED[name]
    assert set(rows["set"]) == {name} and set(rows["kingdom"]) == {"Animalia"}
    assert rows["label"].equals(rows["common_name"].alias("label")), "no two share a name"
    written = pl.read_csv(path, infer_schema=False, null_values=[""])
    for rank in RANKS:
        column = written["cls" if rank == "class" else rank]
        assert rows[rank].str.to_lowercase().equals(column.alias(rank), null_equal=True)
    assert rows["scientific_name"].str.contains("^[A-Z][a-z]+ [a-z]+$").all()
    n_units = {"desert-lion": 311, "ENA24": 0, "ohio-small-animals": 358}[name]
    assert rows["unit"].drop_nulls().n_unique() == n_units


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("camera_traps")
    assert {path.name for path in root.iterdir()} == {
        "data", *(f"{name}-balanced.csv" for name in camera_traps.PUBLISHED),
    }  # fmt: skip
    rows = camera_traps.table(root)
    assert set(rows["set"]) == set(camera_traps.PUBLISHED)
    island = rows.filter(set="island")
    assert 0 < island["species"].null_count() < len(island)
    assert island.group_by("label").len()["len"].min() == 1
    ohio = rows.filter(set="ohio-small-animals")
    assert ohio["common_name"].n_unique() == ohio["label"].n_unique() - 1
    assert ohio["unit"].null_count() == 0 and ohio["unit"].n_unique() < len(ohio)
    header = (root / "ENA24-balanced.csv").read_text().partition("\n")[0]
    assert header.endswith("filepath,uuid,hashsum_original,hashsum_resized")
