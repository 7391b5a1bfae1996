"""Runs through a real Slurm give the table of runs here, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.experiments.cluster import JobFolder
from fieldmark.store import Store
from kit.blobs import N_IMAGES, answers, make_blobs, n_lines
from kit.kills import Moment, start
from kit.slurm import Slurm, wait_until

RUN = ["run", "--model", "m.py:Slow", "--model", "classical/colour", "--task", "blobs.yaml"]
RUN += ["--n-train", "3", "-1", "--quiet"]
IN_FLIGHT = 8
"""images of a batch of the slow model, at most, that a kill may cost"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: Slurm) -> Path:
    return make_blobs(tmp_path, monkeypatch)


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    monkeypatch.setenv("FIELDMARK_CACHE", str(place / "cache-here"))
    monkeypatch.setenv("EMBED_LOG", str(place / "log-here"))
    assert main([*RUN, "--results", "here"]) == 0
    monkeypatch.setenv("FIELDMARK_CACHE", str(place / "cache"))
    monkeypatch.setenv("EMBED_LOG", str(place / "log"))
    monkeypatch.setenv("EMBED_PAUSE", "0.15")  # time for what happens meanwhile
    return answers(place / "here")


def n_rows(results: Path) -> tuple[int, int, int]:
    """Runs, parts and predictions."""
    with Store.open(results / "fieldmark.db", read_only=True) as store:
        runs = store.runs()
        parts = [part for run in runs for part in store.finished_parts(run.id)]
        return len(runs), len(parts), sum(store.predictions(run.id).height for run in runs)


def table(results: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["table", "--results", results]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_detached_and_attached_again_the_table_is_the_same(
    place: Path, here: list[tuple[object, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--on", "slurm", "--detach"]) == 0
    n_steps = len(JobFolder(place / "results").steps())
    assert n_steps >= 4, "an embedding and its runs, of two models"
    assert main([*RUN, "--on", "slurm"]) == 0
    assert len(JobFolder(place / "results").steps()) == n_steps, "the same jobs were waited for"
    assert answers(place / "results") == here
    assert table("results", capsys) == table("here", capsys)
    assert n_rows(place / "results") == n_rows(place / "here")
    assert n_lines(place / "log") == N_IMAGES
    store = place / "results" / "fieldmark.db"
    assert main(["jobs", "--all"]) == 0 and store.is_file()


def worker_of(model: str, results: Path) -> int:
    """The process that embeds with a model."""
    own = [step for step in JobFolder(results).steps() if model in step.record.title]
    embedding = next(step for step in own if step.record.kind == "embed")
    wait_until(lambda: embedding.progress, "its first words")
    return int(embedding.progress["pid"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "disaster", ["scancel", "requeue", "worker killed", "launcher killed", "slurmctld killed"]
)
def test_whatever_happens_the_same_command_ends_it(
    place: Path, here: list[tuple[object, ...]], slurm: Slurm, disaster: str
) -> None:
    launcher = start([*RUN, "--on", "slurm"])
    wait_until(lambda: (place / "log").exists() and n_lines(place / "log") >= 4, "some images")
    jobs = slurm.call("squeue", "-h", "-r", "-t", "running", "-o", "%i").split()
    if disaster == "scancel":
        slurm.call("scancel", *jobs)
    elif disaster == "requeue":
        slurm.call("scontrol", "requeue", jobs[0])
    elif disaster == "worker killed":
        os.kill(worker_of("m.py:Slow", place / "results"), signal.SIGKILL)
    elif disaster == "launcher killed":
        launcher.kill()
    else:
        now = time.time()
        wait_until(lambda: slurm.has_saved(now), "Slurm's own note of the jobs")
        slurm.kill("slurmctld")
        slurm.start()
    is_harmless = disaster in ("requeue", "slurmctld killed")
    assert (launcher.wait(120) == 0) == is_harmless
    assert start([*RUN, "--on", "slurm"]).wait(120) == 0
    assert answers(place / "results") == here
    assert n_rows(place / "results") == n_rows(place / "here")
    is_calm = disaster in ("launcher killed", "slurmctld killed")
    assert n_lines(place / "log") <= N_IMAGES + (0 if is_calm else IN_FLIGHT)
    assert n_lines(place / "log") >= N_IMAGES


@pytest.mark.slow
def test_jobs_that_a_dead_launcher_did_not_note_down_can_be_cancelled(
    place: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBED_PAUSE", "5")
    noting = Moment("fieldmark.experiments.cluster.job_folder", "StepFolder.write_job")
    assert start([*RUN, "--on", "slurm"], noting).wait(120) == -signal.SIGKILL
    assert slurm.call("squeue", "-h", "-r").count("\n") == 2, "those that embed"
    assert main(["jobs", "cancel", "--all"]) == 0
    wait_until(lambda: not slurm.call("squeue", "-h"), "an empty queue", 20)
