"""Are families with choices asked and scored by likelihood, or by letter where there is none?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import LocalModel, MockScript, MockServer, Text, user
from fieldmark.experiments import evaluate
from fieldmark.lmms.data.pictures import to_picture
from kit.chat import running
from lmms.families.families import FAMILIES
from lmms.families.kit import CHECKOUT, Family
from lmms.families.scripted import key_of, own_file, pixels_of, settings_in, values_of

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")
CHOOSING = tuple(each for each in FAMILIES if each.choices)
each_family = pytest.mark.parametrize("family", CHOOSING, ids=lambda family: family.task)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    pytest.importorskip("transformers")
    from kit.tiny_chat import load_tiny, save_tiny

    return load_tiny(save_tiny("qwen2_vl", tmp_path_factory.mktemp("tiny") / "qwen2_vl"))


@each_family
def test_likelihoods_of_a_model_on_this_machine(
    family: Family, tiny: LocalModel, tmp_path: Path
) -> None:
    """The text and the pictures are the question; a blank and a choice are what follows it."""
    assert family.choices is not None
    file = str(own_file(family, tmp_path))
    found = evaluate(tiny.name, file, settings=settings_in(tmp_path))
    rows = dict(zip(found.predictions["id"], found.predictions["info"], strict=True))
    for number in range(len(family.documents)):
        choices = family.choices(family.code(), family.bare(number))
        shown = map(to_picture, family.expected_visuals(number))
        asked = (user(*shown, Text(family.expected_text(number))),)
        likely = tiny.score(asked, [f" {each}" for each in choices])
        info = json.loads(rows[str(number)])
        ours = [pair[0] for (pair,) in info["resps"]]
        assert ours == pytest.approx(likely, abs=1e-3)
        answer = [(logprob, False) for logprob in ours]
        wanted = family.values(family.code(), family.bare(number), answer)
        assert values_of(info) == wanted
    for name, wanted in _means(family, rows).items():
        (score,) = (each for each in found.scores if each.metric == name)
        assert score.value == pytest.approx(wanted)


@each_family
@pytest.mark.parametrize("logprobs", [True, False], ids=["logprobs", "text"])
def test_letters_of_a_model_behind_an_address(
    family: Family, logprobs: bool, tmp_path: Path
) -> None:
    """Lettered choices under the family's own text; what is chosen decides, and is told."""
    asked: list[Any] = []

    def answer(_: str, body: Any) -> str:
        asked.append(body)
        return "B"

    script = MockScript() if logprobs else MockScript(logprobs=False)
    with running(MockServer(script, answers=answer)) as url:
        model = f"chat/mock/parrot?base_url={url}"
        file = str(own_file(family, tmp_path))
        found = evaluate(model, file, settings=settings_in(tmp_path))
    rows = dict(zip(found.predictions["id"], found.predictions["info"], strict=True))
    assert len(asked) == len(family.documents)
    heads = [_head(family, number) for number in range(len(family.documents))]
    for body in asked:
        text, pictures = key_of(body)
        assert any(text.startswith(head) and pictures == shown for head, shown in heads)
    for number, info in rows.items():
        gold = _gold(family, int(number))
        assert values_of(json.loads(info)) == dict.fromkeys(family.aggregates, float(gold == 1))
    for score in found.scores:
        if score.metric in family.aggregates:
            assert "chosen by letter" in score.warning


def _head(family: Family, number: int) -> tuple[str, tuple[str, ...]]:
    """The text without its cue for an answer, which comes after the letters."""
    text = str(family.expected_text(number)).rstrip()
    head = text.removesuffix("Answer:").removesuffix("Answer :").rstrip()
    return head, tuple(map(pixels_of, family.expected_visuals(number)))


def _gold(family: Family, number: int) -> int:
    assert family.choices is not None
    bare, code = family.bare(number), family.code()
    gold = family.target(code, bare)
    return family.choices(code, bare).index(gold) if isinstance(gold, str) else int(gold)


def _means(family: Family, rows: dict[str, str]) -> dict[str, float]:
    every = [values_of(json.loads(info)) for info in rows.values()]
    return {name: sum(each[name] for each in every) / len(every) for name in family.aggregates}
