"""Faults of earlier suites that lay in how a task was put together, one test each."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from fieldmark.data import load_dataset
from fieldmark.experiments import evaluate
from fieldmark.protocols import PartItems
from fieldmark.protocols._features import RowFeatures
from fieldmark.protocols.probe.block import ProbeBlock
from fieldmark.protocols.probe.fit import fit_probe
from fieldmark.protocols.probe.run import _PartRun
from fieldmark.settings import Settings
from fieldmark.tasks import Task, load_own_task, task_schema
from fieldmark.tasks.split import Draw, draw_test, draw_train, split_parts
from kit.made import make_dataset
from kit.scoring import score_run

SIZES = {"kabr": 30, "plantnet": 60, "birds525": 60, "rarespecies": 60, "fishnet": 60}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("defects")
    for name, size in SIZES.items():
        make_dataset(name, folder / "data" / name, size)
    return Settings(results=folder / "results", cache=folder / "cache", data_root=folder / "data")


def parts_of(name: str, settings: Settings) -> tuple[Task, list[PartItems]]:
    task = load_own_task(name)
    table = load_dataset(task.dataset).table(settings.root_of(task.dataset), **task.options)
    return task, split_parts(task, table)


@pytest.mark.slow
def test_defect_birds525_scores_the_validation_split(settings: Settings) -> None:
    for name, split in (("birds525", "test"), ("birds525@biobench2024", "val")):
        _, (part,) = parts_of(name, settings)
        assert set(part.test["split"]) == {split} and set(part.train["split"]) == {"train"}


def test_defect_rarespecies_one_split_from_the_global_generator(settings: Settings) -> None:
    task, (part,) = parts_of("rarespecies", settings)
    assert (task.repeats, task.shots) == (5, 1)
    draw = Draw(shots=task.shots, repeats=task.repeats)
    np.random.seed(0)
    first = [tuple(draw_train(task, part, draw, repeat)["id"]) for repeat in range(5)]
    assert len(set(first)) == 5
    np.random.seed(1)
    _, (again,) = parts_of("rarespecies", settings)
    assert [tuple(draw_train(task, again, draw, repeat)["id"]) for repeat in range(5)] == first
    for repeat in range(5):
        drawn, asked = (f(task, part, draw, repeat)["id"] for f in (draw_train, draw_test))
        assert not set(drawn) & set(asked) and len(drawn) + len(asked) == len(part.train)


def test_defect_plantnet_reports_another_metric_and_never_the_test_split(
    settings: Settings,
) -> None:
    task, (part,) = parts_of("plantnet", settings)
    assert task.metric == "macro_accuracy" and "macro_f1" in task.also
    assert set(part.test["split"]) == {"test"}
    newer, (part,) = parts_of("plantnet@biobench2026", settings)
    assert newer.metric == "macro_f1" and set(part.test["split"]) == {"val"}


def test_defect_plantnet_n_train_is_asked_of_the_test_images_too(settings: Settings) -> None:
    found = evaluate("classical/pixels", "plantnet", settings=settings, n_train=8)
    _, (part,) = parts_of("plantnet", settings)
    assert len(found.predictions) == len(part.test) != 8


def test_defect_kabr_few_shot_needs_labels_the_dataset_lacks(settings: Settings) -> None:
    found = evaluate("classical/pixels", "kabr", settings=settings, n_train=4)
    assert found.run.spec.n_train == 4 and found.score.n > 0


def test_defect_kabr_pooling_is_what_the_recipe_says() -> None:
    old, new = load_own_task("kabr"), load_own_task("kabr@biobench2026")
    assert old.probe is not None and new.probe is not None
    assert (old.probe.pool, old.probe.classifier, old.metric) == ("mean", "simpleshot", "accuracy")
    assert (new.probe.pool, new.probe.classifier, new.metric) == ("max", "logistic", "macro_f1")


@pytest.mark.parametrize("name", ["leopard", "beluga"])
def test_defect_leopard_and_beluga_compare_unnormalised_features(name: str) -> None:
    task = load_own_task(name)
    assert task.block("probe") is not None and task.block("probe").normalise == ("l2",)
    random = np.random.default_rng(0)
    direction = np.repeat(random.normal(size=(8, 6)), 3, axis=0)
    x = direction + random.normal(0, 0.05, direction.shape)
    x *= random.choice([1.0, 30.0], (24, 1))  # one photo's features are long, its mate's short
    rows = pl.DataFrame(
        {"id": [f"{k}" for k in range(24)], "target": [f"a{k // 3}" for k in range(24)]}
    ).with_columns(unit=pl.col("id"))
    place = {each: row for row, each in enumerate(rows["id"])}
    features = RowFeatures(x.astype(np.float32), place, {}, {})
    part = PartItems("", rows, rows)
    asking = _PartRun(task, task.block("probe"), part, Draw(), features, "")
    _, answer, _ = asking._leave_one_out(rows)
    assert (answer == rows["target"].to_numpy()).all()


def test_defect_fishnet_no_feature_scaling() -> None:
    """One learning rate must do for features of any size."""
    task = load_own_task("fishnet")
    assert task.block("probe") is not None and "standardise" in task.block("probe").normalise
    small = {"epochs": 3, "hidden": 16, "batch_size": 32}
    block = ProbeBlock.model_validate(task.block("probe").model_dump() | small)
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 12)).astype(np.float32)
    y = (x[:, :9] > 0).astype(float)
    plain, _ = fit_probe(task, block, x, y).ask(x)
    scaled = x * np.float32(1024)
    far, _ = fit_probe(task, block, scaled, y).ask(scaled)
    assert (plain == far).all()


def test_defect_fishnet_test_images_used_for_monitoring(settings: Settings) -> None:
    """What is asked, and how much of it, changes no answer."""
    few = {"epochs": 3, "hidden": 16}
    whole = evaluate("classical/pixels", "fishnet", settings=settings, probe=few).predictions
    some = evaluate("classical/pixels", "fishnet", settings=settings, probe=few, n_test=7)
    columns = ["part", "id", "prediction"]
    asked = some.predictions.select(columns)
    assert 0 < len(asked) < len(whole)
    assert asked.join(whole.select(columns), on=columns, how="anti").is_empty()


def test_defect_fishnet_bootstrap_reads_only_the_first_trait() -> None:
    """With a perfect first trait and wavering others, the interval must not be a point."""
    random = np.random.default_rng(0)
    traits = ["a", "b", "c"]
    rows = [
        {"part": part, "repeat": 0, "id": f"{k}", "target": "yn"[k % 2], "score": 0.0,
         "prediction": "yn"[k % 2] if part == "a" or random.random() < 0.7 else "yn"[1 - k % 2],
         "unit": None, "outcome": "ok"}
        for part in traits for k in range(60)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema_overrides={"unit": pl.String})
    task = task_schema().model_validate(
        {"task": "t", "title": "T", "dataset": "folder", "metric": "macro_f1", "traits": traits}
    )
    parts = [PartItems(name, pl.DataFrame(), pl.DataFrame()) for name in traits]
    scores = {each.part: each for each in score_run(task, parts, frame)}
    assert scores["a"].value == 1.0
    assert scores[""].low < scores[""].value < scores[""].high < 1.0
    assert scores[""].value == pytest.approx(np.mean([scores[name].value for name in traits]))


def test_defect_biobench_too_few_steps_divide_by_zero(settings: Settings) -> None:
    """Defect: a linear probe of fewer than 100 steps divided by zero in its log."""
    found = evaluate(
        "classical/pixels", "plantnet@biobench2026", settings=settings, probe={"steps": 7}
    )
    assert found.score.n > 0


@pytest.mark.parametrize(
    ("name", "metric", "classifier"),
    [
        ("imagenet1k", "accuracy", "linear"),
        ("inat21", "accuracy", "linear"),
        ("iwildcam", "macro_f1", "linear"),
        ("plankton", "macro_f1", "linear"),
        ("plantnet", "macro_f1", "linear"),
        ("kabr", "macro_f1", "logistic"),
        ("beluga", "macro_f1", "neighbours"),
        ("newt", "accuracy", "svm"),
        ("fishnet", "macro_f1", "mlp"),
    ],
)
def test_the_newer_suites_recipe_is_a_variant(name: str, metric: str, classifier: str) -> None:
    task = load_own_task(f"{name}@biobench2026")
    assert task.block("probe") is not None
    assert (task.metric, task.block("probe").classifier) == (metric, classifier)
