"""Do intervals of documents' scores hold the truth 19 times out of 20?

Simulated with 60 documents in 200 worlds; the bounds are about three standard errors from 190.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fieldmark.lmms.score import resample
from fieldmark.lmms.score.scores import (
    DocumentValues,
    ScoredMetric,
    ScoreSettings,
    score_documents,
)

N, WORLDS = 60, 200


def f1_percent(results):
    hits = sum(each["wanted"] and each["said"] for each in results)
    return 200 * hits / max(1, sum(each["wanted"] + each["said"] for each in results))


def _yes_no(random: np.random.Generator) -> list[Any]:
    wanted = random.random(N) < 0.5
    said = np.where(random.random(N) < 0.8, wanted, ~wanted)
    return [{"wanted": bool(w), "said": bool(s)} for w, s in zip(wanted, said, strict=True)]


def both_right(results):
    found: dict[int, list[int]] = {}
    for each in results:
        found.setdefault(each["picture"], []).append(each["score"])
    assert all(len(each) == 2 for each in found.values())
    return sum(map(all, found.values())) / len(found)


def _pairs(random: np.random.Generator) -> list[Any]:
    """Half of the pictures are easy: 0.9 right of each question, else 0.6."""
    chance = np.where(random.random(N // 2) < 0.5, 0.9, 0.6).repeat(2)
    right = random.random(N) < chance
    return [{"picture": place // 2, "score": int(each)} for place, each in enumerate(right)]


def sum_over_kinds(results):
    kinds: dict[int, list[int]] = {}
    for each in results:
        kinds.setdefault(each["kind"], []).append(each["score"])
    return sum(sum(each) / len(each) for each in kinds.values())


def _kinds(random: np.random.Generator) -> list[Any]:
    kind = random.integers(0, 3, N)
    right = random.random(N) < 0.3 + 0.2 * kind
    return [{"kind": int(k), "score": int(r)} for k, r in zip(kind, right, strict=True)]


def _classes(random: np.random.Generator) -> list[Any]:
    return [(int(each["wanted"]), int(each["said"])) for each in _yes_no(random)]


WORLDS_OF: dict[str, tuple[Callable[..., list[Any]], Any, float]] = {
    "a function of shares": (_yes_no, f1_percent, 80.0),
    "pairs that must be complete": (_pairs, both_right, (0.9**2 + 0.6**2) / 2),
    "a sum of means": (_kinds, sum_over_kinds, 1.5),
    "a named aggregation": (_classes, "mcc", 0.6),
    "the median": (lambda random: random.exponential(size=N).tolist(), "median", np.log(2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS_OF)
def test_intervals_hold_the_truth_19_times_out_of_20(name, monkeypatch):
    monkeypatch.setattr(resample, "LADDER", (200,))
    draw, aggregation, truth = WORLDS_OF[name]
    hits = 0
    for world in range(WORLDS):
        values = draw(np.random.default_rng([world, 7]))
        rows = [DocumentValues({"none": {"m": each}}) for each in values]
        metric = ScoredMetric("m", aggregation=aggregation)
        (score,) = score_documents([metric], rows, ScoreSettings(seed=world, seconds=60.0))
        assert score.low is not None and score.high is not None
        hits += score.low <= truth <= score.high
    assert 181 <= hits <= 199, f"{hits} of {WORLDS}"
