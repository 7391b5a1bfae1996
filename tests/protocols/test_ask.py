"""Is a chat model asked, paid, stopped, read and scored as promised, from command to store?"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from aiohttp import web

from fieldmark.chat import Budget, Journal, MockServer, Options
from fieldmark.cli import main
from fieldmark.data import load_dataset
from fieldmark.data.world import World
from fieldmark.errors import FieldmarkError
from fieldmark.experiments import Axes, How, evaluate, execute, make_jobs, make_plan, rescore
from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.store import PartResult, Predictions, RunFilter, Store

FAST = Options(backoff_s=0.001, backoff_cap_s=0.01, max_attempts=2)
TASK, WREN = "world-species", "chat/mock/wren?skill=0.7"
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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    load_dataset("world").make(root, World(), 150)
    return root


@pytest.fixture
def settings(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    return Settings(
        results=tmp_path / "results",
        cache=tmp_path / "cache",
        data={"world": world},
        data_root=tmp_path,
    )


def ask(settings: Settings, model: str = WREN, task: str = TASK, **axes: Any) -> Any:
    how = {name: axes.pop(name) for name in list(axes) if name not in Axes.__dataclass_fields__}
    return evaluate(model, task, settings=settings, ask=tuple(how.items()), **axes)


def facts_of(found: Any) -> list[dict[str, Any]]:
    return [json.loads(text) for text in found.predictions["info"]]


def wholes(scores: Any) -> dict[str, float]:
    return {score.metric: score.value for score in scores if not score.part}


def journalled(settings: Settings) -> Counter[str]:
    """Key → how many times its answer came from the endpoint."""
    lines = [
        line
        for path in (settings.results / "journal").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return Counter(json.loads(line)["key"] for line in lines)


@contextmanager
def running(server: MockServer) -> Iterator[str]:
    """The server in a thread of its own; gives its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Parrot(MockServer):
    """Says given texts in turn, and keeps what it was asked and with which key."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.texts, self.bodies, self.keys = texts, list[dict[str, Any]](), set[str]()

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        self.keys.add(request.headers.get("Authorization", ""))
        return await super()._answer(request, data)

    def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
        found = super().reply(data, digest)
        text = self.texts[len(self.bodies) % len(self.texts)]
        self.bodies.append(json.loads(data))
        found["choices"][0]["message"]["content"] = text
        return found


class Doorman(MockServer):
    """Lets nobody in, and says aloud which key was shown."""

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "")
        error = {"error": {"message": f"Incorrect API key provided: {shown}", "code": 401}}
        return web.json_response(error, status=401)


def texts_of(body: dict[str, Any]) -> str:
    parts = [message["content"] for message in body["messages"]]
    return "\n".join(
        each if isinstance(each, str) else "\n".join(p["text"] for p in each if "text" in p)
        for each in parts
    )


def n_pictures(body: dict[str, Any]) -> int:
    return json.dumps(body).count('"image_url": {')


# -- outcomes -------------------------------------------------------------------------------------


def test_refused_cut_and_unclear_answers_are_outcomes_of_their_own(settings: Settings) -> None:
    found = ask(settings, "chat/mock/wren?skill=1&p_refuse=0.3&p_length=0.3&p_unclear=0.2")
    rows, rates = found.predictions, wholes(found.scores)
    n = Counter(rows["outcome"])
    assert set(n) == {"ok", "refused", "length"} and min(n.values()) > 0
    assert rows.filter(pl.col("outcome") != "ok")["prediction"].is_null().all()
    assert found.score.value == 1.0 and found.score.n == n["ok"], "only what was read is scored"
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


def carry_out(settings: Settings, model: str, how: How, **axes: Any) -> Any:
    single = {name: (value,) for name, value in axes.items()}
    plan = make_plan(make_jobs([(model, "", "")], [(TASK, "")], Axes(**single)), settings)
    return execute(plan, settings, Silent(), how)


def test_failed_requests_are_never_scored_nor_kept(settings: Settings) -> None:
    outcome = carry_out(settings, "chat/mock/wren?skill=1&p_500=0.6", How(sending=FAST))
    assert outcome.n_done == 1
    with Store.open(settings.store) as store:
        rows, scores = store.predictions(1), wholes(store.scores()[1])
    n = Counter(rows["outcome"])
    assert set(n) == {"ok", "failed"}
    assert scores["failure_rate"] == n["failed"] / len(rows) and scores["accuracy"] == 1
    assert len(journalled(settings)) == n["ok"]
    why = [json.loads(text)["error"] for text in rows.filter(pl.col("outcome") == "failed")["info"]]
    assert all("500" in each for each in why)


def test_too_many_failures_stop_the_run_with_the_code_of_models(settings: Settings) -> None:
    outcome = carry_out(settings, "chat/mock/wren?p_500=1", How(sending=FAST))
    (failure,) = outcome.failures
    assert failure.exit_code == 4 and "\n" not in failure.error
    with Store.open(settings.store) as store:
        assert [run.state for run in store.runs()] == ["failed"]
        assert store.predictions(1).is_empty()


# -- money ----------------------------------------------------------------------------------------


def command(world: Path, *more: str) -> list[str]:
    return ["run", "--task", TASK, "--data", f"world={world}", *more]


@pytest.mark.parametrize("cap", [("--max-usd", "0.004"), ("--max-tokens", "4000")])
def test_a_cap_stops_the_run_and_more_money_goes_on_from_there(
    cap: tuple[str, str],
    world: Path,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("fieldmark.toml").write_text(PRICED)
    assert main(command(world, "--model", WREN, *cap)) == 4
    told = [line for line in capsys.readouterr().err.splitlines() if "budget" in line]
    assert len(told) == 1 and "the same command with more goes on from there" in told[0]
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


def test_one_budget_serves_all_runs(settings: Settings) -> None:
    budget = Budget(max_tokens=10**7)
    carry_out(settings, WREN, How(budget=budget))
    first = budget.spent_tokens
    carry_out(settings, WREN, How(budget=budget), n_train=1)
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
        assert (len(shown) > 20) if n_train < 0 else (len(shown) == n_train)


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
        "multi": {"prompting": "multi"},
        "prefix": {"shared_prefix": True},
        "json": {"json_answers": True},
        "warm": {"temp": 0.7},
    }
    with running(parrot) as url:
        for name, how in variants.items():
            ask(settings, f"chat/mock/wren?base_url={url}", n_train=2, n_test=4, **how)
            seen[name], parrot.bodies = parrot.bodies, []
    assert all(len(bodies) == 4 for bodies in seen.values()), "none is taken for another"
    assert all(n_pictures(body) == 3 for bodies in seen.values() for body in bodies)
    assert "First say" in texts_of(seen["cot"][0])
    assert seen["cot"][0]["max_tokens"] > seen["plain"][0]["max_tokens"]
    assert [m["role"] for m in seen["multi"][0]["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert len(seen["plain"][0]["messages"]) == 1
    shared = {json.dumps(body["messages"][0]["content"][:4]) for body in seen["prefix"]}
    own = {json.dumps(body["messages"][0]["content"][:4]) for body in seen["plain"]}
    assert len(shared) == 1 < len(own)
    assert "response_format" in seen["json"][0]
    assert {seen["warm"][0]["temperature"], seen["plain"][0]["temperature"]} == {0.7, 0}
    with Store.open(settings.store) as store:
        assert len(store.runs()) == len(variants)


@pytest.mark.parametrize("how", ["cot_enabled", "json_answers", "shared_prefix", "circular"])
def test_a_model_that_sees_is_right_however_it_is_asked(settings: Settings, how: str) -> None:
    found = ask(settings, "chat/mock/wren?skill=1", n_train=2, n_test=4, **{how: True})
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
    load_dataset("beluga").make(tmp_path / "beluga", World(), 60)
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
    load_dataset(dataset).make(tmp_path / dataset, World(), 40)
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
        ("chat/mock/bat", 2, "takes no images"),
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
    assert "takes no images" in capsys.readouterr().out
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


# -- read again -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "how"),
    [(TASK, {}), ("world-stage", {"circular": True}), ("beluga", {}), ("fishvista", {})],
)
def test_reading_again_changes_nothing_when_the_parser_is_the_same(
    settings: Settings, tmp_path: Path, task: str, how: dict[str, Any]
) -> None:
    if task in ("fishvista", "beluga"):
        load_dataset(task).make(tmp_path / task, World(), 60)
    script = "chat/mock/wren?skill=0.6&p_refuse=0.1&p_length=0.2&p_unclear=0.1&style=sentence"
    before = ask(settings, script, task, **how)
    with Store.open(settings.store) as store:
        (found,) = rescore(store, RunFilter(), (), Silent())
        after, scores = store.predictions(before.run.id), store.scores()[before.run.id]
    assert (found.n_read, found.changed, found.kept) == (0, [], [])
    assert after.equals(before.predictions) and scores == before.scores
    assert len(Counter(after["outcome"])) > 1


def test_answers_that_were_misread_are_read_again_for_free(settings: Settings) -> None:
    good = ask(settings, "chat/mock/wren?skill=1", repeats=2)
    with Store.open(settings.store) as store:
        spoil(store, good)
        assert store.runs()[0].n_ok == 0
        (found,) = rescore(store, RunFilter(), (), Silent())
        after = store.predictions(good.run.id)
        assert store.runs()[0].n_ok == len(after) == found.n_read
        assert wholes(store.scores()[good.run.id]) == wholes(good.scores)
    assert after.drop("info").equals(good.predictions.drop("info"))


def test_of_turned_options_another_turn_may_decide_after_reading_again(settings: Settings) -> None:
    with running(Parrot("Answer: A")) as url:
        good = ask(settings, f"chat/mock/wren?base_url={url}", "world-stage", circular=True)
    with Store.open(settings.store) as store:
        spoil(store, good)
        rescore(store, RunFilter(), (), Silent())
        after = store.predictions(good.run.id)
    columns = ["id", "prediction", "outcome"]
    assert after.select(columns).equals(good.predictions.select(columns))


def spoil(store: Store, good: Any) -> None:
    """As if a worse parser had understood nothing."""
    results = []
    for part in store.finished_parts(good.run.id):
        rows = store.predictions(good.run.id, part.part).filter(pl.col("repeat") == part.repeat)
        n = len(rows)
        given = Predictions(
            rows["id"].to_list(), rows["target"].to_list(), [None] * n,
            units=rows["unit"].to_list(), outcomes=["unparsed"] * n, infos=rows["info"].to_list(),
        )  # fmt: skip
        results.append(PartResult(given, part.part, part.repeat, part.n_train, 0.0, part.info))
    store.replace_answers(good.run.id, results, good.scores)


# -- kill -9 --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_kill_nine_in_the_middle_loses_no_paid_answer(world: Path, settings: Settings) -> None:
    slow = "chat/mock/wren?skill=0.7&latency_s=0.02"
    words = command(world, "--model", slow, "--repeats", "13", "--concurrency", "8")
    start = [sys.executable, "-m", "fieldmark", *words]
    process = subprocess.Popen(start, stderr=subprocess.DEVNULL, env=dict(os.environ))
    until = time.monotonic() + 60
    while len(list_lines(settings)) < 100 and time.monotonic() < until:
        assert process.poll() is None, "it was killed in the middle of its work"
        time.sleep(0.01)
    process.kill()
    process.wait()
    with Journal(settings.results / "journal") as journal:
        n_kept = len(journal)
    with Store.open(settings.store) as store:
        assert [run.state for run in store.runs()] == ["running"]
    assert main(words) == 0
    every = journalled_whole_lines(settings)
    with Store.open(settings.store) as store:
        rows = store.predictions(1)
    assert 100 <= n_kept < 300 <= len(rows)
    assert len(every) == len(rows) and set(every.values()) == {1}, "no kept answer is asked again"
    calm = Settings(results=Path("calm"), cache=settings.cache, data=settings.data)
    undisturbed = ask(calm, slow, repeats=13).predictions
    columns = ["repeat", "id", "target", "prediction", "outcome", "unit"]
    assert rows.select(columns).equals(undisturbed.select(columns))


def list_lines(settings: Settings) -> list[bytes]:
    paths = (settings.results / "journal").glob("*.jsonl")
    return [line for path in paths for line in path.read_bytes().splitlines(keepends=True)]


def journalled_whole_lines(settings: Settings) -> Counter[str]:
    whole = [line for line in list_lines(settings) if line.endswith(b"\n")]
    return Counter(json.loads(line)["key"] for line in whole)
