"""Is every camera-trap photo under its split, event and name?"""

import json
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from fieldmark.data.sets import iwildcam
from kit.dataset import finding_lines, jpeg, table_error

refusal = partial(table_error, iwildcam)

HEADER = "split,filename,y,location_remapped,sequence_remapped,datetime,category_id"
PLAIN = [
    "train,a.jpg,0,7,1,2013-06-05 05:44:19.000,0",
    "train,b.jpg,1,7,2,2013-06-05 05:44:20.500,10",
    "test,c.jpg,1,8,3,2014-01-01 00:00:00.000,10",
]


def write(root: Path, lines: list[str], home: str = "iwildcam_v2.0", header: str = HEADER) -> Path:
    folder = root / home
    (folder / "train").mkdir(parents=True, exist_ok=True)
    (folder / "metadata.csv").write_text("\n".join([header, *lines]) + "\n")
    for line in lines:
        (folder / "train" / line.split(",")[1]).write_bytes(jpeg())
    return folder


def findings(root: Path) -> list[str]:
    """Without the first line, that a few photos are not the published size."""
    lines = finding_lines(iwildcam, root)
    assert lines[0].startswith("note: not the published size: train 2 of 129,809, ")
    return lines[1:]


@pytest.mark.parametrize("home", ["iwildcam_v2.0", "."])
def test_the_table(tmp_path: Path, home: str):
    write(tmp_path, PLAIN, home)
    rows = iwildcam.table(tmp_path)
    folder = "" if home == "." else f"{home}/"
    assert rows.columns == [
        "id", "image", "crop", "split", "label", "unit", "y", "camera", "sequence", "datetime",
    ]  # fmt: skip
    assert rows.row(1) == (
        "b.jpg", f"{folder}train/b.jpg", None, "train", "1", "7/2", 1, "7", "2",
        datetime(2013, 6, 5, 5, 44, 20, 500_000),
    )  # fmt: skip


def test_names_by_y_or_by_category(tmp_path: Path):
    folder = write(tmp_path, PLAIN)
    assert findings(tmp_path) == [
        "note: 2 classes without a name in ROOT/iwildcam_v2.0/categories.csv: numbers are shown "
        "instead.",
    ]
    categories = folder / "categories.csv"
    categories.write_text("y,name\n0,empty\n1,panthera pardus\n")
    names = ["empty", "panthera pardus", "panthera pardus"]
    assert iwildcam.table(tmp_path)["label"].to_list() == names
    categories.write_text("y,name\n0,deer\n1,deer\n")
    assert iwildcam.table(tmp_path)["label"].to_list() == ["deer (0)", "deer (1)", "deer (1)"]
    categories.unlink()
    coco = {"categories": [{"id": 0, "name": "empty"}, {"id": 10, "name": "panthera pardus"}]}
    for content in (coco, coco["categories"], {"0": "empty", "1": "panthera pardus"}):
        (folder / "categories.json").write_text(json.dumps(content))
        assert iwildcam.table(tmp_path)["label"].to_list() == names
    (folder / "categories.json").write_text("[1]")
    assert refusal(tmp_path) == (
        "ROOT/iwildcam_v2.0/categories.json  cannot be used: expected a list of categories with id "
        "and name, or a mapping from y to name."
    )


def test_all_five_splits(tmp_path: Path):
    lines = [f"{split},{split}.jpg,0,1,{n},x,0" for n, split in enumerate(iwildcam.SPLITS)]
    write(tmp_path, lines)
    rows = iwildcam.table(tmp_path)
    assert rows["split"].to_list() == ["train", "val", "test", "id_val", "id_test"]
    assert rows["datetime"].null_count() == 5


def test_check(tmp_path: Path):
    folder = write(
        tmp_path, [*PLAIN, "test,d.jpg,2,7,2,soon,0", "id_val,e.jpg,0,7,9,2013-06-05 05:44:19.0,0"]
    )
    (folder / "categories.csv").write_text("y,name\n0,empty\n1,deer\n2,fox\n")
    (folder / "train" / "e.jpg").unlink()
    assert findings(tmp_path) == [
        "warning: 1 camera of test also in train: '7'; it should have cameras of its own.",
        "warning: 1 sequence in more than one split: '7/2'.",
        "note: 1 class without a training image: 'fox'.",
        "note: 1 photo without a date that can be read.",
        "error: 1 of 5 images are missing: 'iwildcam_v2.0/train/e.jpg'.",
    ]
    (folder / "categories.csv").write_text("y,name\n0,empty\n1,empty\n")
    write(tmp_path, ["train,a.jpg,0,7,1,x,0", "train,b.jpg,0,7,2,x,0"])
    line = "error: at least two classes are needed in train, found: 'empty (0)'."
    assert line in findings(tmp_path)


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/iwildcam_v2.0/metadata.csv  is missing: the metadata of iWildCam. `fieldmark "
        "datasets iwildcam` shows layout and sources."
    )
    shown = "ROOT/iwildcam_v2.0/metadata.csv"
    write(tmp_path, [*PLAIN, "valid,d.jpg,0,1,1,x,0"])
    assert refusal(tmp_path) == (
        f"{shown}:5  split is 'valid': expected one of train, val, test, id_val, id_test."
    )
    write(tmp_path, ["train,d.jpg,lion,1,1,x,0"])
    assert refusal(tmp_path) == f"{shown}:2  y is 'lion': expected a whole number."
    write(tmp_path, ["train,d.jpg,1,1,1,x,0"], header="split,filename,label,a,b,c,d")
    assert refusal(tmp_path) == (
        f"{shown}:1  lacks the columns 'y', 'location_remapped', 'sequence_remapped' and 1 more: "
        "expected split, filename, y, location_remapped, sequence_remapped, datetime."
    )


def test_the_old_host_is_not_asked():
    (source,) = iwildcam.INFO.sources
    assert not source.url and "tar -xzf" in source.steps


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("iwildcam")
    home = root / "iwildcam_v2.0"
    assert {path.name for path in home.iterdir()} == {
        "metadata.csv", "RELEASE_v2.0.txt", "train", "categories.csv",
    }  # fmt: skip
    rows = iwildcam.table(root)
    assert set(rows["split"]) == set(iwildcam.SPLITS) and "empty" in set(rows["label"])
    assert rows["datetime"].null_count() == 0
    assert rows["unit"].n_unique() < len(rows)
