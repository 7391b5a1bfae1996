"""Are answers of chat models read again for free, and none asked twice after `kill -9`?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark.draws import digest
from fieldmark.experiments import rescore
from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.store import PartResult, Predictions, RunFilter, Store
from kit.ask import TASK, Parrot, ask, wholes
from kit.chat import running
from kit.made import make_dataset


@pytest.fixture
def settings(fresh_settings: Settings) -> Settings:
    return fresh_settings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "how"),
    [(TASK, {}), ("world-stage", {"circular": True}), ("beluga", {}), ("fishvista", {})],
)
def test_reading_again_changes_nothing_when_the_parser_is_the_same(
    settings: Settings, tmp_path: Path, task: str, how: dict[str, Any]
) -> None:
    if task in ("fishvista", "beluga"):
        make_dataset(task, tmp_path / task, 60)
    script = "chat/mock/wren?skill=0.6&p_refuse=0.1&p_length=0.2&p_unclear=0.1&style=sentence"
    before = ask(settings, script, task, **how)
    with Store.open(settings.store) as store:
        (found,) = rescore(store, RunFilter(), (), Silent())
        after, scores = store.predictions(before.run.id), store.scores()[before.run.id]
    assert (found.n_read, found.changed, found.kept) == (0, [], [])
    assert after.equals(before.predictions) and scores == before.scores
    assert len(Counter(after["outcome"])) > 1


def test_answers_that_were_misread_are_read_again_for_free(settings: Settings) -> None:
    good = ask(settings, "chat/mock/wren?skill=1", repeats=2)
    with Store.open(settings.store) as store:
        spoil(store, good)
        assert store.runs()[0].n_ok == 0
        (found,) = rescore(store, RunFilter(), (), Silent())
        after = store.predictions(good.run.id)
        assert store.runs()[0].n_ok == len(after) == found.n_read
        assert wholes(store.scores()[good.run.id]) == wholes(good.scores)
    own = ("info", "content")
    assert after.drop(own).equals(good.predictions.drop(own))
    assert after["content"].to_list() == [digest(each) for each in after["id"]], "what was seen"


def test_of_turned_options_another_turn_may_decide_after_reading_again(settings: Settings) -> None:
    with running(Parrot("Answer: A")) as url:
        good = ask(settings, f"chat/mock/wren?base_url={url}", "world-stage", circular=True)
    with Store.open(settings.store) as store:
        spoil(store, good)
        rescore(store, RunFilter(), (), Silent())
        after = store.predictions(good.run.id)
    columns = ["id", "prediction", "outcome"]
    assert after.select(columns).equals(good.predictions.select(columns))


def spoil(store: Store, good: Any) -> None:
    """As if a worse parser had understood nothing."""
    results = []
    for part in store.finished_parts(good.run.id):
        rows = store.predictions(good.run.id, part.part).filter(pl.col("repeat") == part.repeat)
        n = len(rows)
        given = Predictions(
            rows["id"].to_list(), rows["target"].to_list(), [None] * n,
            units=rows["unit"].to_list(), outcomes=["unparsed"] * n, infos=rows["info"].to_list(),
            contents=[digest(each) for each in rows["id"]],
        )  # fmt: skip
        results.append(PartResult(given, part.part, part.repeat, part.n_train, 0.0, part.info))
    store.replace_answers(good.run.id, results, good.scores)
