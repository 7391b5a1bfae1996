"""Do ids of Pl@ntNet become unique, readable names?"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
from PIL import Image

from fieldmark.data import ImageRef, load_image
from fieldmark.data.sets import plantnet
from kit.dataset import finding_lines, table_error

findings = partial(finding_lines, plantnet)
refusal = partial(table_error, plantnet)

NAMES = {"11": "Lactuca virosa L.", "22": "Mentha x piperita L.", "33": "Lactuca virosa L."}


def put(root: Path, *paths: str) -> Path:
    for one in paths:
        path = root / "images" / one
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 24), "green").save(path)
    return root


def facts(**images: tuple[str, str]) -> str:
    by_name = {
        name: {"obs_id": "7", "species_id": species, "organ": "leaf", "author": "A", "license":
               "cc-by-sa", "split": split}
        for name, (species, split) in images.items()
    }  # fmt: skip
    return json.dumps(by_name)


def test_the_table(tmp_path: Path):
    put(tmp_path, "train/11/aa.jpg", "val/22/bb.jpg", "test/22/cc.jpg")
    (tmp_path / plantnet.NAMES).write_text(json.dumps({"11": NAMES["11"], "22": NAMES["22"]}))
    (tmp_path / plantnet.INDEX).write_text('{"0": "11", "1": "22"}')
    (tmp_path / plantnet.METADATA).write_text(facts(aa=("11", "train")))
    rows = plantnet.table(tmp_path)
    assert rows.columns[6:] == [
        "species_id", "class_idx", "scientific_name", "genus", "species", "organ", "author",
        "license",
    ]  # fmt: skip
    assert rows.row(1) == (
        "images/train/11/aa.jpg", "images/train/11/aa.jpg", None, "train", "Lactuca virosa L.",
        "obs7", "11", 0, "Lactuca virosa", "Lactuca", "virosa", "leaf", "A", "cc-by-sa",
    )  # fmt: skip
    assert rows.row(2)[3:9] == (
        "val", "Mentha x piperita L.", None, "22", 1, "Mentha x piperita",
    )  # fmt: skip


def test_defect_plantnet_all_three_splits_are_read(tmp_path: Path):
    put(tmp_path, "train/11/a.jpg", "val/11/b.jpg", "test/11/c.jpg")
    assert set(plantnet.table(tmp_path)["split"]) == {"train", "val", "test"}


def test_defect_plantnet_stray_files_are_no_items(tmp_path: Path):
    put(tmp_path, "train/11/a.jpg", "train/22/a2.jpg", "train/lost.jpg")
    (tmp_path / "images" / "train" / "11" / "Thumbs.db").write_bytes(b"x")
    assert len(plantnet.table(tmp_path)) == 2
    assert findings(tmp_path)[:2] == [
        "warning: 1 image outside any class folder, ignored: 'images/train/lost.jpg'.",
        "note: 1 stray file, not images, ignored: 'images/train/11/Thumbs.db'.",
    ]


def test_defect_plantnet_duplicate_names_stay_two_classes(tmp_path: Path):
    """Version 1.0 of the names has 57 that stand for two ids."""
    put(tmp_path, "train/11/a.jpg", "train/22/b.jpg", "train/33/c.jpg")
    (tmp_path / plantnet.NAMES).write_text(json.dumps(NAMES))
    assert plantnet.table(tmp_path)["label"].to_list() == [
        "Lactuca virosa L. (11)", "Mentha x piperita L.", "Lactuca virosa L. (33)",
    ]  # fmt: skip
    line = (
        "note: 1 name of several species ids, as in version 1.0: 'Lactuca virosa L.'. Version 1.1 "
        f"of {plantnet.NAMES} has none."
    )
    assert line in findings(tmp_path)


def test_the_folder_of_the_archive(tmp_path: Path):
    put(tmp_path / "plantnet_300K", "train/11/a.jpg", "val/11/b.jpg")
    (tmp_path / "plantnet_300K" / plantnet.NAMES).write_text(json.dumps({"11": "Abies alba"}))
    rows = plantnet.table(tmp_path)
    assert rows["image"].to_list()[0] == "plantnet_300K/images/train/11/a.jpg"
    assert set(rows["label"]) == {"Abies alba"}
    assert load_image(tmp_path, ImageRef(rows["image"][0])).size == (32, 24)


def test_what_is_wrong_is_named(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT  contains no images of Pl@ntNet-300K: expected "
        "ROOT/images/{train,val,test}/SPECIES_ID/"
        "*.jpg. `fieldmark datasets plantnet` shows layout and sources."
    )
    put(tmp_path, "train/11/a.jpg", "train/11/b.jpg", "val/22/c.jpg", "val/22/d.jpg")
    (tmp_path / plantnet.NAMES).write_text('{"11": "Abies alba"}')
    (tmp_path / plantnet.METADATA).write_text(
        facts(a=("11", "train"), b=("11", "val"), c=("22", "val"))
    )
    assert findings(tmp_path) == [
        "warning: 1 species without a name in plantnet300K_species_id_2_name.json: '22'.",
        "note: ROOT/class_idx_to_species_id.json  is missing: the table goes without it.",
        "warning: 1 image not in plantnet300K_metadata.json: 'images/val/22/d.jpg'.",
        "warning: 1 image in another folder than plantnet300K_metadata.json says: "
        "'images/train/11/b.jpg'.",
        "note: not the published size: train 2 of 243,916, val 2 of 31,118, test 0 of 31,112, "
        "classes 2 of 1,081.",
        "warning: no images of split 'test': expected them in ROOT/images/test.",
        "warning: 1 class of val without a training image: '22'.",
        "note: 1 class of train that no other split shows: 'Abies alba'.",
    ]


def test_broken_annotation_files(tmp_path: Path):
    put(tmp_path, "train/11/a.jpg")
    assert findings(tmp_path)[0] == (
        "warning: ROOT/plantnet300K_species_id_2_name.json  is missing: labels are the species' "
        "ids."
    )
    (tmp_path / plantnet.INDEX).write_text('{"Abies": "11"}')
    assert refusal(tmp_path) == (
        "ROOT/class_idx_to_species_id.json  has the key 'Abies': expected class numbers."
    )
    (tmp_path / plantnet.INDEX).unlink()
    (tmp_path / plantnet.METADATA).write_text('{"a": 3}')
    assert refusal(tmp_path) == (
        "ROOT/plantnet300K_metadata.json  'a' contains 3: expected an object of facts."
    )
    (tmp_path / plantnet.NAMES).write_text("[1]")
    assert refusal(tmp_path) == (
        "ROOT/plantnet300K_species_id_2_name.json  contains a list: expected a JSON object, "
        "species "
        "id → name."
    )


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("plantnet")
    names = {path.name for path in root.iterdir()}
    assert names == {"images", plantnet.METADATA, plantnet.NAMES, plantnet.INDEX}
    rows = plantnet.table(root)
    assert rows.select("unit", "class_idx", "scientific_name").null_count().row(0) == (0, 0, 0)
    by_unit = rows.group_by("unit").agg(pl.col("split").n_unique())
    assert by_unit["split"].max() == 1 and len(by_unit) < len(rows)
