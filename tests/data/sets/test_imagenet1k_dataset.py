"""Is every row of every parquet file an item, under a name that only one class has?"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from fieldmark.data import ImageRef, load_image
from fieldmark.data.sets import imagenet1k
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, imagenet1k)
refusal = partial(table_error, imagenet1k)


def write(path: Path, labels: Sequence[object], names: Sequence[str] = (), column: str = "label"):
    features = {"label": {"names": list(names), "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})} if names else None
    images = [{"bytes": jpeg(), "path": f"n_{n}.JPEG"} for n in range(len(labels))]
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({"image": images, column: labels}).write_parquet(path, metadata=metadata)


def test_the_table(tmp_path: Path):
    names = ["tench, Tinca tinca", "goldfish, Carassius auratus"]
    write(tmp_path / "data" / "train-00000-of-00002.parquet", [0, 1], names)
    write(tmp_path / "data" / "train-00001-of-00002.parquet", [1], names)
    write(tmp_path / "data" / "validation-00000-of-00001.parquet", [0], names)
    rows = imagenet1k.table(tmp_path)
    assert rows.columns[6:] == ["common_name", "class_id", "wnid"]
    assert rows.select("image", "split", "label", "common_name", "class_id").rows() == [
        ("data/train-00000-of-00002.parquet::0", "train", "tench, Tinca tinca", "tench", 0),
        ("data/train-00000-of-00002.parquet::1", "train", "goldfish, Carassius auratus",
         "goldfish", 1),
        ("data/train-00001-of-00002.parquet::0", "train", "goldfish, Carassius auratus",
         "goldfish", 1),
        ("data/validation-00000-of-00001.parquet::0", "val", "tench, Tinca tinca", "tench", 0),
    ]  # fmt: skip
    assert load_image(tmp_path, ImageRef(rows["image"][2])).size == (20, 20)


@pytest.mark.parametrize("place", ["default/train/0000.parquet", "train-00000-of-00001.parquet"])
def test_other_places_of_the_files(tmp_path: Path, place: str):
    write(tmp_path / place, [0, 1])
    assert imagenet1k.table(tmp_path)["image"].to_list() == [f"{place}::0", f"{place}::1"]


def test_defect_imagenet_no_image_is_lost(tmp_path: Path):
    """A short batch per worker lost images, and 49,362 was written down as the size."""
    lengths = [7, 1, 13]
    for number, n in enumerate(lengths):
        write(tmp_path / "data" / f"validation-{number:05}-of-00003.parquet", [0] * n)
    assert len(imagenet1k.table(tmp_path)) == sum(lengths)


def test_two_classes_of_one_name_stay_apart(tmp_path: Path):
    write(
        tmp_path / "data" / "train-00000-of-00001.parquet", [0, 1, 2], ["crane", "tench", "crane"]
    )
    assert imagenet1k.table(tmp_path)["label"].to_list() == ["crane (0)", "tench", "crane (2)"]


@pytest.mark.parametrize(
    ("file", "text", "wnid"),
    [
        ("classes.py", 'A = {"n01440764": "tench, Tinca tinca",\n \'n01443537\': "it\'s gold"}',
         "n01443537"),
        ("LOC_synset_mapping.txt", "n01440764 tench, Tinca tinca\nn01443537 it's gold\n",
         "n01443537"),
        ("classes.txt", "tench, Tinca tinca\nit's gold\n", None),
    ],
)  # fmt: skip
def test_names_of_a_file(tmp_path: Path, file: str, text: str, wnid: str | None):
    write(tmp_path / "data" / "train-00000-of-00001.parquet", [1, 0])
    (tmp_path / file).write_text(text)
    rows = imagenet1k.table(tmp_path)
    assert rows.select("label", "common_name", "wnid").row(0) == ("it's gold", "it's gold", wnid)
    assert rows["common_name"][1] == "tench"


def test_without_names_the_label_is_the_number(tmp_path: Path):
    write(tmp_path / "data" / "train-00000-of-00001.parquet", [12, 3, 12, 3])
    rows = imagenet1k.table(tmp_path)
    assert rows["label"].to_list() == ["12", "3", "12", "3"]
    line = "warning: 2 classes without a name: put classes.py of the hub's page into ROOT."
    assert line in findings(tmp_path)


def test_folders(tmp_path: Path):
    for one in ("train/n01440764/a.JPEG", "val/n01440764/b.JPEG", "val/n09999999/c.JPEG"):
        (tmp_path / one).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / one).write_bytes(jpeg())
    (tmp_path / "LOC_synset_mapping.txt").write_text("n01440764 tench, Tinca tinca\n")
    rows = imagenet1k.table(tmp_path)
    assert rows.select("split", "label", "common_name", "class_id", "wnid").rows() == [
        ("train", "tench, Tinca tinca", "tench", 0, "n01440764"),
        ("val", "tench, Tinca tinca", "tench", 0, "n01440764"),
        ("val", "n09999999", None, None, "n09999999"),
    ]
    assert "warning: 1 class of val without a training image: 'n09999999'." in findings(tmp_path)


def test_missing_parts_are_named_and_test_is_left_out(tmp_path: Path):
    write(tmp_path / "data" / "train-00001-of-00003.parquet", [0, 1, 0, 1], ["a", "b"])
    write(tmp_path / "data" / "validation-00000-of-00001.parquet", [0, 1], ["a", "b"])
    write(tmp_path / "data" / "test-00000-of-00001.parquet", [-1, -1], ["a", "b"])
    assert findings(tmp_path) == [
        "error: 2 of 3 files of train are missing: 'train-00000-of-00003', 'train-00002-of-00003'.",
        "note: 1 test file without labels, left out.",
        "note: not the published size: train 4 of 1,281,167, val 2 of 50,000, classes 2 of 1,000.",
    ]


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT  contains no images of ImageNet-1K: expected ROOT/data/train-*.parquet or "
        "ROOT/{train,val}/WNID/*.JPEG. `fieldmark datasets imagenet1k` shows layout and sources."
    )
    path = tmp_path / "data" / "train-00000-of-00001.parquet"
    shown = "ROOT/data/train-00000-of-00001.parquet"
    write(path, [0], column="y")
    assert refusal(tmp_path) == f"{shown}  lacks the columns 'label': it has image, y."
    write(path, ["cat"])
    assert refusal(tmp_path) == f"{shown}  column 'label' contains String: expected whole numbers."
    write(path, [0, 5], ["a", "b"])
    assert refusal(tmp_path) == "ROOT  contains the label 5: expected 0 to 1."
    pl.DataFrame({"image": ["a.jpg"], "label": [0]}).write_parquet(path)
    assert refusal(tmp_path) == f"{shown}  has no column 'image' of encoded images."
    path.write_bytes(path.read_bytes()[:40])
    assert refusal(tmp_path).startswith(f"{shown}  is not a parquet file that can be read: ")
    write(path, [0])
    (tmp_path / "classes.py").write_text("print('hello')")
    assert refusal(tmp_path) == (
        "ROOT/classes.py  names no classes: expected lines like 'n01440764': 'tench'."
    )
    (tmp_path / "classes.py").unlink()
    (tmp_path / "LOC_synset_mapping.txt").write_text("n01440764 tench\ngoldfish\n")
    assert refusal(tmp_path) == (
        "ROOT/LOC_synset_mapping.txt:2  'goldfish': expected `n01440764 tench, Tinca tinca`."
    )


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("imagenet1k")
    assert sorted(path.name for path in (root / "data").iterdir()) == [
        "train-00000-of-00002.parquet", "train-00001-of-00002.parquet",
        "validation-00000-of-00001.parquet",
    ]  # fmt: skip
    schema = pl.read_parquet_schema(root / "data" / "train-00000-of-00002.parquet")
    assert list(schema) == ["image", "label"] and schema["label"].is_integer()
    assert dict(schema["image"]) == {"bytes": pl.Binary, "path": pl.String}
    rows = imagenet1k.table(root)
    assert rows["common_name"].null_count() == 0 and set(rows["split"]) == {"train", "val"}
