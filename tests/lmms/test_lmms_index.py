"""Folders are looked through once: names, kinds, tags, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.errors import UnknownName, UsageError
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.files import Index, index_folders
from fieldmark.tasks import yaml_files


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Index:
    fill(
        tmp_path,
        {
            "_t_yaml": "dataset_path: d\ntag: animals\n",
            "a/cats.yaml": "task: cats\ninclude: ../_t_yaml\n",
            "a/dogs.yaml": "task: dogs\ninclude: ../_t_yaml\ntag: [animals, loud]\n",
            "a/old.yml": "task: old\ndataset_path: d\ngroup: loud\n",
            "a/pets.yaml": "group: pets\ntask: [cats, dogs]\n",
            "a/template.yaml": "dataset_path: d\n",
            "a/__pycache__/no.yaml": "task: no\ndataset_path: d\n",
            "b/own.yaml": "task: own\ntitle: T\ndataset: folder\nmetric: accuracy\n",
            "b/class.yaml": "task: classy\nclass: !function u.T\n",
            "b/broken.yaml": "task: broken\n\tx: 1\n",
            "b/twice.yaml": "task: cats2\ndataset_path: d\n",
            "b/again.yaml": "task: cats2\ndataset_path: e\n",
        },
    )
    return index_folders([tmp_path])


def test_every_file_is_sorted_by_kind(index: Index, tmp_path: Path) -> None:
    kinds = {entry.path.relative_to(tmp_path).as_posix(): entry.kind for entry in index.entries}
    assert kinds == {
        "a/cats.yaml": "task",
        "a/dogs.yaml": "task",
        "a/old.yml": "task",
        "a/pets.yaml": "group",
        "a/template.yaml": "abstract",
        "b/again.yaml": "task",
        "b/class.yaml": "python",
        "b/own.yaml": "own",
        "b/twice.yaml": "task",
    }
    assert list(kinds) == sorted(kinds)
    assert [entry.name for entry in index.of_kind("group")] == ["pets"]
    assert " ".join(index.names) == "animals cats cats2 classy dogs loud old own pets"


def test_files_that_cannot_be_read_do_not_stop_the_others(index: Index, tmp_path: Path) -> None:
    path = tmp_path / "b" / "broken.yaml"
    told = f"{path}:2  is not valid YAML: a tab: spaces are expected."
    assert index.problems == ((path, told),)


def test_tags_come_by_include_by_list_and_by_their_old_name(index: Index) -> None:
    assert index.tags == {"animals": ("cats", "dogs"), "loud": ("dogs", "old")}
    assert index.find("loud").kind == "tag"
    assert [entry.name for entry in index.tagged("loud")] == ["dogs", "old"]


def test_a_task_or_group_hides_a_tag_of_its_name(tmp_path: Path) -> None:
    fill(
        tmp_path, {"a.yaml": "task: a\ndataset_path: d\ntag: g\n", "g.yaml": "group: g\ntask: [a]"}
    )
    index = index_folders([tmp_path])
    assert index.find("g").kind == "group"
    assert index.tags == {}


def test_unknown_names_are_told_with_the_closest(index: Index) -> None:
    with pytest.raises(UnknownName) as caught:
        index.find("cts", "grid.toml:3")
    assert str(caught.value) == (
        "grid.toml:3  task, group or tag 'cts' is not known. Did you mean 'cats'?"
    )


def test_defect_lmms_eval_a_name_in_two_files_is_decided_by_chance(
    index: Index, tmp_path: Path
) -> None:
    again, twice = tmp_path / "b" / "again.yaml", tmp_path / "b" / "twice.yaml"
    assert index.duplicates == {"cats2": (again, twice)}
    with pytest.raises(UsageError) as caught:
        index.find("cats2")
    assert str(caught.value) == (
        f"task 'cats2' is defined in {again} and {twice}: name the file, or rename one."
    )


def test_of_two_the_one_beside_the_file_that_asks_is_taken(tmp_path: Path) -> None:
    fill(tmp_path, {f"{each}/t.yaml": "task: t\ndataset_path: d\n" for each in "ab"})
    index = index_folders([tmp_path])
    assert index.find("t", near=tmp_path / "b" / "group.yaml").path == tmp_path / "b" / "t.yaml"
    with pytest.raises(UsageError, match="name the file, or rename one"):
        index.find("t", near=tmp_path / "c" / "group.yaml")


def test_patterns(index: Index) -> None:
    assert index.match("c*s") == ["cats"]
    assert index.match("[dp]*s") == ["dogs", "pets"]
    assert index.match("x*") == []


def test_folders_inside_each_other_count_once(tmp_path: Path) -> None:
    fill(tmp_path, {"a/x.yaml": "task: x\ndataset_path: d\n"})
    (tmp_path / "link.yaml").symlink_to(tmp_path / "a" / "x.yaml")
    assert len(list(yaml_files([tmp_path, tmp_path / "a"]))) == 1
    assert index_folders([tmp_path, tmp_path / "a"]).duplicates == {}


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder: expected one with task files"):
        index_folders([tmp_path / "nowhere"])


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    fill(tmp_path, {"out/x.yaml": "task: x\ndataset_path: d\n", "in/y.yaml": "task: y\ntag: t\n"})
    (tmp_path / "in" / "x.yaml").symlink_to(tmp_path / "out" / "x.yaml")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "out")
    index = index_folders([tmp_path / "in"])
    assert [entry.name for entry in index.entries] == ["y"]
    assert "lies outside the folders" in index.problems[0][1]
    wide = index_folders([tmp_path / "in"], Trust.of(tmp_path))
    assert [entry.name for entry in wide.entries] == ["x", "y"]
