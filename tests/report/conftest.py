"""A store with four models on three tasks, filled as a run fills it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, estimate, interval
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store


def score_of(metric: str, right: np.ndarray, part: str = "") -> Score:
    """The score of answers that are right or wrong, with fieldmark's own interval."""
    target = np.zeros(len(right), np.int64)
    items, prediction = Items(target), np.where(right, 0, 1)
    found = interval(items, prediction, load_metric(metric))
    return Score(
        metric,
        estimate(items, prediction, load_metric(metric)),
        part,
        found.low,
        found.high,
        n=len(right),
        n_units=found.n_units,
        method=found.method,
        is_primary=not part,
    )


def right_answers(n: int, n_right: int, shift: int = 0) -> np.ndarray:
    """`n_right` of `n` are right; another shift gets others right."""
    return np.roll(np.arange(n) < n_right, shift)


@pytest.fixture
def filled():
    """`write(store, spec, {part: right or wrong})` does a whole run."""

    def write(store: Store, spec: RunSpec, parts: Mapping[str, np.ndarray], n_lost: int = 0) -> int:
        spec = replace(spec, settings={**spec.settings, "parts": list(parts)})
        run = store.begin_run(spec, fingerprint="f")
        for part, right in parts.items():
            n = len(right)
            answers = ["fox" if each else "hare" for each in right]
            lost = ["failed"] * (n_lost // 2) + ["unparsed"] * (n_lost - n_lost // 2)
            given = Predictions(
                [f"{part}{index:05d}.jpg" for index in range(n)],
                ["fox"] * n,
                [None] * n_lost + answers[n_lost:],
                outcomes=lost + ["ok"] * (n - n_lost),
            )
            store.write_part(run, PartResult(given, part=part, seconds=1.0))
        every = np.concatenate([each[n_lost:] for each in parts.values()])
        scores = [score_of("accuracy", every)]
        if list(parts) != [""]:
            scores += [score_of("accuracy", each, part) for part, each in parts.items()]
        store.finish_run(run, scores)
        return run

    return write


@pytest.fixture
def store(tmp_path: Path, filled):
    with Store.open(tmp_path / "results.db") as opened:
        skill = {
            "classical/chance": (60, 90),
            "classical/colour": (270, 130),
            "timm/vit_base_patch16_224": (300, 142),
            "open-clip/hf-hub:imageomics/bioclip-2": (305, 160),
        }
        for shift, (model, (n_species, n_beluga)) in enumerate(skill.items()):
            species = RunSpec(model, "world-species", "probe/ridge", {"score": "mean"}, data="0a1b")
            filled(opened, species, {"": right_answers(412, n_species, shift)})
            beluga = RunSpec(
                model, "beluga", "probe/neighbours", {"k": 1}, task_version="1", data="77aa"
            )
            if model != "classical/colour":
                filled(opened, beluga, {"": right_answers(200, n_beluga, shift)})
        yield opened
