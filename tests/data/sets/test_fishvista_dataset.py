"""Do Fish-Vista's blanks stay blank, and are its two test sets kept apart?"""

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fieldmark.data.sets import fishvista
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, fishvista)
refusal = partial(table_error, fishvista)

HEADER = list(fishvista.FILE_COLUMNS)


def fish(name: str, traits: str = "1011", species: str = "a b") -> dict[str, object]:
    values = ["" if trait == "." else "-1" if trait == "?" else trait for trait in traits]
    return {
        "filename": name, "family": "Abidae", "arkid": f"ark:{name[0]}",
        "standardized_species": species, **dict(zip(fishvista.TRAITS, values, strict=True)),
    }  # fmt: skip


def write_table(path: Path, rows: list[dict[str, object]], header: list[str] = HEADER) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def write(root: Path, folder: str = "Images", **splits: list[dict[str, object]]) -> Path:
    plain = {
        "train": [fish("t1.jpg"), fish("t2.jpg", "0100", "c d")],
        "val": [fish("v1.jpg")],
        "test_insp": [fish("i1.jpg")],
        "test_lvsp": [fish("l1.jpg", "0.?1", "e f")],
    }
    for split, rows in (plain | splits).items():
        write_table(root / f"identification_{split}.csv", rows)
        for row in filter(lambda one: one["filename"], rows):
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / str(row["filename"])).write_bytes(jpeg())
    return root


@pytest.mark.parametrize("folder", ["Images", "Images/chunk_1"])
def test_the_table(tmp_path: Path, folder: str):
    write(tmp_path, folder)
    rows = fishvista.table(tmp_path)
    assert rows.columns == [
        "id", "image", "crop", "split", "label", "unit", "species", "scientific_name", "family",
        "specimen", *fishvista.TRAITS, "classification_split",
    ]  # fmt: skip
    assert rows.row(0) == (
        "t1.jpg", f"{folder}/t1.jpg", None, "train", "a b", "a b", "a b", "A b", "Abidae",
        "ark:t", True, False, True, True, None,
    )  # fmt: skip
    assert rows["split"].to_list() == ["train", "train", "val", "test_insp", "test_lvsp"]


def test_blanks_and_unknowns_stay_null(tmp_path: Path):
    write(tmp_path)
    assert fishvista.table(tmp_path).select(fishvista.TRAITS).row(4) == (False, None, None, True)
    assert findings(tmp_path) == ["note: unknown in some of 5 rows: pelvic_fin 1, barbel 1."]


def test_the_species_tables_are_optional_and_add_their_photos(tmp_path: Path):
    write(tmp_path)
    blank = "...."
    write_table(tmp_path / "classification_train.csv", [fish("t2.jpg", blank, "c d")])
    write_table(tmp_path / "classification_test.csv", [fish("x.jpg", blank, "c d")])
    rows = fishvista.table(tmp_path).select("id", "split", "label", "classification_split").rows()
    assert rows[1] == ("t2.jpg", "train", "c d", "train")
    assert rows[5] == ("x.jpg", None, "c d", "test") and rows[0][3] is None
    assert findings(tmp_path)[-1] == "error: 1 of 6 images are missing: 'Images/x.jpg'."


def test_check_of_species(tmp_path: Path):
    write(tmp_path, test_insp=[fish("i1.jpg", "1011", "g h")], test_lvsp=[fish("l1.jpg")])
    assert findings(tmp_path) == [
        "warning: 1 species of test_lvsp are in train, which should have none of them: 'a b'.",
        "warning: 1 species of test_insp without a training image: 'g h'.",
    ]
    write(tmp_path, train=[fish("t1.jpg"), fish("t2.jpg", "10.0")])
    assert findings(tmp_path)[1] == (
        "error: traits with only one answer in train: 'adipose_fin', 'pelvic_fin', 'barbel'."
    )


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/identification_train.csv  is missing: the train rows of Fish-Vista. `fieldmark "
        "datasets fishvista` shows layout and sources."
    )
    write(tmp_path, val=[fish("v1.jpg"), fish("v2.jpg") | {"barbel": "2"}])
    assert refusal(tmp_path) == (
        "ROOT/identification_val.csv:3  barbel is '2': expected 0, 1, or nothing where it is "
        "unknown."
    )
    write(tmp_path, val=[fish("v1.jpg") | {"filename": ""}])
    assert refusal(tmp_path) == (
        "ROOT/identification_val.csv:2  filename is None: expected a file name."
    )
    write_table(tmp_path / "identification_val.csv", [], ["filename", "barbel"])
    assert refusal(tmp_path) == (
        "ROOT/identification_val.csv:1  lacks the columns 'adipose_fin', 'pelvic_fin', "
        "'multiple_dorsal_fin': expected filename, adipose_fin, pelvic_fin, barbel, "
        "multiple_dorsal_fin."
    )
    write(tmp_path, val=[fish("t1.jpg")])
    assert refusal(tmp_path) == (
        "ROOT  1 ids are on more than one row ('t1.jpg'): ids must be unique."
    )


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("fishvista")
    tables = {path.name for path in root.glob("*.csv")}
    assert tables == {
        "identification_train.csv", "identification_val.csv", "identification_test_insp.csv",
        "identification_test_lvsp.csv", "classification_train.csv", "classification_val.csv",
        "classification_test.csv",
    }  # fmt: skip
    rows = fishvista.table(root)
    train = rows.filter(split="train")
    left_out = set(rows.filter(split="test_lvsp")["label"])
    assert left_out and not left_out & set(train["label"])
    assert all(train[trait].drop_nulls().n_unique() == 2 for trait in fishvista.TRAITS)
    assert rows["pelvic_fin"].null_count() > 0
