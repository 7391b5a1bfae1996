"""Do the two plankton sets share one list of classes, whatever else lies in their folders?"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from fieldmark.data import ImageRef, label_ids, load_image
from fieldmark.data.sets import plankton
from fieldmark.errors import DataError
from kit.dataset import finding_lines

findings = partial(finding_lines, plankton)


def put(root: Path, *paths: str) -> Path:
    for one in paths:
        path = root / one
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (40, 20), 90).save(path)
    return root


def test_the_table(tmp_path: Path):
    put(tmp_path, "train/Aphanizomenon_flosaquae/a.png", "val/Snowella_Woronichinia/b.png")
    put(tmp_path, "val/Aphanizomenon_flosaquae/c.png")
    rows = plankton.table(tmp_path)
    assert rows.columns[6:] == ["scientific_name", "class_in"]
    assert rows.select("id", "split", "label", "scientific_name", "class_in").rows() == [
        ("train/Aphanizomenon_flosaquae/a.png", "train", "Aphanizomenon_flosaquae",
         "Aphanizomenon flosaquae", "both"),
        ("val/Aphanizomenon_flosaquae/c.png", "val", "Aphanizomenon_flosaquae",
         "Aphanizomenon flosaquae", "both"),
        ("val/Snowella_Woronichinia/b.png", "val", "Snowella_Woronichinia", None, "val"),
    ]  # fmt: skip
    assert load_image(tmp_path, ImageRef(rows["image"][0])).mode == "RGB"


def test_defect_plankton_class_ids_come_from_the_union(tmp_path: Path):
    """Ids counted in each split on its own made all 84 published models score 1 to 4.5 %."""
    put(tmp_path, "train/B/1.png", "train/C/1.png", "val/A/1.png", "val/C/1.png")
    rows = plankton.table(tmp_path)
    assert label_ids(rows["label"]) == {"A": 0, "B": 1, "C": 2}
    assert "note: 1 class of val without a training image: 'A'." in findings(tmp_path)
    assert "note: 1 class of train that no other split shows: 'B'." in findings(tmp_path)


def test_defect_plankton_stray_files_and_the_folder_itself_are_no_classes(tmp_path: Path):
    put(tmp_path, "train/A/1.png", "train/B/1.png", "val/A/1.png", "val/B/1.png", "val/lost.png")
    (tmp_path / "train" / "A" / "About A.pdf").write_bytes(b"%PDF")
    (tmp_path / "train" / "list.pdf").write_bytes(b"%PDF")
    (tmp_path / "train" / ".DS_Store").write_bytes(b"x")
    rows = plankton.table(tmp_path)
    assert set(rows["label"]) == {"A", "B"} and len(rows) == 4
    assert findings(tmp_path)[:2] == [
        "warning: 1 image outside any class folder, ignored: 'val/lost.png'.",
        "note: 2 stray files, not images, ignored: 'train/A/About A.pdf', 'train/list.pdf'.",
    ]


@pytest.mark.parametrize(
    "name", ["phytoplankton_Utö_2021_labeled", "phytoplankton_Uto\u0308_2021_labeled"]
)
def test_folders_as_the_archives_unpack(tmp_path: Path, name: str):
    put(tmp_path, "labeled_20201020/A/1.png", f"{name}/A/2.png")
    rows = plankton.table(tmp_path)
    assert rows["split"].to_list() == ["train", "val"]
    assert load_image(tmp_path, ImageRef(rows["image"][1])).size == (40, 20)


def test_what_is_wrong_is_named(tmp_path: Path):
    with pytest.raises(DataError) as caught:
        plankton.table(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}  contains no plankton images: expected ROOT/{{train,val}}/CLASS/*.png. "
        "`fieldmark datasets plankton` shows layout and sources."
    )
    put(tmp_path, "train/A/1.png", "train/A/2.png", "train/B/1.png", "train/B/2.png")
    (tmp_path / "train" / "B" / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert findings(tmp_path) == [
        "note: not the published size: train 4 of 63,074, val 0 of 151,236.",
        "warning: no images of split 'val': expected them in ROOT/val.",
        "error: 1 of 4 images cannot be read: 'train/B/2.png' "
        "(is cut off: the PNG has no IEND chunk).",
    ]


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("plankton")
    assert {path.name for path in root.iterdir()} == {"train", "val"}
    assert len(list(root.rglob("*.pdf"))) == 1
    rows = plankton.table(root)
    assert set(rows["class_in"]) == {"both", "train", "val"}
    for one in rows["image"].head(3):
        with Image.open(root / one) as image:
            assert image.mode == "L" and image.format == "PNG"
