"""`run photos/` and `run --task photos/`: labelled photos are a task without a task file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.store import Store
from fieldmark.tasks import load_task
from kit.planted import Plan, make_photos


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_photos(Path("My photos"), Plan(n_labels=2, n_photos=7))


def test_a_folder_without_splits_is_drawn_from(photos: Path) -> None:
    task = load_task(str(photos))
    assert (task.task, task.dataset, task.folder) == ("my-photos", "folder", photos.resolve())
    assert (task.shots, task.test, task.repeats) == (3, "rest", 5)
    assert task.protocols == ("ask", "probe", "zero_shot")


def test_splits_are_kept_and_names_of_tasks_too(photos: Path) -> None:
    for number, path in enumerate(sorted(photos.rglob("*.jpg"))):
        split = "test" if number % 3 == 0 else "training"
        target = Path("own") / "newt" / split / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    (Path("own") / "newt" / "data.yaml").write_text("names: [a, b]\n")  # as annotation tools do
    task = load_task("own/newt")
    assert (task.task, task.shots) == ("photos-newt", 0)
    assert task.test == {"split": ("test",)}


def test_run_takes_it_as_a_task(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", "classical/colour", "--quiet"]
    assert main(["run", str(photos), *words]) == 0
    assert main(["run", "--task", str(photos), *words]) == 0
    with Store.open(Path("results/fieldmark.db"), read_only=True) as store:
        (run,) = store.runs()
    assert run.spec.task == "my-photos" and run.spec.repeats == 5
    names = [path.relative_to(photos).as_posix() for path in sorted(photos.rglob("*.jpg"))]
    table = "\n".join(["image,species", *(f"{name},{name.split('/')[0]}" for name in names)])
    (photos / "obs.csv").write_text(table)
    assert main(["run", "--task", str(photos / "obs.csv"), *words]) == 0


def test_without_a_model_try_is_named(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(photos)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "`fieldmark try 'My photos'` finds a model" in told
