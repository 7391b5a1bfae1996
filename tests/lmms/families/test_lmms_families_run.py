"""Does a whole run ask what the tasks' own functions say, and score as they do?"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lmms.families.families import FAMILIES
from lmms.families.files import PLATES_ROOT
from lmms.families.kit import BLANK_LINE, CHECKOUT, Family, Unscored
from lmms.families.made_data import write_plates
from lmms.families.scripted import run, values_of

RATES = (
    "among_answered", "answered_rate", "failure_rate", "refusal_rate", "parse_success_rate",
    "usd_per_answer",
)  # fmt: skip
"""what is added to the scores of any language model"""

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")
WRITING = tuple(each for each in FAMILIES if each.output_type == "generate_until")
each_family = pytest.mark.parametrize("family", WRITING, ids=lambda family: family.task)


def _settled(values: dict[str, Any]) -> dict[str, Any]:
    """mirb makes a list of a set, whose order is another in every process."""
    score = values.get("mirb_score", {})
    if "pred_answer" in score:
        values = values | {"mirb_score": score | {"pred_answer": {*score["pred_answer"]}}}
    return values


@each_family
def test_whole_run(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plates(tmp_path)
    monkeypatch.setenv(PLATES_ROOT, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found, script = run(family, tmp_path)
    assert script.strange == []
    assert len(script.bodies) == sum(1 if isinstance(a, str) else len(a) for a in family.answers)
    for body in script.bodies:
        check_settings(family.generation[""], body)
    for name, info in zip(found.predictions["id"], found.predictions["info"], strict=True):
        found_values, expected = values_of(json.loads(info)), family.expected_values(int(name))
        assert _settled(found_values) == _settled(expected)
    check_aggregates(family, found)
    assert not list(tmp_path.glob("*submission*")), "task code wrote beside the user"


def check_settings(wanted: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """Room, temperature, top_p and the file's own stops are really sent."""
    room = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    assert wanted.get("max_new_tokens", 1024) in room
    assert body["temperature"] == wanted.get("temperature", 0.0)
    if "top_p" in wanted:
        assert body["top_p"] == wanted["top_p"]
    stops = wanted["until"] if wanted["until"] != BLANK_LINE else []
    assert body.get("stop", []) == stops


def check_aggregates(family: Family, found: Any) -> None:
    """A metric that cannot be computed is NaN and says why; the others stand."""
    ours = {score.metric: score.value for score in found.scores if score.metric not in RATES}
    hows = {score.metric: score.warning for score in found.scores}
    for name, wanted in family.expected_aggregates().items():
        if isinstance(wanted, dict):
            for key, value in wanted.items():
                assert ours[f"{name}/{key}"] == pytest.approx(value)
        elif wanted is Unscored:
            assert math.isnan(ours[name])
            assert "AssertionError" in hows[name]
        else:
            assert ours[name] == pytest.approx(wanted), name
    for name in family.unheard:
        assert math.isnan(ours[name])
        assert hows[name]
    assert {re.sub("/[^,]*", "", name) for name in ours} == set(family.aggregates)
