"""Every task that a dual encoder can be asked runs end to end on made data with random encoders; a
new task is tested without a new test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fieldmark import evaluate
from fieldmark.settings import Settings
from fieldmark.tasks import load_own_task, task_files
from kit.duals import save_open_clip, save_siglip
from kit.rings import mostly_slow

ASKED = [
    (name, protocol)
    for name in sorted(task_files())
    for protocol in ("zero_shot", "retrieve", "rerank")
    if load_own_task(name).block(protocol) is not None
]
GALLERIES = {"inquire-fullrank": "needs vectors of the very model: tested in test_rerank"}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    place = tmp_path_factory.mktemp("encoders")
    return [save_open_clip(place / "clip"), save_siglip(place / "siglip")]


@pytest.mark.parametrize(
    ("name", "protocol"),
    mostly_slow([one for one in ASKED if one[0] not in GALLERIES], ("rarespecies", "zero_shot")),
)
def test_task_runs_with_random_encoders(
    name: str, protocol: str, settings: Settings, root: Callable[[str], Path], encoders: list[str]
) -> None:
    task = load_own_task(name)
    root(task.dataset)
    changes: dict[str, Any] = (
        {"zero_shot": {"templates": "none"}} if protocol == "zero_shot" else {}
    )
    asked = []
    for model in encoders:
        result = evaluate(model, name, settings=settings, protocol=protocol, n_test=24, **changes)
        score = result.score
        assert score.metric == task.metric and score.n > 0
        assert score.warning if score.low is None else score.low <= score.value <= score.high
        assert (result.predictions["outcome"] == "ok").all()
        asked.append(result.predictions.select("part", "id", "target"))
    assert asked[0].equals(asked[1]), "same items for all"


def test_tasks_are_there() -> None:
    assert {protocol for _, protocol in ASKED} == {"zero_shot", "retrieve", "rerank"}
