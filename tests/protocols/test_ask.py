"""Is a chat model asked, paid, stopped, read and scored as promised, from command to store?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark.chat import Budget, Options
from fieldmark.cli import main
from fieldmark.data import load_dataset
from fieldmark.errors import FieldmarkError
from fieldmark.experiments import ExecuteOptions
from fieldmark.protocols.ask.answers import decide
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.ask import (
    WREN,
    Doorman,
    Parrot,
    ask,
    carry_out,
    command,
    facts_of,
    journalled,
    n_pictures,
    texts_of,
    wholes,
)
from kit.chat import running
from kit.made import make_dataset

FAST = Options(backoff_s=0.001, backoff_cap_s=0.01, max_attempts=2)
PRICED = """[[chat_models]]
provider = "mock"
id = "wren"
usd_in = 1.0
usd_out = 4.0
"""
BLIND = """[[chat_models]]
provider = "mock"
id = "bat"
sees = false
"""
SECRET = "sk-never-to-be-seen-4711"


@pytest.fixture
def settings(fresh_settings: Settings) -> Settings:
    return fresh_settings


# -- outcomes -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_refused_cut_and_unclear_answers_are_outcomes_of_their_own(settings: Settings) -> None:
    found = ask(settings, "chat/mock/wren?skill=1&p_refuse=0.3&p_length=0.3&p_unclear=0.2")
    rows, rates = found.predictions, wholes(found.scores)
    n = Counter(rows["outcome"])
    assert set(n) == {"ok", "refused", "length"} and min(n.values()) > 0
    assert rows.filter(pl.col("outcome") != "ok")["prediction"].is_null().all()
    assert found.score.value == n["ok"] / len(rows) and found.score.n == len(rows), "else wrong"
    assert rates["among_answered"] == 1.0 and rates["answered_rate"] == n["ok"] / len(rows)
    assert rates["refusal_rate"] == n["refused"] / len(rows)
    assert rates["parse_success_rate"] == n["ok"] / len(rows)
    assert rates["failure_rate"] == 0
    said = dict(zip(rows["id"], facts_of(found), strict=True))
    cut = [said[each] for each in rows.filter(pl.col("outcome") == "length")["id"]]
    assert all(each["finish_reason"] == "length" and each["text"] for each in cut)


def test_an_answer_that_names_nothing_is_unparsed_and_its_words_are_kept(
    settings: Settings,
) -> None:
    with running(Parrot("What a lovely picture!", "", "Answer: A")) as url:
        found = ask(settings, f"chat/mock/wren?base_url={url}")
    n = Counter(found.predictions["outcome"])
    assert n["unparsed"] >= 2 * n["ok"] - 1 > 0
    texts = {each.get("text", "") for each in facts_of(found)}
    assert texts == {"What a lovely picture!", "", "Answer: A"}
    assert wholes(found.scores)["parse_success_rate"] == n["ok"] / len(found.predictions)


def test_half_a_character_is_stored_and_read(settings: Settings) -> None:
    """JSON can say half an emoji; UTF-8, and so a store, cannot."""
    with running(Parrot("ant \ud83d", "Answer: A", "\udc00\ud83d")) as url:
        found = ask(settings, f"chat/mock/wren?base_url={url}", n_test=6)
        assert ask(settings, f"chat/mock/wren?base_url={url}", n_test=6).run.id == found.run.id
    texts = {each.get("text", "") for each in facts_of(found)}
    assert texts == {"ant \ufffd", "Answer: A", "\ufffd\ufffd"}
    assert set(found.predictions["outcome"]) == {"ok", "unparsed"}


def test_failed_requests_are_wrong_and_never_kept(settings: Settings) -> None:
    outcome = carry_out(
        settings, "chat/mock/wren?skill=1&p_500=0.6", ExecuteOptions(shared={"sending": FAST})
    )
    assert outcome.n_done == 1
    with Store.open(settings.store) as store:
        rows, scores = store.predictions(1), wholes(store.scores()[1])
    n = Counter(rows["outcome"])
    assert set(n) == {"ok", "failed"}
    assert scores["failure_rate"] == n["failed"] / len(rows)
    assert scores["accuracy"] == n["ok"] / len(rows) and scores["among_answered"] == 1
    assert len(journalled(settings)) == n["ok"]
    why = [json.loads(text)["error"] for text in rows.filter(pl.col("outcome") == "failed")["info"]]
    assert all("500" in each for each in why)


def test_too_many_failures_stop_the_run_with_the_code_of_models(settings: Settings) -> None:
    outcome = carry_out(
        settings, "chat/mock/wren?p_500=1", ExecuteOptions(shared={"sending": FAST})
    )
    (failure,) = outcome.failures
    assert failure.exit_code == 4 and "\n" not in failure.error
    with Store.open(settings.store) as store:
        assert [run.state for run in store.runs()] == [], "nothing was ever answered"
        assert store.predictions(1).is_empty()


@pytest.mark.slow
def test_a_storm_of_faults_loses_no_item(settings: Settings) -> None:
    storm = "chat/mock/wren?skill=1&p_429=0.3&p_cut=0.05&p_500=0.05&p_junk=0.02&p_error_body=0.05"
    sending = Options(backoff_s=0.001, backoff_cap_s=0.01, max_attempts=6)
    assert (
        carry_out(settings, storm, ExecuteOptions(shared={"sending": sending}), repeats=5).n_done
        == 1
    )
    calm = ask(settings, "chat/mock/wren?skill=1", repeats=5).predictions
    with Store.open(settings.store) as store:
        (run,) = (each for each in store.runs() if "p_429" in each.spec.model)
        rows = store.predictions(run.id)
    assert rows.select("repeat", "id", "target").equals(calm.select("repeat", "id", "target"))
    assert set(rows["outcome"]) <= {"ok", "failed"}
    read = rows.filter(pl.col("outcome") == "ok")
    assert (read["prediction"] == read["target"]).all() and len(read) > 0.9 * len(rows)
    assert max(json.loads(text)["attempts"] for text in read["info"]) > 2


@pytest.mark.parametrize(
    ("labels", "decides"),
    [
        (["a", "a", "a"], 0),
        (["a", None, "b"], 2),
        ([None, "a", "a"], 0),
        (["a", "a", None], 2),
        (["b", "c", "a"], 0),
    ],
)
def test_of_all_turns_a_wrong_one_decides_before_a_silent_one(
    labels: list[str | None], decides: int
) -> None:
    assert decide(labels, "a") == decides


# -- money ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [("--max-usd", "0.008"), ("--max-tokens", "4000")])
def test_a_cap_stops_the_run_and_more_money_goes_on_from_there(
    cap: tuple[str, str],
    world: Path,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("fieldmark.toml").write_text(PRICED)
    assert main(command(world, "--model", WREN, *cap)) == 4
    told = [line for line in capsys.readouterr().err.splitlines() if "budget" in line]
    assert len(told) == 1 and "kept. Run the same command to continue: it may" in told[0]
    n_before = len(journalled(settings))
    assert n_before > 0
    assert main(command(world, "--model", WREN, cap[0], "99999")) == 0
    capsys.readouterr()
    every = journalled(settings)
    with Store.open(settings.store) as store:
        (run,) = store.runs()
        rows = store.predictions(run.id)
        rates = wholes(store.scores()[run.id])
    assert n_before < len(every) == len(rows) and set(every.values()) == {1}
    paid = sum(json.loads(text)["usd"] for text in rows["info"])
    assert rates["usd_per_answer"] == pytest.approx(paid / len(rows))


def test_a_cap_in_money_needs_a_price(
    world: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world, "--model", WREN, "--max-usd", "1")) == 2
    assert "price of chat/mock/wren is unknown" in capsys.readouterr().err
    assert not journalled(settings)


def test_repeats_are_paid_once_each(settings: Settings) -> None:
    Path("fieldmark.toml").write_text(PRICED)
    found = ask(settings, repeats=3)
    rows = found.predictions
    assert set(rows["repeat"]) == {0, 1, 2}
    paid = sum(each["usd"] for each in facts_of(found))
    assert wholes(found.scores)["usd_per_answer"] == pytest.approx(paid / len(rows))
    assert sum(journalled(settings).values()) == len(rows)


def test_turned_options_are_paid_by_the_answer(settings: Settings) -> None:
    Path("fieldmark.toml").write_text(PRICED)
    found = ask(settings, task="world-stage", circular=True, n_test=5)
    paid = sum(each["usd"] for each in facts_of(found))
    n_answers = sum(journalled(settings).values())
    assert n_answers == 2 * len(found.predictions) == 10
    assert wholes(found.scores)["usd_per_answer"] == pytest.approx(paid / n_answers)


def test_traits_are_paid_by_the_answer(settings: Settings, tmp_path: Path) -> None:
    Path("fieldmark.toml").write_text(PRICED)
    make_dataset("fishvista", tmp_path / "fishvista", 40)
    found = ask(settings, task="fishvista", n_test=3)
    answers = sum(journalled(settings).values())
    rows = found.predictions
    assert answers == rows["id"].n_unique() < len(rows)
    texts = rows.unique("id")["info"]
    paid = sum(json.loads(text)["usd"] for text in texts)
    assert wholes(found.scores)["usd_per_answer"] == pytest.approx(paid / answers)


def test_one_budget_serves_all_runs(settings: Settings) -> None:
    budget = Budget(max_tokens=10**7)
    carry_out(settings, WREN, ExecuteOptions(shared={"budget": budget}))
    first = budget.spent_tokens
    carry_out(settings, WREN, ExecuteOptions(shared={"budget": budget}), n_train=1)
    assert 0 < first < budget.spent_tokens


# -- how it is asked ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_train", [0, 3, -1])
def test_examples_are_training_images_only(settings: Settings, n_train: int) -> None:
    found = ask(settings, n_train=n_train, n_test=5)
    ids = set(found.predictions["id"])
    for each in facts_of(found):
        shown = each.get("examples", [])
        assert len(set(shown)) == len(shown) == each.get("k_used", 0)
        assert not ids & set(shown)
        assert (len(shown) > 3) if n_train < 0 else (len(shown) == n_train)


def test_examples_are_drawn_balanced_or_uniform(settings: Settings, world: Path) -> None:
    table = load_dataset("world").table(world).filter(pl.col("question") == "stage")
    stage = dict(table.select("id", "stage").iter_rows())
    spread = {}
    for sampling in ("balanced", "uniform"):
        found = ask(settings, task="world-stage", n_train=4, sampling=sampling, n_test=12)
        spread[sampling] = [Counter(stage[i] for i in f["examples"]) for f in facts_of(found)]
    assert all(set(each.values()) == {2} for each in spread["balanced"])
    assert any(set(each.values()) != {2} for each in spread["uniform"])


def test_settings_change_the_prompt_and_make_runs_of_their_own(settings: Settings) -> None:
    parrot = Parrot("Answer: A")
    seen: dict[str, list[dict[str, Any]]] = {}
    variants: dict[str, dict[str, Any]] = {
        "plain": {},
        "cot": {"cot_enabled": True},
        "line": {"answers": "line", "cot_enabled": True},
        "multi": {"prompting": "multi"},
        "prefix": {"shared_prefix": True},
        "thoughtful": {"effort": "low"},
        "extra": {"extra": {"provider": {"quantizations": ["fp8"]}, "detail": "low"}},
        "warm": {"temp": 0.7},
    }
    with running(parrot) as url:
        for name, how in variants.items():
            ask(settings, f"chat/mock/wren?base_url={url}", n_train=2, n_test=4, **how)
            seen[name], parrot.bodies = parrot.bodies, []
    assert all(len(bodies) == 4 for bodies in seen.values()), "none is taken for another"
    assert all(n_pictures(body) == 3 for bodies in seen.values() for body in bodies)
    assert "First say" in texts_of(seen["line"][0]) and "reasons" in texts_of(seen["cot"][0])
    assert seen["cot"][0]["max_tokens"] > seen["plain"][0]["max_tokens"]
    assert [m["role"] for m in seen["multi"][0]["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert len(seen["plain"][0]["messages"]) == 1
    shared = {json.dumps(body["messages"][0]["content"][:4]) for body in seen["prefix"]}
    own = {json.dumps(body["messages"][0]["content"][:4]) for body in seen["plain"]}
    assert len(shared) == 1 < len(own)
    assert "response_format" in seen["plain"][0]
    assert "response_format" not in seen["line"][0]
    assert seen["thoughtful"][0]["reasoning_effort"] == "low"
    assert seen["thoughtful"][0]["max_tokens"] > 10_000, "room to think"
    assert seen["extra"][0]["provider"] == {"quantizations": ["fp8"]}
    assert '"detail": "low"' in json.dumps(seen["extra"][0]["messages"])
    assert "detail" not in seen["extra"][0]
    assert {seen["warm"][0]["temperature"], seen["plain"][0]["temperature"]} == {0.7, 0}
    with Store.open(settings.store) as store:
        assert len(store.runs()) == len(variants)


def test_a_setting_that_is_the_default_makes_no_other_run(settings: Settings) -> None:
    first = ask(settings, n_test=3)
    again = ask(settings, n_test=3, cot_enabled=False, temp=0.0, prompting="single", answers="auto")
    assert first.run.id == again.run.id
    with pytest.raises(FieldmarkError, match="max_output = 0: expected a whole number"):
        ask(settings, n_test=3, max_output=0)
    with pytest.raises(FieldmarkError, match="'cot' is not known. Did you mean 'cot_enabled'?"):
        ask(settings, n_test=3, cot=True)
    with pytest.raises(FieldmarkError, match="temp = 9: expected a number, 0 to 2"):
        ask(settings, n_test=3, temp=9)


@pytest.mark.parametrize(
    "how",
    [{"cot_enabled": True}, {"answers": "json"}, {"answers": "line"}, {"shared_prefix": True},
     {"circular": True}, {"answers": "line", "cot_enabled": True}],
)  # fmt: skip
def test_a_model_that_sees_is_right_however_it_is_asked(
    settings: Settings, how: dict[str, Any]
) -> None:
    found = ask(settings, "chat/mock/wren?skill=1", n_train=2, n_test=4, **how)
    assert found.score.value == 1.0 and found.score.n == 4


def test_circular_is_right_only_when_right_in_all_turns(settings: Settings) -> None:
    with running(Parrot("Answer: A")) as url:
        found = ask(settings, f"chat/mock/wren?base_url={url}", "world-stage", circular=True)
        plain = ask(settings, f"chat/mock/wren?base_url={url}", "world-stage")
    assert found.score.value == 0, "who always says A is right in one turn of two"
    assert 0 < plain.score.value < 1
    assert all(len(each["turns"]) == 2 for each in facts_of(found))
    assert len(found.predictions) == len(plain.predictions)


def test_pairs_are_same_or_different(settings: Settings, tmp_path: Path) -> None:
    make_dataset("beluga", tmp_path / "beluga", 60)
    found = ask(settings, "chat/mock/wren?skill=1", "beluga")
    assert set(found.predictions["target"]) == {"same", "different"}
    assert found.score.value == 1.0
    with pytest.raises(FieldmarkError, match="pairs of pictures are asked without examples"):
        ask(settings, task="beluga", n_train=3)


def test_a_task_without_any_pair_is_refused(settings: Settings) -> None:
    with pytest.raises(FieldmarkError, match="pairs need two pictures of one"):
        ask(settings, task="world-individuals", n_test=1)
    assert not settings.results.exists()


@pytest.mark.parametrize(("dataset", "most"), [("kabr", 9), ("fishvista", 1)])
def test_clips_are_frames_and_traits_are_asked_once(
    settings: Settings, tmp_path: Path, dataset: str, most: int
) -> None:
    make_dataset(dataset, tmp_path / dataset, 40)
    parrot = Parrot("Answer: A")
    with running(parrot) as url:
        found = ask(settings, f"chat/mock/wren?base_url={url}", dataset, n_test=3)
    rows = found.predictions
    n_items = rows["id"].n_unique()
    assert len(parrot.bodies) == n_items
    assert max(map(n_pictures, parrot.bodies)) <= most
    if dataset == "kabr":
        assert min(map(n_pictures, parrot.bodies)) > 1
    else:
        assert rows["part"].n_unique() > 1 and len(rows) > n_items


# -- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        ("chat/openruter/x", 2, "Did you mean 'openrouter'?"),
        ("chat/openai/gpt-4o", 4, "OPENAI_API_KEY"),
        ("chat/mock/bat", 2, "cannot see images"),
        ("chat/mock/wren?skil=1", 2, "Did you mean 'skill'?"),
    ],
)
def test_a_model_that_cannot_be_asked_gets_one_line(
    model: str,
    code: int,
    words: str,
    world: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("fieldmark.toml").write_text(BLIND)
    assert main(command(world, "--model", model)) == code
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fieldmark:")]
    assert len(told) == 1 and words in told[0]


def test_plan_refuses_a_model_that_takes_no_images(
    world: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fieldmark.toml").write_text(BLIND)
    main(["plan", *command(world, "--model", "chat/mock/bat", "--json")[1:]])
    assert "cannot see images" in capsys.readouterr().out
    assert not settings.results.exists()


def test_a_key_is_sent_and_kept_nowhere(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    parrot = Parrot("Answer: B")
    with running(parrot) as url:
        ask(settings, f"chat/mock/wren?base_url={url}&key_env=MY_KEY", n_test=3)
    assert parrot.keys == {f"Bearer {SECRET}"}
    with running(Doorman()) as url, pytest.raises(FieldmarkError) as refused:
        ask(settings, f"chat/mock/wren?base_url={url}&key_env=MY_KEY", n_test=3)
    assert refused.value.exit_code == 4 and SECRET not in str(refused.value)
    for path in settings.results.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_with_and_without_examples_a_model_is_asked_in_one_way(settings: Settings) -> None:
    """A curve over the number of examples begins at none."""
    runs = [ask(settings, n_train=n, n_test=3).run for n in (0, 2)]
    assert runs[0].spec.settings == runs[1].spec.settings
