"""Are choices weighed by a model on this machine as its own likelihoods say?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldmark.chat import LocalModel, Request, user
from fieldmark.experiments import Evaluation, evaluate
from fieldmark.settings import Settings
from kit.documents import write_jsonl

pytest.importorskip("torch")
from kit.tiny_asks import ask_local, rolling
from kit.tiny_chat import load_tiny, save_tiny

ROWS = [{"n": n, "name": name} for n, name in enumerate(["wren", "robin", "bird", "wren"])]
CHOICES = ["wren", "robin", "bird"]
HEAD = """
task: likely
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
doc_to_target: name
"""
QUESTION = 'doc_to_text: "Bird {{n}}?"\n'


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny("qwen2_vl", tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(tiny: Path) -> LocalModel:
    return load_tiny(tiny)


def weigh(folder: Path, tiny: Path, text: str, question: str = QUESTION) -> Evaluation:
    write_jsonl(folder / "rows.jsonl", ROWS)
    (folder / "task.yaml").write_text(HEAD + question + text)
    settings = Settings(
        cache=folder / "cache", results=folder / "results", device="cpu", offline=True
    )
    return evaluate(f"hf-chat/{tiny}", str(folder / "task.yaml"), settings=settings)


def by_hand(model: LocalModel, question: str, continuations: list[str]) -> np.ndarray:
    return np.array(model.score((user(question),), continuations))


def value(found: Evaluation, name: str) -> float:
    return next(each.value for each in found.scores if each.metric == name)


def infos(found: Evaluation) -> list[dict[str, Any]]:
    return [json.loads(text) for text in found.predictions["info"]]


def test_choices_by_summed_log_probability(tmp_path: Path, tiny: Path, model: LocalModel) -> None:
    text = f"""
output_type: multiple_choice
doc_to_choice: {CHOICES}
metric_list:
  [{{metric: acc}}, {{metric: acc_norm}}, {{metric: acc_mutual_info}}, {{metric: brier_score}}]
"""
    found = weigh(tmp_path, tiny, text)
    score_nk = np.stack(
        [by_hand(model, f"Bird {row['n']}?", [f" {each}" for each in CHOICES]) for row in ROWS]
    )
    got = np.array([[pair[0][0] for pair in info["resps"][:3]] for info in infos(found)])
    assert np.allclose(got, score_nk, atol=1e-4)
    gold = np.array([CHOICES.index(row["name"]) for row in ROWS])
    assert value(found, "acc") == (score_nk.argmax(1) == gold).mean()
    lengths = [len(each) for each in CHOICES]
    assert value(found, "acc_norm") == ((score_nk / lengths).argmax(1) == gold).mean()
    alone = np.array([pair[0][0] for pair in infos(found)[0]["resps"][3:]])
    by_itself: list[float] = []
    requests = [Request("x", (), continuations=tuple(CHOICES))]
    ask_local(
        model, requests, lambda _, a: by_itself.extend(each.logprob for each in a.likelihoods)
    )
    assert np.allclose(alone, by_itself, atol=1e-4)
    assert value(found, "acc_mutual_info") == ((score_nk - alone).argmax(1) == gold).mean()
    share_nk = np.exp(score_nk - score_nk.max(1, keepdims=True))
    share_nk /= share_nk.sum(1, keepdims=True)
    brier = ((share_nk - np.eye(3)[gold]) ** 2).sum(1).mean()
    assert value(found, "brier_score") == pytest.approx(brier, rel=1e-3)
    assert found.score.warning == "", "these are likelihoods, not letters"


def test_a_choice_of_questions(tmp_path: Path, tiny: Path, model: LocalModel) -> None:
    """A number as text: the choices are contexts, the target follows each."""
    (tmp_path / "a").mkdir()
    text = """
output_type: multiple_choice
doc_to_choice: ["It sings.", "It swims."]
metric_list: [{metric: acc}]
"""
    found = weigh(tmp_path / "a", tiny, text, "doc_to_text: 1\n")
    for info, row in zip(infos(found), ROWS, strict=True):
        hand = [by_hand(model, q, [f" {row['name']}"])[0] for q in ("It sings.", "It swims.")]
        assert np.allclose([pair[0][0] for pair in info["resps"]], hand, atol=1e-4)


def test_likelihood_of_the_target_and_of_a_text(
    tmp_path: Path, tiny: Path, model: LocalModel
) -> None:
    for kind in ("loglikelihood", "loglikelihood_rolling"):
        (tmp_path / kind).mkdir()
    found = weigh(tmp_path / "loglikelihood", tiny, "output_type: loglikelihood\n")
    hand = [by_hand(model, f"Bird {row['n']}?", [row["name"]])[0] for row in ROWS]
    assert value(found, "perplexity") == pytest.approx(math.exp(-np.mean(hand)), rel=1e-3)
    asked = [((user(f"Bird {row['n']}?"),), [str(row["name"])]) for row in ROWS]
    greedy = [row[0].is_greedy for row in model.likelihoods(asked)]
    assert value(found, "acc") == np.mean(greedy)
    found = weigh(tmp_path / "loglikelihood_rolling", tiny, "output_type: loglikelihood_rolling\n")
    rolled = np.array(rolling(model, [row["name"] for row in ROWS]))
    n_bytes = sum(len(row["name"]) for row in ROWS)
    assert value(found, "bits_per_byte") == pytest.approx(
        -rolled.sum() / n_bytes / math.log(2), rel=1e-3
    )
    assert value(found, "word_perplexity") == pytest.approx(math.exp(-rolled.mean()), rel=1e-3)
