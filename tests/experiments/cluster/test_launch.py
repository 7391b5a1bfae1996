"""Runs elsewhere give the table of runs here, whoever is killed, and nothing is done twice."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.experiments.cluster import Board
from fieldmark.store import Store
from kit.blobs import N_IMAGES, answers, make_blobs, n_lines
from kit.launches import MOMENTS, start

pytestmark = pytest.mark.slow

MODELS = ["--model", "m.py:Slow", "--model", "classical/colour"]
GRID = [*MODELS, "--task", "blobs.yaml", "--n-train", "3", "-1"]
RUN = ["run", *GRID, "--quiet"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_blobs(tmp_path, monkeypatch)


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What a run in one process gives; nothing of it is in the cache that the others use."""
    monkeypatch.setenv("FIELDMARK_CACHE", str(place / "cache-here"))
    monkeypatch.setenv("EMBED_LOG", str(place / "log-here"))
    assert main([*RUN, "--results", "here"]) == 0
    monkeypatch.setenv("FIELDMARK_CACHE", str(place / "cache"))
    monkeypatch.setenv("EMBED_LOG", str(place / "log"))
    return answers(place / "here")


def table(results: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["table", "--results", results]) == 0
    return capsys.readouterr().out


def n_rows(results: Path) -> tuple[int, int, int]:
    """Runs, parts and predictions."""
    with Store.open(results / "fieldmark.db", read_only=True) as store:
        runs = store.runs()
        parts = [part for run in runs for part in store.finished_parts(run.id)]
        return len(runs), len(parts), sum(store.predictions(run.id).height for run in runs)


def test_in_process_the_table_is_that_of_a_run_here(
    place: Path, here: list[tuple[object, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--on", "debug"]) == 0
    assert answers(place / "results") == here
    assert table("results", capsys) == table("here", capsys)
    assert n_rows(place / "results") == n_rows(place / "here")
    assert n_lines(place / "log") == N_IMAGES
    n_steps = len(Board(place / "results").steps())
    assert main([*RUN, "--on", "debug"]) == 0
    assert len(Board(place / "results").steps()) == n_steps, "nothing is left to do"
    assert main(["run", *GRID, "--quiet"]) == 0, "a run here counts it as done"
    assert n_lines(place / "log") == N_IMAGES


def test_in_local_processes_the_table_is_that_of_a_run_here(
    place: Path, here: list[tuple[object, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--on", "local", "--jobs", "2"]) == 0
    assert answers(place / "results") == here
    assert table("results", capsys) == table("here", capsys)
    assert n_lines(place / "log") == N_IMAGES


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_launcher_killed_at_any_moment_loses_and_doubles_nothing(
    place: Path, here: list[tuple[object, ...]], moment: str
) -> None:
    killed = start([*RUN, "--on", "debug"], kill=moment)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    again = start([*RUN, "--on", "debug"])
    again.join()
    assert again.exitcode == 0
    assert answers(place / "results") == here
    assert n_rows(place / "results") == n_rows(place / "here")
    assert n_lines(place / "log") == N_IMAGES
    steps = Board(place / "results").steps()
    assert all(step.is_merged for step in steps if step.is_finished)


def test_forced_runs_take_the_place_of_the_old_ones(place: Path) -> None:
    assert main([*RUN, "--on", "debug"]) == 0
    before, rows = answers(place / "results"), n_rows(place / "results")
    with Store.open(place / "results" / "fieldmark.db", read_only=True) as store:
        first = {run.key: run.finished for run in store.runs()}
    time.sleep(1.1)  # times are kept in seconds
    assert main([*RUN, "--on", "debug", "--force"]) == 0
    with Store.open(place / "results" / "fieldmark.db", read_only=True) as store:
        assert all(run.finished != first[run.key] for run in store.runs())
    assert answers(place / "results") == before and n_rows(place / "results") == rows


def test_two_launchers_do_no_run_twice(place: Path, here: list[tuple[object, ...]]) -> None:
    base = ["run", *MODELS, "--task", "blobs.yaml", "--quiet", "--on", "local", "--jobs", "1"]
    pair = [start([*base, "--n-train", "3", "-1"]), start([*base, "--n-train", "-1", "3"])]
    for process in pair:
        process.join()
    assert [process.exitcode for process in pair] == [0, 0]
    names = [name for step in Board(place / "results").steps() for name in step.record.names]
    assert len(names) == len(set(names)) == 4
    assert answers(place / "results") == here
    assert n_rows(place / "results") == n_rows(place / "here")
    assert n_lines(place / "log") == N_IMAGES


def test_a_failed_run_is_shown_with_its_log(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ["--model", "m.py:Broken", "--model", "classical/colour", "--task", "blobs.yaml"]
    assert main(["run", *grid, "--on", "debug"]) == 5
    shown = capsys.readouterr()
    assert "the GPU is on fire" in shown.out and "1 of 2 runs failed" in shown.err
    assert main(["status", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)
    assert {step["state"] for step in steps} >= {"done"}
    assert main(["logs", "Broken"]) == 0
    assert "the GPU is on fire" in capsys.readouterr().out
    assert len(answers(place / "results")) > 0


def test_cancelled_steps_are_lost_until_the_same_command(
    place: Path,
    here: list[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("EMBED_PAUSE", "3")
    launcher = start([*RUN, "--on", "local", "--jobs", "1"])
    while not n_lines(place / "log") and launcher.is_alive():
        time.sleep(0.05)
    assert main(["status"]) == 0
    assert "running" in capsys.readouterr().out
    assert main(["cancel", "--all"]) == 0
    launcher.join()
    assert launcher.exitcode == 5
    capsys.readouterr()
    assert main(["status"]) == 0
    assert "lost" in capsys.readouterr().out
    monkeypatch.setenv("EMBED_PAUSE", "0")
    assert main([*RUN, "--on", "local", "--jobs", "2"]) == 0
    assert answers(place / "results") == here


def test_a_launcher_killed_with_workers_at_work(
    place: Path, here: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers go on; the same command waits for them and starts the rest."""
    monkeypatch.setenv("EMBED_PAUSE", "0.3")
    launcher = start([*RUN, "--on", "local", "--jobs", "1"])
    while not n_lines(place / "log") and launcher.is_alive():
        time.sleep(0.05)
    launcher.kill()
    launcher.join()
    assert main([*RUN, "--on", "local", "--jobs", "1"]) == 0
    assert answers(place / "results") == here
    assert n_rows(place / "results") == n_rows(place / "here")
    assert n_lines(place / "log") == N_IMAGES
