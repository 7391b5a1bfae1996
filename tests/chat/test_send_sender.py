"""Does every request get its outcome, once, within every limit?"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerJournal,
    AnswerSettings,
    AskSession,
    Budget,
    MockScript,
    Picture,
    Request,
    ask_now,
    chat_model,
    spent_usd,
    user,
)
from fieldmark.chat.prices import Card
from fieldmark.chat.send.options import AskTotals
from fieldmark.errors import ModelError, UsageError
from kit.chat import FAST, CountingServer, ask_about, ask_all, collect, make_jpeg, with_server

PLAIN = AnswerSettings()
STORM = MockScript(p_429=0.30, p_cut=0.05, p_500=0.05, p_junk=0.02, retry_after_s=0.01)


def priced(name: str, **prices: Any) -> Any:
    """The model of that name with prices of its own."""
    model = chat_model(name)
    card = Card(provider="mock", id="wren", **(prices or {"usd_in": 1000.0, "usd_out": 1000.0}))
    return dataclasses.replace(model, card=card)


@pytest.mark.slow
def test_a_fault_storm_loses_nothing_and_keeps_every_limit(tmp_path: Path) -> None:
    n, found = 400, dict[str, Answer]()
    options = dataclasses.replace(FAST, max_concurrency=24)

    async def work(server: CountingServer, name: str) -> AskTotals:
        with AnswerJournal(tmp_path) as journal:
            requests = (ask_about(i, make_jpeg(i % 7)) for i in range(n))
            tally = await ask_all(
                requests, chat_model(name), options, journal, None, collect(found)
            )
        stats = server.stats()
        assert stats["max_in_flight"] <= 24
        assert stats["n_answered_twice"] == 0
        assert set(stats["faults"]) == {"429", "500", "cut", "junk"}
        assert stats["faults"]["429"] > 100
        return tally

    tally = with_server(STORM, work)
    assert set(found) == {f"item-{i}" for i in range(n)}
    assert {each.outcome for each in found.values()} <= {"ok", "failed"}
    assert tally.n == n and tally.outcomes["ok"] >= 0.99 * n
    assert tally.n_attempts > n
    with AnswerJournal(tmp_path) as journal:
        assert len(journal) == tally.outcomes["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [4, 64])
def test_defect_mllms_rate_and_concurrency_hold_at_the_server(concurrency: int) -> None:
    options = dataclasses.replace(FAST, concurrency=concurrency, rpm=2400.0)

    async def work(server: CountingServer, name: str) -> None:
        await ask_all((ask_about(i) for i in range(120)), chat_model(name), options)
        burst, late = 0.25 * 40, 0.15 * 40
        assert server.counts.per_second.most <= 40 + burst + late
        assert server.counts.max_in_flight <= concurrency

    with_server(MockScript(latency_s=0.02), work)


@pytest.mark.slow
def test_tokens_per_minute_hold_at_the_server() -> None:
    script = MockScript(tokens_per_image=100)
    options = dataclasses.replace(FAST, concurrency=32, tpm=60_000.0)
    settings = AnswerSettings(max_output_tokens=20)
    data = make_jpeg(1)

    async def work(server: CountingServer, name: str) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        requests = (dataclasses.replace(ask_about(i, data), settings=settings) for i in range(40))
        await ask_all(requests, chat_model(name), options)
        lasted_s = loop.time() - began
        allowed = 60_000 * lasted_s / 60 + 250
        assert server.counts.n_tokens <= allowed + 130
        assert server.counts.tokens_per_minute.most <= 60_000

    with_server(script, work)


def test_a_rerun_replays_the_journal_and_asks_nothing(tmp_path: Path) -> None:
    async def work(
        server: CountingServer, name: str
    ) -> tuple[AskTotals, AskTotals, dict[str, str]]:
        runs, texts = [], [dict[str, str](), dict[str, str]()]
        for found in texts:
            with AnswerJournal(tmp_path) as journal:
                requests = [ask_about(i, make_jpeg(i)) for i in range(40)]
                keep = lambda r, a, found=found: found.update({r.id: a.text})  # noqa: E731
                runs.append(await ask_all(requests, chat_model(name), FAST, journal, None, keep))
        assert server.counts.n_requests == 40
        assert texts[0] == texts[1]
        return runs[0], runs[1], texts[0]

    first, second, _ = with_server(MockScript(), work)
    assert (first.n_replayed, second.n_replayed, second.n_attempts) == (0, 40, 0)


def test_the_same_question_twice_is_paid_once(tmp_path: Path) -> None:
    async def work(server: CountingServer, name: str) -> None:
        with AnswerJournal(tmp_path) as journal:
            same = [dataclasses.replace(ask_about(1), id=f"copy-{i}") for i in range(20)]
            tally = await ask_all(same, chat_model(name), FAST, journal)
        assert server.counts.n_requests == 1 and tally.n == 20
        repeats = [dataclasses.replace(ask_about(1), repeat=i) for i in range(3)]
        await ask_all(repeats, chat_model(name), FAST)
        assert server.counts.n_requests == 4

    with_server(MockScript(latency_s=0.05), work)


def test_failures_are_not_cached_and_are_asked_again(tmp_path: Path) -> None:
    options = dataclasses.replace(FAST, max_attempts=1)

    async def work(server: CountingServer, name: str) -> None:
        found: dict[str, Answer] = {}
        with AnswerJournal(tmp_path) as journal:
            for _ in range(8):
                found.clear()
                await ask_all([ask_about(i) for i in range(30)], chat_model(name), options, journal,
                              None, collect(found))  # fmt: skip
                if all(each.is_answer for each in found.values()):
                    break
        assert all(each.is_answer for each in found.values())
        assert server.stats()["n_answered_twice"] == 0

    with_server(MockScript(p_500=0.3), work)


@pytest.mark.parametrize("concurrency", [1, 16])
def test_max_usd_is_never_overshot_by_more_than_what_was_in_flight(concurrency: int) -> None:
    options = dataclasses.replace(FAST, concurrency=concurrency)
    per_answer = (8 + 20 // 4 + 6) * 1000 / 1e6

    async def work(server: CountingServer, name: str) -> None:
        budget = Budget(max_usd=1.0)
        settings = AnswerSettings(max_output_tokens=12)
        requests = (dataclasses.replace(ask_about(i), settings=settings) for i in range(5000))
        tally = await ask_all(requests, priced(name), options, None, budget)
        assert tally.stopped.startswith("the budget is used up")
        assert budget.spent_usd == pytest.approx(tally.usd)
        assert budget.spent_usd <= 1.0 + concurrency * per_answer
        assert budget.spent_usd > 0.8
        assert budget.n_reserved == 0
        assert server.counts.n_requests == tally.n < 5000

    with_server(MockScript(latency_s=0.002), work)


def test_max_tokens_is_kept_without_any_price() -> None:
    async def work(server: CountingServer, name: str) -> None:
        budget = Budget(max_tokens=1500)
        requests = (dataclasses.replace(ask_about(i), settings=AnswerSettings(max_output_tokens=20))
                    for i in range(500))  # fmt: skip
        tally = await ask_all(requests, chat_model(name), FAST, None, budget)
        assert tally.stopped and budget.spent_tokens <= 1500
        assert budget.spent_tokens > 1000
        assert tally.usd == 0 and tally.n_unpriced == tally.n
        assert "price unknown" in budget.words

    with_server(MockScript(), work)


def test_replayed_answers_cost_nothing(tmp_path: Path) -> None:
    async def work(server: CountingServer, name: str) -> None:
        for expected in (20, 0):
            budget = Budget(max_usd=100.0)
            with AnswerJournal(tmp_path) as journal:
                await ask_all(
                    [ask_about(i) for i in range(20)], priced(name), FAST, journal, budget
                )
            assert (budget.spent_usd > 0) == (expected > 0)

    with_server(MockScript(), work)


def test_an_endpoint_that_returns_no_usage_has_unknown_costs() -> None:
    found: dict[str, Answer] = {}

    async def work(server: CountingServer, name: str) -> None:
        budget = Budget()
        await ask_all([ask_about(1)], priced(name), FAST, None, budget, collect(found))
        assert budget.n_unpriced == 1 and budget.spent_usd > 0, "booked as reserved"

    with_server(MockScript(usage=False), work)
    assert found["item-1"].usd is None


def test_a_dripping_reply_ends_at_the_timeout() -> None:
    options = dataclasses.replace(FAST, timeout_s=0.15, max_attempts=2)
    found: dict[str, Answer] = {}

    async def work(server: CountingServer, name: str) -> None:
        with pytest.raises(ModelError, match=r"no answer within 0\.15 s"):
            await ask_all([ask_about(1)], chat_model(name), options, on_answer=collect(found))

    with_server(MockScript(p_drip=1.0, drip_s=3.0), work)
    assert not found, "what an endpoint could not do is no outcome of the question"


def test_refusals_truncation_reasoning_and_log_probabilities_of_the_mock() -> None:
    def outcome(script: MockScript, settings: AnswerSettings = PLAIN) -> Answer:
        found: dict[str, Answer] = {}

        async def work(server: CountingServer, name: str) -> None:
            request = dataclasses.replace(ask_about(1, make_jpeg(1)), settings=settings)
            await ask_all([request], chat_model(name), FAST, on_answer=collect(found))

        with_server(script, work, labels={"x": "wren"})
        return found["item-1"]

    assert outcome(MockScript(p_refuse=1.0)).outcome == "refused"
    cut = outcome(MockScript(p_length=1.0))
    assert (cut.outcome, cut.finish_reason) == ("length", "length")
    assert outcome(MockScript(reasoning=True)).text.startswith("<think>")
    assert outcome(MockScript(p_unclear=1.0)).text == "I cannot tell."
    chances = outcome(MockScript(), AnswerSettings(top_logprobs=3)).logprobs
    assert chances and len(chances[0].top) == 3


def test_nothing_is_read_ahead_of_the_window() -> None:
    drawn = 0
    ahead: list[int] = []

    def stream() -> Iterator[Request]:
        nonlocal drawn
        for number in range(400):
            drawn += 1
            yield ask_about(number)

    def keep(request: Request, answer: Answer) -> None:
        ahead.append(drawn - len(ahead))

    async def work(server: CountingServer, name: str) -> None:
        options = dataclasses.replace(FAST, concurrency=8)
        await ask_all(stream(), chat_model(name), options, on_answer=keep)

    with_server(MockScript(), work)
    assert max(ahead) <= 8 + 16 + 1


@pytest.mark.slow
def test_memory_is_flat_in_the_number_of_items(tmp_path: Path) -> None:
    """The second thousand leaves next to nothing beyond the journal's index."""
    data = [make_jpeg(i, (160, 120)) for i in range(5)]
    blocks, resident = [], []

    async def work(server: CountingServer, name: str) -> None:
        server.is_recording = False
        with AnswerJournal(tmp_path) as journal:
            for run in range(3):
                requests = (
                    ask_about(1000 * run + i, data[i % 5] + bytes([i % 251, run]))
                    for i in range(1000)
                )
                await ask_all(requests, chat_model(name), FAST, journal)
                gc.collect()
                blocks.append(sys.getallocatedblocks())
                pages = Path("/proc/self/statm").read_text().split()[1]
                resident.append(int(pages) * os.sysconf("SC_PAGESIZE"))

    with_server(MockScript(), work)
    assert blocks[2] - blocks[1] < 1000 * 12, (
        "objects a request, the server's count of the last minute included"
    )
    assert resident[2] - resident[1] < 1000 * 4000, "bytes; a picture has 15,000"


def test_async_sources_and_code_inside_a_running_loop_work() -> None:
    async def stream() -> Any:
        for number in range(5):
            yield ask_about(number)

    async def work(server: CountingServer, name: str) -> None:
        tally = await ask_all(stream(), chat_model(name), FAST)
        assert tally.n == 5

    with_server(MockScript(), work)

    async def notebook() -> None:
        import threading

        threads = set()
        keep = lambda r, a: threads.add(threading.current_thread())  # noqa: E731
        tally = ask_now([ask_about(1), ask_about(2)], chat_model("chat/mock/wren"), on_answer=keep)
        assert tally.n == 2 and threads == {threading.current_thread()}

    asyncio.run(notebook())


def test_an_error_in_the_askers_own_code_comes_through_and_stops_the_run() -> None:
    def explode(request: Request, answer: Answer) -> None:
        raise KeyError("mine")

    requests = (ask_about(i) for i in range(5000))
    with pytest.raises(KeyError, match="mine"):
        ask_now(requests, chat_model("chat/mock/wren"), FAST, on_answer=explode)


def test_a_line_lasts_over_several_calls_and_remembers_what_it_learnt() -> None:
    with AskSession(chat_model("chat/mock/wren?latency_s=0.1"), FAST) as line:
        line.ask([ask_about(i) for i in range(50)], lambda r, a: None)
        tally = line.ask([ask_about(1)], lambda r, a: None)
    assert tally.n == 1 and tally.peak_in_flight > 1, "the line's own, not the call's"


def test_an_interrupted_run_leaves_nothing_behind_and_keeps_its_answers(tmp_path: Path) -> None:
    async def work(server: CountingServer, name: str) -> None:
        budget = Budget(max_usd=1000.0)
        with AnswerJournal(tmp_path) as journal:
            requests = (ask_about(i) for i in range(10_000))
            running = asyncio.create_task(ask_all(requests, priced(name), FAST, journal, budget))
            while server.counts.n_requests < 60:
                await asyncio.sleep(0.01)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert len(journal) == server.counts.n_requests, "what was in flight was waited for"
            assert budget.n_reserved == budget.n_late == 0
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not [each for each in others if "_one" in repr(each)]

    with_server(MockScript(latency_s=0.01), work)


def test_what_is_given_up_in_flight_may_have_been_charged_and_counts(tmp_path: Path) -> None:
    """Defect: Ctrl-C threw away answers that were paid for, and counted none of them."""

    async def work(server: CountingServer, name: str) -> None:
        budget = Budget()
        with AnswerJournal(tmp_path) as journal:
            requests = (ask_about(i) for i in range(100))
            running = asyncio.create_task(ask_all(requests, priced(name), FAST, journal, budget))
            while not budget.n_reserved:
                await asyncio.sleep(0.01)
            for _ in range(2):
                running.cancel()
                await asyncio.sleep(0.05)
            with pytest.raises(asyncio.CancelledError):
                await running
        assert len(journal) == budget.n_reserved == 0 < budget.n_late
        assert f"for {budget.n_late} answers that never came" in budget.words
        assert spent_usd(tmp_path) == pytest.approx(budget.late_usd) and budget.late_usd > 0

    with_server(MockScript(latency_s=5), work)


def test_a_request_larger_than_the_rate_limit_is_told() -> None:
    options = dataclasses.replace(FAST, tpm=500.0)
    with pytest.raises(UsageError, match="tokens, but the limit is 500 a minute"):
        ask_now([ask_about(1)], chat_model("chat/mock/wren"), options)


def test_more_pictures_than_the_endpoint_takes_are_not_sent() -> None:
    model = chat_model("chat/mock/wren")
    model = dataclasses.replace(model, card=model.card.model_copy(update={"max_images": 2}))
    found: dict[str, Answer] = {}
    many = Request("many", (user(*(Picture(make_jpeg(i)) for i in range(3)), "Which?"),))
    tally = ask_now([many, ask_about(1)], model, FAST, on_answer=collect(found))
    assert found["many"].outcome == "failed" and "3 pictures" in found["many"].error
    assert tally.n_attempts == 1


def test_a_server_that_asks_for_hours_ends_the_run() -> None:
    async def work(server: CountingServer, name: str) -> None:
        with pytest.raises(ModelError, match="asks to wait 2 h 0 min"):
            await ask_all((ask_about(i) for i in range(500)), chat_model(name), FAST)
        assert server.counts.n_requests <= 64

    with_server(MockScript(p_429=1.0, retry_after_s=7200), work)
