"""`fieldmark run` warns of data that make scores wrong, from what it knows anyway."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.data import read_table
from fieldmark.report.site.summary import build_summary
from fieldmark.settings import load_settings
from fieldmark.store import Store
from kit.planted import Plan, make_photos

TASK = """\
task: birds
dataset: folder
metric: accuracy
probe: {classifier: simpleshot}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six training and three test photos of two labels."""
    monkeypatch.chdir(tmp_path)
    make_photos(tmp_path / "all", Plan(n_labels=2, n_photos=9))
    for folder in sorted((tmp_path / "all").iterdir()):
        for number, path in enumerate(sorted(folder.iterdir())):
            split = "train" if number < 6 else "test"
            target = tmp_path / "data" / "folder" / split / folder.name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    (tmp_path / "birds.yaml").write_text(TASK)
    return tmp_path / "data" / "folder"


def warnings(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    model = ["--model", "classical/colour", "--task", "birds.yaml", *words]
    assert main(["run", *model]) == 0
    shown = capsys.readouterr().err
    return [line for line in shown.splitlines() if line.startswith("warning: ")]


def test_sound_data_give_no_warning(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings(capsys) == []


def test_leaks_twin_labels_and_untrained_labels(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sorted((place / "train" / "species aaa").iterdir())[0]
    shutil.copy(first, place / "test" / "species aaa" / "again.jpg")
    (place / "train" / "Species_bbb").mkdir()
    second = sorted((place / "train" / "species bbb").iterdir())[0]
    second.rename(place / "train" / "Species_bbb" / second.name)
    (place / "test" / "heron").mkdir()
    third = sorted((place / "test" / "species bbb").iterdir())[0]
    third.rename(place / "test" / "heron" / third.name)
    expected = [
        "warning: data/folder: 1 test photo is also among the training photos "
        "(test/species aaa/again.jpg): scores are too good.",
        "warning: data/folder: 'species bbb' and 'Species_bbb' are spellings of one label, and "
        "count as two.",
        "warning: data/folder: 1 label has test photos but no training photos: heron.",
    ]
    assert warnings(capsys) == expected
    assert warnings(capsys) == expected, "a finished run says so too"
    leak = "1 test photo is also among the training photos"
    for words in (["table"], ["table", "--long"], ["table", "--json"], ["rescore"], ["table"]):
        assert main(words) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert leak in shown or words == ["rescore"], f"{words} says so too"
    (column,) = build_summary(Store.open(load_settings().store, read_only=True))["columns"]
    assert column["warning"].startswith(leak)
    assert warnings(capsys, "--quiet") == []


def test_nothing_is_read_for_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails before its photos are known is looked at no further."""
    from fieldmark.experiments import make_plan, read_grid
    from fieldmark.experiments.warn import data_warnings
    from fieldmark.settings import load_settings

    Path("grid.toml").write_text('models = ["classical/colour"]\ntasks = ["birds.yaml"]\n')
    shutil.copytree(place / "train", place / "test", dirs_exist_ok=True)
    plan = make_plan(read_grid(Path("grid.toml")).jobs, load_settings())
    assert len(plan.to_run) == 1 and data_warnings(plan) == []


def test_defect_third_look_n8_a_photo_under_two_labels_is_told(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "test" / "heron").symlink_to((place / "test" / "species bbb").absolute())
    told = warnings(capsys)
    assert any("6 test photos are there twice, with different labels" in line for line in told)


def test_defect_third_look_n8_two_unicode_forms_of_a_name_are_one_label(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """macOS writes "é" as two characters: the label counted as two, and as wrong."""
    (place / "train" / "species aaa").rename(place / "train" / "caf\u00e9")
    (place / "test" / "species aaa").rename(place / "test" / "cafe\u0301")
    assert warnings(capsys) == []
    rows = read_table("folder", place)
    assert sorted(rows["label"].unique()) == ["caf\u00e9", "species bbb"]
    assert rows["image"].str.contains("cafe\u0301", literal=True).sum() == 3, "as it is on the disk"


def test_defect_third_look_n6_links_in_a_circle_are_one_line(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "test" / "a").symlink_to("b")
    (place / "test" / "b").symlink_to("a")
    assert main(["run", "--model", "classical/colour", "--task", "birds.yaml"]) == 3
    told = capsys.readouterr().err
    assert "is a link that cannot be followed: remove it." in told and "Traceback" not in told
