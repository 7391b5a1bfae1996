"""Are the log-probabilities of given answers those of a plain reading, one by one?"""

from __future__ import annotations

import math
from typing import Any

import pytest

from fieldmark.chat import LocalModel, system, user
from fieldmark.errors import DataError, OutOfMemory, UsageError
from kit.tiny_asks import photo, plain_inputs, plain_logprobs, score_all, shots
from kit.tiny_chat import KINDS, load_tiny, save_tiny

pytest.importorskip("transformers")

WORDS = ("wren", " robin", "A", "B", "wren robin", "wren bird", "Is it a wren?", "é☃")


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load_tiny(save_tiny(request.param, tmp_path_factory.mktemp("tiny") / request.param))


def plain_score(model: LocalModel, messages: Any, continuation: str) -> float:
    ids = model.engine.tokeniser(continuation, add_special_tokens=False)["input_ids"]
    rows = plain_logprobs(model, plain_inputs(model, messages), ids)
    return sum(float(rows[place, token]) for place, token in enumerate(ids))


def test_scores_are_those_of_a_plain_reading(model: LocalModel) -> None:
    items = [(shots(number), WORDS[number % 3 :]) for number in range(5)]
    items.append(((user("Name a bird."),), WORDS))
    got = score_all(model, items, batch_size=6)
    for (messages, words), values in zip(items, got, strict=True):
        expected = [plain_score(model, messages, word) for word in words]
        assert values == pytest.approx(expected, abs=2e-4)
        assert all(value < 0 for value in values)


def test_scores_depend_neither_on_batch_size_nor_on_order(model: LocalModel) -> None:
    items = [(shots(number), WORDS) for number in range(5)]
    alone = [model.score(*item) for item in items]
    for size in (1, 3, 40):
        backwards = score_all(model, items[::-1], batch_size=size)[::-1]
        for one, other in zip(alone, backwards, strict=True):
            assert one == pytest.approx(other, abs=2e-4)


def test_all_letters_together_are_certain(model: LocalModel) -> None:
    """Every first token there is, as a continuation: their probabilities sum to at most one."""
    tokens = [model.engine.tokeniser.decode([number]) for number in range(33, 90)]
    words = [each for each in tokens if each.isascii() and each.strip()]
    total = sum(math.exp(value) for value in model.score(shots(1), words))
    assert 0 < total <= 1 + 1e-5


def test_single_letters_need_one_reading(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, ...]] = []
    forward = model.engine.forward

    def counted(inputs: Any, **rest: Any) -> Any:
        sizes.append(tuple(inputs["input_ids"].shape))
        return forward(inputs, **rest)

    monkeypatch.setattr(model.engine, "forward", counted)
    model.score(shots(0), list("ABCD"))
    assert sizes == [(1, model.engine.count(shots(0)))]
    score_all(model, [(shots(n), list("ABCD")) for n in (1, 2, 3)], batch_size=3)
    assert sizes[1][0] == 3


def test_a_model_that_gives_all_logits_scores_the_same(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [(shots(number), WORDS) for number in range(3)]
    expected = score_all(model, items)
    monkeypatch.setitem(model.engine.__dict__, "can_trim_logits", False)
    for one, other in zip(score_all(model, items), expected, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_too_little_memory_halves_the_batch_of_readings(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    expected = score_all(model, [(shots(n), WORDS) for n in range(3)], batch_size=1)
    forward = model.engine.forward

    def cramped(most: int) -> Any:
        def run(inputs: Any, **rest: Any) -> Any:
            if len(inputs["input_ids"]) > most:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return forward(inputs, **rest)

        return run

    monkeypatch.setattr(model.engine, "forward", cramped(2))
    got = score_all(model, [(shots(n), WORDS) for n in range(3)], batch_size=9)
    for one, other in zip(got, expected, strict=True):
        assert one == pytest.approx(other, abs=2e-4)
    monkeypatch.setattr(model.engine, "forward", cramped(0))
    with pytest.raises(OutOfMemory):
        model.score(shots(0), WORDS)


def test_the_system_prompt_counts(model: LocalModel) -> None:
    question = user("Which?", photo(4))
    one, other = (
        model.score([system(text), question], ["wren"]) for text in ("Be brief.", "Sing.")
    )
    assert one != other != model.score([question], ["wren"])


def test_what_cannot_be_scored_is_told(model: LocalModel) -> None:
    with pytest.raises(UsageError, match="continuation '' has no tokens"):
        model.score(shots(0), ["wren", ""])
    with pytest.raises(DataError, match="exceeds the context"):
        model.score([user("word " * 400, photo(1))], ["wren"])
    assert model.score(shots(0), []) == []
