"""Do folder names of iNaturalist 2021 become species with ranks and common names?"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PIL import Image

from fieldmark.data.sets import inat21
from kit.dataset import finding_lines, table_error

findings = partial(finding_lines, inat21)
refusal = partial(table_error, inat21)

WORM = "00000_Animalia_Annelida_Clitellata_Haplotaxida_Lumbricidae_Lumbricus_terrestris"
MOSS = "09999_Plantae_Bryophyta_Polytrichopsida_Polytrichales_Polytrichaceae_Atrichum_undulatum"


def put(root: Path, *paths: str) -> Path:
    for one in paths:
        path = root / one
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 24), "green").save(path)
    return root


def test_the_table(tmp_path: Path):
    put(tmp_path, f"train_mini/{WORM}/a.jpg", f"val/{WORM}/b.jpg")
    rows = inat21.table(tmp_path)
    assert rows.columns[6:] == [
        "folder", "category", "kingdom", "phylum", "class", "order", "family", "genus", "species",
        "scientific_name", "common_name",
    ]  # fmt: skip
    assert rows.row(0)[3:] == (
        "train", "Lumbricus terrestris", None, "train_mini", 0, "Animalia", "Annelida",
        "Clitellata", "Haplotaxida", "Lumbricidae", "Lumbricus", "terrestris",
        "Lumbricus terrestris", None,
    )  # fmt: skip
    assert rows["split"].to_list() == ["train", "val"]


def test_common_names(tmp_path: Path):
    put(tmp_path, f"train_mini/{WORM}/a.jpg", f"val/{MOSS}/b.jpg")
    categories = [
        {"id": 0, "common_name": "Common Earthworm", "image_dir_name": WORM},
        {"id": 1, "common_name": "", "image_dir_name": MOSS},
    ]
    (tmp_path / "val.json").write_text(json.dumps({"categories": categories}))
    assert inat21.table(tmp_path)["common_name"].to_list() == ["Common Earthworm", None]
    line = "note: 1 of 2 species without a common name: 'Atrichum undulatum'."
    assert line in findings(tmp_path)
    (tmp_path / "val.json").write_text("[]")
    assert refusal(tmp_path) == (
        "ROOT/val.json  contains a list: expected a JSON object, annotations in COCO form."
    )
    (tmp_path / "val.json").write_text("{}")
    assert refusal(tmp_path) == "ROOT/val.json  has no list 'categories': expected a COCO file."
    (tmp_path / "val.json").write_text('{\n"categories": [')
    assert refusal(tmp_path).startswith("ROOT/val.json:2  is not valid JSON: ")


def test_the_full_training_set_stands_in_or_beside(tmp_path: Path):
    put(tmp_path, f"train/{WORM}/a.jpg", f"val/{WORM}/b.jpg")
    assert inat21.table(tmp_path)["split"].to_list() == ["train", "val"]
    line = "note: no train_mini: all of train is used, which is not the published mini protocol."
    assert line in findings(tmp_path)
    put(tmp_path, f"train_mini/{WORM}/a.jpg")
    rows = inat21.table(tmp_path)
    assert rows.select("folder", "split").rows() == [
        ("train", "train_full"), ("train_mini", "train"), ("val", "val"),
    ]  # fmt: skip


def test_species_of_one_name_stay_apart(tmp_path: Path):
    """Names of animals and plants may be the same."""
    twins = ["00001_Animalia_A_B_C_D_Morus_alba", "00002_Plantae_A_B_C_D_Morus_alba"]
    put(tmp_path, *[f"val/{twin}/a.jpg" for twin in twins])
    rows = inat21.table(tmp_path)
    assert rows["label"].n_unique() == 2 and set(rows["scientific_name"]) == {"Morus alba"}


def test_what_is_wrong_is_named(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT  contains no images of iNaturalist 2021: expected "
        "ROOT/{train_mini,val}/00000_Kingdom_…"
        "_species/*.jpg. `fieldmark datasets inat21` shows layout and sources."
    )
    put(tmp_path, "train_mini/Lumbricus/a.jpg")
    assert refusal(tmp_path) == (
        "ROOT  class folder 'Lumbricus' is not named as expected: a number and seven ranks, "
        "00000_Kingdom_Phylum_Class_Order_Family_Genus_species."
    )
    assert findings(tmp_path) == [f"error: {refusal(tmp_path)}"]


def test_listing_opens_and_stats_no_file(tmp_path: Path):
    """Half a million images must be listed in seconds: links that lead nowhere are listed too."""
    folder = put(tmp_path, f"val/{WORM}/a.jpg") / "val" / WORM
    (folder / "b.jpg").symlink_to(tmp_path / "nowhere.jpg")
    assert len(inat21.table(tmp_path)) == 2
    line = f"error: 1 of 2 images are missing: 'val/{WORM}/b.jpg'."
    assert line in findings(tmp_path)


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("inat21")
    names = {path.name for path in root.iterdir()}
    assert names == {"train_mini", "val", "train_mini.json", "val.json"}
    content = json.loads((root / "val.json").read_text())
    rows = inat21.table(root)
    assert rows["common_name"].null_count() == 0
    listed = {images["file_name"] for images in content["images"]}
    assert listed == set(rows.filter(split="val")["image"])
    assert len(content["categories"]) == rows["label"].n_unique()
    folders = [{path.name for path in (root / split).iterdir()} for split in ("train_mini", "val")]
    assert folders[0] == folders[1]
