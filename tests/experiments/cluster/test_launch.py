"""Runs elsewhere give the table of runs here, whoever is killed, and nothing is done twice."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.errors import StoreError, UsageError
from fieldmark.experiments.cluster import JobFolder
from fieldmark.experiments.cluster.merge import merge_ready
from fieldmark.processes import host
from fieldmark.store import Store
from kit.blobs import N_IMAGES, answers, make_blobs, n_lines
from kit.forked import Popen
from kit.kills import Moment, start, wait_for

SLOW, COLOUR = "m.py:Slow", "classical/colour"
ON = ["--task", "blobs.yaml", "--quiet"]
RUN = ["run", "--model", SLOW, "--model", COLOUR, *ON, "--n-train", "3", "-1"]
BATCH = 4  # of m.py:Slow
SHORT = ["run", "--model", SLOW, *ON, "--n-train", "3", "-1"]
"""two steps: every local process takes a while to start"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_blobs(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of the same runs in one process, with data and a cache of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = make_blobs(tmp_path_factory.mktemp("here"), monkeypatch)
        assert main([*RUN, "--results", "results"]) == 0
    return folder / "results"


def table(results: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["table", "--results", str(results)]) == 0
    return capsys.readouterr().out


def n_rows(results: Path) -> tuple[int, int, int]:
    """Runs, parts and predictions."""
    with Store.open(results / "fieldmark.db", read_only=True) as store:
        runs = store.runs()
        parts = [part for run in runs for part in store.finished_parts(run.id)]
        return len(runs), len(parts), sum(store.predictions(run.id).height for run in runs)


def of_slow(results: Path) -> list[tuple[object, ...]]:
    return [row for row in answers(results) if str(row[0]).startswith(SLOW)]


def wait_for_work(place: Path, launcher: Popen) -> None:
    wait_for(launcher, lambda: n_lines(place / "log") > 0)


def test_in_process_the_table_is_that_of_a_run_here(
    place: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--on", "debug"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not list((place / "results" / "cluster").rglob("*.db")), "all of it is merged"
    assert main(["jobs", "logs", f"{COLOUR} · blobs"]) == 0
    assert ": classical/colour · blobs" in capsys.readouterr().out
    assert answers(place / "results") == answers(here)
    assert table(place / "results", capsys) == table(here, capsys)
    assert n_rows(place / "results") == n_rows(here)
    assert n_lines(place / "log") == N_IMAGES
    n_steps = len(JobFolder(place / "results").steps())
    assert main([*RUN, "--on", "debug"]) == 0
    assert len(JobFolder(place / "results").steps()) == n_steps, "nothing is left to do"
    assert main(RUN) == 0, "a run here counts it as done"
    assert n_lines(place / "log") == N_IMAGES


@pytest.mark.slow
def test_in_local_processes_the_table_is_that_of_a_run_here(
    place: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--on", "local", "--jobs", "2"]) == 0
    assert answers(place / "results") == answers(here)
    assert table(place / "results", capsys) == table(here, capsys)
    assert n_lines(place / "log") == N_IMAGES


CLUSTER = "fieldmark.experiments.cluster"
FOLDER, MERGE = f"{CLUSTER}.job_folder", f"{CLUSTER}.merge"
MOMENTS = {
    "with one of its steps written": Moment(FOLDER, "write_work", 2),
    "with its steps written and none submitted": Moment(f"{CLUSTER}.launch", "group_steps"),
    "with steps submitted and none noted down": Moment(FOLDER, "StepFolder.write_job"),
    "with one step submitted": Moment(FOLDER, "StepFolder.write_job", is_after=True),
    "with the first step done": Moment(FOLDER, "StepFolder.write_job", 2),
    "in a run": Moment("fieldmark.store", "Store.write_part", 3, is_after=True),
    "in the last run": Moment("fieldmark.store", "Store.finish_run", 4),
    "before it merges": Moment(MERGE, "merge_shards"),
    "before the steps are marked as merged": Moment(MERGE, "merge_shards", is_after=True),
    "with one step marked as merged": Moment(FOLDER, "StepFolder.mark_merged", is_after=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_launcher_killed_at_any_moment_loses_and_doubles_nothing(
    place: Path, here: Path, moment: str
) -> None:
    killed = start([*RUN, "--on", "debug"], MOMENTS[moment])
    assert killed.wait(60) == -signal.SIGKILL
    assert start([*RUN, "--on", "debug"]).wait(60) == 0
    assert answers(place / "results") == answers(here)
    assert n_rows(place / "results") == n_rows(here)
    assert n_lines(place / "log") == N_IMAGES
    steps = JobFolder(place / "results").steps()
    assert all(step.is_merged for step in steps if step.is_finished)


@pytest.mark.slow
def test_forced_runs_take_the_place_of_the_old_ones(place: Path) -> None:
    assert main([*SHORT, "--on", "debug"]) == 0
    before, rows = answers(place / "results"), n_rows(place / "results")
    with Store.open(place / "results" / "fieldmark.db", read_only=True) as store:
        first = {run.key: run.finished for run in store.runs()}
    time.sleep(1.1)  # times are kept in seconds
    assert main([*SHORT, "--on", "debug", "--force"]) == 0
    with Store.open(place / "results" / "fieldmark.db", read_only=True) as store:
        assert all(run.finished != first[run.key] for run in store.runs())
    assert answers(place / "results") == before and n_rows(place / "results") == rows


@pytest.mark.slow
def test_two_grids_share_a_results_folder(place: Path, here: Path) -> None:
    base = ["run", *ON, "--on", "local", "--jobs", "1", "--model", SLOW]
    pair = [start([*base, "--n-train", "3", "-1"]), start([*base, "--n-train", "5"])]
    assert [process.wait(60) for process in pair] == [0, 0]
    steps = JobFolder(place / "results").steps()
    names = [name for step in steps for name in step.record.names]
    assert len(names) == len(set(names)) == 3
    assert all(step.is_merged for step in steps)
    rows = of_slow(place / "results")
    assert [row for row in rows if row[1] != 5] == of_slow(here)
    assert n_rows(place / "results")[0] == 3
    assert n_lines(place / "log") == N_IMAGES


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [["3", "-1"], ["-1", "5"]], ids=["the same", "a part of it"])
def test_a_second_launcher_says_who_holds_the_grid_and_ends(
    place: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wanted: list[str],
) -> None:
    monkeypatch.setenv("EMBED_PAUSE", "0.1")
    base = ["run", *ON, "--on", "local", "--jobs", "1", "--model", SLOW, "--n-train"]
    launcher = start([*base, "3", "-1"])
    wait_for_work(place, launcher)
    capsys.readouterr()
    assert main([*base, *wanted]) == 2
    n = sum(n_train in ("3", "-1") for n_train in wanted)
    assert capsys.readouterr().err == (
        f"fieldmark: process {launcher.pid} on {host()} is already running this grid (it does {n} "
        "of the 2 runs): wait for it, or stop it. `fieldmark jobs` shows how far it is.\n"
    )
    assert launcher.wait(60) == 0
    assert answers(place / "results") == of_slow(here)
    assert not list((place / "results" / "cluster").glob("launcher-*"))


@pytest.mark.slow
def test_a_failed_run_is_shown_with_its_log(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ["--model", "m.py:Broken", "--model", "classical/colour", "--task", "blobs.yaml"]
    assert main(["run", *grid, "--on", "debug"]) == 5
    shown = capsys.readouterr()
    assert "the GPU is on fire" in shown.out and "1 of 2 runs failed" in shown.err
    assert main(["jobs", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)
    assert {step["state"] for step in steps} >= {"done"}
    assert main(["jobs", "logs", "Broken"]) == 0
    assert "the GPU is on fire" in capsys.readouterr().out
    assert len(answers(place / "results")) > 0


FAT = """import os, sys
from m import Slow
class Fat(Slow):
    def embed_images(self, batch):
        if os.getpid() == {launcher}:
            return super().embed_images(batch)
        print({says!r}, file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "says",
    [
        "slurmstepd: error: StepId=1.batch exceeded memory limit (865 > 734), being killed",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.",
        "error: Some of your processes may have been killed by the cgroup OOM-killer",
    ],
)
def test_a_step_that_reached_its_memory_limit_says_so(
    place: Path, capsys: pytest.CaptureFixture[str], says: str
) -> None:
    """As a real Slurm with OverMemoryKill logged it; the line spoke of everything but memory."""
    (place / "oom.py").write_text(FAT.format(launcher=os.getpid(), says=says))
    grid = ["--model", "oom.py:Fat", "--task", "blobs.yaml", "--on", "local", "--quiet"]
    assert main(["run", *grid]) == 5
    assert "reached its memory limit. Ask for more (`memory` under [slurm])" in (
        capsys.readouterr().err
    )


@pytest.mark.slow
def test_cancelled_steps_are_lost_until_the_same_command(
    place: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("EMBED_PAUSE", "3")
    launcher = start([*SHORT, "--on", "local", "--jobs", "1"])
    wait_for_work(place, launcher)
    assert main(["jobs"]) == 0
    assert "running" in capsys.readouterr().out
    assert main(["jobs", "cancel", "--all"]) == 0
    assert launcher.wait(60) == 5
    capsys.readouterr()
    assert main(["jobs"]) == 0
    assert "lost" in capsys.readouterr().out
    monkeypatch.setenv("EMBED_PAUSE", "0")
    assert main([*SHORT, "--on", "local", "--jobs", "1"]) == 0
    assert answers(place / "results") == of_slow(here)
    assert all(step.is_merged for step in JobFolder(place / "results").steps()), "none is lost now"
    assert not list((place / "results" / "cluster").rglob("*.db"))


def test_a_refused_submission_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("Slurm refused.")

    monkeypatch.setattr(
        "fieldmark.experiments.cluster.executors.local.DebugExecutor.submit", refuse
    )
    assert main([*SHORT, "--on", "debug"]) == 2
    assert capsys.readouterr().err == "fieldmark: Slurm refused.\n"
    assert JobFolder(place / "results").steps() == []
    assert not [path for path in (place / "results" / "cluster").rglob("*") if path.is_file()]


@pytest.mark.slow
def test_a_step_without_a_readable_outcome_is_done_again(place: Path, here: Path) -> None:
    """A node without power has not written all that it was told to."""
    assert start([*SHORT, "--on", "debug"], MOMENTS["before it merges"]).wait(60) == -signal.SIGKILL
    (step,) = (step for step in JobFolder(place / "results").steps() if step.record.names)
    (step.shard / "outcome.json").write_bytes(b"")
    assert main([*SHORT, "--on", "debug"]) == 0
    assert answers(place / "results") == of_slow(here)
    assert step not in JobFolder(place / "results").steps()


@pytest.mark.slow
def test_a_launcher_killed_with_workers_at_work(
    place: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers end with it; the same command takes up what they have done."""
    monkeypatch.setenv("EMBED_PAUSE", "0.1")
    launcher = start([*SHORT, "--on", "local", "--jobs", "1"])
    wait_for_work(place, launcher)
    launcher.kill()
    launcher.wait()
    assert main([*SHORT, "--on", "local", "--jobs", "1"]) == 0
    assert answers(place / "results") == of_slow(here)
    assert n_lines(place / "log") <= N_IMAGES + BATCH, "at most the batch in hand is done again"


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_the_same_command_goes_on(
    place: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBED_PAUSE", "0.1")
    with (place / "errors").open("w") as errors:
        launcher = start([*SHORT, "--on", "local", "--jobs", "1"], stderr=errors)
    wait_for_work(place, launcher)
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(60) == 130
    (line,) = (place / "errors").read_text().splitlines()
    assert line.startswith("fieldmark: interrupted. Finished work is kept")
    assert main([*SHORT, "--on", "local", "--jobs", "1"]) == 0
    assert answers(place / "results") == of_slow(here)
    assert n_lines(place / "log") <= N_IMAGES + BATCH, "at most the batch in hand is done again"


@pytest.mark.slow
@pytest.mark.parametrize("is_passing", [True, False])
def test_results_that_cannot_be_read_are_put_aside_only_when_damaged(
    place: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_passing: bool,
) -> None:
    def fail(path: Path, *_: object) -> None:
        fault = StoreError(f"{path}  is out of order.")
        fault.may_pass = is_passing
        raise fault

    loud = [word for word in SHORT if word != "--quiet"]
    with monkeypatch.context() as context:
        context.setattr("fieldmark.store.merge.read_shard", fail)
        assert main([*loud, "--on", "debug"]) == 5
    shown = capsys.readouterr()
    (step,) = (step for step in JobFolder(place / "results").steps() if step.record.names)
    what = "cannot be read now and are tried again" if is_passing else "are damaged and were put"
    lines = [line for line in shown.err.splitlines() if line.strip().startswith("the results of")]
    assert len(lines) == 1 and what in lines[0] and "is out of order." in lines[0]
    assert step.is_finished == is_passing and not step.is_merged
    assert len(list(step.path.glob("damaged-*"))) == (not is_passing)
    assert main([*SHORT, "--on", "debug"]) == 0
    assert (step in JobFolder(place / "results").steps()) == is_passing
    assert answers(place / "results") == of_slow(here)
    assert n_lines(place / "log") == N_IMAGES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"), [("fieldmark.db", 0), ("fieldmark.db", None), ("outcome.json", 40)]
)
def test_what_a_disk_has_lost_is_done_again_and_never_counts_as_done(
    place: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    size: int | None,
) -> None:
    def damaging(job_folder: JobFolder, *others: Any) -> object:
        for step in job_folder.steps():
            path = step.shard / name
            if step.record.names and path.exists():
                path.unlink() if size is None else os.truncate(path, size)
        return merge_ready(job_folder, *others)

    with monkeypatch.context() as context:
        context.setattr("fieldmark.experiments.cluster.launch.merge_ready", damaging)
        assert main([*SHORT, "--on", "debug"]) == 5
    assert main(["jobs", "--all"]) == 0
    assert "lost" in capsys.readouterr().out
    assert main([*SHORT, "--on", "debug"]) == 0
    assert answers(place / "results") == of_slow(here)


@pytest.mark.slow
def test_the_board_may_be_on_another_disk(
    place: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path.replace

    def refuse(source: Path, target: Path) -> Path:
        if "shard" in source.parts:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return original(source, target)

    monkeypatch.setattr(Path, "replace", refuse)
    assert main([*SHORT, "--on", "debug"]) == 0
    assert answers(place / "results") == of_slow(here)
    assert list((place / "results").glob("models/*/behaviour.npy"))


@pytest.mark.parametrize("where", ["local", "debug", "here"])
def test_only_slurm_goes_on_without_the_command(
    place: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SHORT, "--on", where, "--detach"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "fieldmark: --detach works only with --on slurm."
    assert not (place / "results").exists()


def test_results_that_cannot_be_written_are_one_line(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect N7: a traceback."""
    (place / "results").mkdir()
    (place / "results" / "cluster").write_text("a file where a folder should be")
    assert main([*SHORT, "--on", "local"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "cluster cannot be written: " in line
