"""Is a local image-text model asked a task like any other?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from fieldmark.experiments import evaluate
from fieldmark.settings import Settings
from kit.tiny_chat import save_tiny


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llava", "qwen2_vl"])
def test_a_random_model_answers_every_item_and_nothing_is_read_into_it(
    kind: str,
    tmp_path: Path,
    settings: Settings,
    root,  # type: ignore[no-untyped-def]
) -> None:
    root("world")
    folder = save_tiny(kind, tmp_path / kind)
    name = f"hf-chat/{folder}?max_tokens=6&context=100000"
    found = evaluate(name, "world-stage", settings=settings, n_test=6, n_train=2)
    rows = found.predictions
    assert len(rows) == 6 and set(rows["outcome"]) <= {"ok", "unparsed", "length"}
    facts = [json.loads(each) for each in rows["info"]]
    assert all(each["k_used"] == 2 and each["tokens_in"] > 0 for each in facts)
    scores = {score.metric: score.value for score in found.scores if not score.part}
    assert scores["failure_rate"] == 0
    assert scores["usd_per_answer"] == 0, "a model of one's own costs nothing, and that is known"
