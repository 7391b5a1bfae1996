"""Are the values of documents scored again, and left alone where that takes code?"""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark import register_aggregation, register_metric
from fieldmark.chat import MockServer
from fieldmark.experiments import evaluate, rescore
from fieldmark.lmms.metrics import registry
from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.store import RunFilter, Score, Store
from kit.chat import running
from kit.documents import write_jsonl

NAMES = ["wren", "robin", "tit", "wren"]
TASK = """
task: birds
dataset_path: json
dataset_kwargs: {data_files: birds.jsonl}
test_split: train
doc_to_text: "Which bird? {{hint}}"
doc_to_target: name
"""


def run(folder: Path, metrics: str) -> tuple[Settings, Score]:
    write_jsonl(folder / "birds.jsonl", [{"hint": n, "name": x} for n, x in enumerate(NAMES)])
    (folder / "birds.yaml").write_text(TASK + metrics)
    settings = Settings(cache=folder / "cache", results=folder / "results")
    with running(MockServer(answers=lambda *_: "wren")) as url:
        model = f"chat/mock/parrot?base_url={url}"
        return settings, evaluate(model, str(folder / "birds.yaml"), settings=settings).score


def test_means_are_scored_again(tmp_path: Path) -> None:
    settings, before = run(tmp_path, "metric_list: [{metric: exact_match}]\n")
    with Store.open(settings.store) as store:
        (found,) = rescore(store, RunFilter(), (), Silent())
    assert not found.is_left and found.changed == []
    assert next(each for each in found.scores if each.is_primary) == before


@pytest.mark.parametrize("given", ["aggregation: last_of_all", ""])
def test_what_is_not_known_here_any_more_is_left_as_it_is(tmp_path: Path, given: str) -> None:
    """Neither a missing aggregation nor a metric's forgotten way may spoil a stored score."""
    register_aggregation("last_of_all", lambda items: float(items[-1]))
    register_metric(
        "is_it", lambda references, predictions: float(references == predictions),
        aggregation="last_of_all",
    )  # fmt: skip
    try:
        settings, before = run(tmp_path, f"metric_list: [{{metric: is_it, {given}}}]\n")
    finally:
        del registry._ADDED_METRICS["is_it"], registry._ADDED_AGGREGATIONS["last_of_all"]
    assert before.value == 1.0
    with Store.open(settings.store) as store:
        (found,) = rescore(store, RunFilter(), (), Silent())
        (scores,) = store.scores(RunFilter()).values()
    assert found.is_left and next(each for each in scores if each.is_primary) == before
