"""Does the journal's key hold all that decides an answer, and nothing else?"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerSettings,
    Picture,
    Request,
    Usage,
    assistant,
    chat_model,
    prepare,
    system,
    user,
)
from fieldmark.chat.journal import request_key
from fieldmark.chat.messages import TokenChance, answer_from_json, answer_to_json

MODEL = chat_model("chat/openai/gpt-4o")


def key(request: Request, model: Any = MODEL) -> str:
    return request_key(request, [prepare(each) for each in request.pictures], model.address)


@pytest.fixture
def base(jpeg: Any) -> Request:
    return Request("a", (system("Be brief."), user("Which?", Picture(jpeg(1)))), AnswerSettings())


def test_the_id_the_info_and_how_a_picture_is_read_do_not_count(base: Request, jpeg: Any) -> None:
    other = Request("b", (system("Be brief."), user("Which?", Picture(lambda: jpeg(1)))), info=3)
    assert key(base) == key(other)


def test_everything_that_decides_counts(base: Request, jpeg: Any) -> None:
    changed = [
        dataclasses.replace(base, repeat=1),
        dataclasses.replace(base, messages=base.messages[1:]),
        dataclasses.replace(base, messages=(*base.messages, assistant("wren"))),
        dataclasses.replace(base, messages=(base.messages[0], user("Which?", Picture(jpeg(2))))),
        dataclasses.replace(base, messages=(base.messages[0], user(Picture(jpeg(1)), "Which?"))),
        dataclasses.replace(
            base, messages=(base.messages[0], user("Which?", Picture(jpeg(1), detail="low")))
        ),
    ]
    for change in (
        {"temperature": 0.5}, {"top_p": 0.9}, {"seed": 7}, {"max_output_tokens": 9},
        {"stop": ("\n",)}, {"schema": {"type": "object"}}, {"top_logprobs": 0},
        {"reasoning_effort": "low"}, {"extra": {"min_p": 0.1}},
    ):  # fmt: skip
        changed.append(dataclasses.replace(base, settings=AnswerSettings(**change)))
    keys = {key(base), *map(key, changed)}
    assert len(keys) == len(changed) + 1


def test_provider_address_and_model_count(base: Request) -> None:
    names = (
        "chat/openai/gpt-4o", "chat/openai/gpt-4o-mini", "chat/vllm/gpt-4o",
        "chat/vllm/gpt-4o?base_url=http://127.0.0.1:9/v1", "chat/mock/gpt-4o",
        "chat/mock/gpt-4o?skill=0.5",
    )  # fmt: skip
    assert len({key(base, chat_model(name)) for name in names}) == len(names)


def test_order_of_schema_keys_does_not_count(base: Request) -> None:
    one = dataclasses.replace(base, settings=AnswerSettings(schema={"a": 1, "b": 2}))
    two = dataclasses.replace(base, settings=AnswerSettings(schema={"b": 2, "a": 1}))
    assert key(one) == key(two)


def test_an_answer_survives_its_journal_line() -> None:
    answer = Answer(
        "length", "wren", "because", "length", Usage(5, 2, 1, 1), 0.25, "m", "f", 0.5, 3,
        (TokenChance("wren", -0.1, (("robin", -2.0),)),), "", "k", True, ("x 9×9 → 3×3",),
    )  # fmt: skip
    line = json.dumps(answer_to_json(answer))
    assert answer_from_json(json.loads(line), "k") == answer


def test_an_unknown_cost_stays_unknown_through_the_journal() -> None:
    found = answer_from_json(json.loads(json.dumps(answer_to_json(Answer("ok", "x")))), "k")
    assert found.usd is None and found.usage is None
