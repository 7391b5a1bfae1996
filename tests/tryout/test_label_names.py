"""A dual encoder is also tried with the names of the labels, without training."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from fieldmark import try_photos
from fieldmark.cli import main
from fieldmark.store import Store
from fieldmark.tryout.judge.heads import LABEL_NAMES
from kit.duals import save_open_clip
from kit.planted import Plan, make_photos

PLAN = Plan(n_labels=4, n_photos=12, seed=1, has_names=True)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_photos(Path("photos") / "test", PLAN).parent


@pytest.fixture(params=["classical/words", pytest.param("open_clip", marks=pytest.mark.slow)])
def model(request: pytest.FixtureRequest, photos: Path) -> str:
    """What is fitted here, and a network as open_clip publishes it (with random weights)."""
    is_network = request.param == "open_clip"
    return save_open_clip(photos.parent / "clip") if is_network else str(request.param)


def test_answers_are_those_of_the_protocol(photos: Path, model: str) -> None:
    words = ["--model", model, "--protocol", "zero_shot", "--quiet"]
    task = "task: t\ndataset: folder\ndata: photos\nmetric: accuracy\nzero_shot: {}\n"
    Path("t.yaml").write_text(task)
    assert main(["run", "--task", "t.yaml", *words]) == 0
    with Store.open(Path("results/fieldmark.db"), read_only=True) as store:
        (run,) = store.runs()
        answers = dict(store.predictions(run.id).select("id", "prediction").iter_rows())
    verdict = try_photos("photos", models=[model])
    (entry,) = [entry for entry in verdict.entries if entry.head == LABEL_NAMES]
    own = [verdict.sample.labels[code] for code in entry.answer_n]
    assert dict(zip(verdict.sample.table["id"], own, strict=True)) == answers
    if model == "classical/words":
        assert (entry.answer_n == verdict.sample.code_n).mean() > 0.7, "chance is 0.25"
    assert len(verdict.entries) == 3, "it takes part in the choice beside the two heads"
    told = f"From the names of your labels alone, untrained, {model} is right on "
    assert (told in str(verdict)) == (verdict.best is not entry)


def test_it_is_told_saved_and_used(
    photos: Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("fieldmark.tryout.evaluate.kinds_for", lambda *_: ())
    assert main(["try", "photos", "--models", model, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert f"{model} with the names of your labels, without training" in shown
    assert "random split" not in shown and "More photos" not in shown
    assert "nearest label name" in Path("try/methods.txt").read_text()
    assert main(["predict", "try/model", "photos", "--quiet"]) == 0
    named = _column(Path("predictions.csv"), "best_guess")
    tested = _column(Path("try/predictions.csv"), "best_guess")
    assert named == tested, "nothing was trained: the saved model gives the answers of the test"


def test_labels_that_are_no_names_are_not_asked(photos: Path) -> None:
    for number, folder in enumerate(sorted((photos / "test").iterdir())):
        folder.rename(folder.with_name(f"A{number}"))
    verdict = try_photos("photos", models=["classical/words"])
    assert LABEL_NAMES not in {entry.head for entry in verdict.entries}
    assert np.isfinite(verdict.choice.accuracy)


def _column(path: Path, name: str) -> dict[str, str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row["image"]: row[name] for row in csv.DictReader(file)}
