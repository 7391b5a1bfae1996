"""`plan` shows the steps that `run` would submit, and what they ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.experiments.cluster import JobFolder
from fieldmark.experiments.cluster.executors import count_arrays, group_steps
from fieldmark.experiments.cluster.requests import StepRequest
from fieldmark.experiments.cluster.steps import PlannedStep
from fieldmark.experiments.cluster.work import StepWork
from fieldmark.settings import Settings
from kit.blobs import N_IMAGES, make_blobs

GRID = """
models = ["m.py:Slow", "classical/colour"]
tasks = ["blobs.yaml"]
n_train = [3, -1]
"""
SLURM = """
[slurm]
time = "02:00:00"
memory = "3G"
cpus = 5
gpus = 1
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", "")  # no Slurm is needed to plan
    make_blobs(tmp_path, monkeypatch)
    (tmp_path / "e.toml").write_text(GRID)
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main(["plan", "e.toml", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_steps_are_shown_with_what_they_ask_for(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "e.toml").write_text(GRID + SLURM)
    assert main(["plan", "e.toml"]) == 0
    shown = capsys.readouterr()
    assert f"classical/colour: {N_IMAGES} images of photos" in shown.out
    assert "2 h 0 min, 3 GB, 5 CPUs, 1 GPU" in shown.out, "a model of the user's may use one"
    assert "4 steps on slurm in 4 job arrays." in shown.err
    assert not (place / "results").exists()
    steps = planned(capsys)["steps"]
    assert [(step["kind"], step["after"]) for step in steps] == [
        ("embed", []), ("runs", [0]), ("embed", []), ("runs", [2]),
    ]  # fmt: skip
    assert all(step["request"]["seconds"] <= 7200 for step in steps)
    assert [len(step["runs"]) for step in steps] == [0, 2, 0, 2]


def test_a_plan_for_this_process_has_no_steps(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(capsys)["steps"] is None
    (place / "e.toml").write_text(GRID + SLURM)
    assert planned(capsys, "--on", "here")["steps"] is None


@pytest.mark.slow
def test_requests_come_from_past_runs_and_nothing_is_left_when_all_is_done(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = planned(capsys, "--on", "slurm")["steps"]
    assert main(["run", "e.toml", "--quiet", "--on", "debug"]) == 0
    # What was submitted is what was planned.
    records = [step.record for step in JobFolder(place / "results").steps()]
    assert [(r.kind, r.title) for r in records] == [(s["kind"], s["title"]) for s in unknown]
    assert planned(capsys, "--on", "slurm")["steps"] == []
    again = planned(capsys, "--on", "slurm", "--force")["steps"]
    assert [step["kind"] for step in again] == ["runs", "runs"], "features are kept"
    assert again[0]["request"]["seconds"] < unknown[1]["request"]["seconds"]


def test_arrays_are_counted_as_they_are_made(tmp_path: Path) -> None:
    request, work = StepRequest(60, 1 << 30, 1, 0), StepWork("runs", (), Settings(), {})
    first = [PlannedStep("embed", work, (), request, "") for _ in range(5)]
    pairs = [PlannedStep("runs", work, (n,), request, "") for n in range(5)]
    last = PlannedStep("runs", work, (0, 1), request, "")
    steps = [*first, *pairs, last]
    assert count_arrays(steps, 1000) == 3
    assert count_arrays(steps, 2) == 3 + 3 + 1
    folders = JobFolder(tmp_path).new_steps(steps, "slurm", "ab12")
    assert len(group_steps(folders)) == 3


def test_steps_of_one_second_sort_as_they_were_made(tmp_path: Path) -> None:
    """A lost step is dropped when a later one has done its runs."""
    request, work = StepRequest(60, 1 << 30, 1, 0), StepWork("runs", (), Settings(), {})
    job_folder = JobFolder(tmp_path)
    tags = [f"{number:04x}" for number in range(20, 0, -1)]
    for tag in tags:
        job_folder.new_steps([PlannedStep("runs", work, (), request, "")], "debug", tag)
    assert [step.tag for step in job_folder.steps()] == tags


@pytest.mark.slow
def test_runs_whose_results_wait_on_the_board_are_left_out(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "e.toml", "--quiet", "--on", "debug"]) == 0
    for step in JobFolder(place / "results").steps():
        step.note("merged", 0.0)
    for path in (place / "results").glob("fieldmark.db*"):
        path.unlink()
    capsys.readouterr()
    assert main(["plan", "e.toml", "--on", "slurm"]) == 0
    told = capsys.readouterr().err
    assert "0 steps on slurm." in told and "4 runs left out" in told
