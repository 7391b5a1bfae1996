"""Are FishNet's nine traits read by name, and rows that lack one left out and counted?"""

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from fieldmark.data.sets import fishnet
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, fishnet)
refusal = partial(table_error, fishnet)

HEADER = list(fishnet.FILE_COLUMNS)


def fish(image: str, traits: str = "p10110010", **more: object) -> dict[str, object]:
    """`traits`: p or b for the feeding path, then eight digits; a dash is a missing one."""
    values: list[object] = [None if trait == "-" else trait for trait in traits]
    values[0] = {"p": "pelagic", "b": "benthic"}.get(traits[0])
    return {
        "image": image, "Folder": "Sparidae", "Family": "Sparidae", "Genus": "Diplodus",
        "Order": "Perciformes", "Class": "Actinopterygii", "source": "inat",
        **dict(zip(fishnet.TRAITS, values, strict=True)), **more,
    }  # fmt: skip


def write(
    root: Path,
    train: list[dict[str, object]],
    test: list[dict[str, object]],
    header: list[str] = HEADER,
) -> Path:
    for name, rows in (("train", train), ("test", test)):
        with (root / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, header, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        for row in rows:
            path = root / "Image_Library" / str(row["Folder"]) / str(row["image"]).split("/")[-1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg())
    return root


def test_the_table(tmp_path: Path):
    address = "https://www.fishbase.se/images/species/Zefla_u2.jpg"
    rows = [fish(address, "b01001101", species="Zebrasoma flavescens", source="fishbase")]
    write(tmp_path, [fish("one.jpg")], rows)
    table = fishnet.table(tmp_path)
    assert table.columns == [
        "id", "image", "crop", "split", "label", "unit", "species", "genus", "family", "order",
        "class", "source", *fishnet.TRAITS,
    ]  # fmt: skip
    assert table.row(0) == (
        "Sparidae/one.jpg", "Image_Library/Sparidae/one.jpg", None, "train", "Sparidae", "Diplodus",
        None, "Diplodus", "Sparidae", "Perciformes", "Actinopterygii", "inat",
        True, True, False, True, True, False, False, True, False,
    )  # fmt: skip
    assert table["image"][1] == "Image_Library/Sparidae/Zefla_u2.jpg"
    assert table.select("split", "unit", "FeedingPath", "brackish").row(1) == (
        "test", "Zebrasoma flavescens", False, True,
    )  # fmt: skip


@pytest.mark.parametrize("shift", [0, 7, 20])
def test_defect_fishnet_columns_are_found_by_name(tmp_path: Path, shift: int):
    """Positions used to be hard-coded, and broke when an index column was added."""
    header = [*HEADER[shift:], "another", *HEADER[:shift][::-1]]
    write(tmp_path, [fish("a.jpg", "p01010101")], [fish("b.jpg", "b10101010")], header)
    traits = fishnet.table(tmp_path).select(fishnet.TRAITS).rows()
    assert traits == [
        (True, False, True, False, True, False, True, False, True),
        (False, True, False, True, False, True, False, True, False),
    ]


def test_rows_that_lack_a_trait_are_left_out_and_counted(tmp_path: Path):
    train = [fish("a.jpg"), fish("b.jpg", "-10110010"), fish("c.jpg", "b0100110-")]
    write(tmp_path, train, [fish("d.jpg", "b01001101"), fish("e.jpg")])
    assert fishnet.table(tmp_path)["id"].to_list() == [f"Sparidae/{one}.jpg" for one in "ade"]
    assert fishnet.photos(tmp_path)["FeedingPath"].to_list() == [True, None, False, False, True]
    assert "note: 2 of 5 rows lack a trait, left out; 3 remain." in findings(tmp_path)


def test_numbers_may_be_written_as_decimals(tmp_path: Path):
    odd = fish("a.jpg") | {"Tropical": "1.0", "Polar": "0.0"}
    write(tmp_path, [odd], [fish("b.jpg")])
    assert fishnet.table(tmp_path).select("Tropical", "Polar").row(0) == (True, False)


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/train.csv  is missing: the train rows of FishNet. `fieldmark datasets fishnet` shows "
        "layout and sources."
    )
    write(tmp_path, [fish("a.jpg")], [fish("b.jpg"), fish("c.jpg") | {"Boreal": "maybe"}])
    assert refusal(tmp_path) == "ROOT/test.csv:3  Boreal is 'maybe': expected 0, 1 or nothing."
    write(tmp_path, [fish("a.jpg") | {"FeedingPath": "1"}], [fish("b.jpg")])
    assert refusal(tmp_path) == (
        "ROOT/train.csv:2  FeedingPath is '1': expected pelagic, benthic or nothing."
    )
    write(tmp_path, [fish("a.jpg")], [fish("b.jpg")], [one for one in HEADER if one != "Polar"])
    assert refusal(tmp_path).startswith("ROOT/train.csv:1  lacks the columns 'Polar': expected ")
    (tmp_path / "train.csv").write_bytes(b"")
    assert refusal(tmp_path) == "ROOT/train.csv  cannot be read as a table: empty CSV."
    write(tmp_path, [fish("a.jpg", "-10110010")], [fish("b.jpg", "p1011001-")])
    assert refusal(tmp_path) == "ROOT  lists no photos: an empty dataset cannot be used."


def test_check(tmp_path: Path):
    opposite = "b01001101"
    train = [fish("a.jpg"), fish("b.jpg", opposite), fish("a.jpg")]
    test = [fish("c.jpg"), fish("b.jpg", opposite), fish("d.jpg")]
    write(tmp_path, train, test)
    folder = tmp_path / "Image_Library" / "Sparidae"
    (folder / "c.jpg").unlink()
    (folder / "d.jpg").write_bytes(jpeg()[:200])
    assert findings(tmp_path) == [
        "note: not the published size: train 3 of 75,631, test 3 of 18,901.",
        "warning: 1 image both in train and in test: 'Image_Library/Sparidae/b.jpg'.",
        "warning: 1 image on several rows of a file: 'Image_Library/Sparidae/a.jpg'.",
        "error: 1 of 4 images are missing: 'Image_Library/Sparidae/c.jpg'.",
        "error: 1 of 4 images cannot be read: 'Image_Library/Sparidae/d.jpg' "
        "(is cut off: the JPEG has no end marker).",
    ]
    assert fishnet.table(tmp_path)["id"].to_list() == [
        "Sparidae/a.jpg", "Sparidae/b.jpg", "Sparidae/a.jpg#2", "Sparidae/c.jpg",
        "Sparidae/b.jpg#2", "Sparidae/d.jpg",
    ]  # fmt: skip


def test_a_trait_with_one_answer_is_an_error(tmp_path: Path):
    test = [fish("b.jpg"), fish("c.jpg", "b01001101")]
    write(tmp_path, [fish("a.jpg"), fish("d.jpg", "b11001101")], test)
    assert findings(tmp_path)[1:] == [
        "error: traits with only one answer, or none: 'Tropical (train)'.",
    ]


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("fishnet")
    header = (root / "test.csv").read_text().splitlines()[0].split(",")
    assert header == HEADER and len(header) == 25
    assert {path.name for path in root.iterdir()} == {"train.csv", "test.csv", "Image_Library"}
    every = fishnet.photos(root)
    raw = pl.read_csv(root / "train.csv", infer_schema=False)
    assert set(raw["source"]) == {"inat", "fishbase"} and raw["image"].str.contains("/").any()
    assert len(fishnet.table(root)) < len(every)
    assert all((root / image).is_file() for image in every["image"])
