"""What does the sender make of each reply, and what does a server get to read?"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerJournal,
    AnswerSettings,
    MockServer,
    Options,
    Picture,
    Request,
    Usage,
    chat_model,
    system,
    user,
)
from fieldmark.chat.send.api.openai import API
from fieldmark.errors import ModelError
from fieldmark.journal import seal
from kit.chat import FAST, ask_about, ask_all, collect, make_jpeg


class Scripted(MockServer):
    """Says to each body what a function says."""

    def __init__(self, say: Any) -> None:
        super().__init__()
        self.say, self.bodies = say, list[dict[str, Any]]()

    async def _answer(self, request: Any, data: bytes) -> Any:
        from aiohttp import web

        self.bodies.append(json.loads(data))
        status, body = self.say(len(self.bodies), self.bodies[-1])
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=status, content_type="application/json")


def ok(text: str = "wren") -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "model": "m"}


def scripted(say: Any, requests: Any, options: Options = FAST) -> tuple[Any, Any, Any]:
    """The server, the answers, and the tally or the error."""

    async def work() -> tuple[Any, Any, Any]:
        server, found = Scripted(say), dict[str, Answer]()
        url = await server.start()
        try:
            model = chat_model(f"chat/mock/wren?base_url={url}")
            end: Any = await ask_all(requests, model, options, on_answer=collect(found))
        except ModelError as error:
            end = error
        finally:
            await server.stop()
        return server, found, end

    return asyncio.run(work())


@pytest.mark.parametrize("code", [401, 402, 404])
def test_a_hopeless_error_stops_at_once(code: int) -> None:
    say = lambda n, body: (code, {"error": {"message": "no such thing"}})  # noqa: E731
    server, found, end = scripted(say, (ask_about(i) for i in range(10_000)))
    assert isinstance(end, ModelError) and str(code) in str(end) and "\n" not in str(end)
    assert len(server.bodies) <= 80
    assert all(each.outcome == "failed" for each in found.values())


def test_failures_in_a_row_stop_the_run() -> None:
    def say(n: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return (400, {"error": {"message": "bad request"}}) if n > 1 else (200, ok())

    options = dataclasses.replace(FAST, max_failures_in_a_row=10, concurrency=2)
    _, found, end = scripted(say, (ask_about(i) for i in range(10_000)), options)
    assert isinstance(end, ModelError) and "in a row failed" in str(end)
    assert 11 <= len(found) <= 16


def test_an_endpoint_that_never_answers_is_given_up_after_the_first_few() -> None:
    say = lambda n, body: (400, {"error": {"message": "no such model"}})  # noqa: E731
    for n in (1, 10_000):
        server, _, end = scripted(say, (ask_about(i) for i in range(n)), FAST)
        assert isinstance(end, ModelError) and "no such model" in str(end)
        assert len(server.bodies) <= 12


def test_too_many_failures_stop_the_run() -> None:
    def say(n: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return (200, ok()) if n % 2 else (413, {"error": {"message": "too large"}})

    options = dataclasses.replace(FAST, max_failures=20, concurrency=2)
    _, found, end = scripted(say, (ask_about(i) for i in range(10_000)), options)
    assert isinstance(end, ModelError) and "21 requests failed" in str(end)
    assert Counter(each.outcome for each in found.values())["ok"] >= 19


def test_a_marked_item_does_not_harm_the_others() -> None:
    def say(n: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        bad = "Question 7?" in body["messages"][-1]["content"]
        return (400, {"error": {"message": "image cannot be read"}}) if bad else (200, ok())

    server, found, _end = scripted(say, [ask_about(i) for i in range(30)])
    assert found["item-7"].outcome == "failed" and "image cannot be read" in found["item-7"].error
    assert sum(each.outcome == "ok" for each in found.values()) == 29
    assert len(server.bodies) == 30, "a bad request is not tried again"


@pytest.mark.parametrize(
    "usage",
    [
        "x", [], 7,
        {"prompt_tokens": 5, "completion_tokens": "x"},
        {"prompt_tokens": "x", "completion_tokens": 5},
        {"prompt_tokens": -5, "completion_tokens": 5, "cost": -1},
        {"prompt_tokens": 5, "completion_tokens": 1e400},
        {"prompt_tokens": 10**40, "cost": "free"},
    ],
)  # fmt: skip
def test_counts_that_are_none_do_not_harm_the_answer(usage: Any) -> None:
    _, found, end = scripted(lambda n, body: (200, {**ok(), "usage": usage}), [ask_about(1)])
    answer = found["item-1"]
    assert (answer.outcome, answer.text, answer.usage, answer.usd) == ("ok", "wren", None, None)
    assert end.n_attempts == 1


@pytest.mark.parametrize("details", ["x", [1], {"cached_tokens": "x"}, {"reasoning_tokens": -4}])
def test_details_of_counts_that_are_none_are_left_out(details: Any) -> None:
    usage = {
        "prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": details,
        "completion_tokens_details": details,
    }  # fmt: skip
    _, found, _ = scripted(lambda n, body: (200, {**ok(), "usage": usage}), [ask_about(1)])
    assert found["item-1"].usage == Usage(5, 2)


@pytest.mark.parametrize("logprobs", [{"content": [7]}, {"content": [{"logprob": "x"}]}])
def test_log_probabilities_that_are_none_are_left_out(logprobs: Any) -> None:
    reply = ok()
    reply["choices"][0]["logprobs"] = logprobs
    _, found, _ = scripted(lambda n, body: (200, reply), [ask_about(1)])
    assert found["item-1"].outcome == "ok" and found["item-1"].logprobs == ()


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("depth", [100, 600, 990, 200_000])
def test_a_reply_nested_too_deep_fails_alone(status: int, depth: int) -> None:
    deep = "[" * depth + "]" * depth

    def say(n: int, body: dict[str, Any]) -> tuple[int, Any]:
        bad = "Question 3?" in body["messages"][-1]["content"]
        return (status, f'{{"error": {{"message": {deep}}}}}') if bad else (200, ok())

    _, found, _ = scripted(say, [ask_about(i) for i in range(6)])
    assert found["item-3"].outcome == "failed" and found["item-3"].error
    assert sum(each.outcome == "ok" for each in found.values()) == 5


@pytest.mark.parametrize("depth", [100, 600, 990, 20_000])
def test_content_nested_too_deep_fails_alone(depth: int) -> None:
    def say(n: int, body: dict[str, Any]) -> tuple[int, Any]:
        text = "[" * depth + "]" * depth
        reply = json.dumps(ok()).replace('"wren"', f'[{{"text": {text}}}]')
        return (200, reply) if "Question 3?" in body["messages"][-1]["content"] else (200, ok())

    _, found, _ = scripted(say, [ask_about(i) for i in range(6)])
    assert sum(each.outcome == "ok" for each in found.values()) >= 5


def test_half_a_character_is_replaced_in_new_answers_and_in_kept_ones(tmp_path: Path) -> None:
    _, found, _ = scripted(lambda n, body: (200, ok("ant \ud83d \U0001f41c")), [ask_about(1)])
    assert found["item-1"].text == "ant \ufffd \U0001f41c"
    key = "0" * 32
    line = {"key": key, "answer": {"outcome": "ok", "text": "ant \ud83d"}}
    (tmp_path / "kept.jsonl").write_bytes(seal(line))
    with AnswerJournal(tmp_path) as journal:
        kept = journal.get(key)
    assert kept is not None and kept.text == "ant \ufffd"


def test_an_error_body_under_200_is_tried_again() -> None:
    def say(n: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return (200, {"error": {"code": 502, "message": "upstream"}} if n < 3 else ok())

    _, found, _end = scripted(say, [ask_about(1)])
    assert found["item-1"].outcome == "ok" and found["item-1"].attempts == 3


def test_a_filter_is_a_refusal_and_is_kept() -> None:
    say = lambda n, body: (400, {"error": {"message": "content_filter"}})  # noqa: E731
    _, found, end = scripted(say, [ask_about(1)])
    assert found["item-1"].outcome == "refused" and end.outcomes == {"refused": 1}


def test_defect_mllms_system_prompt_is_sent_and_nothing_that_was_not_set() -> None:
    messages = (system("You know birds."), user("Which?", Picture(make_jpeg(1))))
    server, _, _ = scripted(lambda n, body: (200, ok()), [Request("a", messages)])
    body = server.bodies[0]
    assert body["messages"][0] == {"role": "system", "content": "You know birds."}
    assert set(body) == {"model", "max_tokens", "temperature", "messages"}
    assert body["messages"][1]["content"][1]["image_url"]["url"].startswith(
        "data:image/jpeg;base64,"
    )


def test_settings_reach_the_body_and_extra_keys_too() -> None:
    settings = AnswerSettings(
        temperature=None, top_p=0.5, seed=3, stop=("END",), top_logprobs=2, max_output_tokens=77,
        schema={"type": "object"}, extra={"provider": {"order": ["x"]}},
    )  # fmt: skip
    request = Request("a", (user("é “quoted” \n"),), settings)
    body = scripted(lambda n, body: (200, ok()), [request])[0].bodies[0]
    assert "temperature" not in body
    assert (body["top_p"], body["seed"], body["stop"], body["max_tokens"]) == (0.5, 3, ["END"], 77)
    assert body["logprobs"] is True and body["top_logprobs"] == 2
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert body["provider"] == {"order": ["x"]}
    assert body["messages"][0]["content"] == "é “quoted” \n"


def test_large_prompts_go_out_unharmed() -> None:
    shots = [Picture(make_jpeg(i, (300, 300)), name=f"{i}.jpg") for i in range(30)]
    requests = [Request(f"q{i}", (user(*shots, f"Which {i}?"),)) for i in range(4)]
    server, found, _ = scripted(lambda n, body: (200, ok()), requests)
    assert len(found) == 4
    for body in server.bodies:
        assert len(body["messages"][0]["content"]) == 31
        assert len(json.dumps(body)) > 1 << 20


def test_an_unreadable_picture_fails_its_item_only() -> None:
    requests = [ask_about(1, make_jpeg(1)), ask_about(2, b"not a photo"), ask_about(3)]
    server, found, _ = scripted(lambda n, body: (200, ok()), requests)
    assert found["item-2"].outcome == "failed" and "not an image" in found["item-2"].error
    assert len(server.bodies) == 2


def test_openrouter_is_asked_to_say_what_it_cost() -> None:
    model = chat_model("chat/openrouter/openai/gpt-4o")
    body = API.body(ask_about(1), [], model, model.lacks)
    assert body["usage"] == {"include": True} and body["model"] == "openai/gpt-4o"


def test_settings_a_model_does_not_take_are_not_sent() -> None:
    model = chat_model("chat/openai/o4-mini")
    assert "temperature" in model.lacks and "schema" not in model.lacks
    body = API.body(ask_about(1), [], model, model.lacks)
    assert "temperature" not in body and body["max_completion_tokens"] == 1024
