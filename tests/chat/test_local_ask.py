"""Does a local model answer what it should, whatever else is asked beside it?"""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fieldmark.chat import Answer, AnswerJournal, AnswerSettings, LocalModel, Picture, Request, user
from fieldmark.errors import ModelError, UsageError
from kit.chat import collect, make_jpeg
from kit.tiny_asks import (
    ask_local,
    ask_tiny,
    photo,
    plain_answer,
    plain_inputs,
    plain_logprobs,
    shots,
)
from kit.tiny_chat import KINDS, load_tiny, save_tiny

pytest.importorskip("transformers")


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load_tiny(save_tiny(request.param, tmp_path_factory.mktemp("tiny") / request.param))


def answers_of(model: LocalModel, requests: list[Request], **rest: Any) -> dict[str, Answer]:
    got: dict[str, Answer] = {}
    ask_local(model, requests, collect(got), **rest)
    assert sorted(got) == sorted(request.id for request in requests)
    return got


def texts_of(model: LocalModel, requests: list[Request], **rest: Any) -> dict[str, str]:
    return {name: answer.text for name, answer in answers_of(model, requests, **rest).items()}


def test_a_batch_answers_as_one_by_one_without_cache(model: LocalModel) -> None:
    requests = ask_tiny(6)
    got = answers_of(model, requests, batch_size=6)
    assert len({answer.text for answer in got.values()}) > 1, "pictures and words matter"
    for request in requests:
        ids = plain_answer(model, request.messages, 10)
        is_ended = ids[-1] in model.engine.end_ids
        said = ids[:-1] if is_ended else ids
        answer = got[request.id]
        assert answer.text == model.engine.tokeniser.decode(said, skip_special_tokens=True).strip()
        assert answer.outcome == ("ok" if is_ended else "length")
        assert answer.usage is not None
        n_prompt = plain_inputs(model, request.messages)["input_ids"].shape[1]
        assert (answer.usage.tokens_in, answer.usage.tokens_out) == (n_prompt, len(ids))
        assert model.engine.count(request.messages) == n_prompt
        assert answer.usd == 0.0


@pytest.mark.parametrize("settings", [
    AnswerSettings(max_output_tokens=12),
    AnswerSettings(max_output_tokens=12, temperature=1.0, top_p=0.9),
])  # fmt: skip
def test_answers_depend_neither_on_batch_size_nor_on_order(
    model: LocalModel, settings: AnswerSettings
) -> None:
    requests = ask_tiny(7, settings)
    alone = texts_of(model, requests, batch_size=1)
    assert len(set(alone.values())) > 2
    for size in (2, 3, 7):
        assert texts_of(model, requests[::-1], batch_size=size) == alone


def test_prompts_with_and_without_pictures_are_asked_together(model: LocalModel) -> None:
    words = [Request(f"words-{n}", (user("Name a bird." + "!" * n),)) for n in range(3)]
    settings = AnswerSettings(max_output_tokens=6)
    mixed = [dataclasses.replace(each, settings=settings) for each in (*words, *ask_tiny(3))]
    assert texts_of(model, mixed, batch_size=6) == texts_of(model, mixed, batch_size=1)


def test_repeats_are_drawn_apart_and_as_often_as_likely(model: LocalModel) -> None:
    settings = AnswerSettings(max_output_tokens=1, temperature=0.8, top_logprobs=0)
    first = Request("item", shots(0), settings)
    n = 600
    repeats = [dataclasses.replace(first, id=f"r{i}", repeat=i) for i in range(n)]
    got = answers_of(model, repeats, batch_size=300).values()
    seen = Counter(answer.logprobs[0].token for answer in got if answer.logprobs)
    logprobs = plain_logprobs(model, plain_inputs(model, first.messages), [])[0]
    expected: Counter[str] = Counter()
    for token, p in enumerate((logprobs / 0.8).softmax(-1).tolist()):
        if token not in model.engine.end_ids:  # bytes that are no letter all read the same
            expected[model.engine.tokeniser.decode([token])] += p
    for text, p in expected.most_common(4):
        assert abs(seen[text] / n - p) < 4.5 * (p * (1 - p) / n) ** 0.5


def test_top_p_leaves_the_unlikely_out(model: LocalModel) -> None:
    settings = AnswerSettings(max_output_tokens=1, temperature=3.0, top_p=0.01, top_logprobs=0)
    repeats = [Request(f"r{i}", shots(1), settings, repeat=i) for i in range(20)]
    assert len(set(texts_of(model, repeats).values())) == 1


def test_settings_that_are_none_are_the_models_own(tmp_path: Path) -> None:
    folder = save_tiny("llava", tmp_path, do_sample=True, temperature=1.5, top_k=3)
    model = load_tiny(folder)
    settings = AnswerSettings(max_output_tokens=1, temperature=None, top_logprobs=0)
    repeats = [Request(f"r{i}", shots(0), settings, repeat=i) for i in range(60)]
    assert 2 <= len(set(texts_of(model, repeats, batch_size=60).values())) <= 3
    greedy = [
        dataclasses.replace(each, settings=AnswerSettings(max_output_tokens=1)) for each in repeats
    ]
    assert len(set(texts_of(model, greedy).values())) == 1, "temperature 0 overrules them"


def test_padding_is_not_penalised_as_said(tmp_path: Path) -> None:
    """With the padding token among those that end an answer, a padded row would end later."""
    folder = save_tiny("qwen2_vl", tmp_path, repetition_penalty=1.8)
    model = load_tiny(folder)
    model.engine.__dict__["end_ids"] = [*model.engine.end_ids, model.engine.pad_id]
    requests = ask_tiny(7, AnswerSettings(max_output_tokens=16))
    alone = texts_of(model, requests, batch_size=1)
    assert texts_of(model, requests, batch_size=7) == alone
    inputs = plain_inputs(model, requests[3].messages)
    made = model.engine.network.generate(
        **inputs, max_new_tokens=16, do_sample=False, eos_token_id=model.engine.end_ids
    )
    theirs = made[0, inputs["input_ids"].shape[1] :]
    theirs = [each for each in theirs.tolist() if each not in model.engine.end_ids]
    assert alone["item-3"] == model.engine.tokeniser.decode(theirs).strip()


def test_a_stop_string_ends_the_answer_before_itself(model: LocalModel) -> None:
    free = answers_of(model, ask_tiny(7, AnswerSettings(max_output_tokens=24)))
    name, whole = max(((k, a.text) for k, a in free.items()), key=lambda pair: len(pair[1]))
    stop = whole[4:6]
    stopped = answers_of(model, ask_tiny(7, AnswerSettings(max_output_tokens=24, stop=(stop, "☃"))))
    assert stopped[name].text == whole[: whole.index(stop)].strip()
    assert stopped[name].outcome == "ok"
    assert stopped[name].finish_reason == "stop"
    before, after = free[name].usage, stopped[name].usage
    assert before is not None and after is not None and after.tokens_out < before.tokens_out
    for each in free:
        assert stopped[each].text == free[each].text.split(stop)[0].strip()


def test_probabilities_of_the_answers_tokens(model: LocalModel) -> None:
    requests = ask_tiny(4, AnswerSettings(max_output_tokens=5, top_logprobs=3))
    got = answers_of(model, requests, batch_size=4)
    for request in requests:
        ids = plain_answer(model, request.messages, 5)
        logprobs = plain_logprobs(model, plain_inputs(model, request.messages), ids)
        said = [each for each in ids if each not in model.engine.end_ids]
        assert len(got[request.id].logprobs) == len(said)
        for chance, token, row in zip(got[request.id].logprobs, said, logprobs, strict=False):
            assert chance.logprob == pytest.approx(float(row[token]), abs=1e-4)
            assert [value for _, value in chance.top] == pytest.approx(
                row.topk(3).values.tolist(), abs=1e-4
            )
            assert chance.top[0][0] == chance.token


def test_a_rerun_reads_the_journal_and_no_weights(model: LocalModel, tmp_path: Path) -> None:
    with AnswerJournal(tmp_path) as journal:
        first = answers_of(model, ask_tiny(5), journal=journal)
    again = load_tiny(model.engine.folder)
    with AnswerJournal(tmp_path) as journal:
        got: dict[str, Answer] = {}
        tally = ask_local(again, ask_tiny(5)[::-1], collect(got), journal)
    assert tally.n_replayed == 5
    assert tally.n_attempts == 0
    assert "network" not in vars(again.engine), "no weights were loaded"
    for name, answer in first.items():
        assert got[name] == dataclasses.replace(answer, is_replayed=True)


def test_the_same_question_twice_is_asked_once(model: LocalModel, tmp_path: Path) -> None:
    (question,) = ask_tiny(1)
    twins = [dataclasses.replace(question, id=name) for name in ("a", "b")]
    got: dict[str, Answer] = {}
    tally = ask_local(model, twins, collect(got))
    assert tally.n_attempts == 1
    assert tally.n == 2
    assert got["a"].text == got["b"].text


def test_what_cannot_be_asked_fails_alone(model: LocalModel, tmp_path: Path) -> None:
    settings = AnswerSettings(max_output_tokens=4)
    room = model.context or 0
    bad = [
        Request("broken", (user("Which?", Picture(b"no image", name="broken.jpg")),), settings),
        Request("long", (user("word " * room, photo(1)),), settings),
    ]
    good = ask_tiny(3, settings)
    with AnswerJournal(tmp_path) as journal:
        got: dict[str, Answer] = {}
        tally = ask_local(model, [bad[0], *good, bad[1]], collect(got), journal, batch_size=5)
        assert len(journal) == 3
    assert tally.outcomes["failed"] == 2
    assert got["broken"].error.startswith("broken.jpg")
    assert f"exceed the context of {room:,}" in got["long"].error
    alone = texts_of(model, good, batch_size=1)
    assert {each.id: got[each.id].text for each in good} == alone


def test_many_failures_stop_the_run(model: LocalModel) -> None:
    bad = [Request(f"b{n}", (user(Picture(b"no image")),)) for n in range(40)]
    got: dict[str, Answer] = {}
    with pytest.raises(ModelError, match="15 requests in a row failed, the last: picture"):
        ask_local(model, bad, collect(got))
    assert len(got) == 15


def test_too_little_memory_halves_the_batch(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    sizes: list[int] = []
    network = model.engine.network
    generate = network.generate

    def cramped(*args: Any, **inputs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return generate(*args, **inputs)

    expected = texts_of(model, ask_tiny(7), batch_size=1)
    monkeypatch.setattr(network, "generate", cramped)
    assert texts_of(model, ask_tiny(7), batch_size=7) == expected
    assert sizes == [7, 3, *[1] * 7], "the smaller size is kept"


def test_one_prompt_beyond_memory_fails_alone(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    network = model.engine.network
    generate, most = network.generate, 95

    def cramped(*args: Any, **inputs: Any) -> Any:
        if inputs["input_ids"].shape[1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return generate(*args, **inputs)

    monkeypatch.setattr(network, "generate", cramped)
    got = answers_of(model, ask_tiny(7), batch_size=7)
    for request in ask_tiny(7):
        is_long = model.engine.count(request.messages) > most
        assert got[request.id].outcome in (("failed",) if is_long else ("ok", "length"))
    assert "too little memory" in next(a.error for a in got.values() if a.error)


def test_pictures_are_upright_and_cut(model: LocalModel) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    data = make_jpeg(3, (80, 60), exif=turned)
    with Image.open(io.BytesIO(data)) as raw:
        upright = raw.convert("RGB").transpose(Image.Transpose.ROTATE_270)

    def png(image: Image.Image) -> bytes:
        target = io.BytesIO()
        image.save(target, "PNG")
        return target.getvalue()

    words, box = ["wren", "robin"], (10, 20, 30, 40)
    whole = model.score([user("Which?", Picture(data))], words)
    assert whole == model.score([user("Which?", Picture(png(upright)))], words)
    cut = model.score([user("Which?", Picture(data, crop=box))], words)
    assert cut == model.score([user("Which?", Picture(png(upright.crop((10, 20, 40, 60)))))], words)
    assert cut != whole
    asked = [
        Request(str(c), (user("Which?", Picture(data, name="a", crop=c)),)) for c in (None, box)
    ]
    keys = {answer.key for answer in answers_of(model, asked).values()}
    assert len(keys) == 2, "another crop is another question"


def test_a_batch_of_none_is_refused(model: LocalModel) -> None:
    with pytest.raises(UsageError, match="concurrency = 0, expected more than 0"):
        ask_local(model, ask_tiny(1), batch_size=0)


def test_no_requests_no_answers(model: LocalModel) -> None:
    assert ask_local(model, []).n == 0
    assert model.likelihoods([]) == []
