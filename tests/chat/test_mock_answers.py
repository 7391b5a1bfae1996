"""Does the mock say what it is told to, in the room it has?"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerSettings,
    MockScript,
    MockServer,
    Request,
    ask_now,
    assistant,
    chat_model,
    user,
)
from fieldmark.chat.mock.server import settings_of
from fieldmark.errors import UsageError
from kit.chat import FAST, ask_all, collect, with_server

PLAIN = AnswerSettings()


def texts(
    answers: Any, *prompts: str, settings: AnswerSettings = PLAIN, script: MockScript | None = None
) -> list[Answer]:
    found: dict[str, Answer] = {}

    async def work(_: MockServer, name: str) -> None:
        model = chat_model(name)
        for number, prompt in enumerate(prompts):
            request = Request(str(number), (user(prompt),), settings)
            await ask_all([request], model, FAST, on_answer=collect(found))

    with_server(script or MockScript(), work, answers=answers)
    return [found[str(number)] for number in range(len(prompts))]


def test_answers_by_prompt() -> None:
    answers = {"Which bird?": "wren", "bird": "some bird", "big bird": "heron"}
    got = texts(answers, "Which bird?", "A bird!", "A big bird!", "A fish?")
    assert [each.text for each in got] == ["wren", "some bird", "heron", "I cannot tell."]


def test_answers_one_after_another() -> None:
    got = texts({"Which": ["wren", "robin"]}, "Which 1?", "Which 2?", "Which 3?")
    assert [each.text for each in got] == ["wren", "robin", "robin"]


def test_answers_by_a_function() -> None:
    def say(text: str, body: Mapping[str, Any]) -> str | None:
        return f"{text} {body['temperature']}" if "bird" in text else None

    got = texts(say, "A bird", "A fish", settings=AnswerSettings(temperature=0.25))
    assert [each.text for each in got] == ["A bird 0.25", "I cannot tell."]


def test_earlier_turns_count_too() -> None:
    found: dict[str, Answer] = {}

    async def work(_: MockServer, name: str) -> None:
        messages = (user("First the wren."), assistant("Yes."), user("And now?"))
        await ask_all([Request("a", messages)], chat_model(name), FAST, on_answer=collect(found))

    with_server(MockScript(), work, answers={"wren": "robin"})
    assert found["a"].text == "robin"


def test_answers_of_a_file_named_in_the_model(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({"Which bird?": "wren"}), encoding="utf-8")
    assert chat_model(f"chat/mock/wren?answers={path}").answer([user("Which bird?")]).text == "wren"


@pytest.mark.parametrize(("text", "words"), [
    (None, "answers cannot be read"),
    ("{", "answers cannot be read"),
    ("[1]", "expected a JSON object"),
    ('{"a": 1}', "expected a JSON object"),
    ('{"a": []}', "expected a JSON object"),
])  # fmt: skip
def test_a_file_of_answers_that_is_none(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "answers.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=words) as error:
        ask_now([Request("a", (user("?"),))], chat_model(f"chat/mock/wren?answers={path}"))
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_the_room_for_the_answer_is_kept() -> None:
    said = {"Which": "The wren, of course."}
    (whole,) = texts(said, "Which?", settings=AnswerSettings(max_output_tokens=6))
    assert (whole.text, whole.outcome) == ("The wren, of course.", "ok")
    (short,) = texts(said, "Which?", settings=AnswerSettings(max_output_tokens=3))
    assert (short.text, short.outcome, short.finish_reason) == ("The wren,", "length", "length")
    assert short.usage is not None and short.usage.tokens_out <= 3


def test_stop_strings_are_kept_by_the_server_itself() -> None:
    body = {"stop": "\n", "max_tokens": 5, "messages": [{"role": "user", "content": "Which?"}]}
    reply = MockServer(answers={"Which": "wren\nrobin"}).reply(json.dumps(body).encode())
    assert reply["choices"][0]["message"]["content"] == "wren"
    assert reply["choices"][0]["finish_reason"] == "stop"


def test_log_probabilities_are_given_when_asked_for_and_the_same_again() -> None:
    prompt = "Which?\nOptions:\nA. wren\nB. robin"
    asked = AnswerSettings(top_logprobs=3)
    first, again = (texts({"Which": "Answer: B"}, prompt, settings=asked)[0] for _ in range(2))
    assert first.logprobs == again.logprobs
    assert [each.token for each in first.logprobs] == ["Answer", ":", " B"]
    assert all(len(each.top) == 3 for each in first.logprobs)
    assert first.logprobs[2].top[0][0] == " B"
    assert {token.strip() for token, _ in first.logprobs[2].top} == {"A", "B"}
    total = sum(math.exp(value) for _, value in first.logprobs[2].top)
    assert 0.9 < total <= 1
    (plain,) = texts({"Which": "Answer: B"}, prompt)
    assert plain.logprobs == ()


def test_a_skilled_mock_is_surer() -> None:
    def sureness(skill: float) -> float:
        (answer,) = texts(
            {"Which": "B"}, "Which?\nA. wren\nB. robin", settings=AnswerSettings(top_logprobs=5),
            script=MockScript(skill=skill),
        )  # fmt: skip
        return answer.logprobs[0].logprob

    assert sureness(0.1) < sureness(0.5) < sureness(1.0) < 0


def test_settings_are_read_without_the_messages() -> None:
    ours = b'{"model":"m","stop":["x"],"messages":[{"role":"user","content":"a"}]}'
    theirs = json.dumps({"messages": [], "model": "m", "stop": ["x"]}).encode()
    tricky = b'{"messages":[{"content":",\\"messages\\":["}],"model":"m","stop":["x"]}'
    nested = b'{"extra":{"a":1,"messages":[2]},"messages":[],"model":"m","stop":["x"]}'
    for data in (ours, theirs, tricky, nested):
        found = settings_of(data)
        assert (found["model"], found["stop"]) == ("m", ["x"])
