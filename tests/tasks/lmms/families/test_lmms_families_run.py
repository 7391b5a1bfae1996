"""Does a whole run ask what the tasks' own functions say, and score as they do?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from ask_kit import running
from fieldmark.chat import MockServer
from fieldmark.experiments import evaluate
from fieldmark.protocols import ASKING
from fieldmark.protocols._documents._values import decode
from fieldmark.settings import Settings
from tasks.lmms.families.families import FAMILIES
from tasks.lmms.families.files import PLATES_ROOT
from tasks.lmms.families.kit import CHECKOUT, TASKS, Family, Unscored
from tasks.lmms.families.made_data import redirected, write_plates
from tasks.lmms.families.scripted import Script

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")
WRITING = tuple(each for each in FAMILIES if each.output_type == "generate_until")
each_family = pytest.mark.parametrize("family", WRITING, ids=lambda family: family.task)


def own_file(family: Family, folder: Path) -> Path:
    """A file beside the made documents that includes the family's and points it at them."""
    path = folder / f"{family.task}.yaml"
    told = {"include": str(TASKS / family.file), **redirected(family, folder)}
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    return path


def run(family: Family, folder: Path, key: str = "", **more: Any) -> tuple[Any, Script]:
    script = Script(family, key)
    settings = Settings(cache=folder / "cache", results=folder / "results", include_path=(TASKS,))
    how = (("prompts_for", key),) if key else ()
    with running(MockServer(answers=script)) as url:
        model = f"chat/mock/parrot?base_url={url}"
        found = evaluate(model, str(own_file(family, folder)), settings=settings, ask=how, **more)
    return found, script


@each_family
def test_whole_run(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plates(tmp_path)
    monkeypatch.setenv(PLATES_ROOT, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found, script = run(family, tmp_path)
    assert script.strange == []
    assert len(script.bodies) == sum(1 if isinstance(a, str) else len(a) for a in family.answers)
    for body in script.bodies:
        check_settings(family, body)
    for name, info in zip(found.predictions["id"], found.predictions["info"], strict=True):
        assert values_of(json.loads(info)) == family.expected_values(int(name))
    check_aggregates(family, found)
    assert not list(tmp_path.glob("*submission*")), "task code wrote beside the user"


def check_settings(family: Family, body: Any) -> None:
    """Room, temperature, top_p and the file's own stops are really sent."""
    wanted = family.generation[""]
    room = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    assert wanted.get("max_new_tokens", 1024) in room
    assert body["temperature"] == wanted.get("temperature", 0.0)
    if "top_p" in wanted:
        assert body["top_p"] == wanted["top_p"]
    stops = wanted["until"] if wanted["until"] != ["\n\n"] else None
    assert body.get("stop") == stops


def check_aggregates(family: Family, found: Any) -> None:
    """A metric that cannot be computed is NaN and says why; the others stand."""
    ours = {score.metric: score.value for score in found.scores if score.metric not in ASKING}
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
    assert {name.partition("/")[0] for name in ours} == set(family.aggregates)


def values_of(info: Any) -> dict[str, Any]:
    """What the store keeps of a document, under the names of results."""
    return {
        (metric if pipeline == "none" else f"{metric},{pipeline}"): decode(text)
        for pipeline, values in info["values"].items()
        for metric, text in values.items()
    }
