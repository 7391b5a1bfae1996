"""Steps as jobs of a real Slurm: arrays, dependencies, requeues, and everything that is killed."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from fieldmark.errors import RunsFailed, UsageError
from fieldmark.experiments.cluster.executors import StepGroup, group_steps
from fieldmark.experiments.cluster.executors.slurm import SlurmExecutor
from fieldmark.experiments.cluster.job_folder import StepFolder
from fieldmark.experiments.cluster.steps import StepRequest
from fieldmark.slurm import SlurmOptions
from kit.slurm import SMALL, Slurm, make_step, trace, wait_until, when, words
from kit.step_task import ScriptTask


def place(**options: object) -> SlurmExecutor:
    return SlurmExecutor(SlurmOptions.model_validate(options), ScriptTask)


def arrays(results: Path) -> list[Path]:
    return sorted((results / "cluster" / "slurm").iterdir())


def state(where: SlurmExecutor, step: StepFolder) -> str:
    return where.states([step])[step.id].state


def log(step: StepFolder) -> str:
    return "".join(path.read_text() for path in step.logs)


@pytest.mark.slow
def test_a_step_comes_after_the_ones_it_waits_for(slurm: Slurm, tmp_path: Path) -> None:
    first = [make_step(tmp_path, n) for n in range(2)]
    ready = tmp_path / "ready"
    first.append(make_step(tmp_path, 2, until=str(ready)))
    pairs = [make_step(tmp_path, 10 + n, [first[n]]) for n in (1, 0, 2)]
    second = make_step(tmp_path, 20, [first[0]])
    last = make_step(tmp_path, 30, first)
    steps = [*first, *pairs, second, last]
    here = place()
    here.submit(group_steps(steps))
    assert len(arrays(tmp_path)) == 4  # eight steps, four calls of sbatch
    assert all(step.job is not None and step.job.executor == "slurm" for step in steps)
    wait_until(lambda: here.states([last])[last.id].reason == "Dependency", "the reason")
    wait_until(lambda: all(step.is_finished for step in (*pairs[:2], second)), "three pairs")
    assert [state(here, step) for step in (pairs[2], last)] == ["pending"] * 2
    ready.touch()
    wait_until(lambda: all(step.is_finished for step in steps), "all steps")
    for step, other in zip(pairs, (first[1], first[0], first[2]), strict=True):
        assert when(step, "start") > when(other, "end")
    assert all(when(last, "start") > when(other, "end") for other in first)
    assert [words(step) for step in steps] == ["start unit end"] * len(steps)
    wait_until(lambda: {s.state for s in here.states(steps).values()} == {"gone"}, "the end")
    assert "Job completed successfully" in log(last)


@pytest.mark.slow
def test_steps_after_one_that_failed_do_not_wait_for_ever(slurm: Slurm, tmp_path: Path) -> None:
    first = [make_step(tmp_path, 0, status=4), make_step(tmp_path, 1)]
    pairs = [make_step(tmp_path, 10 + n, [first[n]]) for n in range(2)]
    both = make_step(tmp_path, 20, first)
    here = place()
    here.submit(group_steps([*first, *pairs, both]))
    wait_until(lambda: pairs[1].is_finished and both.is_finished, "the others")
    wait_until(lambda: state(here, pairs[0]) == "gone", "the one that cannot run")
    assert here.states(first)[first[0].id].reason == "failed"
    assert words(pairs[0]) == ""


def test_arrays_are_cut_at_the_largest_size(slurm: Slurm, tmp_path: Path) -> None:
    blocker = make_step(tmp_path, 9999, unit_s=60)
    steps = [make_step(tmp_path, n, [blocker]) for n in range(230)]
    here = place(array_parallelism=7)
    here.submit(
        [StepGroup((blocker,), SMALL), StepGroup(tuple(steps), SMALL, (blocker,))],
    )
    numbers = [step.job.id.partition("_")[0] for step in [blocker, *steps] if step.job]
    assert sorted(Counter(numbers).values()) == [1, 28, 101, 101]
    assert {s.state for s in here.states(steps).values()} == {"pending"}
    assert len({step.job.id for step in steps if step.job}) == 230
    assert "%7" in slurm.call("squeue", "-h", "-o", "%i")
    here.cancel([*steps, blocker])
    wait_until(lambda: {s.state for s in here.states(steps).values()} == {"gone"}, "no job")
    assert all(words(step) == "" for step in steps)


@pytest.mark.slow
def test_a_cancelled_job_is_gone_and_one_put_back_runs_again(slurm: Slurm, tmp_path: Path) -> None:
    ended = make_step(tmp_path, 0, until=str(tmp_path / "never"))
    again = make_step(tmp_path, 1, units=10, unit_s=0.3)
    here = place()
    here.submit(group_steps([ended, again]))
    wait_until(lambda: "unit" in words(ended) and "unit" in words(again), "work")
    assert {s.state for s in here.states([ended, again]).values()} == {"running"}
    assert ended.job is not None and again.job is not None
    slurm.call("scancel", ended.job.id)
    slurm.call("scontrol", "requeue", again.job.id)
    wait_until(lambda: state(here, ended) == "gone", "a job that was cancelled")
    assert here.states([ended])[ended.id].reason in ("cancelled", "")
    assert not ended.is_finished
    wait_until(lambda: words(again).count("start") == 2, "a second start")
    wait_until(lambda: again.is_finished, "its end")
    units = [line[1] for line in trace(again) if line[0] == "unit"]
    assert units == [str(n) for n in range(10)]


@pytest.mark.slow
def test_a_job_at_the_end_of_its_time_goes_on_in_the_next(slurm: Slurm, tmp_path: Path) -> None:
    """A minute is the shortest time there is; Slurm tells the job some seconds earlier."""
    ready = tmp_path / "ready"
    step = make_step(tmp_path, 0, units=5, until=str(ready))
    after = make_step(tmp_path, 1, [step])
    here = place(time=1, signal_delay=20)
    here.submit(group_steps([step, after]))
    wait_until(lambda: "checkpoint" in words(step), "the signal", 150)
    ready.touch()
    wait_until(lambda: state(here, step) == "pending", "a place in the queue")
    assert state(here, after) == "pending"
    wait_until(lambda: step.is_finished and after.is_finished, "the end", 150)
    assert words(step).count("start") == 2
    units = [line[1] for line in trace(step) if line[0] == "unit"]
    assert units == [str(n) for n in range(5)], "nothing lost, nothing done twice"
    assert when(after, "start") > when(step, "end")


@pytest.mark.slow
def test_jobs_outlive_slurmctld(slurm: Slurm, tmp_path: Path) -> None:
    running = make_step(tmp_path, 0, units=20, unit_s=0.3)
    waiting = make_step(tmp_path, 1, [running])
    here = place()
    here.submit(group_steps([running, waiting]))
    wait_until(lambda: "unit" in words(running), "work")
    now = time.time()
    wait_until(lambda: slurm.has_saved(now), "Slurm's own note of the job")
    slurm.kill("slurmctld")
    states = here.states([running, waiting])
    assert {s.state for s in states.values()} == {"unknown"}
    assert all(s.is_alive and "does not answer" in s.reason for s in states.values())
    other = make_step(tmp_path, 2)
    with pytest.raises(RunsFailed, match="does not answer.*same command again"):
        here.submit(group_steps([other]))
    with pytest.raises(RunsFailed, match="does not answer"):
        here.recover([other])
    assert other.job is None
    slurm.start()
    wait_until(lambda: state(here, running) in ("running", "gone"), "Slurm")
    wait_until(lambda: running.is_finished and waiting.is_finished, "both")
    assert words(running).count("start") == 1
    assert here.recover([other]) == [other]


def _die_after_sbatch(steps: list[StepFolder]) -> None:
    SlurmExecutor._write_job = lambda *_: os._exit(9)  # type: ignore[method-assign]
    place().submit(group_steps(steps))


@pytest.mark.slow
def test_jobs_of_a_launcher_that_died_are_taken_over(slurm: Slurm, tmp_path: Path) -> None:
    steps = [make_step(tmp_path, n, unit_s=1.0) for n in range(2)]
    never = make_step(tmp_path, 5)
    child = multiprocessing.get_context("fork").Process(target=_die_after_sbatch, args=(steps,))
    child.start()
    child.join()
    assert child.exitcode == 9
    assert [step.job for step in steps] == [None, None]
    here = place()
    assert here.recover([*steps, never]) == [never]
    assert len({step.job.id for step in steps if step.job}) == 2
    assert {s.state for s in here.states(steps).values()} <= {"pending", "running"}
    wait_until(lambda: all(step.is_finished for step in steps), "the end")
    assert [words(step) for step in steps] == ["start unit end"] * 2
    wait_until(lambda: {s.state for s in here.states(steps).values()} == {"gone"}, "the end")


@pytest.mark.slow
def test_setup_environment_gpus_and_memory_reach_the_job(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "nowhere")  # the table decides
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "77")  # of the launcher's own job
    show = ["GREETING", "SAID", "CUDA_VISIBLE_DEVICES", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE"]
    request = StepRequest(60.0, 300 << 20, 2, 1)
    with_gpu = make_step(tmp_path, 0, request=request, show=show)
    without = make_step(tmp_path, 1, show=show)
    here = place(
        partition="test", gpus="1", setup='SAID="$GREETING, job"\nexport SAID',
        environment={"GREETING": "it's $5"},
    )  # fmt: skip
    here.submit(
        [StepGroup((with_gpu,), request), StepGroup((without,), SMALL)],
    )
    wait_until(lambda: with_gpu.is_finished and without.is_finished, "both")

    def shown(step: StepFolder) -> list[str]:
        return [" ".join(line[2:-1]) for line in trace(step) if line[0] == "show"]

    assert shown(with_gpu) == ["it's $5", "it's $5, job", "0", "2", "300"]
    assert shown(without) == ["it's $5", "it's $5, job", "-", "1", "100"]
    assert os.environ["SLURM_CPUS_PER_TASK"] == "77"


@pytest.mark.slow
def test_a_users_folder_and_variables_change_nothing(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A percent sign in a path, defaults for squeue, a file named as a module of Python."""
    results = tmp_path / "100% done"
    with pytest.raises(UsageError, match="choose another --results"):
        place().submit(group_steps([make_step(tmp_path / "%j", 0)]))
    results.mkdir()
    (results / "json.py").write_text("raise RuntimeError('the wrong one')")
    monkeypatch.chdir(results)
    monkeypatch.setenv("SQUEUE_PARTITION", "other")
    ready = tmp_path / "ready"
    step, here = make_step(results, 0, until=str(ready)), place()
    here.submit(group_steps([step]))
    wait_until(lambda: state(here, step) == "running", "its start")
    ready.touch()
    wait_until(lambda: state(here, step) == "gone", "its end")
    assert step.is_finished and "Job completed successfully" in log(step)


def test_what_slurm_refuses_is_told_in_one_line(slurm: Slurm, tmp_path: Path) -> None:
    step = make_step(tmp_path, 0)
    with pytest.raises(UsageError) as caught:
        place(partition="nowhere").submit(group_steps([step]))
    text = str(caught.value)
    assert "invalid partition specified: nowhere" in text and "\n" not in text
    assert step.job is None and place().states([step])[step.id].state == "gone"


def test_without_slurm_it_says_where_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="login node"):
        place().submit([])
