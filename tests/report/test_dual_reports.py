"""Runs of dual encoders in every report: table, comparison, page, plots and exports agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.experiments import evaluate
from fieldmark.settings import Settings
from kit.duals import HashDual
from kit.made import make_dataset

MODELS = ("classical/words", "hash-dual")
TASKS = {"world-species": "zero_shot", "world-captions": "retrieve", "inquire-rerank": "rerank"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dual")
    settings = Settings(results=folder, cache=folder / "cache", data_root=folder / "data")
    for dataset, size in (("world", 150), ("inquire", 80)):
        make_dataset(dataset, settings.root_of(dataset), size)
    for task, protocol in TASKS.items():
        evaluate("classical/words", task, settings=settings, protocol=protocol)
        evaluate(HashDual(tag="one"), task, settings=settings, protocol=protocol)
    return folder


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_tables_say_the_same(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ([], ["--long"], ["--by-part"]):
        text = printed(capsys, "table", "--results", results, *form)
        assert all(task in text for task in TASKS) and "classical/words" in text
    rows = json.loads(printed(capsys, "table", "--results", results, "--json"))
    assert {(row["task"], row["protocol"]) for row in rows} == set(TASKS.items())
    assert len(rows) == 2 * len(TASKS)


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        ("world-species", "accuracy"),
        ("world-species", "top5_accuracy"),
        ("world-species", "family_accuracy"),
        ("world-captions", "recall_at_5"),
        ("world-captions", "recall_at_1"),
        ("world-captions", "multi_map"),
        ("inquire-rerank", "ap_at_k"),
        ("inquire-rerank", "mrr"),
    ],
)
def test_a_comparison_has_the_scores_of_the_table(
    results: Path, capsys: pytest.CaptureFixture[str], task: str, metric: str
) -> None:
    where = ("--results", results, "--task", task, "--metric", metric, "--json")
    rows = json.loads(printed(capsys, "table", *where))
    values = {row["model_label"].partition("#")[0]: row["value"] for row in rows}
    (compared,) = json.loads(printed(capsys, "compare", *MODELS, *where))["tasks"]
    both = [compared["score_a"], compared["score_b"]]
    assert both == pytest.approx([values[name] for name in MODELS])
    assert compared["difference"] == pytest.approx(both[0] - both[1])
    told = " ".join(printed(capsys, "compare", *MODELS, *where[:-1]).split())
    named = set(re.findall(r"(?:of|With these) \d+ (photos|questions)", told))
    assert named <= {"photos" if task == "world-species" else "questions"}
    assert named or task == "world-captions"  # of answers worth more or less, nobody is only right


def test_page_plots_and_exports(
    results: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    printed(capsys, "site", tmp_path / "page", "--results", results)
    assert (tmp_path / "page" / "index.html").is_file()
    for kind in ("forest", "difference"):
        printed(capsys, "plot", kind, "--results", results, "--out", tmp_path / f"{kind}.svg")
    for kind in ("csv", "json", "card", "model-index"):
        printed(capsys, "export", kind, "--results", results, "--out", tmp_path / f"e-{kind}")
