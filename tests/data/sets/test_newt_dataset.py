"""Is NeWT read from its exact layout, with names bound to the right labels?"""

import csv
import hashlib
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from fieldmark.data.sets import newt
from fieldmark.data.sets.newt import class_name, newt_tasks, task_name
from fieldmark.errors import UnknownName
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, newt)
refusal = partial(table_error, newt)

HAWK = "ml_age_coopers_hawk"
WOODLOUSE = "inat_observed_Common_Shiny_Woodlouse_vs_Rathke’s_Woodlouse"
HEADER = "id,task_cluster,task_subcluster,task,label,text_label,split,height,width"


def hawks(n: int = 2) -> list[str]:
    """Labels not in the order of their names, splits interleaved."""
    return [
        f"{split}-{label}-{turn},appearance,age,{HAWK},{number},{label},{split},8,8"
        for turn in range(n)
        for number, label in ((1, "adult"), (0, "not_adult"))
        for split in ("test", "train")
    ]


def write(root: Path, rows: list[str], header: str = HEADER, images: bool = True) -> Path:
    (root / newt.LABELS_FILE).write_text("\n".join([header, *rows]) + "\n")
    (root / newt.IMAGE_FOLDER).mkdir(exist_ok=True)
    for row in rows if images else []:
        (root / newt.IMAGE_FOLDER / f"{row.split(',')[0]}.jpg").write_bytes(jpeg())
    return root


def test_the_table(tmp_path: Path):
    rows = newt.table(write(tmp_path, hawks(1)))
    assert rows.columns == [
        "id", "image", "crop", "split", "label", "unit", "task", "cluster", "sub_cluster",
        "text_label", "class_name", "newt_label", "species", "stage", "height", "width",
    ]  # fmt: skip
    assert rows.row(0, named=True) == {
        "id": "test-adult-0",
        "image": "newt2021_images/test-adult-0.jpg",
        "crop": None,
        "split": "test",
        "label": "adult",
        "unit": None,
        "task": HAWK,
        "cluster": "appearance",
        "sub_cluster": "age",
        "text_label": "adult",
        "class_name": "adult Cooper's hawk",
        "newt_label": 1,
        "species": "Cooper's hawk",
        "stage": "adult",
        "height": 8,
        "width": 8,
    }


def test_defect_newt_ids_stand_with_their_own_rows(tmp_path: Path):
    """Stored ids were zipped from train and test together; here each row carries its own."""
    rows = newt.table(write(tmp_path, hawks()))
    for row in rows.to_dicts():
        assert row["id"].startswith(f"{row['split']}-{row['label']}-")
        assert row["image"] == f"newt2021_images/{row['id']}.jpg"


def test_defect_newt_class_names_follow_labels_not_positions(tmp_path: Path):
    for order in (hawks(), hawks()[::-1]):
        rows = newt.table(write(tmp_path, order))
        pairs = rows.select("newt_label", "label", "class_name").unique().sort("newt_label").rows()
        assert pairs == [
            (0, "not_adult", "juvenile Cooper's hawk"),
            (1, "adult", "adult Cooper's hawk"),
        ]


def test_all_164_tasks_are_described():
    tasks = newt_tasks()
    assert len(tasks) == 164
    counts = Counter((value.cluster, value.sub_cluster or "") for value in tasks.values())
    assert counts == {
        ("appearance", "species"): 102,
        ("appearance", "age"): 14,
        ("appearance", "health"): 9,
        ("appearance", "attribute"): 7,
        ("behavior", ""): 16,
        ("context", ""): 8,
        ("gestalt", ""): 6,
        ("counting", ""): 2,
    }
    for value in tasks.values():
        labels, names = zip(*value.classes, strict=True)
        assert len(set(labels)) == len(set(names)) == 2, value.name
        assert all(words and "_" not in words for words in names), value.name


def test_defect_newt_class_names_say_what_the_class_is():
    """Earlier tables called several negatives just "bird" and misspelt a few."""
    for value in newt_tasks().values():
        if value.name != "ml_tag_non_bird":
            assert "bird" not in [words for _, words in value.classes], value.name
    words = " ".join(text for value in newt_tasks().values() for _, text in value.classes)
    assert not [typo for typo in ("cassave", "juveile", "wester ") if typo in words]


def test_defect_newt_molting_waterfowl_has_two_sets_of_keys():
    task = "ml_tag_molting_waterfowl"
    assert class_name(task, "molting") == class_name(task, "has_red_eyes") == "molting waterfowl"
    assert (
        class_name(task, "not_molting") == class_name(task, "not_red_eyes") == "regular waterfowl"
    )
    assert class_name("ml_bio_has_red_eyes", "has_red_eyes") == "bird with red eyes"


@pytest.mark.parametrize("apostrophe", ["’", "'"])
def test_defect_newt_curly_apostrophe(tmp_path: Path, apostrophe: str):
    spelt = WOODLOUSE.replace("’", apostrophe)
    label = f"Rathke{apostrophe}s Woodlouse"
    rows = newt.table(write(tmp_path, [f"a,appearance,species,{spelt},0,{label},train,8,8"]))
    assert rows["task"].to_list() == [WOODLOUSE]
    assert rows["class_name"].to_list() == ["Rathke’s woodlouse"]
    assert task_name(spelt) == WOODLOUSE


def test_defect_ages_has_twelve_species(tmp_path: Path):
    species = [value.species for value in newt_tasks().values() if value.species]
    assert len(set(species)) == 12
    assert "black-bellied plover" in species and "Swainson's hawk" in species
    other = "b,appearance,age,ml_tag_molting_raptors,1,molting,train,8,8"
    rows = newt.table(write(tmp_path, [*hawks(1), other]))
    assert rows.filter(task="ml_tag_molting_raptors").select("species", "stage").row(0) == (
        None,
        None,
    )


def test_unknown_names():
    with pytest.raises(UnknownName) as caught:
        task_name("ml_age_cooper_hawk")
    assert str(caught.value).startswith(
        "NeWT task 'ml_age_cooper_hawk' is not known. Did you mean 'ml_age_coopers_hawk'"
    )
    assert class_name("a_new_task", "left_handed") == "left handed"
    assert class_name(HAWK, "very_old") == "very old"


def test_tasks_and_labels_nobody_knows_are_read(tmp_path: Path):
    rows = newt.table(write(tmp_path, ["a,new,,a_new_task,0,left_handed,train,8,8"]))
    assert rows.select("task", "sub_cluster", "class_name").row(0) == (
        "a_new_task",
        None,
        "left handed",
    )


def test_broken_labels_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/newt2021_labels.csv  is missing: the labels of NeWT. `fieldmark datasets newt` shows "
        "layout and sources."
    )
    assert findings(tmp_path) == [f"error: {refusal(tmp_path)}"]
    write(tmp_path, ["a,b"], header="id,task")
    assert refusal(tmp_path) == (
        "ROOT/newt2021_labels.csv:1  lacks the columns 'task_cluster', 'task_subcluster', 'label' "
        "and 4 more: expected id, task_cluster, task_subcluster, task, label, text_label, split, "
        "height, width."
    )
    write(tmp_path, [*hawks(1), f"x,appearance,age,{HAWK},2,adult,train,8,8"])
    assert refusal(tmp_path) == "ROOT/newt2021_labels.csv:6  label is '2': expected 0 or 1."
    write(tmp_path, [f"x,appearance,age,{HAWK},1,adult,valid,8,8"])
    assert (
        refusal(tmp_path) == "ROOT/newt2021_labels.csv:2  split is 'valid': expected train or test."
    )
    write(tmp_path, [f",appearance,age,{HAWK},1,adult,train,8,8"], images=False)
    assert refusal(tmp_path) == "ROOT/newt2021_labels.csv:2  id is None: expected an id."
    write(tmp_path, [hawks()[0], hawks()[0]])
    assert refusal(tmp_path) == (
        "ROOT/newt2021_labels.csv  1 ids are on more than one row ('test-adult-0'): "
        "ids must be unique."
    )
    write(tmp_path, [])
    assert refusal(tmp_path) == (
        "ROOT/newt2021_labels.csv  lists no photos: an empty dataset cannot be used."
    )


def test_check_names_what_is_missing_and_stray(tmp_path: Path):
    write(tmp_path, [*hawks(2), "b,new,,a_new_task,0,left,train,8,8"])
    images = tmp_path / newt.IMAGE_FOLDER
    for name in ("test-adult-0", "test-adult-1", "train-adult-0", "train-adult-1"):
        (images / f"{name}.jpg").unlink()
    (images / "train-not_adult-0.jpg").write_bytes(jpeg()[:-10])
    (images / "stray.jpg").write_bytes(jpeg())
    (images / "b.png").write_bytes(jpeg())
    (tmp_path / "newt2021_labels.csv.tar.gz").write_bytes(b"something else")
    lines = findings(tmp_path)
    assert lines[0] == (
        "note: newt2021_labels.csv.tar.gz is not the published file "
        "(md5 4cb26d0ee085904887b1ca14dcb893e7)."
    )
    assert lines[1].startswith("warning: 163 of 164 tasks are missing: 'ml_age_bald_eagle', ")
    assert lines[2:] == [
        "warning: 1 task that NeWT does not have: 'a_new_task'.",
        "error: tasks with only one class: 'a_new_task (train)'.",
        "note: 2 files in newt2021_images that no row names: 'b.png', 'stray.jpg'.",
        "error: 4 of 9 images are missing: 'newt2021_images/test-adult-0.jpg', "
        "'newt2021_images/test-adult-1.jpg', 'newt2021_images/train-adult-0.jpg' and 1 more.",
        "error: 1 of 9 images cannot be read: 'newt2021_images/train-not_adult-0.jpg' "
        "(is cut off: the JPEG has no end marker).",
    ]


def test_check_finds_labels_that_contradict(tmp_path: Path):
    rows = hawks(2)
    rows[0] = rows[0].replace(",1,adult,", ",0,adult,")
    rows[1] = rows[1].replace(",adult,", ",grown,")
    assert f"error: label and text_label contradict each other in '{HAWK}'." in findings(
        write(tmp_path, rows)
    )
    assert f"note: 1 label without a readable name: '{HAWK}: grown'." in findings(tmp_path)


def test_sources_are_complete():
    images, labels = newt.INFO.sources
    assert images.url.endswith("/newt2021_images.tar.gz") and len(images.md5) == 32
    assert labels.url.endswith("/newt2021_labels.csv.tar.gz") and len(labels.md5) == 32
    assert hashlib.md5(b"").hexdigest() not in (images.md5, labels.md5)


def test_real_names_are_all_known(shared: Path):
    with (shared / "data" / "newt_task_clusters.csv").open(encoding="utf-8") as file:
        clusters = {row["name"]: row for row in csv.DictReader(file)}
    assert set(clusters) == set(newt_tasks())
    for name, row in clusters.items():
        task = newt_tasks()[name]
        assert (task.cluster, task.sub_cluster or "") == (row["cluster"], row["sub_cluster"])
    with (shared / "data" / "newt_classnames.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            described = dict(newt_tasks()[row["task"]].classes).values()
            assert class_name(row["task"], row["text_label"]) in described, row
