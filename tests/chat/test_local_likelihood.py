"""Are greedy flags and the likelihood of bare texts those of a plain reading, and is each kept?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerJournal,
    AnswerSettings,
    Budget,
    LocalModel,
    Options,
    Picture,
    Request,
    ask_now,
    chat_model,
    user,
)
from fieldmark.chat.messages import Likelihood
from fieldmark.errors import ModelError, UsageError
from kit.chat import collect
from kit.tiny_asks import (
    ask_local,
    plain_answer,
    plain_inputs,
    plain_logprobs,
    rolling,
    score_all,
    shots,
)
from kit.tiny_chat import KINDS, load_tiny, save_tiny

pytest.importorskip("transformers")

WORDS = ("wren", " robin", "A", "B", "wren bird", "é☃")
TEXT = "The wren is a bird. Is a robin a bird? Yes: é☃, the robin is a bird and no wren is a robin."


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load_tiny(save_tiny(request.param, tmp_path_factory.mktemp("tiny") / request.param))


def plain(model: LocalModel, messages: Any, continuation: str) -> Likelihood:
    ids = model.engine.tokeniser(continuation, add_special_tokens=False)["input_ids"]
    rows = plain_logprobs(model, plain_inputs(model, messages), ids)
    total = sum(float(rows[place, token]) for place, token in enumerate(ids))
    is_greedy = all(int(rows[place].argmax()) == token for place, token in enumerate(ids))
    return Likelihood(total, is_greedy, len(ids))


def plain_next(model: LocalModel, seen: list[int], token: int) -> tuple[float, bool]:
    """Log-probability of one token after others, in a reading for it alone."""
    import torch

    ids = torch.tensor([seen], device=model.engine.device)
    with torch.no_grad():
        row = model.engine.network(input_ids=ids, use_cache=False).logits[0, -1].float()
    return float(row.log_softmax(-1)[token]), int(row.argmax()) == token


def plain_rolling(model: LocalModel, text: str, room: int) -> float:
    """Token by token: after the begin token, in windows of `room`, the last one as far back as it
    reaches.
    """
    tokeniser = model.engine.tokeniser
    ids = tokeniser(text, add_special_tokens=False)["input_ids"]
    begin = tokeniser.bos_token_id if tokeniser.bos_token_id is not None else tokeniser.eos_token_id
    whole, total = [begin, *ids], 0.0
    for place, token in enumerate(ids):
        end = min((place // room + 1) * room, len(ids))
        total += plain_next(model, whole[max(0, end - room) : place + 1], token)[0]
    return total


def same(one: Likelihood, other: Likelihood) -> bool:
    return one.logprob == pytest.approx(other.logprob, abs=3e-4) and (
        (one.is_greedy, one.n_tokens) == (other.is_greedy, other.n_tokens)
    )


def test_greedy_flags_are_those_of_a_plain_reading(model: LocalModel) -> None:
    items = [(shots(number), [*WORDS]) for number in range(7)]
    for messages, words in items:  # what the model itself would say, and that with another end
        ids = plain_answer(model, messages, 3)
        said = [model.engine.tokeniser.decode(ids[:n]) for n in range(1, len(ids) + 1)]
        words += [*said, said[-1] + "☃"]
    got = model.likelihoods(items, batch_size=5)
    expected = [[plain(model, messages, word) for word in words] for messages, words in items]
    for row, wanted in zip(got, expected, strict=True):
        assert all(same(*pair) for pair in zip(row, wanted, strict=True))
    flags = {each.is_greedy for row in expected for each in row}
    assert flags == {True, False}, "both happen"
    assert score_all(model, items, batch_size=5) == [[e.logprob for e in row] for row in got]


def test_a_bare_text_is_read_after_the_begin_token(model: LocalModel) -> None:
    (got,) = rolling(model, [TEXT])
    assert got == pytest.approx(plain_rolling(model, TEXT, 10_000), abs=1e-3)
    ((one,),) = model.likelihoods([((), (TEXT,))])
    assert one.logprob == got
    assert one.n_tokens == len(model.engine.tokeniser(TEXT, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("room", [7, 16, 23])
def test_a_text_beyond_the_context_is_read_in_windows(model: LocalModel, room: int) -> None:
    small = dataclasses.replace(model, context=room)
    n = len(model.engine.tokeniser(TEXT, add_special_tokens=False)["input_ids"])
    texts = [TEXT, TEXT[:20], "", "a", TEXT * 2]
    expected = [plain_rolling(model, text, room) for text in texts]
    assert n > room and expected[2] == 0.0
    for size in (1, 3, 16):
        assert rolling(small, texts, batch_size=size) == pytest.approx(expected, abs=2e-3)
    assert expected[0] != pytest.approx(rolling(model, texts)[0], abs=0.01), "windows matter"


def test_a_window_of_greedy_tokens_is_greedy(model: LocalModel) -> None:
    """Byte tokens, so that what the model writes is split again as it wrote it."""
    begin, ids = model.engine.begin_id, list[int]()
    for _ in range(2):
        found = max(range(33, 90), key=lambda t: plain_next(model, [begin, *ids], t)[0])
        ids.append(found)
    text = model.engine.tokeniser.decode(ids)
    flags = [plain_next(model, [begin, *ids[:n]], token)[1] for n, token in enumerate(ids)]
    ((got,),) = model.likelihoods([((), (text,))])
    assert got.is_greedy == all(flags)


def requests_of(n: int) -> list[Request]:
    asked = [Request(f"item-{i}", shots(i), continuations=WORDS[i % 3 :]) for i in range(n)]
    return [*asked, Request("bare", (), continuations=(TEXT, "wren"))]


def scored(
    model: LocalModel, requests: list[Request], **rest: Any
) -> tuple[dict[str, Answer], Any]:
    got: dict[str, Answer] = {}
    tally = ask_local(model, requests, on_answer=collect(got), **rest)
    return got, tally


def test_requests_are_scored_as_items_are(model: LocalModel) -> None:
    requests = requests_of(5)
    got, tally = scored(model, requests, batch_size=4)
    assert (tally.n, tally.outcomes) == (6, {"ok": 6})
    wanted = model.likelihoods([(each.messages, each.continuations) for each in requests])
    for request, row in zip(requests, wanted, strict=True):
        answer = got[request.id]
        assert all(same(*pair) for pair in zip(answer.likelihoods, row, strict=True))
        assert answer.usd == 0.0 and answer.text == ""
        assert answer.usage is not None and answer.usage.tokens_out == 0
        if request.messages:
            assert answer.usage.tokens_in >= model.engine.count(request.messages)


def test_a_rerun_scores_nothing_and_loads_no_weights(model: LocalModel, tmp_path: Path) -> None:
    requests = requests_of(4)
    with AnswerJournal(tmp_path) as journal:
        first, _ = scored(model, requests, journal=journal)
    again = load_tiny(model.engine.folder)
    with AnswerJournal(tmp_path) as journal:
        got, tally = scored(again, requests[::-1], journal=journal)
    assert (tally.n_replayed, tally.n_attempts) == (5, 0)
    assert "network" not in vars(again.engine), "no weights were loaded"
    assert got == {k: dataclasses.replace(a, is_replayed=True) for k, a in first.items()}


class Killed(Exception):
    pass


def test_a_killed_run_scores_the_rest_only(
    model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, seen = requests_of(11), list[str]()

    def die(request: Request, _: Answer) -> None:
        seen.append(request.id)
        if len(seen) == 5:
            raise Killed

    with pytest.raises(Killed):
        ask_local(model, requests, die, AnswerJournal(tmp_path), batch_size=2)
    read: list[int] = []
    forward = model.engine.forward

    def counted(inputs: Any, **rest: Any) -> Any:
        read.append(len(inputs["input_ids"]))
        return forward(inputs, **rest)

    with AnswerJournal(tmp_path) as journal:
        assert len(journal) == 5
        monkeypatch.setattr(model.engine, "forward", counted)
        got, tally = scored(model, requests, journal=journal, batch_size=2)
    assert tally.n_replayed == 5
    assert {name for name, answer in got.items() if answer.is_replayed} == set(seen)
    n_resumed = sum(read)
    read.clear()
    calm, _ = scored(model, requests, batch_size=2)
    assert 0 < n_resumed < sum(read), "what was kept is not read again"
    for name, answer in calm.items():
        pairs = zip(answer.likelihoods, got[name].likelihoods, strict=True)
        assert all(same(*pair) for pair in pairs)


def test_what_decides_a_score_is_its_key(model: LocalModel, tmp_path: Path) -> None:
    first = Request("a", shots(0), continuations=("wren", "robin"))
    bare = Request("b", (), continuations=(TEXT,))
    with AnswerJournal(tmp_path) as journal:
        scored(model, [first, bare], journal=journal)
        hot = dataclasses.replace(first, settings=AnswerSettings(temperature=1.0), repeat=3)
        assert scored(model, [hot], journal=journal)[1].n_replayed == 1, "nothing is drawn"
        other = dataclasses.replace(first, continuations=("robin", "wren"))
        asked = dataclasses.replace(first, continuations=())
        got: dict[str, Answer] = {}
        assert scored(model, [other], journal=journal)[1].n_replayed == 0
        assert ask_local(model, [asked], collect(got), journal).n_replayed == 0
        small = dataclasses.replace(model, context=9)
        assert scored(small, [bare], journal=journal)[1].n_replayed == 0, "other windows"
        assert scored(small, [first], journal=journal)[1].outcomes == {"ok": 1}, "kept already"


def test_what_cannot_be_scored_fails_alone(model: LocalModel, tmp_path: Path) -> None:
    room = model.context or 0
    broken = Picture(b"no image", name="broken.jpg")
    bad = [
        Request("broken", (user("Which?", broken),), continuations=("wren",)),
        Request("long", (user("word " * room),), continuations=("wren",)),
        Request("empty", (user("Which?"),), continuations=("wren", "")),
    ]
    with AnswerJournal(tmp_path) as journal:
        got, tally = scored(model, [bad[0], *requests_of(2), *bad[1:]], journal=journal)
        assert len(journal) == 3
    assert tally.outcomes == {"failed": 3, "ok": 3}
    assert got["broken"].error.startswith("broken.jpg")
    assert f"exceeds the context of {room:,}" in got["long"].error
    assert "continuation '' has no tokens" in got["empty"].error


def test_equal_requests_are_scored_once_and_words_beside_them(model: LocalModel) -> None:
    first = Request("a", shots(0), continuations=("wren",))
    twin = dataclasses.replace(first, id="b")
    asked = Request("c", shots(0), AnswerSettings(max_output_tokens=2))
    got: dict[str, Answer] = {}
    tally = ask_local(model, [first, asked, twin], collect(got))
    assert (tally.n, tally.n_attempts) == (3, 2)
    assert got["a"].likelihoods == got["b"].likelihoods != ()
    assert got["c"].likelihoods == ()


def test_a_budget_of_tokens_ends_the_scoring(model: LocalModel) -> None:
    got: dict[str, Answer] = {}
    with pytest.raises(ModelError, match=r"^the budget is used up .* kept\. Run the same command"):
        ask_now(requests_of(9), model, Options(1), None, Budget(max_tokens=150), collect(got))
    assert 0 < len(got) < 10


def test_who_cannot_score_says_so() -> None:
    with pytest.raises(UsageError, match="gives no likelihoods of given answers"):
        ask_now(requests_of(1), chat_model("chat/mock/wren"))
