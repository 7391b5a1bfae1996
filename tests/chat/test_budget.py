"""Is a plan's cost close to what is charged?"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerSettings,
    Budget,
    Estimator,
    MockScript,
    MockServer,
    Picture,
    Request,
    Usage,
    chat_model,
    estimate,
    user,
)
from fieldmark.chat.budget import ENOUGH, MARGIN
from fieldmark.chat.prices import Card
from kit.chat import FAST, ask_about, ask_all, with_server

CARD = Card(
    provider="x", id="y", image_tokens={"rule": "openai-tiles"}, usd_in=2.5, usd_out=10.0
)  # fmt: skip


def test_a_plan_counts_text_images_and_the_room_for_answers() -> None:
    request = Request("a", (user("Which species is this?", Picture(b"")),), AnswerSettings())
    plan = estimate([(request, [(500, 375)])] * 1000, Estimator(CARD))
    assert plan.n == 1000
    assert 255_000 < plan.tokens_in < 275_000
    assert plan.tokens_out == 1_024_000
    assert plan.usd == pytest.approx((plan.tokens_in * 2.5 + plan.tokens_out * 10) / 1e6)


def test_a_plan_without_a_price_has_tokens_and_no_money() -> None:
    plan = estimate([(ask_about(1), [])], Estimator(Card(provider="x", id="y")))
    assert plan.tokens_in > 0 and plan.usd is None


def test_estimates_learn_from_what_is_charged() -> None:
    estimator = Estimator(CARD)
    request = ask_about(1)
    first = estimator.guess(request, [])
    assert estimator.cost(request.settings, first).tokens_out == AnswerSettings().max_output_tokens
    for _ in range(ENOUGH):
        estimator.learn(first, Answer("ok", usage=Usage(4 * first, 7), usd=0.001))
    assert estimator.tokens_in(first) == 4 * first
    assert estimator.likely_out(AnswerSettings()) == 7
    assert estimator.cost(request.settings, first).tokens_out == round(7 * MARGIN)


def test_a_first_answer_tells_roughly_how_long_others_are() -> None:
    estimator, settings = Estimator(CARD), AnswerSettings(max_output_tokens=1000)
    assert estimator.cost(settings, 10).tokens_out == 1000
    estimator.learn(10, Answer("ok", usage=Usage(10, 20)))
    assert 20 < estimator.cost(settings, 10).tokens_out <= 100


def test_thoughts_that_overrun_the_room_are_expected_again() -> None:
    estimator, settings = Estimator(CARD), AnswerSettings(max_output_tokens=20)
    estimator.learn(10, Answer("ok", usage=Usage(10, 600)))
    assert estimator.cost(settings, 10).tokens_out == 600


def test_a_provider_that_charges_more_than_its_price_is_believed() -> None:
    estimator, settings = Estimator(CARD), AnswerSettings(max_output_tokens=20)
    before = estimator.cost(settings, 1000).usd
    usage = Usage(1000, 20)
    estimator.learn(1000, Answer("ok", usage=usage, usd=3 * (CARD.usd(usage) or 0)))
    assert estimator.cost(settings, 1000).usd == pytest.approx(3 * (before or 0))


def test_unknown_image_rules_are_guessed_by_size() -> None:
    bare = Estimator(Card(provider="x", id="y"))
    assert bare.image(280, 280) == 578
    assert bare.image(560, 560) > 1384  # measured where one per 28 × 28 said 402


def test_a_shared_budget_serves_several_runs() -> None:
    async def work(server: MockServer, name: str) -> Any:
        budget = Budget(max_tokens=1000)
        settings = AnswerSettings(max_output_tokens=20)
        for run in range(3):
            requests = [
                dataclasses.replace(ask_about(100 * run + i), settings=settings) for i in range(40)
            ]
            tally = await ask_all(requests, chat_model(name), FAST, None, budget)
        assert 500 < budget.spent_tokens <= 1000 and tally.stopped
        return None

    with_server(MockScript(), work)


def test_each_model_has_a_fingerprint_of_its_own() -> None:
    names = ("chat/openai/gpt-4o", "chat/openai/gpt-4o-mini", "chat/mock/a", "chat/mock/a?skill=1")
    assert len({chat_model(name).fingerprint for name in names}) == 4
