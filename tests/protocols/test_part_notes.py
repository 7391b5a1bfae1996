"""What a fit chose and which images were left out is stored with the part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fieldmark.experiments import evaluate
from fieldmark.protocols._predictions import FitNotes, left_out
from fieldmark.protocols.probe.fit import fit_probe
from fieldmark.report.table.notes import run_lines
from fieldmark.settings import Settings
from fieldmark.store import PartRecord, Store, bad_images, fit_summary, mean_calibration
from fieldmark.tasks import task_schema
from fieldmark.tasks.split import Draw, PartItems
from kit.made import make_dataset

TASK = task_schema().model_validate(
    {"task": "t", "title": "T", "dataset": "folder", "metric": "accuracy",
     "probe": {"classifier": "simpleshot"}}
)  # fmt: skip
EDGE = {"classifier": "ridge", "alphas": [1e-9, 1e-8, 1e-7], "folds": 2}


def parts_of(settings: Settings) -> list[PartRecord]:
    """Of the run that was done last."""
    with Store.open(settings.store, read_only=True) as store:
        return store.finished_parts(max(run.id for run in store.runs()))


class Apart:
    """As users write them: labels and certainties, each by itself."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def fit(self, X: np.ndarray, y: np.ndarray) -> Apart:
        self.label = y[0]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        self.asked.append("predict")
        return np.array([self.label] * len(X), object)

    def predict_score(self, X: np.ndarray) -> np.ndarray:
        self.asked.append("predict_score")
        return np.full(len(X), 0.5)


class Together(Apart):
    def predict_with_score(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.asked.append("predict_with_score")
        return np.array([self.label] * len(X), object), np.full(len(X), 0.5, np.float32)


@pytest.mark.parametrize(
    ("probe", "asked"),
    [(Together, ["predict_with_score"]), (Apart, ["predict", "predict_score"])],
)
def test_defect_a_probe_is_asked_once(
    probe: type[Apart], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`predict`, then `predict_score`: both did the whole work."""
    monkeypatch.setattr("fieldmark.protocols.probe.fit.load_probe", lambda *_: probe())
    assert TASK.probe is not None
    fitted = fit_probe(TASK, TASK.probe, np.zeros((4, 2), np.float32), np.array(["owl"] * 4))
    answer, sure = fitted.ask_labels(np.zeros((3, 2), np.float32))
    assert fitted.probe.asked == asked
    assert answer.tolist() == ["owl"] * 3 and sure.tolist() == [0.5] * 3


@pytest.mark.slow
def test_defect_what_a_fit_chose_is_stored(root: Callable[[str], Path], settings: Settings) -> None:
    """alpha, its score and that it sat at the end of its grid were kept nowhere."""
    root("plankton")
    evaluate("classical/colour", "plankton", settings=settings, probe=EDGE)
    (part,) = parts_of(settings)
    assert part.info is not None
    fit = part.info["fit"]
    assert fit["probe"] == "ridge" and fit["n_fits"] == 1
    assert fit["chosen"]["alpha"][0] in (1e-9, 1e-8, 1e-7)
    assert 0 < fit["chosen"]["cv_score"][0] <= 1
    told = fit_summary([part])
    assert told.line.startswith("ridge: alpha 1e-0") and ", cv score 0." in told.line


def test_repeats_are_told_together(root: Callable[[str], Path], settings: Settings) -> None:
    root("world")
    asked: dict[str, Any] = {"settings": settings, "probe": EDGE, "repeats": 3, "n_train": 60}
    evaluate("classical/colour", "world-species", **asked)
    parts = parts_of(settings)
    assert len(parts) == 3
    told = fit_summary(parts)
    assert told.n_fits == 3 and len(told.chosen["alpha"]) == 3
    assert told.line.endswith("(3 fits)")


def test_a_grid_is_stored_with_its_scores() -> None:
    assert TASK.probe is not None
    strengths = [0.01, 1.0, 100.0]
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 3)).astype(np.float32)
    for probe in ({"classifier": "logistic", "C": strengths}, EDGE | {"alphas": strengths}):
        block = type(TASK.probe).model_validate(probe)
        fits = FitNotes(block.classifier)
        fits.add(fit_probe(TASK, block, x, np.where(x[:, 0] > 0, "owl", "fox")).probe, {})
        fit = fits.noted()["fit"]
        (tried,) = fit["tried"]
        (setting,) = tried.keys() - {"score"}
        assert tried[setting] == strengths
        assert max(tried["score"]) == fit["chosen"]["cv_score"][0]


def test_how_true_probabilities_are_is_stored_and_told(
    root: Callable[[str], Path], settings: Settings
) -> None:
    root("world")
    probe = {"classifier": "logistic"}
    evaluate("classical/colour", "world-species", settings=settings, probe=probe, n_train=60)
    (part,) = parts_of(settings)
    told = mean_calibration([part])
    assert 0 < told["ece"] < 1 and 0 < told["nll"] < 36
    lines, _ = run_lines([part])
    assert lines[0] == f"calibration error {told['ece']:.3f}, log loss {told['nll']:.3g}"


def test_labels_without_training_images_have_no_probability() -> None:
    assert TASK.probe is not None
    block = TASK.probe.model_copy(update={"classifier": "logistic"})
    x = np.array([[0.0], [0.1], [1.0], [1.1]], np.float32)
    fitted = fit_probe(TASK, block, x, np.array(["fox", "fox", "owl", "owl"], object))
    prob_nc = fitted.probe.predict_proba(x)
    told = fitted.calibration(x, ["fox", "owl", "newt", "owl"])
    truth_n = np.array([prob_nc[0, 0], prob_nc[1, 1], np.finfo(float).eps, prob_nc[3, 1]])
    assert told["nll"] == pytest.approx(-np.log(truth_n).mean())


def test_nothing_chosen_is_nothing_told(root: Callable[[str], Path], settings: Settings) -> None:
    root("world")
    evaluate("classical/colour", "world-species", settings=settings, repeats=4, n_train=60)
    parts = parts_of(settings)
    assert all("fit" not in (part.info or {}) for part in parts)
    told = fit_summary(parts)
    assert (told.n_fits, told.line, told.note_lines, told.plain()) == (0, "", [], None)


@pytest.mark.slow
def test_one_fit_of_all_parts_counts_once(root: Callable[[str], Path], settings: Settings) -> None:
    root("fishnet")
    probe = {"classifier": "mlp", "learning_rate": [1e-3, 1e-2, 1e-1], "epochs": 2}
    evaluate("classical/colour", "fishnet", settings=settings, probe=probe)
    parts = parts_of(settings)
    assert len(parts) > 1 and fit_summary(parts).n_fits == 1


@pytest.mark.slow
def test_a_threshold_is_a_choice_too(root: Callable[[str], Path], settings: Settings) -> None:
    root("fungiclef")
    evaluate("classical/colour", "fungiclef", settings=settings)
    (part,) = parts_of(settings)
    assert part.info is not None
    assert {"reject_below", "reject_score"} <= set(part.info["fit"]["chosen"])


@pytest.mark.slow
def test_defect_every_image_left_out_is_named(tmp_path: Path) -> None:
    """Skipped images were counted, and three of them named, in a line that scrolls away."""
    data = tmp_path / "data"
    make_dataset("world", data / "world", 150)
    species = sorted((data / "world" / "images").glob("species-*"))
    for photo in species[:5]:
        photo.write_text("broken")
    settings = Settings(
        results=tmp_path / "results", cache=tmp_path / "cache", data_root=data, bad_images="skip"
    )
    evaluate("classical/colour", "world-species", settings=settings)
    (part,) = parts_of(settings)
    assert part.info is not None and part.info["n_bad_images"] == 5
    lost = bad_images([part])
    assert sorted(lost) == [f"images/{photo.name}" for photo in species[:5]]
    assert all("image" in why for why in lost.values())


def test_a_part_names_its_own_images_only() -> None:
    rows = pl.DataFrame(
        {"id": ["1", "2"], "image": ["a.jpg", "b.jpg"], "crop": [None, None], "target": ["x", "y"]},
        schema_overrides={"crop": pl.List(pl.Int64)},
    )
    bad = {"a.jpg": "is empty", "c.jpg": "is empty"}
    assert left_out(TASK, PartItems("", rows, rows), Draw(), bad) == {
        "n_bad_images": 1,
        "bad_images": {"a.jpg": "is empty"},
    }
    assert left_out(TASK, PartItems("", rows, rows), Draw(), {"c.jpg": "is empty"}) == {}
