"""Are numbered class folders read by name, in both forms of the challenge?"""

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from fieldmark.data.sets import herbarium19
from fieldmark.errors import DataError


def put(root: Path, *paths: str) -> Path:
    for one in paths:
        path = root / one
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 40), "white").save(path)
    return root


@pytest.mark.parametrize("prefix", ["", "small-"])
def test_the_table(tmp_path: Path, prefix: str):
    put(
        tmp_path, f"{prefix}train/10/a.jpg", f"{prefix}train/9/b.jpg", f"{prefix}validation/9/c.jpg"
    )
    rows = herbarium19.table(tmp_path)
    assert rows.select("id", "split", "label").rows() == [
        (f"{prefix}train/10/a.jpg", "train", "10"),
        (f"{prefix}train/9/b.jpg", "train", "9"),
        (f"{prefix}validation/9/c.jpg", "val", "9"),
    ]


def test_what_is_wrong_is_named(tmp_path: Path):
    with pytest.raises(DataError) as caught:
        herbarium19.table(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}  contains no herbarium sheets: expected "
        f"ROOT/{{train,validation}}/CLASS/*.jpg. "
        "`fieldmark datasets herbarium19` shows layout and sources."
    )
    put(tmp_path, "train/1/a.jpg", "train/1/b.jpg", "train/2/c.jpg", "train/2/d.jpg")
    put(tmp_path, "validation/3/e.jpg", "validation/3/f.jpg")
    assert [f"{finding.level}: {finding.text}" for finding in herbarium19.check(tmp_path)] == [
        "note: not the published size: train 4 of 34,225, val 2 of 2,679, classes 3 of 683.",
        "warning: 1 class of val without a training image: '3'.",
        "note: 2 classes of train that no other split shows: '1', '2'.",
    ]


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("herbarium19")
    assert {path.name for path in root.iterdir()} == {"train", "validation"}
    rows = herbarium19.table(root)
    assert all(label.isdecimal() for label in rows["label"])
    assert set(rows["split"]) == {"train", "val"}
