"""Are Claude and Gemini asked in the forms their vendors document, are their replies read right?

The servers of the kit refuse what the vendors refuse: an answer shows that the form is right.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerSettings,
    Picture,
    Request,
    Text,
    Usage,
    assistant,
    chat_model,
    system,
    user,
)
from fieldmark.chat.messages import Message
from fieldmark.chat.prices import load_tables
from fieldmark.errors import FieldmarkError, ModelError, UnknownName, UsageError
from kit.chat import FAST, ask_all, collect, make_jpeg
from kit.native_servers import KEY, AnthropicServer, GeminiServer, NativeServer, Refused

CLAUDE, NEW_CLAUDE = "claude-sonnet-4-5", "claude-opus-4-8"
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer", "minimum": 0}},
    "required": ["answer"],
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATIVE_KEY", KEY)


def asked(
    server: NativeServer, model: str, requests: list[Request], key: str = "NATIVE_KEY"
) -> tuple[dict[str, Answer], Any]:
    """The answers, and the totals or the error."""
    provider = "anthropic" if isinstance(server, AnthropicServer) else "google"

    async def work() -> Any:
        answers: dict[str, Answer] = {}
        url = await server.start()
        name = f"chat/{provider}/{model}?base_url={url}&key_env={key}"
        try:
            end: Any = await ask_all(requests, chat_model(name), FAST, on_answer=collect(answers))
        except FieldmarkError as error:
            end = error
        finally:
            await server.stop()
        return answers, end

    answers, end = asyncio.run(work())
    return answers, end


def usual(make: object) -> str:
    return CLAUDE if make is AnthropicServer else "gemini-2.5-flash"


def question(settings: AnswerSettings | None = None, name: str = "q") -> Request:
    messages = (
        system("You know birds."),
        user("Which bird?", Picture(make_jpeg(1)), "\n", "A. wren"),
        assistant("Answer: A"),
        user("And this?", Picture(make_jpeg(2))),
    )
    return Request(name, messages, settings or AnswerSettings())


FULL = AnswerSettings(
    temperature=0.0, top_p=0.9, seed=3, stop=("END", "\n\n"), max_output_tokens=4000, schema=SCHEMA
)


@pytest.mark.parametrize("effort", ["", "none", "minimal", "low", "medium", "high", "xhigh"])
@pytest.mark.parametrize(
    ("make", "model"),
    [
        (AnthropicServer, CLAUDE), (AnthropicServer, "claude-haiku-4-5-20251001"),
        (AnthropicServer, "claude-sonnet-4-6"), (GeminiServer, "gemini-2.0-flash"),
        (GeminiServer, "gemini-2.5-flash"), (GeminiServer, "gemini-3-flash-preview"),
    ],
)  # fmt: skip
def test_every_setting_is_taken_at_the_first_try(
    make: Callable[[], NativeServer], model: str, effort: str
) -> None:
    server = make()
    settings = dataclasses.replace(FULL, reasoning_effort=effort)
    answers, totals = asked(server, model, [question(settings)])
    assert answers["q"].outcome == "ok" and answers["q"].text == "Answer: A"
    assert totals.n_attempts == 1, "nothing had to be left out"


def test_claude_is_asked_in_its_own_form() -> None:
    server = AnthropicServer()
    asked(server, CLAUDE, [question(FULL)])
    body = server.bodies[0]
    assert body["system"] == "You know birds."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert (body["temperature"], body["max_tokens"]) == (0.0, 4000)
    assert body["stop_sequences"] == ["END"], "white space alone is refused"
    assert "seed" not in body and "thinking" not in body
    schema = body["output_config"]["format"]["schema"]
    assert schema["properties"] == {"answer": {"type": "integer"}}
    assert schema["additionalProperties"] is False


def test_gemini_is_asked_in_its_own_form() -> None:
    server = GeminiServer()
    asked(server, "gemini-2.5-flash", [question(FULL)])
    body = server.bodies[0]
    assert body["systemInstruction"] == {"parts": [{"text": "You know birds."}]}
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]
    config = body["generationConfig"]
    assert (config["seed"], config["topP"], config["maxOutputTokens"]) == (3, 0.9, 4000)
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == SCHEMA and "thinkingConfig" not in config


def test_the_same_request_gives_the_same_bytes() -> None:
    from fieldmark.chat.send.api import as_json, load_api
    from fieldmark.chat.send.pictures import PictureLimits, prepare

    for form in ("anthropic", "gemini"):
        model = chat_model(f"chat/custom/{CLAUDE}?base_url=http://127.0.0.1:1/v1&api={form}")
        sent = [prepare(picture, PictureLimits(None, None)) for picture in question().pictures]
        one, two = (load_api(model.api).body(question(), sent, model, ()) for _ in range(2))
        assert as_json(one) == as_json(two)


def test_effort_is_a_budget_before_claude_4_6_and_a_level_after() -> None:
    settings = AnswerSettings(max_output_tokens=4000, reasoning_effort="medium")
    server = AnthropicServer()
    asked(server, CLAUDE, [question(settings)])
    body = server.bodies[0]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert "temperature" not in body, "refused while it thinks"
    server = AnthropicServer()
    asked(server, NEW_CLAUDE, [question(settings)])
    body = server.bodies[0]
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "medium"}


def test_effort_is_a_budget_for_gemini_2_5_and_a_level_after() -> None:
    settings = AnswerSettings(max_output_tokens=4000, reasoning_effort="medium")
    for model, key, value in [
        ("gemini-2.5-flash", "thinkingBudget", 2000),
        ("gemini-3-flash-preview", "thinkingLevel", "MEDIUM"),
    ]:
        server = GeminiServer()
        asked(server, model, [question(settings)])
        assert server.bodies[0]["generationConfig"]["thinkingConfig"][key] == value


def test_too_little_room_to_think_is_said_before_anything_is_sent() -> None:
    settings = AnswerSettings(max_output_tokens=256, reasoning_effort="high")
    server = AnthropicServer()
    _, end = asked(server, CLAUDE, [question(settings)])
    assert isinstance(end, UsageError) and "256" in str(end) and not server.n_calls


def test_a_setting_a_newer_model_refuses_is_left_out() -> None:
    server = AnthropicServer()
    answers, totals = asked(server, NEW_CLAUDE, [question(FULL, f"q{n}") for n in range(3)])
    assert {answer.outcome for answer in answers.values()} == {"ok"}
    assert "temperature" not in server.bodies[0] and totals.n_attempts <= 9


def test_an_older_claude_is_asked_without_the_schema_it_refuses() -> None:
    server = AnthropicServer()
    answers, totals = asked(server, "claude-3-5-haiku-20241022", [question(FULL)])
    assert answers["q"].outcome == "ok" and totals.n_attempts == 2
    assert "output_config" not in server.bodies[0] and server.bodies[0]["temperature"] == 0.0


def test_what_prompts_share_is_cached_and_priced() -> None:
    shared = (Text("Which bird? " * 200), Picture(make_jpeg(1)), Text("Now this one:", True))
    requests = [
        Request(f"q{n}", (Message("user", (*shared, Picture(make_jpeg(5 + n)))),)) for n in range(3)
    ]
    server = AnthropicServer()
    answers, _ = asked(server, CLAUDE, requests[:1])
    answers |= asked(server, CLAUDE, requests[1:])[0]
    marks = [
        block for block in server.bodies[0]["messages"][0]["content"] if "cache_control" in block
    ]
    assert [block["text"] for block in marks] == ["Now this one:"]
    usages = [answers[f"q{n}"].usage for n in range(3)]
    assert all(usage is not None for usage in usages)
    first, second, third = [usage for usage in usages if usage is not None]
    n_shared = first.to_cache
    assert n_shared > 700 and first.cached == 0
    assert second.cached == third.cached == n_shared and second.to_cache == 0
    assert second.tokens_in == first.tokens_in == n_shared + 100
    # claude-sonnet-4-5: $3 in, $15 out, $0.30 cached, per million; writing costs a quarter more.
    outs = first.tokens_out * 15
    assert answers["q0"].usd == pytest.approx((100 * 3 + n_shared * 3 * 1.25 + outs) / 1e6)
    assert answers["q1"].usd == pytest.approx((100 * 3 + n_shared * 0.3 + outs) / 1e6)


def test_thoughts_are_kept_apart_and_paid() -> None:
    settings = AnswerSettings(max_output_tokens=4000, reasoning_effort="low")
    claude = AnthropicServer()
    claude.thoughts = "It has a ring."
    answers, _ = asked(claude, CLAUDE, [question(settings)])
    assert (answers["q"].text, answers["q"].reasoning) == ("Answer: A", "It has a ring.")
    gemini = GeminiServer()
    gemini.n_thoughts = 300
    answers, _ = asked(gemini, "gemini-2.5-flash", [question(settings)])
    answer = answers["q"]
    assert (answer.text, answer.reasoning) == ("Answer: A", "It has a ring.")
    assert answer.usage is not None and answer.usage.reasoning == 300
    assert answer.usage.tokens_out == 303, "the answer's 3 and the thoughts"
    card = load_tables().cards["google", "gemini-2.5-flash"]
    assert answer.usd == card.usd(answer.usage) and answer.usd > 303 * 2.5 / 1e6


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [("max_tokens", "length"), ("model_context_window_exceeded", "length"),
     ("refusal", "refused"), ("stop_sequence", "ok")],
)  # fmt: skip
def test_how_claude_stopped(reason: str, outcome: str) -> None:
    server = AnthropicServer()
    server.stop_reason = reason
    answers, _ = asked(server, CLAUDE, [question()])
    assert (answers["q"].outcome, answers["q"].finish_reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("reason", "text", "outcome"),
    [("MAX_TOKENS", "Ans", "length"), ("MAX_TOKENS", "", "length"), ("SAFETY", "", "refused"),
     ("RECITATION", "", "refused"), ("PROHIBITED_CONTENT", "", "refused"), ("STOP", "", "ok")],
)  # fmt: skip
def test_how_gemini_stopped(reason: str, text: str, outcome: str) -> None:
    server = GeminiServer(lambda words: text)
    server.finish = reason
    answers, _ = asked(server, "gemini-2.5-flash", [question()])
    assert (answers["q"].outcome, answers["q"].finish_reason) == (outcome, reason.lower())


def test_a_prompt_that_gemini_blocks_is_refused() -> None:
    server = GeminiServer()
    server.block_reason = "PROHIBITED_CONTENT"
    answers, _ = asked(server, "gemini-2.5-flash", [question()])
    assert answers["q"].outcome == "refused" and answers["q"].usage == Usage(7, 0)
    assert server.n_calls["ask"] == 1


def test_log_probabilities_of_gemini_and_their_absence() -> None:
    settings = AnswerSettings(top_logprobs=2)
    server = GeminiServer(lambda words: "A")
    answers, _ = asked(server, "gemini-2.0-flash", [question(settings)])
    (chance,) = answers["q"].logprobs
    assert (chance.token, chance.top) == ("A", (("A", -0.25), ("B", -1.5)))
    server.has_logprobs = False
    answers, totals = asked(server, "gemini-2.0-flash", [question(settings)])
    assert answers["q"].outcome == "ok" and totals.n_attempts == 2


INVALID, QUOTA = (
    "invalid_request_error",
    "You exceeded your current quota, check your billing details.",
)
DAY = {"retry_delay": "3s", "quota": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (AnthropicServer, Refused(400, "Your credit balance is too low to go on.", INVALID)),
        (
            AnthropicServer,
            Refused(400, "You have reached your specified API usage limits.", INVALID),
        ),
        (AnthropicServer, Refused(403, "Your API key has no permission", "permission_error")),
        (GeminiServer, Refused(429, QUOTA, "RESOURCE_EXHAUSTED", **DAY)),
        (GeminiServer, Refused(400, "User location is not supported.", "FAILED_PRECONDITION")),
    ],
)
def test_errors_that_no_further_request_would_escape_stop_the_run(
    make: Callable[[], NativeServer], refused: Refused
) -> None:
    server = make()
    server.refuse = lambda call: refused
    _, end = asked(server, usual(make), [question(name=f"q{n}") for n in range(40)])
    assert isinstance(end, ModelError) and refused.text[:20] in str(end)
    assert server.n_calls["ask"] <= 10


@pytest.mark.parametrize("make", [AnthropicServer, GeminiServer])
def test_a_wrong_key_and_an_unknown_model_stop_the_run(
    make: Callable[[], NativeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG_KEY", "another-key-0123456789")
    for model, key in [(usual(make), "WRONG_KEY"), ("llama-7", "NATIVE_KEY")]:
        _, end = asked(make(), model, [question()], key)
        assert isinstance(end, ModelError) and "another-key" not in str(end)


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (AnthropicServer, Refused(529, "Overloaded", "overloaded_error")),
        (AnthropicServer, Refused(429, "rate limit", "rate_limit_error", **{"retry-after": "0"})),
        (GeminiServer, Refused(503, "The model is overloaded.", "UNAVAILABLE")),
        (GeminiServer, Refused(429, QUOTA, "RESOURCE_EXHAUSTED", retry_delay="0.01s")),
    ],
)
def test_errors_that_pass_are_waited_out(
    make: Callable[[], NativeServer], refused: Refused
) -> None:
    server = make()
    server.refuse = lambda call: refused if server.n_calls["ask"] <= 2 else None
    answers, _ = asked(server, usual(make), [question()])
    assert answers["q"].outcome == "ok" and answers["q"].attempts == 3


def test_how_long_gemini_asks_to_wait_is_read() -> None:
    from fieldmark.chat.send.api.gemini import API

    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "47.5s"}
    body = {"error": {"code": 429, "message": "quota", "details": [{}, detail]}}
    assert API.judge(429, {}, json.dumps(body).encode()).wait_s == 47.5
    odd = ({"error": {"details": [{"retryDelay": 7}]}}, {"error": []}, [], "x")
    for text in (*map(json.dumps, odd), "[" * 20_000):  # the last one was found by fuzzing
        assert API.judge(429, {}, text.encode()).verdict == "again"


@pytest.mark.parametrize(
    "reply",
    [
        {}, {"content": "text"}, {"content": None}, {"type": "error", "error": {"message": "no"}},
        {"candidates": []}, {"candidates": [7]}, {"candidates": "x"}, {"error": {"code": 500}},
        {"candidates": [{"finishReason": "OTHER"}]}, {"promptFeedback": {}},
    ],
)  # fmt: skip
def test_replies_without_an_answer_are_no_answers(reply: dict[str, Any]) -> None:
    from fieldmark.chat.send.api import BadReply
    from fieldmark.chat.send.api.anthropic import API as CLAUDES
    from fieldmark.chat.send.api.gemini import API as GEMINIS

    for api in (CLAUDES, GEMINIS):
        with pytest.raises(BadReply):
            api.read(reply)


@pytest.mark.parametrize("odd", ["x", [], 7, {"input_tokens": -1, "promptTokenCount": "x"}])
def test_counts_that_are_none_do_not_harm_the_answer(odd: Any) -> None:
    from fieldmark.chat.send.api.anthropic import API as CLAUDES
    from fieldmark.chat.send.api.gemini import API as GEMINIS

    claude = CLAUDES.read({"content": [{"type": "text", "text": "A"}, 7], "usage": odd})
    parts = {"parts": [{"text": "A"}, 7]}
    gemini = GEMINIS.read(
        {"candidates": [{"content": parts, "finishReason": "STOP", "logprobsResult": odd}],
         "usageMetadata": odd}
    )  # fmt: skip
    for answer in (claude, gemini):
        assert (answer.outcome, answer.text, answer.usage) == ("ok", "A", None)


def test_a_name_may_say_which_form_its_endpoint_speaks() -> None:
    url = "http://127.0.0.1:1/v1"
    assert chat_model(f"chat/custom/m?base_url={url}").api == "openai"
    assert chat_model(f"chat/custom/m?base_url={url}&api=anthropic").api == "anthropic"
    assert chat_model(f"chat/anthropic/{CLAUDE}?api=openai").api == "openai"
    with pytest.raises(UnknownName, match="anthropic"):
        chat_model(f"chat/custom/m?base_url={url}&api=antropic")
    plain, own = (
        chat_model(f"chat/custom/m?base_url={url}&api={form}") for form in ("openai", "gemini")
    )
    assert "api" not in plain.address and own.address["api"] == "gemini"
