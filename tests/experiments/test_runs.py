"""Kill it, run it again, lose nothing; do nothing twice; one failed job stops no other."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fieldmark.cli import main
from fieldmark.store import Store
from kit.blobs import MODEL, answers, make_blobs, n_lines
from kit.kills import kill_when, start, wait_for
from kit.pictures import write_image


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of 72 pictures in 3 classes, a task with 3 settings, a model that logs its work."""
    return make_blobs(tmp_path, monkeypatch)


def fieldmark(*words: str) -> int:
    return main([*words, "--quiet"])


GRID = [
    "--model",
    "m.py:Slow",
    "--model",
    "m.py:Other",
    "--task",
    "blobs.yaml",
    "--n-train",
    "3",
    "-1",
]


@pytest.mark.slow
def test_second_run_with_other_probe_shots_or_seed_embeds_nothing(place: Path) -> None:
    base = ["run", "--model", "m.py:Slow", "--task", "blobs.yaml"]
    assert fieldmark(*base) == 0
    n_embedded = len((place / "log").read_text().splitlines())
    assert n_embedded == 72
    assert fieldmark(*base, "--probe", "neighbours") == 0
    assert fieldmark(*base, "--n-train", "3", "6") == 0
    assert fieldmark(*base, "--seed", "5", "--n-train", "6") == 0
    assert fieldmark(*base, "--n-train", "0", "3") == 0, "a probe's curve has no point at 0"
    assert fieldmark(*base, "--n-train", "0") == 2
    assert len((place / "log").read_text().splitlines()) == n_embedded
    assert len(answers(place / "results")) > 0


def test_finished_runs_are_not_done_again_unless_forced(place: Path) -> None:
    assert fieldmark("run", *GRID) == 0
    with sqlite3.connect("results/fieldmark.db") as db:
        first = db.execute("SELECT id, finished FROM run ORDER BY id").fetchall()
    before = answers(place / "results")
    assert fieldmark("run", *GRID) == 0
    with sqlite3.connect("results/fieldmark.db") as db:
        assert db.execute("SELECT id, finished FROM run ORDER BY id").fetchall() == first
    assert fieldmark("run", *GRID, "--force") == 0
    assert answers(place / "results") == before


@pytest.mark.slow
def test_an_edited_model_file_is_another_model(place: Path) -> None:
    base = ["run", "--model", "m.py:Slow", "--task", "blobs.yaml"]
    assert fieldmark(*base) == 0
    (place / "m.py").write_text(MODEL.replace("(2, 2)", "(3, 3)").replace("dim = 12", "dim = 27"))
    assert fieldmark(*base) == 0
    with sqlite3.connect("results/fieldmark.db") as db:
        assert db.execute("SELECT count(*) FROM run WHERE state = 'done'").fetchone() == (2,)
    assert len((place / "log").read_text().splitlines()) == 144


@pytest.mark.slow
def test_changed_labels_are_another_dataset(place: Path) -> None:
    base = ["run", "--model", "m.py:Slow", "--task", "blobs.yaml"]
    assert fieldmark(*base) == 0
    (place / "photos/train/a/0.png").rename(place / "photos/train/b/0.png")
    assert fieldmark(*base) == 0
    with sqlite3.connect("results/fieldmark.db") as db:
        assert db.execute("SELECT count(*) FROM run WHERE state = 'done'").fetchone() == (2,)
    assert len((place / "log").read_text().splitlines()) == 72


@pytest.mark.slow
def test_one_failed_job_keeps_the_others_and_exits_5(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--model", "m.py:Broken", "--model", "m.py:Slow", "--task", "blobs.yaml"]
    assert fieldmark(*words) == 5
    told = capsys.readouterr()
    assert "RuntimeError: the GPU is on fire" in told.out
    assert told.err == "fieldmark: 1 of 2 runs failed.\n"
    with sqlite3.connect("results/fieldmark.db") as db:
        states = dict(db.execute("SELECT model, state FROM run").fetchall())
        (error,) = db.execute("SELECT error FROM run WHERE state = 'failed'").fetchone()
    assert states == {"m.py:Broken": "failed", "m.py:Slow": "done"}
    assert "Traceback" in error
    (place / "m.py").write_text(
        MODEL.replace(
            'raise RuntimeError("the GPU is on fire")', "return Slow.embed_images(self, batch)"
        )
    )
    assert fieldmark(*words) == 0


def test_defect_newt_stored_ids_are_of_train_and_test_rows(place: Path) -> None:
    """Defect: predictions were zipped with the ids of training and test rows."""
    assert fieldmark("run", "--model", "m.py:Slow", "--task", "blobs.yaml") == 0
    with Store.open("results/fieldmark.db", read_only=True) as store:
        rows = store.predictions(1).select("part", "id", "target").rows()
    assert {(part, each.split("/")[0]) for part, each, _ in rows} == {
        ("p1", "test"),
        ("p2", "train"),
    }
    assert all(each.split("/")[1] == target for _, each, target in rows)


@pytest.mark.slow
def test_defect_biobench_dry_run_has_side_effects(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: a dry run created the database and cleared claims."""
    before = sorted(place.rglob("*"))
    words = ["plan", *GRID, "--n-test", "5", "--json"]
    assert main(words) == 0
    assert sorted(place.rglob("*")) == before
    plan = json.loads(capsys.readouterr().out)
    assert [job["status"] for job in plan["jobs"]] == ["run"] * 4
    assert fieldmark("run", "--model", "m.py:Slow", "--task", "blobs.yaml") == 0
    assert (
        main(
            [
                "plan",
                "--model",
                "m.py:Slow",
                "--task",
                "blobs.yaml",
                "--n-train",
                "0",
                "500",
                "-1",
                "--json",
            ]
        )
        == 0
    )
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["status"] for job in jobs] == ["refused", "run", "done"]
    assert jobs[0]["why"] == "n_train = 0: a probe cannot learn from 0 training images."
    assert jobs[1]["why"] == "only 36 training photos in 2 of 2 parts, so all are used"
    assert jobs[1]["to embed"] in (0, 72)  # files made a moment ago are not remembered
    assert (
        main(
            [
                "plan",
                "--model",
                "m.py:Slow",
                "--task",
                "blobs.yaml",
                "--data",
                "folder=gone",
                "--json",
            ]
        )
        == 0
    )
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["status"] == "no data" and "gone does not exist" in job["why"]


@pytest.mark.slow
def test_run_claimed_by_a_living_process_is_left_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ["--model", "m.py:Slow", "--task", "blobs.yaml"]
    other = start(["run", *grid, "--quiet"], env=os.environ | {"EMBED_PAUSE": "0.3"})
    wait_for(other, (place / "log").exists)
    assert main(["plan", *grid, "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["status"] == "claimed" and f"process {other.pid}" in job["why"]
    kill_when(other, lambda: True)
    assert main(["plan", *grid, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][0]["status"] == "run"


def test_defect_biobench_n_train_is_never_applied(place: Path) -> None:
    assert fieldmark("run", "--model", "m.py:Slow", "--task", "blobs.yaml", "--n-train", "4") == 0
    with sqlite3.connect("results/fieldmark.db") as db:
        assert db.execute("SELECT DISTINCT n_train FROM part").fetchall() == [(4,)]
        assert db.execute("SELECT n_train FROM run").fetchall() == [(4,)]
    n_test_images = 72  # both settings together test on every image
    assert n_lines(place / "log") == n_test_images


def test_defect_small_data_some_tasks_done_is_not_all_done(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fieldmark("run", "--model", "m.py:Slow", "--task", "blobs.yaml/p1") == 0
    assert main(["plan", "--model", "m.py:Slow", "--task", "blobs.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][0]["status"] == "run"


def test_defect_small_data_draws_use_the_global_generator(place: Path) -> None:
    words = ["run", "--model", "m.py:Slow", "--task", "blobs.yaml", "--n-train", "6"]
    for seed in (1, 2):
        np.random.seed(seed)
        random.seed(seed)
        assert fieldmark(*words, "--results", f"r{seed}") == 0
    assert answers(place / "r1") == answers(place / "r2")


def test_adding_a_probe_is_one_file(place: Path) -> None:
    (place / "p.py").write_text(
        "class First:\n"
        "    def fit(self, X, y):\n        self.label = sorted(y)[0]\n        return self\n"
        "    def predict(self, X):\n        return [self.label] * len(X)\n"
    )
    words = ["run", "--model", "m.py:Slow", "--task", "blobs.yaml", "--probe", "p.py:First"]
    assert fieldmark(*words) == 0
    with sqlite3.connect("results/fieldmark.db") as db:
        assert db.execute("SELECT protocol FROM run").fetchall() == [("probe/First",)]
    with Store.open("results/fieldmark.db", read_only=True) as store:
        assert set(store.predictions(1)["prediction"]) == {"a"}


@pytest.mark.slow
def test_changed_pictures_make_a_done_run_stale(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fieldmark.files.RACY_NS", 0)
    one = ["--model", "m.py:Slow", "--task", "blobs.yaml"]
    both = [*one, "--model", "m.py:Other"]
    assert fieldmark("run", *both) == 0
    before = answers(place / "results")
    write_image(place / "photos/test/b/1.png", seed=35)
    assert fieldmark("run", *one) == 0
    assert main(["plan", *both, "--json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["status"] for job in jobs] == ["done", "run"]
    assert jobs[1]["why"] == "its images have changed since it was done"
    assert fieldmark("run", *both) == 0
    assert answers(place / "results") != before
    assert main(["plan", *both, "--json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["status"] for job in jobs] == ["done", "done"]
