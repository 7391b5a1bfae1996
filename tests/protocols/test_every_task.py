"""Every task with a probe runs end to end on made data; a new file is tested without a test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from PIL import Image

from fieldmark.experiments import evaluate
from fieldmark.models import Features
from fieldmark.settings import Settings
from fieldmark.tasks import load_own_task, task_files
from kit.rings import mostly_slow

DEAR = {name: f"{name}/ml_age_bald_eagle,ml_tag_egg" for name in ("newt", "newt@biobench2026")}
"""a search per question is for clusters: two questions show the same code"""
FEWER = {"linear": {"steps": 60}, "mlp": {"epochs": 4}}
"""changes to probes that learn step by step: the way is the same, only shorter"""


class Tiles:
    """A backbone with patches: the colours of sixteen tiles."""

    name, dim, fingerprint = "tiles", 3, "tiles of a picture"

    def transform(self, image: Image.Image) -> np.ndarray:
        return np.asarray(image.resize((32, 32)), np.float32)

    def embed_images(self, batch: np.ndarray, *, patches: bool = False) -> Features:
        tiles = batch.reshape(len(batch), 4, 8, 4, 8, 3).mean(axis=(2, 4)).reshape(-1, 16, 3)
        return Features(tiles.mean(axis=1), tiles if patches else None)


def other_tiles() -> Tiles:
    other = Tiles()
    other.fingerprint = "the same, another model"
    return other


NAMES = [
    name
    for base in sorted(task_files())
    for name in (base, *(f"{base}@{variant}" for variant in load_own_task(base).variants))
    if load_own_task(name).block("probe")
]


@pytest.mark.parametrize("name", mostly_slow(NAMES, "beluga", "fishvista", "plantnet"))
def test_task_runs_end_to_end(name: str, settings: Settings, root) -> None:  # type: ignore[no-untyped-def]
    task = load_own_task(name)
    root(task.dataset)
    results = {}
    block = task.block("probe")
    changes = {"probe": FEWER[block.classifier]} if block.classifier in FEWER else {}
    models = ["classical/chance", "classical/pixels"]
    if block.features == "patches":
        models = [Tiles(), other_tiles()]
    for model in models:
        result = evaluate(model, DEAR.get(name, name), settings=settings, **changes)
        score = result.score
        if score.low is None:  # made data may be too small for an interval
            assert score.warning and 0 <= score.value <= 1
        else:
            assert 0 <= score.low <= score.value <= score.high <= 1
        assert score.metric == task.metric and score.n > 0
        assert result.predictions.filter(pl.col("prediction").is_null()).is_empty()
        keys = result.predictions.select("part", "repeat", "id")
        assert not keys.is_duplicated().any()
        results[result.run.spec.model] = keys.sort(keys.columns)
    first, second = results.values()
    assert first.equals(second), "same items for all"


def test_models_really_differ_on_the_world(settings: Settings, root) -> None:  # type: ignore[no-untyped-def]
    root("world")
    chance = evaluate("classical/chance", "world-species", settings=settings).score
    colour = evaluate("classical/colour", "world-species", settings=settings).score
    assert colour.low > chance.high


@pytest.mark.slow
def test_chance_is_at_chance(settings: Settings, root) -> None:  # type: ignore[no-untyped-def]
    root("newt")
    score = evaluate("classical/chance", "newt@simpleshot", settings=settings).score
    assert score.low < 0.5 < score.high


def test_small_draws_seeds_and_repeats(settings: Settings, root) -> None:  # type: ignore[no-untyped-def]
    root("world")
    asked = {"n_train": 24, "repeats": 3, "seed": 1}
    result = evaluate("classical/pixels", "world-species", settings=settings, **asked)
    assert result.predictions["repeat"].unique().sort().to_list() == [0, 1, 2]
    again = evaluate(
        "classical/pixels",
        "world-species",
        settings=replace(settings, results=settings.results / "again"),
        **asked,
    )
    assert again.predictions.equals(result.predictions)
    assert again.scores == result.scores
