"""Do the text files of NABirds become birds with names, plumages and groups?"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fieldmark.data.sets import nabirds
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, nabirds)
refusal = partial(table_error, nabirds)

FILES = {
    "images.txt": "a-1 0817/a1.jpg\nb-2 0817/b2.jpg\nc-3 0860/c3.jpg\nd-4 0900/d4.jpg\n",
    "image_class_labels.txt": "a-1 817\nb-2 817\nc-3 860\nd-4 900\n",
    "train_test_split.txt": "a-1 1\nb-2 0\nc-3 0\nd-4 1\n",
    "classes.txt": "0 Birds\n1 Ducks, Geese, and Swans\n2 Oldsquaw\n817 Oldsquaw (Adult male)\n"
    "860 Oldsquaw (Female/juvenile)\n900 Mute Swan\n",
    "hierarchy.txt": "1 0\n2 1\n817 2\n860 2\n900 1\n",
}


def write(root: Path, **changed: str) -> Path:
    for name, text in FILES.items():
        text = changed.get(name.removesuffix(".txt"), text)
        (root / name).write_text(text, encoding="utf-8")
    for line in FILES["images.txt"].splitlines():
        path = root / "images" / line.split()[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg())
    return root


def test_the_table(tmp_path: Path):
    rows = nabirds.table(write(tmp_path))
    assert rows.columns[6:] == ["common_name", "group", "top_group", "lineage", "class_id"]
    assert rows.row(0) == (
        "a-1", "images/0817/a1.jpg", None, "train", "Oldsquaw (Adult male)", None, "Oldsquaw",
        "Oldsquaw", "Ducks, Geese, and Swans", "Birds > Ducks, Geese, and Swans > Oldsquaw", "817",
    )  # fmt: skip
    assert rows.row(3)[3:] == (
        "train", "Mute Swan", None, "Mute Swan", "Ducks, Geese, and Swans",
        "Ducks, Geese, and Swans", "Birds > Ducks, Geese, and Swans", "900",
    )  # fmt: skip
    assert rows["split"].to_list() == ["train", "test", "test", "train"]


def test_the_archive_may_keep_its_folder(tmp_path: Path):
    (tmp_path / "nabirds").mkdir()
    write(tmp_path / "nabirds")
    rows = nabirds.table(tmp_path)
    assert rows["image"][0] == "nabirds/images/0817/a1.jpg"
    assert rows["id"].to_list() == ["a-1", "b-2", "c-3", "d-4"]


def test_two_classes_of_one_name_stay_apart(tmp_path: Path):
    names = FILES["classes.txt"].replace("Mute Swan", "Oldsquaw (Adult male)")
    rows = nabirds.table(write(tmp_path, classes=names))
    assert rows["label"].unique().sort().to_list() == [
        "Oldsquaw (Adult male) (817)", "Oldsquaw (Adult male) (900)", "Oldsquaw (Female/juvenile)",
    ]  # fmt: skip
    assert set(rows["common_name"]) == {"Oldsquaw"}
    line = "note: 1 name of several classes, told apart by number: 'Oldsquaw (Adult male)'."
    assert line in findings(tmp_path)


def test_a_name_that_only_a_group_shares_stays_as_it_is(tmp_path: Path):
    names = FILES["classes.txt"].replace("Mute Swan", "Oldsquaw")
    assert nabirds.table(write(tmp_path, classes=names))["label"][3] == "Oldsquaw"


def test_the_hierarchy_is_optional(tmp_path: Path):
    (write(tmp_path) / "hierarchy.txt").unlink()
    rows = nabirds.table(tmp_path)
    assert rows["group"].null_count() == rows["top_group"].null_count() == len(rows)
    line = "note: ROOT/hierarchy.txt  is missing: classes have no groups."
    assert line in findings(tmp_path)


def test_what_check_says(tmp_path: Path):
    labels = FILES["image_class_labels.txt"].replace("d-4 900", "d-4 2")
    (write(tmp_path, image_class_labels=labels) / "images/0900/d4.jpg").unlink()
    assert findings(tmp_path) == [
        "note: not the published size: train 2 of 23,929, test 2 of 24,633, images 4 of 48,562, "
        "classes 3 of 555.",
        "warning: 1 class with images and with classes below: 'Oldsquaw'.",
        "warning: 2 classes of 3 with only one image: 'Oldsquaw', 'Oldsquaw (Female/juvenile)'.",
        "warning: 1 class of test without a training image: 'Oldsquaw (Female/juvenile)'.",
        "error: 1 of 4 images are missing: 'images/0900/d4.jpg'.",
    ]


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("images", "a-1 0817/a1.jpg\n\nb-2\n",
         "images.txt:3  found 'b-2': expected an image's id and its path."),
        ("images", "a-1 0817/a1.jpg\na-1 0817/a2.jpg\n",
         "images.txt:2  a-1 is already on an earlier line: list it once."),
        ("image_class_labels", "a-1 817\nb-2 999\n",
         "image_class_labels.txt:2  found 'b-2 999': expected an image's id and the number of a "
         "class of classes.txt."),
        ("image_class_labels", "a-1 817\n",
         "image_class_labels.txt  lacks 3 images of images.txt: 'b-2', 'c-3', 'd-4'."),
        ("train_test_split", "a-1 1\nb-2 yes\n",
         "train_test_split.txt:2  found 'b-2 yes': expected an image's id and 1 for train or 0 for "
         "test."),
        ("classes", "0 Birds\n817\n",
         "classes.txt:2  found '817': expected a class's number and its name."),
        ("hierarchy", "1 0\n2 77\n",
         "hierarchy.txt:2  found '2 77': expected a class and the one above it, both of "
         "classes.txt."),
        ("hierarchy", "1 2\n2 1\n817 2\n",
         "hierarchy.txt  class 1 lies below itself: expected a tree."),
        ("images", "", "images.txt  lists no photos: an empty dataset cannot be used."),
    ],
)  # fmt: skip
def test_broken_files(tmp_path: Path, file: str, text: str, line: str):
    assert refusal(write(tmp_path, **{file: text})) == f"ROOT/{line}"


@pytest.mark.parametrize("name", ["images", "classes", "image_class_labels", "train_test_split"])
def test_a_missing_file_is_named(tmp_path: Path, name: str):
    (write(tmp_path) / f"{name}.txt").unlink()
    assert refusal(tmp_path) == (
        f"ROOT/{name}.txt  is missing: a table of NABirds. `fieldmark datasets nabirds` shows "
        "layout and sources."
    )


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("nabirds")
    assert {path.name for path in root.iterdir()} == {
        "images", "images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt",
        "hierarchy.txt", "sizes.txt", "bounding_boxes.txt",
    }  # fmt: skip
    rows = nabirds.table(root)
    assert set(rows["split"]) == {"train", "test"}
    plumages = rows.filter(rows["label"].str.ends_with("(Adult male)"))
    assert plumages["group"].equals(plumages["common_name"].alias("group"))
    assert rows["label"].str.contains(r" \(\d+\)$").any(), "no two birds share a name"
    key, folder = (root / "images.txt").read_text().split("\n")[0].split()
    assert folder.rpartition("/")[2] == f"{key.replace('-', '')}.jpg"
