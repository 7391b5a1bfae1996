"""New classes: a threshold from training images alone, and what rejecting by it saves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fieldmark.errors import DataError
from fieldmark.experiments import evaluate
from fieldmark.metrics import load_metric
from fieldmark.protocols import arrange, recorded_kinds
from fieldmark.protocols._features import RowFeatures
from fieldmark.protocols.probe.fit import Fitted, fit_probe
from fieldmark.protocols.probe.reject import Threshold, _folds, choose_threshold
from fieldmark.settings import Settings
from fieldmark.store import Store
from fieldmark.tasks import Task, load_own_task, task_schema
from fieldmark.tasks.split import PartItems, kinds_of, split_parts
from kit.made import make_dataset
from kit.scoring import score_run

TASK = task_schema().model_validate(
    {
        "task": "t", "title": "T", "dataset": "folder", "kinds": "sort", "metric": "user_loss",
        "probe": {"classifier": "simpleshot", "normalise": ["centre", "l2"], "reject": "unknown"},
    }
)  # fmt: skip
SORTS = {"c0": "poisonous", "c1": "poisonous"}


def rows(n_classes: int = 12, n_each: int = 12, first: int = 0) -> pl.DataFrame:
    """Observations of two photos each."""
    names = [f"c{c}" for c in range(first, first + n_classes) for _ in range(n_each)]
    return pl.DataFrame(
        {
            "id": [f"{name}-{k}" for k, name in enumerate(names)],
            "target": names,
            "unit": [f"{name}-{k // 2}" for k, name in enumerate(names)],
        }
    )


def features(*frames: pl.DataFrame) -> RowFeatures:
    every = pl.concat(frames)
    random = np.random.default_rng(0)
    centre = {f"c{c}": random.normal(0, 1.5, 8) for c in range(40)}
    x = np.stack([centre[each] for each in every["target"]]) + random.normal(0, 1, (len(every), 8))
    place = {each: row for row, each in enumerate(every["id"])}
    return RowFeatures(x.astype(np.float32), place, {}, {})


def kinds(frame: pl.DataFrame) -> dict[str, str]:
    found = {name: SORTS.get(name, "edible") for name in frame["target"].unique()}
    return found | {"unknown": "unknown"}


def chosen(train: pl.DataFrame, given: RowFeatures, task: Task = TASK) -> Threshold:
    def fit(some: pl.DataFrame) -> Fitted:
        assert task.block("probe") is not None
        return fit_probe(task, task.block("probe"), given.matrix(some), some["target"].to_numpy())

    return choose_threshold(task, train, given, fit, kinds(train))


def test_folds_keep_observations_together_and_hide_whole_classes() -> None:
    train = rows()
    folds = _folds(TASK, train, 5)
    asked = sum(fold["is_asked"].cast(int) for fold in folds)
    assert (asked == 1).all(), "every photo is asked about once"
    for fold in folds:
        frame = train.with_columns(fold["is_asked"], fold["is_hidden"])
        assert (frame.group_by("unit").agg(pl.col("is_asked").n_unique())["is_asked"] == 1).all()
        hidden = frame.group_by("target").agg(pl.col("is_hidden").n_unique())
        assert (hidden["is_hidden"] == 1).all()


def test_rejecting_costs_less_than_never_rejecting() -> None:
    train, known, new = rows(), rows(n_each=6), rows(12, 6, first=20)
    known = known.with_columns(id=pl.format("test {}", "id"))
    given = features(train, known, new)
    threshold = chosen(train, given)
    assert np.isfinite(threshold.value)
    assert TASK.probe is not None
    probe = fit_probe(TASK, TASK.probe, given.matrix(train), train["target"].to_numpy())
    asked = pl.concat([known, new.with_columns(target=pl.lit("unknown"))])
    answer, sure = probe.ask_labels(given.matrix(asked))
    kept, changed = (
        cost(asked, each) for each in (answer, threshold.apply(answer, sure, "unknown"))
    )
    assert changed < 0.9 * kept
    is_rejected = sure < threshold.value
    assert is_rejected[len(known) :].mean() > 1.5 * is_rejected[: len(known)].mean()


def cost(asked: pl.DataFrame, answer: np.ndarray) -> float:
    frame = asked.with_columns(
        part=pl.lit(""), repeat=pl.lit(0), prediction=pl.Series(answer, dtype=pl.String)
    )
    numbers, metric = arrange(frame, ["prediction"], load_metric("user_loss"), kinds(asked))
    return metric(numbers["target"].to_numpy(), numbers["prediction"].to_numpy())


def test_the_threshold_comes_from_training_alone_and_is_the_same_in_any_order() -> None:
    train = rows()
    given = features(train)
    first = chosen(train, given)
    again = chosen(train.sample(fraction=1.0, shuffle=True, seed=3), given)
    assert first.value == again.value
    assert first.score == pytest.approx(again.score)


def test_too_little_to_try_rejects_nothing() -> None:
    train = rows(2, 2)
    assert chosen(train, features(train)).value == -np.inf


def test_defect_fungiclef_kinds_are_needed_and_must_be_one_a_class() -> None:
    table = pl.DataFrame(
        {
            "id": ["a", "b", "c"], "image": ["a", "b", "c"], "crop": [None] * 3,
            "split": ["train", "train", "test"], "label": ["x", "y", "x"],
            "unit": ["a", "b", "c"], "sort": ["edible", "poisonous", "poisonous"],
        }
    )  # fmt: skip
    with pytest.raises(DataError, match="says edible and poisonous for the class 'x'"):
        split_parts(TASK, table)
    with pytest.raises(DataError, match="says nothing for the class 'x'"):
        split_parts(TASK, table.with_columns(sort=pl.lit(None, pl.String)))
    (part,) = split_parts(TASK, table.with_columns(sort=pl.lit("edible")))
    assert kinds_of(part) == {"x": "edible", "y": "edible"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("fungi")
    make_dataset("fungiclef", folder / "data" / "fungiclef", 120)
    return Settings(results=folder / "results", cache=folder / "cache", data_root=folder / "data")


@pytest.mark.slow
def test_scores_need_nothing_but_the_store(settings: Settings) -> None:
    found = evaluate("classical/colour", "fungiclef", settings=settings)
    assert found.score.metric == "user_loss" and not found.score.higher_is_better
    assert 0 <= found.score.low <= found.score.value <= found.score.high <= 1
    assert "unknown" in set(found.predictions["target"])
    assert found.predictions["id"].str.starts_with("val/").all(), "one row per observation"
    with Store.open(settings.store, read_only=True) as store:
        recorded = recorded_kinds(store.finished_parts(found.run.id))
        stored = store.predictions(found.run.id)
    assert set(recorded.values()) == {"edible", "poisonous", "unknown"}
    nothing = [PartItems("", pl.DataFrame(), pl.DataFrame())]
    again = score_run(load_own_task("fungiclef"), nothing, stored, recorded)
    assert {(e.metric, e.value, e.low) for e in again} == {
        (e.metric, e.value, e.low) for e in found.scores
    }


def test_a_changed_list_of_poisonous_species_is_another_run(
    settings: Settings, tmp_path: Path
) -> None:
    first = evaluate("classical/colour", "fungiclef", settings=settings)
    path = settings.root_of("fungiclef") / "poison_status_list.csv"
    before = path.read_text()
    try:
        path.write_text(before.replace(",0", ",x").replace(",1", ",0").replace(",x", ",1"))
        second = evaluate("classical/colour", "fungiclef", settings=settings)
    finally:
        path.write_text(before)
    assert first.run.key == second.run.key, "the list is content of the data"
    assert first.run.name != second.run.name and first.run.id != second.run.id
    assert first.score.value != second.score.value
    assert evaluate("classical/colour", "fungiclef", settings=settings).run.id == first.run.id
