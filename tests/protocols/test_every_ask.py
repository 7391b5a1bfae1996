"""Every task with an `ask:` block is asked end to end, of a mock model that sees made data."""

from __future__ import annotations

import json

import polars as pl
import pytest

from fieldmark.experiments import evaluate
from fieldmark.settings import Settings
from fieldmark.tasks import load_own_task, task_files
from kit.rings import mostly_slow

PARTS = {"newt": "newt/ml_age_bald_eagle,ml_tag_egg"}
NAMES = [name for name in sorted(task_files()) if load_own_task(name).block("ask") is not None]
SEEING, GUESSING = "chat/mock/wren?skill=1", "chat/mock/owl?skill=0"


@pytest.mark.parametrize("name", mostly_slow(NAMES, "beluga", "fishvista", "rarespecies"))
@pytest.mark.parametrize("n_train", [0, 3])
def test_a_model_that_sees_is_right_and_one_that_does_not_is_wrong(
    name: str,
    n_train: int,
    settings: Settings,
    root,  # type: ignore[no-untyped-def]
) -> None:
    task = load_own_task(name)
    assert task.block("ask") is not None
    if task.block("ask").kind == "same" and n_train:
        pytest.skip("pairs are asked without examples")
    root(task.dataset)
    how = {"settings": settings, "n_test": 8, "n_train": n_train}
    asked = PARTS.get(name, name)
    good, poor = (evaluate(model, asked, **how) for model in (SEEING, GUESSING))
    rows = good.predictions
    assert set(rows["outcome"]) == {"ok"}
    assert (rows["prediction"] == rows["target"]).all()
    best = 0.0 if not good.score.higher_is_better else 1.0
    if task.metric != "average_precision":  # 0 for a trait that none of eight fishes has
        assert good.score.value == best
    assert good.score.value != poor.score.value
    facts = [json.loads(text) for text in rows["info"]]
    assert all(each["text"] and each["tokens_in"] for each in facts)
    assert all(each.get("k_used", 0) == n_train for each in facts)
    if n_train:
        assert all(len(set(each["examples"])) == n_train for each in facts)
    other = {score.metric: score.value for score in good.scores if not score.part}
    assert (other["failure_rate"], other["refusal_rate"], other["parse_success_rate"]) == (0, 0, 1)
    assert "usd_per_answer" not in other, "the price of a mock is unknown, not 0"
    keys = rows.select("part", "repeat", "id")
    assert not keys.is_duplicated().any()
    assert rows.filter(pl.col("target").is_null()).is_empty()
