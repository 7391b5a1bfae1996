"""Steps as processes of this machine: how many at once, on which GPU, and who outlives whom."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from fieldmark.errors import UsageError
from fieldmark.experiments.cluster.executors import StepGroup, group_steps
from fieldmark.experiments.cluster.executors.local import DebugExecutor, LocalExecutor
from fieldmark.experiments.cluster.job_folder import JobFolder, StepFolder
from fieldmark.experiments.cluster.steps import StepRequest
from kit.slurm import SMALL, make_step, trace, wait_until, when, words
from kit.step_task import ScriptTask

GPU = StepRequest(60.0, 100 << 20, 1, 1)


@pytest.fixture(autouse=True)
def _workers_see_the_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def finished(steps: list[StepFolder]) -> bool:
    return all(step.is_finished for step in steps)


@pytest.mark.slow
def test_so_many_at_once_and_those_that_wait_afterwards(tmp_path: Path) -> None:
    first = [make_step(tmp_path, n, unit_s=0.3) for n in range(4)]
    pair = make_step(tmp_path, 10, [first[3]])
    last = make_step(tmp_path, 11, first)
    steps = [*first, pair, last]
    place = LocalExecutor(2, gpus=(), task=ScriptTask)
    place.submit(group_steps(steps))
    wait_until(lambda: finished(steps), "all steps")
    wait_until(lambda: {s.state for s in place.states(steps).values()} == {"gone"}, "the end")
    place.close()
    spans = [(when(step, "start"), when(step, "end")) for step in steps]
    assert max(sum(a <= t < b for a, b in spans) for t, _ in spans) <= 2
    assert spans[4][0] > spans[3][1]
    assert all(spans[5][0] > end for _, end in spans[:4])
    assert [words(step) for step in steps] == ["start unit end"] * 6


def test_a_gpu_has_one_step_at_a_time(tmp_path: Path) -> None:
    show = ["CUDA_VISIBLE_DEVICES"]
    with_gpu = [make_step(tmp_path, n, unit_s=0.4, show=show) for n in range(4)]
    without = make_step(tmp_path, 9, show=show)
    place = LocalExecutor(4, gpus=["5", "GPU-7"], task=ScriptTask)
    place.submit([StepGroup(tuple(with_gpu), GPU), StepGroup((without,), SMALL)])
    wait_until(lambda: finished([*with_gpu, without]), "all steps")
    place.close()
    by_gpu: dict[str, list[tuple[float, float]]] = {}
    for step in with_gpu:
        gpu = next(line[2] for line in trace(step) if line[0] == "show")
        by_gpu.setdefault(gpu, []).append((when(step, "start"), when(step, "end")))
    assert sorted(by_gpu) == ["5", "GPU-7"]
    for spans in by_gpu.values():
        spans.sort()
        assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))
    assert [line[1:-1] for line in trace(without) if line[0] == "show"] == [show]


def test_a_step_that_asks_for_more_gpus_than_there_are_has_all(tmp_path: Path) -> None:
    step = make_step(tmp_path, 0, show=["CUDA_VISIBLE_DEVICES"])
    request = StepRequest(60.0, 1, 1, 8)
    place = LocalExecutor(1, gpus=["0", "1"], task=ScriptTask)
    place.submit([StepGroup((step,), request)])
    wait_until(lambda: step.is_finished, "the step")
    place.close()
    assert [line[2] for line in trace(step) if line[0] == "show"] == ["0,1"]


def test_how_workers_ended_is_told(tmp_path: Path) -> None:
    failing = make_step(tmp_path, 0, status=3)
    killed = make_step(tmp_path, 1, until=str(tmp_path / "never"))
    after = make_step(tmp_path, 2, [failing])
    place = LocalExecutor(2, gpus=(), task=ScriptTask)
    place.submit(group_steps([failing, killed, after]))
    wait_until(lambda: "start" in words(killed), "its start")
    assert place.states([killed])[killed.id].state == "running"
    assert killed.job is not None
    os.kill(int(killed.job.id), signal.SIGKILL)
    wait_until(lambda: after.is_finished, "the one that comes after")
    steps = [failing, killed]
    wait_until(lambda: {s.state for s in place.states(steps).values()} == {"gone"}, "the end")
    reasons = [state.reason for state in place.states(steps).values()]
    assert reasons == ["exit status 3", "killed by signal 9"]
    place.close()
    other = LocalExecutor(1, gpus=(), task=ScriptTask)
    assert [state.state for state in other.states(steps).values()] == ["gone", "gone"]


def test_a_step_that_cannot_be_started_keeps_none_waiting(tmp_path: Path) -> None:
    """No room for its log, or no process for it."""
    broken = make_step(tmp_path, 0)
    (broken.path / "log.txt").mkdir()
    others = [make_step(tmp_path, 1), make_step(tmp_path, 2, [broken])]
    place = LocalExecutor(1, gpus=(), task=ScriptTask)
    place.submit(group_steps([broken, *others]))
    wait_until(lambda: finished(others), "the others")
    state = place.states([broken])[broken.id]
    assert state.state == "gone" and "cannot be started" in state.reason
    place.close()


def test_files_of_the_current_folder_are_no_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    step = make_step(tmp_path, 0)
    place = LocalExecutor(1, gpus=(), task=ScriptTask)
    place.submit(group_steps([step]))
    wait_until(lambda: place.states([step])[step.id].state == "gone", "its end")
    assert step.is_finished, (step.path / "log.txt").read_text()
    place.close()


def test_cancelled_steps_end_and_are_not_started(tmp_path: Path) -> None:
    working = make_step(tmp_path, 0, until=str(tmp_path / "never"))
    waiting = [make_step(tmp_path, n) for n in (1, 2)]
    place = LocalExecutor(1, gpus=(), task=ScriptTask)
    place.submit(group_steps([working, *waiting]))
    wait_until(lambda: "start" in words(working), "its start")
    assert {s.state for s in place.states(waiting).values()} == {"pending"}
    other = LocalExecutor(1, gpus=(), task=ScriptTask)  # `jobs cancel`, in another process
    assert {s.state for s in other.states(waiting).values()} == {"pending"}
    other.cancel(waiting[:1])
    other.cancel([working])
    wait_until(lambda: waiting[1].is_finished, "the one that was not cancelled")
    assert words(waiting[0]) == "" and not working.is_finished
    wait_until(lambda: {s.state for s in place.states(waiting).values()} == {"gone"}, "the end")
    place.close()


def _launch_and_hang(steps: list[StepFolder]) -> None:
    place = LocalExecutor(1, gpus=(), task=ScriptTask)
    place.submit(group_steps(steps))
    time.sleep(600)


def test_workers_end_with_their_launcher_and_what_waited_too(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    working = make_step(tmp_path, 0, until=str(ready))
    waiting = make_step(tmp_path, 1)
    steps = [working, waiting]
    launcher = multiprocessing.get_context("fork").Process(target=_launch_and_hang, args=(steps,))
    launcher.start()
    wait_until(lambda: "start" in words(working), "its start")
    here = LocalExecutor(1, gpus=(), task=ScriptTask)
    assert [state.state for state in here.states(steps).values()] == ["running", "pending"]
    launcher.kill()
    launcher.join()
    wait_until(lambda: {s.state for s in here.states(steps).values()} == {"gone"}, "its end", 5)
    assert here.recover([waiting]) == [waiting]
    ready.touch()
    here.submit([StepGroup((working,), SMALL), StepGroup((waiting,), SMALL, (working,))])
    wait_until(lambda: finished(steps), "both")
    assert when(waiting, "start") > when(working, "end")
    here.close()


def test_debug_does_all_in_this_process(tmp_path: Path) -> None:
    first = make_step(tmp_path, 0)
    second = make_step(tmp_path, 1, [first], status=3)
    place = DebugExecutor(ScriptTask)
    place.submit(group_steps([first, second]))
    assert [line[1] for line in trace(first) if line[0] == "end"] == [str(os.getpid())]
    states = place.states([first, second])
    assert [(s.state, s.reason) for s in states.values()] == [
        ("gone", ""),
        ("gone", "exit status 3"),
    ]
    assert first.job is not None and first.job.executor == "debug"
    with pytest.raises(UsageError, match=f"Ctrl-C in process {os.getpid()}"):
        place.cancel([first])


def test_steps_leave_the_board_a_week_after_they_were_merged(tmp_path: Path) -> None:
    merged, waiting = make_step(tmp_path, 0), make_step(tmp_path, 1)
    merged.shard.mkdir()
    merged.mark_merged()
    job_folder = JobFolder(tmp_path)
    job_folder.contents_folder.mkdir()
    for tag in ("test", "gone"):
        (job_folder.contents_folder / f"{tag}.db").touch()
    job_folder.prune()
    assert job_folder.steps() == [merged, waiting]
    assert [path.name for path in job_folder.contents_folder.iterdir()] == ["test.db"]
    job_folder.prune(lambda: time.time() + 8 * 24 * 3600)
    assert job_folder.steps() == [waiting]


def test_groups_are_as_large_as_can_be(tmp_path: Path) -> None:
    requests = [StepRequest(s, m << 20, 1, 0) for s, m in ((61, 700), (90, 1000), (119, 1024))]
    first = [make_step(tmp_path, n, request=requests[n % 3]) for n in range(30)]
    pairs = [make_step(tmp_path, 100 + n, [first[n % 30]]) for n in range(60)]
    all_of_ten = make_step(tmp_path, 200, first[:10])
    groups = group_steps([*first, *pairs, all_of_ten])
    assert sorted(len(group.steps) for group in groups) == [1, 30, 30, 30]
    assert groups[0].steps == tuple(first) and groups[0].request.seconds == 120.0
    assert groups[0].request.memory_bytes == 1 << 30
    for group in groups:
        if group.is_pairwise:
            names = [step.record.after for step in group.steps]
            assert names == [(other.id,) for other in group.after]
            assert len(set(names)) == len(names)
    assert group_steps([]) == []
