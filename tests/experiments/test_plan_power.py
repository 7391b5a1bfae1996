"""Does a plan know which test items are independent, and say what they could show?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.experiments import PlannedTest, make_jobs, make_plan, planned_tests, single_axes
from fieldmark.settings import load_settings
from kit.identity import edit, make_world, plan_of, run_it


def planned_of(
    place: Path, task: str, model: str = "m.py:Mine", **axes: object
) -> list[PlannedTest]:
    return list(planned_tests(plan_of(place, model, task, **axes)))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))
    return make_world(tmp_path)


def test_photos_of_one_burst_are_one_unit(place: Path) -> None:
    (test,) = planned_of(place, "zoo.yaml")
    assert (test.n, test.n_units, test.metric) == (9, 6, "accuracy")
    assert test.assumed is not None and test.assumed.effective < 1
    (some,) = planned_of(place, "zoo.yaml", n_test=4)
    assert some.n == 4 and some.n_units <= 4


def test_a_document_is_a_unit(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "none")
    monkeypatch.setenv("FIELDMARK_INCLUDE_PATH", str(place))
    (test,) = planned_of(place, "docs.yaml", "chat/openai/gpt-4o")
    assert (test.n, test.n_units) == (6, 6)


def test_a_class_counts_as_much_as_another_in_a_mean_over_classes(place: Path) -> None:
    plain = planned_of(place, "zoo.yaml")[0].assumed
    rows = (place / "photos" / "items.csv").read_text().replace(",cat,", ",bee,", 4)
    (place / "photos" / "items.csv").write_text(rows)
    edit(place / "zoo.yaml", "metric: accuracy", "metric: macro_accuracy")
    macro = planned_of(place, "zoo.yaml")[0].assumed
    assert plain is not None and macro is not None
    assert macro.variance > plain.variance  # one photo of the rare class is worth many others


def test_traits_of_one_fish_are_one_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))
    assert main(["data", "make", "fishnet", "--size", "120"]) == 0
    jobs = make_jobs([("classical/colour", "")], [("fishnet", "")], single_axes({}))
    (test, *_) = planned_tests(make_plan(jobs, load_settings()))
    assert len(test.spec.settings["parts"]) > 1
    assert test.n_units <= test.n < 120


def test_a_query_is_a_unit_whatever_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))
    assert main(["data", "make", "inquire", "--size", "60"]) == 0
    model, task = "open-clip/ViT-B-32/openai", "inquire-rerank"
    jobs = make_jobs([(model, "")], [(task, "")], single_axes({}))
    (planned,) = make_plan(jobs, load_settings()).jobs
    (test,) = planned_tests(make_plan(jobs, load_settings()))
    assert test.n == test.n_units < planned.n_images


def test_plan_says_what_would_be_visible_and_by_what_it_is_judged(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = """
class Other(Mine):
    def embed_images(self, batch):
        return Features(batch.reshape(len(batch), -1)[:, ::-1] % 7)
"""
    (place / "m.py").write_text((place / "m.py").read_text() + other)
    models = ["--model", "m.py:Mine", "--model", "m.py:Other"]
    words = ["plan", *models, "--protocol", "probe", "--task", "zoo.yaml", "--run-code"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "detectable difference" in said.out and "assumed" in said.out
    assert "right on 20 % of photos" in said.err
    for model in ("m.py:Mine", "m.py:Other"):
        run_it(place, model, "zoo.yaml")
    assert main([*words, "--n-train", "-1", "6", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["power"]
    assert (row["task"], row["protocol"], row["items"], row["units"]) == ("zoo", "probe", 9, 6)
    assert row["basis"] == "m.py:Mine and m.py:Other"
    edit(place / "photos" / "items.csv", "burst-2", "burst-1")
    assert main([*words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["power"]
    assert row["basis"] == "assumed"  # other units: what was measured holds no more
    assert row["detectable_difference"] is None  # of five units
