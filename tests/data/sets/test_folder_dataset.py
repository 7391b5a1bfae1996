"""Is a folder per class read as its owner means it?"""

from functools import partial
from pathlib import Path

import pytest

from fieldmark.data import label_ids
from fieldmark.data.sets import folder
from fieldmark.errors import DataError
from kit.dataset import finding_lines, jpeg

findings = partial(finding_lines, folder)


def write(root: Path, *paths: str, data: bytes | None = None) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(jpeg() if data is None else data)
    return root


def test_without_splits(tmp_path: Path):
    write(tmp_path, "oak/2.jpg", "oak/1.JPG", "elm/1.png")
    rows = folder.table(tmp_path)
    assert rows.columns == ["id", "image", "crop", "split", "label", "unit"]
    assert rows.select("id", "image", "split", "label").rows() == [
        ("elm/1.png", "elm/1.png", None, "elm"),
        ("oak/1.JPG", "oak/1.JPG", None, "oak"),
        ("oak/2.jpg", "oak/2.jpg", None, "oak"),
    ]


def test_with_splits(tmp_path: Path):
    write(
        tmp_path, "Train/oak/1.jpg", "valid/oak/1.jpg", "test/elm/1.jpg", "train.csv", "notes/x.txt"
    )
    rows = folder.table(tmp_path)
    assert rows.select("split", "label").rows() == [
        ("train", "oak"), ("test", "elm"), ("val", "oak"),
    ]  # fmt: skip


def test_defect_birds525_class_ids_come_from_the_union_of_splits(tmp_path: Path):
    """Two ImageFolders number classes apart: 'oak' is 1 in train and 0 in a test without elm."""
    write(tmp_path, "train/elm/1.jpg", "train/oak/1.jpg", "test/oak/1.jpg", "test/yew/1.jpg")
    rows = folder.table(tmp_path)
    ids = label_ids(rows["label"])
    assert ids == {"elm": 0, "oak": 1, "yew": 2}
    oaks = [row for row in rows.to_dicts() if row["label"] == "oak"]
    assert {row["split"]: ids[row["label"]] for row in oaks} == {"train": 1, "test": 1}


def test_defect_plankton_dot_is_never_a_class(tmp_path: Path):
    write(tmp_path, "a.jpg", "train/b.jpg", "train/oak/c.jpg", "test/elm/d.jpg")
    assert set(folder.table(tmp_path)["label"]) == {"oak", "elm"}
    assert findings(tmp_path)[0] == (
        "warning: 2 images outside any class folder, ignored: 'a.jpg', 'train/b.jpg'."
    )


def test_defect_plankton_stray_files_are_no_images(tmp_path: Path):
    write(
        tmp_path,
        "oak/1.jpg",
        "oak/1.pdf",
        "oak/Thumbs.db",
        "elm/1.jpg",
        ".hidden/1.jpg",
        "elm/.x.jpg",
    )
    assert folder.table(tmp_path)["id"].to_list() == ["elm/1.jpg", "oak/1.jpg"]
    assert (
        findings(tmp_path)[0]
        == "note: 2 files are not images and were ignored: 'oak/1.pdf', 'oak/Thumbs.db'."
    )


def test_a_class_is_the_first_folder(tmp_path: Path):
    write(tmp_path, "train/oak/2019/cam1/1.jpg", "train/elm/1.jpg")
    assert set(folder.table(tmp_path)["label"]) == {"oak", "elm"}
    write(tmp_path / "b", "oak/2019/1.jpg", "elm/1.jpg")
    assert set(folder.table(tmp_path / "b")["label"]) == {"oak", "elm"}


def test_a_class_may_be_called_test(tmp_path: Path):
    write(tmp_path, "test/1.jpg", "oak/1.jpg")
    rows = folder.table(tmp_path)
    assert set(rows["label"]) == {"test", "oak"}
    assert rows["split"].null_count() == 2


def test_folders_beside_the_splits_are_reported(tmp_path: Path):
    write(tmp_path, "train/oak/1.jpg", "train/elm/1.jpg", "masks/1.png")
    assert folder.table(tmp_path).height == 2
    assert (
        findings(tmp_path)[0]
        == "warning: 1 image outside any class folder, ignored: 'masks/1.png'."
    )


def test_order_does_not_depend_on_the_file_system(tmp_path: Path):
    write(tmp_path, *(f"c{n % 3}/{n * 7 % 11:02}.jpg" for n in range(11)))
    ids = folder.table(tmp_path)["id"].to_list()
    assert ids == sorted(ids)


def test_linked_folders_are_followed_once(tmp_path: Path):
    write(tmp_path / "photos", "oak/1.jpg", "elm/1.jpg")
    (tmp_path / "photos" / "yew").symlink_to(write(tmp_path / "far", "1.jpg"))
    (tmp_path / "photos" / "oak" / "again").symlink_to(tmp_path / "photos")
    assert folder.table(tmp_path / "photos")["id"].to_list() == [
        "elm/1.jpg",
        "oak/1.jpg",
        "yew/1.jpg",
    ]


def test_broken_folders(tmp_path: Path):
    with pytest.raises(DataError) as caught:
        folder.table(tmp_path / "nowhere")
    assert str(caught.value) == (
        f"{tmp_path}/nowhere  is not a folder: expected one with a folder per class in it."
    )
    write(tmp_path, "a.jpg", "train/b.jpg")
    with pytest.raises(DataError) as caught:
        folder.table(tmp_path / "train")
    line = (
        "contains no images in class folders: expected ROOT/class/*.jpg or "
        "ROOT/{train,val,test}/class/*.jpg."
    )
    assert str(caught.value) == f"{tmp_path}/train  {line}"
    assert findings(tmp_path / "train")[-1] == f"error: ROOT  {line}"


def test_check_names_what_is_odd(tmp_path: Path):
    write(tmp_path, "train/oak/1.jpg", "train/oak/2.jpg", "test/oak/1.jpg", "test/elm/1.jpg")
    write(tmp_path, "train/oak/3.jpg", data=jpeg()[:-30])
    write(tmp_path, "train/oak/4.jpg", data=b"")
    assert findings(tmp_path) == [
        "warning: 1 class of 2 with only one image: 'elm'.",
        "warning: 1 class of test without a training image: 'elm'.",
        "error: 2 of 6 images cannot be read: "
        "'train/oak/3.jpg' (is cut off: the JPEG has no end marker), "
        "'train/oak/4.jpg' (is empty (0 bytes)).",
    ]


def test_one_class_only(tmp_path: Path):
    write(tmp_path, "oak/1.jpg", "oak/2.jpg")
    assert findings(tmp_path) == ["error: at least two classes are needed, found: 'oak'."]


def test_real_photos(shared: Path):
    root = shared / "photos" / "plantdoc-mini"
    rows = folder.table(root)
    assert rows.height == 288
    assert rows["label"].n_unique() == 12
    assert set(rows["split"]) == {"train", "test"}
    assert [finding for finding in folder.check(root) if finding.level != "note"] == []
