"""Are the classes of Birds 525 the union of its splits, under their own names?"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PIL import Image

from fieldmark.data import label_ids
from fieldmark.data.sets import birds525
from kit.dataset import finding_lines, table_error

findings = partial(finding_lines, birds525)
refusal = partial(table_error, birds525)


def put(root: Path, *paths: str) -> Path:
    for one in paths:
        path = root / one
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 24), "red").save(path)
    return root


def test_the_table(tmp_path: Path):
    put(tmp_path, "train/EMU/001.jpg", "valid/EMU/1.jpg", "test/EMU/1.jpg", "train/KIWI/001.jpg")
    rows = birds525.table(tmp_path)
    assert rows.columns == [
        "id", "image", "crop", "split", "label", "unit", "common_name", "scientific_name",
    ]  # fmt: skip
    assert rows.rows() == [
        ("test/EMU/1.jpg", "test/EMU/1.jpg", None, "test", "EMU", None, "emu", None),
        ("train/EMU/001.jpg", "train/EMU/001.jpg", None, "train", "EMU", None, "emu", None),
        ("train/KIWI/001.jpg", "train/KIWI/001.jpg", None, "train", "KIWI", None, "kiwi", None),
        ("valid/EMU/1.jpg", "valid/EMU/1.jpg", None, "val", "EMU", None, "emu", None),
    ]


def test_defect_birds525_class_ids_come_from_the_union(tmp_path: Path):
    """Two folders numbered on their own disagree as soon as a class is missing in one."""
    put(tmp_path, "train/A/1.jpg", "train/B/1.jpg", "train/C/1.jpg")
    put(tmp_path, "valid/B/1.jpg", "valid/C/1.jpg", "valid/D/1.jpg")
    rows = birds525.table(tmp_path)
    assert label_ids(rows["label"]) == {"A": 0, "B": 1, "C": 2, "D": 3}
    lines = findings(tmp_path)
    assert "warning: 1 class of val without a training image: 'D'." in lines
    assert "note: 1 class of train that no other split shows: 'A'." in lines
    assert "warning: no images of split 'test': expected them in ROOT/test." in lines


def test_names_spelled_in_two_ways_are_one_class(tmp_path: Path):
    put(tmp_path, "train/PARAKETT  AKULET/1.jpg", "valid/Parakett Akulet/1.jpg")
    assert set(birds525.table(tmp_path)["label"]) == {"PARAKETT AKULET"}
    line = "note: class names spelled in two ways, read as one: 'PARAKETT AKULET'."
    assert line in findings(tmp_path)


def test_scientific_names(tmp_path: Path):
    put(tmp_path, "train/EMU/1.jpg", "test/EMU/1.jpg", "train/KIWI/1.jpg")
    (tmp_path / "birds.csv").write_text(
        "class id,filepaths,labels,data set,scientific name\n"
        "0.0,train/EMU/1.jpg,EMU,train,DROMAIUS NOVAEHOLLANDIAE\n"
    )
    names = birds525.table(tmp_path)["scientific_name"].to_list()
    assert names == ["Dromaius novaehollandiae", "Dromaius novaehollandiae", None]
    (tmp_path / "birds.csv").write_text("a,b\n1,2\n")
    assert refusal(tmp_path) == (
        "ROOT/birds.csv  lacks the columns 'labels', 'scientific name': expected labels, "
        "scientific name."
    )


def test_what_is_wrong_is_named(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT  contains no images of Birds 525: expected ROOT/{train,valid,test}/CLASS NAME/*.jpg. "
        "`fieldmark datasets birds525` shows layout and sources."
    )
    put(tmp_path, "train/EMU/1.jpg", "train/KIWI/1.jpg", "valid/EMU/1.jpg", "test/KIWI/1.jpg")
    put(tmp_path, "train/lost.jpg")
    (tmp_path / "train" / "RHEA").mkdir()
    (tmp_path / "train" / "EMU" / "notes.txt").write_text("x")
    (tmp_path / "valid" / "EMU" / "1.jpg").write_bytes(b"")
    assert findings(tmp_path) == [
        "warning: 1 image outside any class folder, ignored: 'train/lost.jpg'.",
        "note: 1 stray file, not images, ignored: 'train/EMU/notes.txt'.",
        "warning: 1 class folder without images: 'train/RHEA'.",
        "note: not the published size: train 2 of 84,635, val 1 of 2,625, test 1 of 2,625, "
        "classes 2 of 525.",
        "error: 1 of 4 images cannot be read: 'valid/EMU/1.jpg' (is empty (0 bytes)).",
    ]


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("birds525")
    assert {path.name for path in root.iterdir()} == {"train", "valid", "test", "birds.csv"}
    classes = [{path.name for path in (root / split).iterdir()} for split in ("train", "valid")]
    assert classes[0] == classes[1] and all(one.isupper() for one in classes[0])
    rows = birds525.table(root)
    assert rows["scientific_name"].null_count() == 0
    assert rows.filter(split="train").group_by("label").len()["len"].min() >= 3


def test_a_gone_source_has_its_steps():
    (source,) = birds525.INFO.sources
    assert not source.url and "fieldmark data check birds525" in source.steps
