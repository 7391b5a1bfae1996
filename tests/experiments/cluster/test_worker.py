"""A worker may be killed, started twice or too early: nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fieldmark.experiments import Axes
from fieldmark.experiments.cluster.steps import StepOptions, make_steps
from fieldmark.experiments.cluster.work import read_outcome
from fieldmark.experiments.cluster.worker import NOT_EMBEDDED, StepProgress, StepTask, run_step
from fieldmark.registry import PROTOCOLS
from fieldmark.settings import Settings
from kit import forked
from kit.documents import write_jsonl
from kit.kills import kill_when
from kit.pictures import mark_drawn, write_image
from kit.registries import forget
from kit.steps import do_here, do_in_steps, everything, merge, plan_of, write_steps

MODEL = '''
import os, time
import numpy as np
from fieldmark.models import Features

class Slow:
    """Mean colours; writes a line for each image it embeds, so that double work shows."""
    dim = 12
    batch_size = 4
    def transform(self, image):
        return np.asarray(image.resize((2, 2)), np.float32)
    def embed_images(self, batch):
        with open(os.environ["EMBED_LOG"], "a") as log:
            log.write("".join(f"{row.sum()}\\n" for row in batch))
        time.sleep(float(os.environ.get("EMBED_PAUSE", "0")))
        return Features(batch.reshape(len(batch), -1))

class Broken(Slow):
    def embed_images(self, batch):
        if len(batch) > 1 or batch.mean() > 250 or batch.std() > 1:
            raise RuntimeError("the GPU is on fire")
        return Features(batch.reshape(len(batch), -1))
'''
PROBE = '''
import os, time
import numpy as np

class Most:
    """The most frequent label; writes a line for each fit."""
    def fit(self, x, y):
        with open(os.environ["FIT_LOG"], "a") as log:
            log.write("fit\\n")
        time.sleep(float(os.environ.get("FIT_PAUSE", "0")))
        names, counts = np.unique(y, return_counts=True)
        self.answer = names[counts.argmax()]
        return self
    def predict(self, x):
        return np.full(len(x), self.answer, dtype=object)
'''
TASK = """
task: blobs
title: Blobs
dataset: folder
metric: accuracy
parts:
"""
PARTS = "".join(
    f"  p{n}: {{train: {{split: {a}}}, test: {{split: {b}}}}}\n"
    for n, (a, b) in enumerate([("train", "test"), ("test", "train")] * 3)
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """96 pictures, a task of six parts, a model and a probe that log their work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBED_LOG", str(tmp_path / "embedded"))
    monkeypatch.setenv("FIT_LOG", str(tmp_path / "fits"))
    for number in range(96):
        split, name = ("train", "test")[number % 2], "abc"[number % 3]
        write_image(tmp_path / "photos" / split / name / f"{number}.png", number)
    (tmp_path / "blobs.yaml").write_text(
        TASK + PARTS + "probe: {classifier: 'most.py:Most', normalise: []}\n"
    )
    (tmp_path / "m.py").write_text(MODEL)
    (tmp_path / "most.py").write_text(PROBE)
    return tmp_path


def settings_of(place: Path, name: str) -> Settings:
    return Settings(
        results=place / name, cache=place / f"cache-{name}", data={"folder": place / "photos"}
    )


def start(folder: Path, **more: str) -> forked.Popen:
    program = f"import sys; from {StepTask.__module__} import StepTask as task; "
    command = [sys.executable, "-c", f"{program}sys.exit(task(sys.argv[1])())", str(folder)]
    # from another folder: names of files in the work start where the command was typed
    return forked.Popen(command, cwd="/", env={**os.environ, **more}, stderr=subprocess.DEVNULL)


def run_apart(folder: Path) -> int:
    return start(folder).wait()


def n_lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.slow
def test_a_killed_embedding_goes_on_where_it_stood(place: Path) -> None:
    here, apart = settings_of(place, "here"), settings_of(place, "apart")
    do_here(plan_of(here, ["m.py:Slow"], ["blobs.yaml"]), here)
    plan = plan_of(apart, ["m.py:Slow"], ["blobs.yaml"])
    embed, runs = write_steps(make_steps(plan, StepOptions()), apart)
    (place / "embedded").unlink()
    kill_when(start(embed, EMBED_PAUSE="0.1"), lambda: n_lines(place / "embedded") > 50)
    killed_at = n_lines(place / "embedded")
    assert read_outcome(embed) is None and (embed / "attempt-0").is_dir()
    assert run_apart(embed) == 0
    outcome = read_outcome(embed)
    assert outcome is not None and outcome.n_embedded < 96 - killed_at + 30
    assert not list(embed.glob("attempt-*"))
    assert run_apart(runs) == 0
    merge(apart, [embed, runs])
    assert everything(apart) == everything(here)


@pytest.mark.slow
def test_parts_of_a_killed_attempt_are_not_done_again(place: Path) -> None:
    here, apart = settings_of(place, "here"), settings_of(place, "apart")
    do_here(plan_of(here, ["classical/colour"], ["blobs.yaml"]), here)
    plan = plan_of(apart, ["classical/colour"], ["blobs.yaml"])
    embed, runs = write_steps(make_steps(plan, StepOptions()), apart)
    assert run_step(embed) == 0
    for n_kill in (2, 3):  # the second attempt dies as well
        (place / "fits").unlink(missing_ok=True)
        kill_when(start(runs, FIT_PAUSE="0.3"), lambda n=n_kill: n_lines(place / "fits") >= n)
    (place / "fits").unlink()
    assert run_apart(runs) == 0
    assert n_lines(place / "fits") == 6 - 1 - 2  # what was in flight is done again
    merge(apart, [embed, runs])
    assert everything(apart) == everything(here)
    assert run_apart(runs) == 0 and n_lines(place / "fits") == 3  # finished: nothing is done


@pytest.mark.slow
def test_what_a_lost_step_did_is_taken_over(place: Path) -> None:
    settings = settings_of(place, "apart")
    plan = plan_of(settings, ["classical/colour"], ["blobs.yaml"])
    embed, runs = write_steps(make_steps(plan, StepOptions()), settings)
    assert run_step(embed) == 0
    kill_when(start(runs, FIT_PAUSE="0.3"), lambda: n_lines(place / "fits") >= 4)
    lost = runs.rename(runs.with_name("lost"))
    steps = make_steps(plan_of(settings, ["classical/colour"], ["blobs.yaml"]), StepOptions())
    (step,) = (step for step in steps if step.kind == "runs")
    work = replace(step.work, earlier=(lost / "attempt-0",))
    (place / "fits").unlink()
    (again,) = write_steps([replace(step, work=work, after=())], replace_results(settings))
    assert run_apart(again) == 0 and n_lines(place / "fits") == 3


def replace_results(settings: Settings) -> Settings:
    return replace(settings, results=settings.results.with_name("again"))


@pytest.mark.slow
def test_a_second_worker_waits_for_the_first(place: Path) -> None:
    settings = settings_of(place, "apart")
    plan = plan_of(settings, ["m.py:Slow"], ["blobs.yaml"])
    embed = write_steps(make_steps(plan, StepOptions()), settings)[0]
    (place / "embedded").unlink()
    both = [start(embed, EMBED_PAUSE="0.05") for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    outcome = read_outcome(embed)
    assert outcome is not None and outcome.n_embedded == 96


@pytest.mark.slow
def test_runs_without_their_embedding_end_with_status_3(place: Path) -> None:
    settings = settings_of(place, "apart")
    plan = plan_of(settings, ["classical/colour"], ["blobs.yaml"])
    embed, runs = write_steps(make_steps(plan, StepOptions()), settings)
    assert run_apart(runs) == NOT_EMBEDDED
    assert read_outcome(runs) is None
    assert run_step(embed) == 0 and run_apart(runs) == 0  # and can be done later
    assert read_outcome(runs) is not None


@pytest.mark.slow
def test_features_that_are_gone_fail_the_runs_in_one_line(place: Path) -> None:
    settings = settings_of(place, "apart")
    plan = plan_of(settings, ["classical/colour"], ["blobs.yaml"])
    embed, runs = write_steps(make_steps(plan, StepOptions()), settings)
    assert run_step(embed) == 0
    shutil.rmtree(settings.cache / "features")
    assert run_step(runs) == 0
    outcome = read_outcome(runs)
    assert outcome is not None and not outcome.names
    assert [failure.error for failure in outcome.failures] == [
        "model 'classical/colour': features of some images are gone from "
        f"{settings.cache}: run the same command again."
    ]


@pytest.mark.parametrize("decode", ["reference", "gpu"])
def test_files_too_young_to_be_remembered_are_read_again_without_the_model(
    place: Path, monkeypatch: pytest.MonkeyPatch, decode: str
) -> None:
    """What they hold is not noted anywhere, so that the features are looked up after reading."""
    monkeypatch.setattr("fieldmark.files.RACY_NS", 10**18)
    settings = settings_of(place, "apart")
    plan = plan_of(settings, ["m.py:Slow"], ["blobs.yaml"])
    embed, runs = write_steps(make_steps(plan, StepOptions()), settings)
    (place / "embedded").unlink()
    assert run_step(embed) == 0 and n_lines(place / "embedded") >= 96
    outcome = read_outcome(embed)
    assert outcome is not None and outcome.n_embedded == 96
    models = {name: replace(model, decode=decode) for name, model in outcome.models.items()}
    made_elsewhere = replace(outcome, models=models).to_json()
    (embed / "shard" / "outcome.json").write_text(made_elsewhere)
    (place / "embedded").unlink()
    assert run_step(runs) == 0
    outcome = read_outcome(runs)
    assert outcome is not None and not outcome.failures and len(outcome.names) == 1
    assert not (place / "embedded").exists()


def test_what_fails_in_embedding_fails_the_runs_as_in_one_process(place: Path) -> None:
    from fieldmark.experiments import ExecuteOptions, execute
    from fieldmark.progress import Silent

    here, apart = settings_of(place, "here"), settings_of(place, "apart")
    want = execute(
        plan_of(here, ["m.py:Broken"], ["blobs.yaml"]), here, Silent(), ExecuteOptions()
    ).failures
    plan = plan_of(apart, ["m.py:Broken"], ["blobs.yaml"])
    folders = write_steps(make_steps(plan, StepOptions()), apart)
    assert [run_step(folder) for folder in folders] == [0, 0]
    outcome = read_outcome(folders[1])
    assert outcome is not None and "on fire" in want[0].error
    assert [(f.title, f.error, f.exit_code) for f in outcome.failures] == [
        (f.title, f.error, f.exit_code) for f in want
    ]
    assert "on fire" in outcome.failures[0].trace


@pytest.mark.slow
def test_a_model_that_changed_since_is_refused(place: Path) -> None:
    settings = settings_of(place, "apart")
    plan = plan_of(settings, ["m.py:Slow"], ["blobs.yaml"])
    folders = write_steps(make_steps(plan, StepOptions()), settings)
    (place / "m.py").write_text(MODEL.replace("resize((2, 2))", "resize((2, 2), 0)"))
    assert [run_apart(folder) for folder in folders] == [0, 0]
    outcome = read_outcome(folders[1])
    assert outcome is not None and not outcome.names
    (failure,) = outcome.failures
    assert failure.error.startswith("model 'm.py:Slow' has changed since the command started")
    assert failure.exit_code == 4


@pytest.mark.slow
def test_bad_images_are_told_as_in_one_process(place: Path) -> None:
    (place / "photos" / "train" / "a" / "0.png").write_bytes(b"no picture")
    settings = settings_of(place, "apart")
    plan = plan_of(settings, ["classical/colour"], ["blobs.yaml"])
    folders = write_steps(make_steps(plan, StepOptions(n_shards=3)), settings)
    assert {run_step(folder) for folder in folders} == {0}
    outcome = read_outcome(folders[-1])
    assert outcome is not None
    assert "1 of 96 images cannot be read: train/a/0.png" in outcome.failures[0].error
    skipping = replace(settings_of(place, "skipped"), bad_images="skip")
    here = replace(settings_of(place, "here"), bad_images="skip")
    do_here(plan_of(here, ["classical/colour"], ["blobs.yaml"]), here)
    plan = plan_of(skipping, ["classical/colour"], ["blobs.yaml"])
    do_in_steps(plan, skipping, StepOptions(n_shards=3))
    assert everything(skipping) == everything(here)


TOY = Path(__file__).parents[2] / "protocols" / "toy.py"


@pytest.mark.slow
def test_protocols_of_the_users_own_are_known_to_workers(place: Path) -> None:
    (place / "protocols").mkdir()
    shutil.copy(TOY, place / "protocols" / "toy.py")
    (place / "ponds.yaml").write_text(
        "task: ponds\ntitle: Ponds\ndataset: folder\nmetric: accuracy\ntoy: {says: a}\n"
    )
    PROTOCOLS.add_folder(place / "protocols")
    try:
        settings = replace(settings_of(place, "apart"), protocol_path=(place / "protocols",))
        axes = Axes(protocol="toy", n_train=(0,), settings=({"whisper": True}, {}))
        plan = plan_of(settings, ["classical/colour"], ["ponds.yaml"], axes)
        steps = do_in_steps(plan, settings, run=run_apart)
        assert [step.kind for step in steps] == ["model"] and len(everything(settings)) == 2
    finally:
        forget("protocol", "toy")


@pytest.mark.slow
def test_tasks_in_the_form_of_lmms_eval_are_known_to_workers(place: Path) -> None:
    pytest.importorskip("datasets")
    write_jsonl(mark_drawn(place / "tasks") / "rows.jsonl", [{"n": n} for n in range(5)])
    (place / "tasks" / "utils.py").write_text(
        "def after(doc):\n    return f'What comes after {doc[\"n\"]}?'\n"
    )
    (place / "tasks" / "many.yaml").write_text(
        "task: many\ndataset_path: json\ndataset_kwargs: {data_files: rows.jsonl}\n"
        "test_split: train\ndoc_to_text: !function utils.after\ndoc_to_target: '{{n + 1}}'\n"
    )
    settings = replace(settings_of(place, "apart"), include_path=(place / "tasks",))
    plan = plan_of(settings, ["chat/mock/wren"], ["many"])
    steps = do_in_steps(plan, settings, run=run_apart)
    assert [step.kind for step in steps] == ["chat"]
    ((_, state, *_, rows, scores),) = everything(settings).values()
    assert state == "done" and len(rows) == 5 and scores


def test_a_step_is_a_function_for_submitit(tmp_path: Path) -> None:
    task = StepTask(str(tmp_path))
    assert pickle.loads(pickle.dumps(task)) == task


def test_progress_that_cannot_be_written_stops_no_work(tmp_path: Path) -> None:
    (tmp_path / "full").touch()
    with StepProgress(tmp_path / "full") as progress:  # no folder can be there
        progress.start("embedding", 2)
        progress.advance()
    assert progress.done == 1


@pytest.mark.slow
def test_a_step_that_gets_no_further_is_not_put_back_for_ever(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("submitit")
    from fieldmark.experiments.cluster.executors.slurm import ArrayTask

    settings = settings_of(place, "apart")
    plan = plan_of(settings, ["classical/colour"], ["blobs.yaml"])
    embed, runs = write_steps(make_steps(plan, StepOptions()), settings)
    assert run_step(embed) == 0
    task = StepTask(str(runs))
    assert [task.checkpoint().function for _ in range(2)] == [task, task]
    kill_when(start(runs, FIT_PAUSE="0.3"), lambda: n_lines(place / "fits") >= 3)
    assert [task.checkpoint().function for _ in range(2)] == [task, task], "it got further"
    (settings.cache / "features" / "more").write_bytes(b"a feature")
    assert [task.checkpoint().function for _ in range(2)] == [task, task], "features too"
    assert task.checkpoint() is None
    assert "given up: Slurm restarted this step several times" in capsys.readouterr().err
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "7")
    with pytest.raises(SystemExit):
        ArrayTask({7: task}).checkpoint()


def test_a_full_board_stops_no_work(tmp_path: Path) -> None:
    (tmp_path / "step").touch()  # in which nothing can be written
    with StepProgress(tmp_path / "step") as progress:
        progress.start("embedding", 3)
        progress.say("still at it")
