"""The steps of a plan give what one process gives, bit for bit; how a plan is cut into them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fieldmark.errors import UsageError
from fieldmark.experiments import Axes
from fieldmark.experiments.cluster.requests import StepRequest, describe_request
from fieldmark.experiments.cluster.steps import StepOptions, make_steps, run_name
from fieldmark.experiments.cluster.work import read_outcome
from fieldmark.models import Features, register_model
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.duals import save_open_clip
from kit.made import make_dataset
from kit.registries import forget
from kit.steps import do_here, do_in_steps, everything, plan_of

CLASSICAL = "classical/colour"
TIMM = "timm/test_vit?pretrained=false"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small synthetic copies of datasets with parts, traits, clips and one label."""
    folder = tmp_path_factory.mktemp("data")
    for name, size in (("newt", 120), ("beluga", 60), ("fishvista", 60), ("kabr", 40)):
        make_dataset(name, folder / name, size)
    make_dataset("world", folder / "world", 120)
    return folder


def two_places(tmp_path: Path, made: Path) -> tuple[Settings, Settings]:
    """Settings of one process, and of steps: nothing is shared but the data."""
    here = Settings(
        results=tmp_path / "here", cache=tmp_path / "cache-here", data_root=made, device="cpu"
    )
    return here, replace(here, results=tmp_path / "apart", cache=tmp_path / "cache-apart")


CASES: dict[str, tuple[list[str], list[str], Axes, int]] = {
    "parts": ([CLASSICAL], ["newt/behavior"], Axes(n_train=(6, -1)), 1),
    "shards": ([CLASSICAL], ["beluga", "newt/behavior"], Axes(), 3),
    "traits": ([CLASSICAL, "classical/shape"], ["fishvista"], Axes(), 2),
    "clips": ([CLASSICAL], ["kabr"], Axes(), 3),
    "network": ([TIMM], ["beluga"], Axes(), 1),
    "patches": ([TIMM], ["beluga"], Axes(blocks={"probe": [{"features": "patches"}, {}]}), 2),
    "repeats": ([CLASSICAL], ["world-species"], Axes(n_train=(24,), repeats=(3,)), 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_steps_give_what_one_process_gives(case: str, tmp_path: Path, made: Path) -> None:
    models, tasks, axes, n_shards = CASES[case]
    if any(model.startswith("timm") for model in models):
        pytest.importorskip("timm")
    here, apart = two_places(tmp_path, made)
    do_here(plan_of(here, models, tasks, axes), here)
    steps = do_in_steps(plan_of(apart, models, tasks, axes), apart, StepOptions(n_shards=n_shards))
    kinds = Counter(step.kind for step in steps)
    n_folders = len(models) * len(tasks)  # each of these tasks has a dataset of its own
    assert kinds["embed"] == n_folders * n_shards and kinds["runs"] >= n_folders
    want, got = everything(here), everything(apart)
    assert want and got == want
    again = make_steps(plan_of(apart, models, tasks, axes), StepOptions())
    assert again == []  # all of it is done


@pytest.mark.slow
def test_models_that_embed_texts_are_loaded(tmp_path: Path, made: Path) -> None:
    pytest.importorskip("open_clip")
    model = save_open_clip(tmp_path / "clip")
    here, apart = two_places(tmp_path, made)
    tasks = ["world-captions", "world-species"]
    do_here(plan_of(here, [model], tasks), here)
    steps = do_in_steps(plan_of(apart, [model], tasks), apart, StepOptions(n_shards=2))
    assert Counter(step.kind for step in steps) == {"embed": 2, "runs": 1, "model": 1}
    assert everything(apart) == everything(here)


@pytest.mark.slow
def test_chat_models_have_a_step_each_provider_and_one_journal(tmp_path: Path, made: Path) -> None:
    here, apart = two_places(tmp_path, made)
    models = ["chat/mock/wren", "chat/mock/wren?skill=0.8"]
    axes = Axes(n_train=(0,))
    do_here(plan_of(here, models, ["beluga"], axes), here)
    steps = do_in_steps(plan_of(apart, models, ["beluga"], axes), apart)
    assert [step.kind for step in steps] == ["chat"]
    want, got = everything(here), everything(apart)
    assert got.keys() == want.keys()
    for key, (_, state, *_, rows, scores) in got.items():
        assert state == "done" and scores == want[key][-1]
        # what was answered, and to what; the rest says how long it took
        assert [row[:6] for row in rows] == [row[:6] for row in want[key][-2]]
    assert list((apart.results / "journal").iterdir())
    outcome = read_outcome(apart.results / "cluster" / "steps" / "step-000")
    assert outcome is not None and len(outcome.again) == 2


def test_where_features_are_cached_nothing_is_embedded(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fieldmark.files.RACY_NS", 0)  # files of a moment ago are unknown
    settings, _ = two_places(tmp_path, made)
    do_here(plan_of(settings, [CLASSICAL], ["beluga"]), settings)
    steps = make_steps(plan_of(settings, [CLASSICAL], ["beluga"], Axes(seed=(5,))), StepOptions())
    assert [step.kind for step in steps] == ["runs"]
    do_in_steps(plan_of(settings, [CLASSICAL], ["beluga"], Axes(seed=(5,))), settings)
    assert len(everything(settings)) == 2


def test_small_runs_are_packed_and_others_runs_left_out(tmp_path: Path, made: Path) -> None:
    settings, _ = two_places(tmp_path, made)
    plan = plan_of(settings, [CLASSICAL], ["beluga"], Axes(n_train=(5,), seed=tuple(range(40))))
    steps = make_steps(plan, StepOptions(n_shards=1))
    assert [(step.kind, len(step.work.names)) for step in steps] == [
        ("embed", 0), ("runs", 16), ("runs", 16), ("runs", 8),
    ]  # fmt: skip
    assert all(step.after == (0,) for step in steps[1:])
    taken = [run_name(plan, planned) for planned in plan.to_run[:30]]
    rest = make_steps(plan, StepOptions(leave_out=taken))
    assert [(step.kind, len(step.work.names)) for step in rest] == [("embed", 0), ("runs", 10)]
    names = [name for step in rest for name in step.work.names]
    assert not set(names) & set(taken)


def test_a_step_asks_for_what_runs_like_it_took(tmp_path: Path, made: Path) -> None:
    settings, _ = two_places(tmp_path, made)
    plan = plan_of(settings, [CLASSICAL], ["beluga"])
    unknown = make_steps(plan, StepOptions(gpus=1))
    assert [step.request.gpus for step in unknown] == [0, 0]  # a classical model has no use for it
    assert unknown[1].request.seconds == 3600 + 300
    do_in_steps(plan, settings)
    known = make_steps(plan_of(settings, [CLASSICAL], ["beluga"], Axes(seed=(3,))), StepOptions())
    assert known[0].request.seconds == 600
    forced = StepOptions(seconds=60, memory_bytes=1 << 30, cpus=7)
    limited = make_steps(plan_of(settings, [CLASSICAL], ["beluga"], Axes(seed=(3,))), forced)
    assert limited[0].request == StepRequest(60, 1 << 30, 7, 0)
    assert describe_request(limited[0].request) == "1 min 0 s, 1 GB, 7 CPUs"
    with Store.open(settings.store, read_only=True) as store:
        (run,) = store.runs()
        notes: Any = store.finished_parts(run.id)[0].info
    assert notes["peak_mb"] > 10


def test_a_gpu_is_asked_for_by_networks(tmp_path: Path, made: Path) -> None:
    pytest.importorskip("timm")
    settings, _ = two_places(tmp_path, made)
    settings = replace(settings, device="cuda")  # not here: the plan is for another machine
    steps = make_steps(plan_of(settings, [TIMM], ["beluga"]), StepOptions(gpus=1))
    assert [(step.kind, step.request.gpus) for step in steps] == [("embed", 1), ("runs", 0)]


def test_what_only_this_process_has_must_run_here(tmp_path: Path, made: Path) -> None:
    class Flat:
        dim = 3

        def transform(self, image: Any) -> Any:
            import numpy as np

            return np.asarray(image.resize((1, 1)), np.float32)

        def embed_images(self, batch: Any) -> Features:
            return Features(batch.reshape(len(batch), -1))

    register_model("mine-of-steps", Flat)
    settings, _ = two_places(tmp_path, made)
    try:
        with pytest.raises(UsageError) as caught:
            make_steps(plan_of(settings, ["mine-of-steps"], ["beluga"]), StepOptions())
    finally:
        forget("model", "mine-of-steps")
    assert str(caught.value) == (
        "model 'mine-of-steps' was registered in this process: it must run with --on here."
    )
