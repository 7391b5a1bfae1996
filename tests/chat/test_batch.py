"""Are batches handed in once, found again whatever happens, and paid at their own price?"""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fieldmark.chat import Answer, AnswerJournal, AskSession, Budget, Options, Request, chat_model
from fieldmark.chat.batch import sender as batch_sender
from fieldmark.chat.batch.forms import FORMS
from fieldmark.chat.batch.records import BatchedQuestion, BatchRecord, load_records
from fieldmark.chat.messages import AnswerSettings
from fieldmark.chat.send.options import AskTotals
from fieldmark.cli import main
from fieldmark.errors import BatchPending, ModelError, StoreError, UsageError
from fieldmark.files import canonical_json as canonical
from kit.chat import FAST, ask_about, make_jpegs, running
from kit.kills import kill_when, start
from kit.made import make_dataset
from kit.native_servers import (
    KEY,
    AnthropicServer,
    GeminiServer,
    NativeServer,
    OpenAIServer,
    Refused,
)

NAMES = {
    AnthropicServer: "anthropic/claude-sonnet-4-5",
    GeminiServer: "google/gemini-2.5-flash",
    OpenAIServer: "openai/gpt-4o-mini",
}
EVERY = pytest.mark.parametrize("make", list(NAMES))
BATCH = dataclasses.replace(FAST, batch=True)
Make = type[NativeServer]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATIVE_KEY", KEY)


def model_name(server: NativeServer, url: str, name: str = "") -> str:
    return f"chat/{name or NAMES[type(server)]}?base_url={url}&key_env=NATIVE_KEY"


@contextmanager
def opened(server: NativeServer, name: str = "") -> Iterator[Callable[..., Any]]:
    """A function that asks n questions and gives the answers, or the error that ended it."""
    with running(server) as url:  # type: ignore[arg-type]

        def ask(
            journal: Path,
            n: int = 8,
            options: Options = BATCH,
            budget: Budget | None = None,
            requests: list[Request] | None = None,
        ) -> tuple[dict[str, Answer], Any]:
            answers: dict[str, Answer] = {}
            model = chat_model(model_name(server, url, name))
            asked = requests or [ask_about(i, photo) for i, photo in enumerate(make_jpegs(n))]
            with AnswerJournal(journal) as kept:
                try:
                    with AskSession(model, options, kept, budget) as connection:
                        keep = lambda request, answer: answers.update({request.id: answer})  # noqa: E731
                        return answers, connection.ask(asked, keep)
                except (BatchPending, ModelError, UsageError, StoreError) as error:
                    return answers, error

        yield ask


def outcomes(answers: dict[str, Answer]) -> Counter[str]:
    return Counter(answer.outcome for answer in answers.values())


# The whole way, through the command line.


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    make_dataset("world", folder, 300)
    return folder


def words(server: NativeServer, url: str, world: Path, *more: str) -> list[str]:
    model = model_name(server, url)
    return ["run", "--model", model, "--task", "world-stage", "--data", f"world={world}", *more]


@EVERY
def test_submit_wait_fetch_and_table(
    make: Make,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    server = make()
    with running(server) as url:  # type: ignore[arg-type]
        command = words(server, url, world)
        assert main([*command, "--batch"]) == 5
        (batch,) = server.batches.values()
        n = len(batch.keys) + 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert f"{n - 1} questions submitted as {batch.id} (1 asked directly, as a trial)" in line
        assert "run the same command again to fetch the answers" in line
        assert main([*command, "--batch"]) == 5
        line = (
            f"{n - 1} questions wait in {batch.id}, which is still running (0 of {n - 1} answered)"
        )
        assert line in capsys.readouterr().err
        assert main(command) == 5, "without --batch nothing that waits is asked twice"
        assert batch.id in (line := capsys.readouterr().err.splitlines()[-1]) and "--batch" in line
        assert server.n_asked() == n and server.n_calls["create"] == 1
        server.end_batches()
        assert main([*command, "--batch"]) == 0
        assert main([*command, "--batch"]) == 0 and main(command) == 0, "done"
        capsys.readouterr()
        assert main(["table", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert server.n_asked() == n and server.n_calls["create"] == 1
    assert str(n) in json.dumps(row)
    card = chat_model(model_name(server, url)).card
    with AnswerJournal(tmp_path / "results" / "journal") as journal:
        assert len(journal) == n and not journal.waiting
        for key in batch.keys:
            answer = journal.get(key)
            assert answer is not None and answer.usage is not None and answer.outcome == "ok"
            assert answer.usd == pytest.approx(card.usd(answer.usage) * 0.5)  # type: ignore[operator]
    assert not list(load_records(tmp_path / "results" / "journal"))


@pytest.mark.slow
def test_a_run_with_gaps_is_scored_and_mended(
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    server = OpenAIServer()
    server.fate = lambda number: "succeeded" if number % 3 else "expired"
    with running(server) as url:  # type: ignore[arg-type]
        command = words(server, url, world, "--batch")
        assert main(command) == 5
        (batch,) = server.batches.values()
        n_lost = len(batch.keys[::3])
        server.end_batches()
        assert main(command) == 5
        line = capsys.readouterr().err.splitlines()[-1]
        assert f"{n_lost} failed (in the batch: " in line and "same command" in line
        server.fate = lambda number: "succeeded"
        assert main(command) == 5
        assert f"{n_lost - 1} questions submitted" in capsys.readouterr().err.splitlines()[-1]
        assert main(["table"]) == 0, "what was there is still there"
        server.end_batches()
        assert main(command) == 0
    assert server.n_asked() == len(batch.keys) + 1 + n_lost


def test_of_several_runs_each_waits_by_itself(
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    server = GeminiServer()
    with running(server) as url:  # type: ignore[arg-type]
        command = words(server, url, world, "--task", "world-habitat", "--batch", "--max-usd", "1")
        assert main(command) == 5
        last = capsys.readouterr().err.splitlines()[-1]
        assert "2 of 2 runs wait for answers" in last and "failed" not in last
        assert len(server.batches) == 2
        server.end_batches()
        assert main(command) == 0 and server.n_calls["create"] == 2


def test_shared_examples_get_one_cache_breakpoint(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bodies = {}
    for more in ((), ("--shared-prefix",)):
        server = AnthropicServer()
        with running(server) as url:  # type: ignore[arg-type]
            command = words(server, url, world, "--n-train", "2", "--n-test", "8", *more)
            assert main(command) == 0
        bodies[more] = server.bodies
    assert "cache_control" not in json.dumps(bodies[()])
    for body in bodies["--shared-prefix",]:
        content = body["messages"][0]["content"]
        marks = [place for place, block in enumerate(content) if "cache_control" in block]
        assert len(marks) == 1
        assert [block["type"] for block in content[marks[0] + 1 :]].count("image") == 1
        assert (
            content[: marks[0] + 1]
            == bodies["--shared-prefix",][0]["messages"][0]["content"][: marks[0] + 1]
        )


@pytest.mark.slow
@EVERY
def test_kill_nine_between_submitting_and_noting_it_pays_nothing_twice(
    make: Make, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = make()
    server.hangs_after = {"create"}
    with running(server) as url:  # type: ignore[arg-type]
        command = words(server, url, world, "--batch")
        kill_when(start(command), lambda: bool(server.batches))
        server.hangs_after = set()
        (batch,) = server.batches.values()
        (record,) = load_records(tmp_path / "results" / "journal")
        assert not record.id and {q.key for q in record.questions} == set(batch.keys)
        n_asked = server.n_asked()
        assert main(command) == 5
        assert server.n_calls["create"] == 1 and server.n_calls["list"] == 1
        server.end_batches()
        assert main(command) == 0
        assert server.n_asked() == n_asked and server.n_calls["create"] == 1


# Connections.


@EVERY
def test_questions_that_fail_in_a_batch_are_handed_in_again(make: Make, tmp_path: Path) -> None:
    server = make()
    fates = ["succeeded", "errored", "refused", "expired"]
    server.fate = lambda number: fates[number % 4]
    with opened(server) as ask:
        _, end = ask(tmp_path, 9)
        assert isinstance(end, BatchPending)
        server.end_batches()
        answers, totals = ask(tmp_path, 9)
        assert outcomes(answers) == {"ok": 3, "failed": 4, "refused": 2} and totals.n == 9
        assert all(a.error for a in answers.values() if a.outcome == "failed")
        first = next(iter(server.batches.values()))
        server.fate = lambda number: "succeeded"
        _, end = ask(tmp_path, 9)
        assert isinstance(end, BatchPending)
        failed = {key for place, key in enumerate(first.keys) if place % 2}
        again = {key for b in list(server.batches.values())[1:] for key in b.keys}
        assert again < failed and len(again) == 3, "one of the four is asked at once, to try"
        server.end_batches()
        answers, _ = ask(tmp_path, 9)
        assert outcomes(answers) == {"ok": 7, "refused": 2}
    assert server.n_asked() == 9 + 4


@EVERY
@pytest.mark.parametrize("state", ["expired", "failed", "cancelled"])
def test_a_batch_that_fails_as_a_whole(make: Make, state: str, tmp_path: Path) -> None:
    if make is AnthropicServer and state != "expired":
        pytest.skip("there are only single failures there")
    server = make()
    with opened(server) as ask:
        ask(tmp_path)
        server.end_batches(state)
        answers, _ = ask(tmp_path)
        assert outcomes(answers) == {"ok": 1, "failed": 7}
        _, end = ask(tmp_path)
        assert isinstance(end, BatchPending) and "6 questions submitted" in str(end)


@EVERY
def test_a_batch_that_was_taken_without_a_word_is_found_again(make: Make, tmp_path: Path) -> None:
    server = make()
    server.hangs_after = {"create"}
    options = dataclasses.replace(BATCH, timeout_s=0.5)
    with opened(server) as ask:
        _, end = ask(tmp_path, options=options)
        assert isinstance(end, BatchPending) and "did not confirm it" in str(end)
        server.hangs_after = set()
        _, end = ask(tmp_path)
        assert isinstance(end, BatchPending) and "still running" in str(end)
        server.end_batches()
        answers, _ = ask(tmp_path)
    assert outcomes(answers) == {"ok": 8} and server.n_calls["create"] == 1


def test_of_claudes_nameless_batches_another_one_is_not_taken_for_ours(tmp_path: Path) -> None:
    server = AnthropicServer()
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "?"}],
    }
    foreign = [(f"other-{n}", body) for n in range(7)]
    server.new_batch("msgbatch_", "", foreign)
    server.hangs_after = {"create"}
    with opened(server) as ask:
        ask(tmp_path, options=dataclasses.replace(BATCH, timeout_s=0.5))
        server.hangs_after = set()
        server.new_batch("msgbatch_", "", foreign)
        assert isinstance(ask(tmp_path)[1], BatchPending)
        server.end_batches()
        answers, _ = ask(tmp_path)
    assert outcomes(answers) == {"ok": 8} and server.n_calls["create"] == 1


@EVERY
def test_a_batch_that_never_reached_the_provider_is_asked_again(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make()
    with opened(server) as ask:
        ask(tmp_path)
        (record,) = load_records(tmp_path)
        server.batches.clear()
        dataclasses.replace(record, id="", at=time.time()).save(tmp_path)
        _, end = ask(tmp_path)
        assert isinstance(end, BatchPending) and "to see whether the provider has them" in str(end)
        assert not server.batches, "it may yet show: nothing is paid twice"
        monkeypatch.setattr(batch_sender, "SETTLE_S", 0.0)
        _, end = ask(tmp_path)
        assert isinstance(end, BatchPending) and "6 questions submitted" in str(end)


@EVERY
def test_a_refused_batch_leaves_nothing_waiting(make: Make, tmp_path: Path) -> None:
    server = make()
    server.refuse = lambda call: Refused(400, "too many batches", "x") if call == "create" else None
    with opened(server) as ask:
        _, end = ask(tmp_path)
        assert isinstance(end, ModelError) and "too many batches" in str(end)
        assert not list(load_records(tmp_path))
        server.refuse = lambda call: None
        assert isinstance(ask(tmp_path)[1], BatchPending)


@EVERY
def test_a_wrong_key_shows_before_anything_is_handed_in(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATIVE_KEY", "another-key-0123456789")
    server = make()
    with opened(server) as ask:
        _, end = ask(tmp_path)
    assert isinstance(end, ModelError) and "another-key" not in str(end)
    assert not server.batches and not list(load_records(tmp_path))


def test_what_the_first_answer_teaches_holds_for_the_batch(tmp_path: Path) -> None:
    server = AnthropicServer()
    with opened(server, "anthropic/claude-opus-4-8") as ask:
        ask(tmp_path)
        server.end_batches()
        answers, _ = ask(tmp_path)
    (batch,) = server.batches.values()
    assert all("temperature" not in body for body in batch.bodies)
    assert outcomes(answers) == {"ok": 8}


@EVERY
def test_large_runs_are_several_batches(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make()
    form = FORMS[chat_model(f"chat/{NAMES[make]}").api]
    with opened(server) as ask:
        monkeypatch.setattr(form, "most_questions", 3)
        _, end = ask(tmp_path / "n", 12)
        sizes = [len(batch.keys) for batch in server.batches.values()]
        assert sizes == [3, 3, 3, 2] and "11 questions submitted as" in str(end)
        server.end_batches()
        assert outcomes(ask(tmp_path / "n", 12)[0]) == {"ok": 12}
        server.batches.clear()
        monkeypatch.setattr(form, "most_questions", 100)
        monkeypatch.setattr(form, "most_bytes", 3000)
        ask(tmp_path / "bytes", 12)
        assert len(server.batches) > 2
        assert sum(len(batch.keys) for batch in server.batches.values()) == 11


def test_a_cap_is_kept_at_the_price_of_the_batch(tmp_path: Path) -> None:
    server = OpenAIServer()
    settings = AnswerSettings(max_output_tokens=1000)
    requests = [
        ask_about(i, photo).with_settings(settings) for i, photo in enumerate(make_jpegs(40))
    ]
    # gpt-4o-mini: $0.60 a million out, 1000 of them each: $0.0006, half of it in a batch, and a
    # little for the prompt; the first is asked at the full price and shows what answers take.
    with opened(server) as ask:
        budget = Budget(max_usd=0.006)
        _, end = ask(tmp_path, budget=budget, requests=requests)
        assert isinstance(end, BatchPending) and "the budget is used up" in str(end)
        (batch,) = server.batches.values()
        each = (1000 * 0.60 + 107 * 0.15) / 1e6 / 2
        assert len(batch.keys) == int(0.006 / each)
        server.end_batches()
        budget = Budget(max_usd=0.006)
        answers, end = ask(tmp_path, budget=budget, requests=requests)
        assert isinstance(end, BatchPending), "what was too dear before fits now"
        assert budget.spent_usd < 0.001
        assert len(answers) == len(batch.keys) + 2, "the first of either command is asked at once"
        # Another connection of the same command does not count what waits a second time.
        waiting = dict(budget.batches)
        _, end = ask(tmp_path, budget=budget, requests=requests)
        assert isinstance(end, BatchPending) and set(budget.batches) == set(waiting)


@EVERY
def test_results_that_are_fetched_twice_change_nothing(make: Make, tmp_path: Path) -> None:
    server = make()
    with opened(server) as ask:
        ask(tmp_path)
        (record,) = load_records(tmp_path)
        server.end_batches()
        once, _ = ask(tmp_path)
        record.save(tmp_path)  # as after a kill between keeping the answers and noting that
        twice, _ = ask(tmp_path)
    assert once == twice and not list(load_records(tmp_path)) and server.n_asked() == 8


def test_the_same_question_twice_is_handed_in_once(tmp_path: Path) -> None:
    server = GeminiServer()
    twice = [ask_about(i % 4, make_jpegs(4)[i % 4]) for i in range(8)]
    requests = [dataclasses.replace(r, id=f"{r.id}-{n}") for n, r in enumerate(twice)]
    with opened(server) as ask:
        ask(tmp_path, requests=requests)
        (batch,) = server.batches.values()
        assert len(batch.keys) == 3
        server.end_batches()
        answers, _ = ask(tmp_path, requests=requests)
    assert len(answers) == 8 and outcomes(answers) == {"ok": 8}


def test_results_at_another_address_are_not_fetched(tmp_path: Path) -> None:
    server = AnthropicServer()
    facts = server.facts
    server.facts = lambda batch, request: {  # type: ignore[method-assign]
        **facts(batch, request), "results_url": "http://127.0.0.2:9/results",
    }  # fmt: skip
    with opened(server) as ask:
        ask(tmp_path)
        server.end_batches()
        _, end = ask(tmp_path)
        (record,) = load_records(tmp_path)
    assert isinstance(end, ModelError) and "another address" in str(end)
    assert str(record.path(tmp_path)) in str(end), "says how to give it up"


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("call", ["create", "look", "results", "content", "list"])
@pytest.mark.parametrize(
    "junk",
    ["[]", "<html>", "{}", '{"custom_id": 7}', '{"data": [7]}', "[" * 20_000],
    ids=str.__len__,
)
def test_junk_loses_nothing(make: Make, call: str, junk: str, tmp_path: Path) -> None:
    """Whatever one call says, the next command at a sane server has all answers, paid once."""
    server = make()
    route, is_junk = server.route, False

    async def spoilt(request: Any, path: str) -> Any:
        name, reply = await route(request, path)
        return (name, web.Response(text=junk)) if is_junk and name == call else (name, reply)

    server.route = spoilt  # type: ignore[method-assign]
    with opened(server) as ask:
        is_junk = call == "create"
        _, end = ask(tmp_path)
        assert isinstance(end, BatchPending)
        (record,) = load_records(tmp_path)
        if call == "list":
            dataclasses.replace(record, id="").save(tmp_path)
        is_junk = True
        server.end_batches()
        _, end = ask(tmp_path)
        if call in server.n_calls and not isinstance(end, AskTotals):
            assert isinstance(end, (ModelError, BatchPending)) and "\n" not in str(end)
        is_junk = False
        answers, _ = ask(tmp_path)
    assert outcomes(answers) == {"ok": 8}
    assert server.n_calls["create"] == 1 and server.n_asked() == 8


@pytest.mark.parametrize("name", ["openrouter/openai/gpt-4o", "vllm/m", "mock/wren"])
def test_a_provider_without_batches_is_refused(name: str, tmp_path: Path) -> None:
    with AnswerJournal(tmp_path) as journal, pytest.raises(UsageError, match="batch"):
        AskSession(chat_model(f"chat/{name}"), BATCH, journal).__enter__()


def test_a_record_is_replaced_as_a_whole_and_a_broken_one_is_named(tmp_path: Path) -> None:
    question = BatchedQuestion("0" * 32, "item", 2, ("END",), ("x 10x10",))
    record = BatchRecord("fieldmark-1", canonical({"a": "b"}), (question,), 0.5, 100)
    record.save(tmp_path)
    (path,) = (tmp_path / "batches").iterdir()
    assert list(load_records(tmp_path)) == [record]
    dataclasses.replace(record, id="batch_1").save(tmp_path)
    assert [r.id for r in load_records(tmp_path)] == ["batch_1"]
    with AnswerJournal(tmp_path) as journal:
        assert journal.waiting == {"0" * 32: "batch_1"}
    path.write_text('{"name": "fieldmark-1"')
    with pytest.raises(StoreError, match="delete the file"):
        AnswerJournal(tmp_path)
