"""Tables and ties of metrics that are computed from more than predicted labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.experiments import evaluate
from fieldmark.report import read_table
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.made import make_dataset


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "metrics", "probe"),
    [
        ("fishvista", ("average_precision", "macro_f1"), {"epochs": 6, "hidden": 32}),
        ("fishnet", ("macro_f1", "exact_match"), {"epochs": 6, "hidden": 32}),
        ("fungiclef", ("user_loss", "accuracy"), {}),
    ],
)
def test_models_are_compared(
    task: str, metrics: tuple[str, ...], probe: dict[str, int], tmp_path: Path
) -> None:
    make_dataset(task, tmp_path / "data" / task, 80)
    settings = Settings(
        results=tmp_path / "results", cache=tmp_path / "cache", data_root=tmp_path / "data"
    )
    models = ("classical/colour", "classical/pixels", "classical/texture")
    found = {model: evaluate(model, task, settings=settings, probe=probe) for model in models}
    with Store.open(settings.store, read_only=True) as store:
        for metric in metrics:
            rows = read_table(store, metric=metric).rows
            assert {row.run.spec.model for row in rows} == set(models)
            assert all(row.is_tied is not None for row in rows)
            for row in rows:
                scores = found[row.run.spec.model].scores
                (mine,) = (e for e in scores if e.metric == metric and not e.part)
                assert row.score.value == pytest.approx(mine.value)
            worth = {row.score.value: row.is_tied for row in rows}
            is_up = rows[0].score.higher_is_better
            assert worth[max(worth) if is_up else min(worth)], "the best is among the best"
