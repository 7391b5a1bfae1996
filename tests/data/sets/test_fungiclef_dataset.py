"""Are unknown fungi kept as unknown, observations kept together, and nothing fetched?"""

import csv
import importlib
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fieldmark.data.sets import fungiclef
from fieldmark.errors import UsageError
from fieldmark.taxa import RANKS
from kit.dataset import finding_lines, jpeg, table_error

refusal = partial(table_error, fungiclef)

Row = tuple[str, object, object]


def write(root: Path, train: list[Row], val: list[Row], species: bool = False) -> Path:
    """Rows are (image_path, class_id, observationID)."""
    for split, rows in (("train", train), ("val", val)):
        header = ["image_path", "class_id", "observationID", *(["species"] if species else [])]
        with (root / fungiclef.FILES[split]).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows([*row, f"Amanita s{row[1]}"] if species else row for row in rows)
        (root / fungiclef.FOLDERS[split]).mkdir(exist_ok=True)
        for name, _, _ in rows:
            (root / fungiclef.FOLDERS[split] / name).write_bytes(jpeg())
    return root


TRAIN: list[Row] = [("1-1.JPG", 0, 1), ("1-2.JPG", 0, 1), ("2-1.JPG", 4, 2)]
VAL: list[Row] = [("3-1.JPG", 4, 3), ("4-1.JPG", -1, 4), ("5-1.JPG", 9, 5)]


def findings(root: Path) -> list[str]:
    """Without the first line, that a few photos are not the published size."""
    lines = finding_lines(fungiclef, root)
    assert lines[0].startswith("note: not the published size: train ")
    return lines[1:]


def test_the_table(tmp_path: Path):
    write(tmp_path, TRAIN, VAL)
    rows = fungiclef.table(tmp_path)
    assert rows.columns == [
        "id", "image", "crop", "split", "label", "unit", "is_unknown", "is_poisonous", "kind",
        "class_id", *RANKS, "scientific_name",
    ]  # fmt: skip
    assert rows.row(1) == (
        "DF20_300/1-2.JPG", "DF20_300/1-2.JPG", None, "train", "0", "1", False, None, None, 0,
        *[None] * 8,
    )  # fmt: skip
    assert rows.row(3)[:5] == ("DF21_300/3-1.JPG", "DF21_300/3-1.JPG", None, "val", "4")


def test_defect_fungiclef_every_class_train_lacks_is_unknown(tmp_path: Path):
    """-1 was unknown in one place and any unseen class in another."""
    write(tmp_path, TRAIN, VAL)
    rows = fungiclef.table(tmp_path).filter(split="val")
    assert rows.select("label", "is_unknown", "class_id").rows() == [
        ("4", False, 4), ("unknown", True, -1), ("unknown", True, 9),
    ]  # fmt: skip


def test_species_names_where_the_table_has_them(tmp_path: Path):
    write(tmp_path, TRAIN, VAL, species=True)
    assert fungiclef.table(tmp_path)["label"].to_list() == [
        "Amanita s0", "Amanita s0", "Amanita s4", "Amanita s4", "unknown", "unknown",
    ]  # fmt: skip


def test_names_and_ranks_of_classes(tmp_path: Path):
    """By class: a photo of val has those of its class, unknown ones none, contradictions none."""
    write(tmp_path, TRAIN, VAL)
    for split in ("train", "val"):
        path = tmp_path / fungiclef.FILES[split]
        header, *lines = path.read_text().splitlines()
        told = {"0": "Amanita muscaria (L.) Lam.,Amanitaceae,", "4": "Russula vesca,Russulaceae,"}
        named = [
            line + "," + told.get(line.split(",")[1], "Mycena pura,Mycenaceae,") + order
            for line, order in zip(lines, ("Agaricales", "Boletales", "Russulales"), strict=True)
        ]
        path.write_text("\n".join([f"{header},species,family,order", *named]) + "\n")
    rows = fungiclef.table(tmp_path)
    columns = ("scientific_name", "species", "family", "order")
    assert rows.select(columns).rows() == [
        ("Amanita muscaria", "muscaria", "Amanitaceae", None),
        ("Amanita muscaria", "muscaria", "Amanitaceae", None),
        ("Russula vesca", "vesca", "Russulaceae", "Russulales"),
        ("Russula vesca", "vesca", "Russulaceae", "Russulales"),
        (None, None, None, None),
        (None, None, None, None),
    ]
    assert rows["label"][0] == "Amanita muscaria (L.) Lam.", "the label stays as it is"
    assert len(fungiclef.table(tmp_path, rows="observation")) == 5


def test_defect_fungiclef_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The list of poisonous species used to be downloaded when the module was imported."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    fresh = importlib.reload(fungiclef)
    write(tmp_path, TRAIN, VAL)
    assert fresh.table(tmp_path)["is_poisonous"].null_count() == 6
    assert findings(tmp_path)[1] == (
        "note: ROOT/poison_status_list.csv  is not there: the cost of poisonous species cannot be "
        "counted."
    )


def test_the_local_list_of_poisonous_species(tmp_path: Path):
    write(tmp_path, TRAIN, VAL)
    path = tmp_path / "poison_status_list.csv"
    path.write_text("class_id,poisonous\n0,1\n4,0\n9,1\n")
    assert fungiclef.table(tmp_path)["is_poisonous"].to_list() == [
        True, True, False, False, None, True,
    ]  # fmt: skip
    assert findings(tmp_path) == ["note: 2 of 3 photos of val have a class that train lacks."]
    path.write_text("class_id,poisonous\n0,1\n")
    assert (
        findings(tmp_path)[1] == "warning: 1 class that poison_status_list.csv does not list: '4'."
    )
    path.write_text("class_id,poisonous\n0,very\n")
    assert refusal(tmp_path) == (
        "ROOT/poison_status_list.csv:2  poisonous is 'very': expected 0 or 1."
    )


def test_kinds_follow_the_list_and_what_is_not_listed_is_edible(tmp_path: Path):
    write(tmp_path, TRAIN, VAL)
    assert fungiclef.table(tmp_path)["kind"].to_list() == [None] * 4 + ["unknown"] * 2
    (tmp_path / "poison_status_list.csv").write_text("class_id,poisonous\n0,1\n9,1\n")
    assert fungiclef.table(tmp_path)["kind"].to_list() == [
        "poisonous", "poisonous", "edible", "edible", "unknown", "unknown",
    ]  # fmt: skip


def test_the_column_of_the_tables_says_it_where_there_is_no_list(tmp_path: Path):
    write(tmp_path, TRAIN, VAL)
    for split in ("train", "val"):
        path = tmp_path / fungiclef.FILES[split]
        header, *lines = path.read_text().splitlines()
        marked = [f"{line},{int(line.split(',')[1] == '4')}" for line in lines]
        path.write_text("\n".join([f"{header},poisonous", *marked]) + "\n")
    assert fungiclef.table(tmp_path)["kind"].to_list() == [
        "edible", "edible", "poisonous", "poisonous", "unknown", "unknown",
    ]  # fmt: skip
    assert not any(
        "poison" in line for line in [finding.text for finding in fungiclef.check(tmp_path)]
    )
    (tmp_path / "poison_status_list.csv").write_text("class_id,poisonous\n0,1\n4,0\n")
    assert fungiclef.table(tmp_path)["kind"].to_list()[:3] == ["poisonous", "poisonous", "edible"]


def test_rows_of_observations_hold_all_their_photos(tmp_path: Path):
    odd: list[Row] = [("6-1.JPG", 0, 1), ("6-2.JPG", 4, 3), ("6-3.JPG", 0, 3)]
    write(tmp_path, TRAIN, [*VAL, *odd])
    rows = fungiclef.table(tmp_path, rows="observation")
    photos = fungiclef.table(tmp_path)
    assert sorted(rows["image"].explode()) == sorted(photos["image"])
    first = rows.row(0, named=True)
    assert (first["id"], first["image"], first["unit"]) == (
        "train/1", ["DF20_300/1-1.JPG", "DF20_300/1-2.JPG"], "1",
    )  # fmt: skip
    by_id = {row["id"]: (row["label"], len(row["image"])) for row in rows.iter_rows(named=True)}
    assert by_id["val/3"] == ("4", 2) and by_id["val/3#2"] == ("0", 1), "contradictions stay apart"
    assert by_id["val/1"] == ("0", 1), "an observation of train is another row than that of val"
    with pytest.raises(UsageError, match="rows is 'clip': expected photo or observation"):
        fungiclef.table(tmp_path, rows="clip")


def test_names_in_another_case_on_disk_are_found(tmp_path: Path):
    write(tmp_path, TRAIN, VAL)
    (tmp_path / "DF20_300" / "1-2.JPG").rename(tmp_path / "DF20_300" / "1-2.jpg")
    rows = fungiclef.table(tmp_path)
    assert rows.select("id", "image").row(1) == ("DF20_300/1-2.JPG", "DF20_300/1-2.jpg")
    assert rows["image"][0] == "DF20_300/1-1.JPG"


def test_check_of_observations(tmp_path: Path):
    write(tmp_path, [*TRAIN, ("1-3.JPG", 4, 1), ("9.JPG", -1, 9)], [("3-1.JPG", 4, 2)])
    (tmp_path / "DF21_300" / "3-1.JPG").unlink()
    assert findings(tmp_path) == [
        "warning: 1 photo of train with class_id -1: nothing can be learnt.",
        "warning: val has no unknown class: rejection is not tested.",
        "note: ROOT/poison_status_list.csv  is not there: the cost of poisonous species cannot be "
        "counted.",
        "warning: 1 observation with photos of several classes: '1'.",
        "warning: 1 observation in train and in val: '2'.",
        "error: 1 of 6 images are missing: 'DF21_300/3-1.JPG'.",
    ]
    write(tmp_path, TRAIN[:2], VAL)
    assert "error: at least two classes are needed in train." in findings(tmp_path)


def test_numbers_may_be_written_as_decimals(tmp_path: Path):
    write(tmp_path, [("a.JPG", "0.0", "17.0"), ("b.JPG", "1.0", "18")], [("c.JPG", "-1.0", 4)])
    rows = fungiclef.table(tmp_path)
    assert rows["class_id"].to_list() == [0, 1, -1]
    assert rows["unit"].to_list() == ["17", "18", "4"]


def test_broken_files(tmp_path: Path):
    name = "FungiCLEF2023_train_metadata_PRODUCTION.csv"
    assert refusal(tmp_path) == (
        f"ROOT/{name}  is missing: the train photos of FungiCLEF. `fieldmark datasets fungiclef` "
        "shows layout and sources."
    )
    write(tmp_path, [*TRAIN, ("x.JPG", "", 3)], VAL)
    assert refusal(tmp_path) == (
        f"ROOT/{name}:5  class_id is None: expected a whole number, -1 for unknown."
    )
    write(tmp_path, [*TRAIN, ("x.JPG", 1, "")], VAL)
    assert refusal(tmp_path) == f"ROOT/{name}:5  observationID is None: expected an observation."
    (tmp_path / name).write_text("filename,class_id\na,1\n")
    assert refusal(tmp_path) == (
        f"ROOT/{name}:1  lacks the columns 'image_path', 'observationID': expected image_path, "
        "class_id, observationID."
    )


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("fungiclef")
    assert {path.name for path in root.iterdir()} == {
        "DF20_300", "DF21_300", "FungiCLEF2023_train_metadata_PRODUCTION.csv",
        "FungiCLEF2023_val_metadata_PRODUCTION.csv", "poison_status_list.csv",
    }  # fmt: skip
    rows = fungiclef.table(root)
    assert rows["unit"].n_unique() < len(rows)
    assert set(rows.filter(is_unknown=True)["split"]) == {"val"}
    assert rows.filter(is_unknown=True)["class_id"].n_unique() == 2
    assert rows.filter(is_unknown=False)["is_poisonous"].n_unique() == 2
