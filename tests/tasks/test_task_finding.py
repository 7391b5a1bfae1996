"""Which tasks does a name mean: a file's, a folder's, one on the include path, a pattern?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.errors import UnknownName, UsageError
from fieldmark.lmms.read.schema import DocumentTask
from fieldmark.tasks import Finder, load_task

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: rows.json}}
test_split: train
doc_to_text: "{{{{ q }}}}"
doc_to_target: a
tag: small_birds
"""
OWN = """\
task: finches
title: "Which finch?"
dataset: folder
metric: accuracy
probe: {classifier: simpleshot}
"""
BROKEN = "task: [herons\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tasks and a group in lmms-eval's form, a task in fieldmark's, somebody else's file."""
    made = tmp_path / "tasks"
    made.mkdir()
    (made / "rows.json").write_text('{"q": "Which?", "a": "wren"}')
    for name in ("wrens", "owls"):
        (made / f"{name}.yaml").write_text(TASK.format(name=name))
    (made / "birds.yaml").write_text("group: birds\ntask: [wrens, owls]\n")
    (made / "finches.yaml").write_text(OWN)
    (made / "compose.yaml").write_text("services: {web: {image: nginx}}\n")
    return made


def names(folder: Path, asked: str) -> list[str]:
    return sorted(each.task.task for each in Finder([folder]).find(asked))


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("wrens", ["wrens"]),
        ("birds", ["owls", "wrens"]),
        ("small_birds", ["owls", "wrens"]),
        ("wr*", ["wrens"]),
        ("finches", ["finches"]),
    ],
)
def test_names_on_the_include_path(folder: Path, asked: str, meant: list[str]) -> None:
    assert names(folder, asked) == meant


def test_a_folder_means_its_tasks_in_either_form(folder: Path) -> None:
    found = Finder().find(str(folder))
    assert [each.task.task for each in found] == ["owls", "wrens", "finches"]
    assert [isinstance(each.task, DocumentTask) for each in found] == [True, True, False]


def test_a_name_on_the_include_path_comes_before_a_folder_called_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrens").mkdir()
    (tmp_path / "wrens/others.yaml").write_text(TASK.format(name="others"))
    monkeypatch.chdir(tmp_path)
    assert names(folder, "wrens") == ["wrens"]
    assert [each.name for each in Finder().find("wrens")] == ["others"]


@pytest.mark.parametrize("asked", ["wren" * 100, "~nobody_of_this_name/x", "~nobody/x.yaml"])
def test_names_that_no_file_can_have(folder: Path, asked: str) -> None:
    with pytest.raises(UsageError, match="is not known|does not exist|cannot be read"):
        Finder([folder]).find(asked)


def test_a_broken_file_of_a_folder_is_not_left_out_quietly(folder: Path) -> None:
    (folder / "herons.yaml").write_text(BROKEN)
    with pytest.raises(UsageError, match=r"herons\.yaml:1  is not valid YAML"):
        Finder().find(str(folder))


@pytest.mark.parametrize("asked", ["herons", "h*"])
def test_a_name_that_a_broken_file_may_hold_tells_of_the_file(folder: Path, asked: str) -> None:
    (folder / "herons.yaml").write_text(BROKEN)
    with pytest.raises(UsageError, match=r"herons\.yaml:1  is not valid YAML"):
        Finder([folder]).find(asked)
    assert names(folder, "wrens") == ["wrens"]


def test_an_unknown_name_is_told_with_the_closest(folder: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'wrens'"):
        Finder([folder]).find("wren")


def test_load_task_wants_one(folder: Path) -> None:
    assert load_task("owls", [folder]).task == "owls"
    with pytest.raises(UsageError, match="means 2 tasks"):
        load_task("birds", [folder])


def test_the_list_has_both_forms(folder: Path) -> None:
    rows = {row["task"]: row for row in Finder([folder]).rows()}
    assert list(rows) == ["birds", "finches", "owls", "small_birds", "wrens"]
    assert rows["finches"] == {
        "task": "finches",
        "title": "Which finch?",
        "dataset": "folder",
        "metric": "accuracy",
    }


def test_a_group_as_json_is_one_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "birds", "--include-path", str(folder), "--json"]) == 0
    assert [each["task"] for each in json.loads(capsys.readouterr().out)] == ["wrens", "owls"]


def test_an_experiment_is_checked_with_the_include_path(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text('models = ["chat/mock/perfect"]\ntasks = ["wrens"]\n')
    assert main(["check", str(grid)]) == 2
    assert "task 'wrens' is not known" in capsys.readouterr().out
    assert main(["check", str(grid), "--include-path", str(folder)]) == 0
