"""Many traits, one fit: the same answers whichever parts are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fieldmark.data import finish_table
from fieldmark.errors import DataError, UsageError
from fieldmark.experiments import evaluate
from fieldmark.probes import PROBES, register_probe
from fieldmark.protocols._features import RowFeatures
from fieldmark.protocols.probe.joint import ask_jointly
from fieldmark.settings import Settings
from fieldmark.tasks import Task, task_schema
from fieldmark.tasks.split import Draw, PartItems, check_part, draw_train, split_parts
from kit.made import make_dataset

TRAITS = ("fin", "barbel", "spines")


class Recorder:
    """Says yes above a trait's own mean feature; remembers what it was given."""

    is_multilabel = True
    fits: list[np.ndarray] = []  # noqa: RUF012 - the test looks at it

    def fit(self, X: np.ndarray, y: np.ndarray) -> Recorder:
        Recorder.fits.append(y)
        self.weight = np.nan_to_num(y - np.nanmean(y, axis=0)).T @ X
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (X @ self.weight.T > 0).astype(int)

    def predict_score(self, X: np.ndarray) -> np.ndarray:
        return np.abs(X @ self.weight.T)


@pytest.fixture
def recorder() -> Iterator[type[Recorder]]:
    register_probe("recorder", Recorder)
    Recorder.fits.clear()
    yield Recorder
    PROBES.added.pop("recorder")


def task(**keys: object) -> Task:
    base = {"task": "t", "title": "T", "dataset": "folder", "metric": "macro_f1"}
    probe = {"classifier": "recorder"}
    return task_schema().model_validate(base | {"traits": list(TRAITS), "probe": probe} | keys)


def table(n: int = 90) -> pl.DataFrame:
    random = np.random.default_rng(0)
    answers = random.random((n, 3)) < [0.5, 0.3, 0.7]
    columns = {name: answers[:, at].tolist() for at, name in enumerate(TRAITS)}
    columns["barbel"] = [None if k % 7 == 0 else each for k, each in enumerate(columns["barbel"])]
    ids = [f"i{k:03d}" for k in range(n)]
    split = ["test" if k % 3 == 0 else "train" for k in range(n)]
    frame = pl.DataFrame({"id": ids, "image": ids, "split": split, **columns})
    return finish_table(frame, "here")


def features(rows: pl.DataFrame) -> RowFeatures:
    """Each trait has its own direction, and noise."""
    noise = np.random.default_rng(1).normal(0, 0.3, (len(rows), 5))
    for at, name in enumerate(TRAITS):
        noise[:, at] += [0.5 if each is None else 2.0 * each - 1 for each in rows[name]]
    place = {each: row for row, each in enumerate(rows["id"])}
    return RowFeatures(noise.astype(np.float32), place, {}, {})


def answers(parts: list[PartItems], asked: Task, draw: Draw | None = None) -> pl.DataFrame:
    assert asked.probe is not None
    given = features(table())
    found = list(ask_jointly(asked, asked.probe, parts, draw or Draw(), given, ""))
    return pl.concat([each.frame.with_columns(part=pl.lit(each.part)) for each in found])


def test_one_fit_for_all_traits_with_unknown_answers(recorder: type[Recorder]) -> None:
    parts = split_parts(task(), table())
    assert [part.name for part in parts] == list(TRAITS)
    found = answers(parts, task())
    assert len(recorder.fits) == 1
    (given,) = recorder.fits
    assert given.shape == (60, 3)
    assert np.isnan(given[:, 1]).sum() > 0 and not np.isnan(given[:, [0, 2]]).any()
    asked = dict(found.group_by("part").len().rows())
    assert asked["fin"] == 30 and asked["barbel"] < 30, "an unknown answer is not asked about"
    right = found.filter(pl.col("prediction") == pl.col("target"))
    assert len(right) / len(found) > 0.9
    assert set(found["prediction"]) == {"true", "false"}
    assert (found["score"] >= 0).all()


def test_a_part_answers_the_same_alone(recorder: type[Recorder]) -> None:
    """A run that goes on after a kill asks only the parts that are missing."""
    parts = split_parts(task(), table())
    together = answers(parts, task())
    alone = answers(parts[1:2], task())
    assert alone.equals(together.filter(pl.col("part") == "barbel"))


def test_draws_are_shared_by_all_traits(recorder: type[Recorder]) -> None:
    parts = split_parts(task(), table())
    draw = Draw(n_train=20, n_test=10, repeats=2)
    chosen = [set(draw_train(task(), part, draw, 0)["id"]) for part in parts]
    assert chosen[0] == chosen[1] == chosen[2] and len(chosen[0]) == 20
    answers(parts, task(), draw)
    assert [len(each) for each in recorder.fits] == [20, 20]


def test_probes_of_one_label_are_fitted_per_trait() -> None:
    parts = split_parts(task(probe={"classifier": "simpleshot"}), table())
    assert not any(part.is_joint for part in parts)


def test_what_cannot_be_learnt_is_told(recorder: type[Recorder]) -> None:
    rows = table().with_columns(fin=pl.lit(True))
    with pytest.raises(DataError, match="part 'fin': all 60 training images have the label 'true'"):
        check_part(task(), split_parts(task(), rows)[0])
    odd = table().with_columns(fin=pl.Series(["big", "small"] * 45))
    with pytest.raises(DataError, match="column 'fin' of dataset 'folder' contains '(big|small)'"):
        answers(split_parts(task(), odd), task())


def test_predictions_of_another_shape_are_told(
    recorder: type[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorder, "predict", lambda self, X: np.zeros(len(X)))
    with pytest.raises(UsageError, match=r"gave predictions of shape \(30,\) for 30 images and 3"):
        answers(split_parts(task(), table()), task())


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("joint")
    for name in ("fishnet", "fishvista"):
        make_dataset(name, folder / "data" / name, 60)
    return Settings(results=folder / "results", cache=folder / "cache", data_root=folder / "data")


@pytest.mark.slow
def test_defect_fishnet_exact_match_and_all_nine_traits_count(settings: Settings) -> None:
    """Defect: only columns 0 and 1 of 9 were averaged; exact match needs every one of them."""
    few = {"epochs": 6, "hidden": 32}
    found = evaluate("classical/pixels", "fishnet", settings=settings, probe=few)
    rows = found.predictions.with_columns(right=pl.col("prediction") == pl.col("target"))
    assert rows["part"].n_unique() == 9
    whole = rows.group_by("id").agg(pl.col("right").all(), n=pl.len())
    assert (whole["n"] == 9).all()
    scores = {(each.part, each.metric): each for each in found.scores}
    exact = scores["", "exact_match"]
    assert exact.value == pytest.approx(whole["right"].mean())
    assert exact.n == len(whole) and exact.low <= exact.value <= exact.high
    each = [scores[part, "macro_f1"].value for part in rows["part"].unique()]
    assert found.score.value == pytest.approx(np.mean(each))


def test_average_precision_is_of_the_stored_scores(settings: Settings) -> None:
    from sklearn.metrics import average_precision_score

    few = {"epochs": 6, "hidden": 32}
    found = evaluate("classical/pixels", "fishvista", settings=settings, probe=few)
    by_trait = []
    for (part,), rows in found.predictions.group_by("part"):
        sign = np.where(rows["prediction"] == "true", 1, -1)
        value = average_precision_score(rows["target"] == "true", sign * rows["score"].to_numpy())
        (mine,) = (e for e in found.scores if (e.part, e.metric) == (part, "average_precision"))
        assert mine.value == pytest.approx(value)
        by_trait.append(value)
    assert found.score.metric == "average_precision"
    assert found.score.value == pytest.approx(np.mean(by_trait))


def test_metrics_that_do_not_fit_are_told_before_anything_starts(tmp_path: Path) -> None:
    from fieldmark.protocols import task_problems
    from fieldmark.tasks import load_own_task

    def told(keys: str) -> list[str]:
        path = tmp_path / "mine.yaml"
        path.write_text(f"task: mine\ntitle: M\ndataset: folder\n{keys}\n")
        return [line.partition("  ")[2] for line in task_problems(load_own_task(str(path)))]

    probe = "probe: {classifier: simpleshot}"
    assert told(f"metric: average_precision\n{probe}") == [
        "metric 'average_precision' is for tasks with `traits`; this one has none."
    ]
    assert told(f"metric: user_loss\n{probe}") == [
        "metric 'user_loss' needs the kind of each class: give its column as `kinds`."
    ]
    assert told(
        "metric: accuracy\nprobe: {classifier: neighbours, reject: new, leave_one_out: true}"
    ) == ["`reject` is for tasks with one label and a separate training set."]
