"""Do stop strings, top_p and seed arrive at the server, and does every answer end where told?"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fieldmark.chat import Answer, AnswerSettings, MockScript, Request, chat_model, user
from fieldmark.chat.messages import cut
from fieldmark.errors import ModelError
from kit.chat import FAST, CountingServer, ask_all, collect, with_server


@pytest.mark.parametrize(("text", "stops", "left"), [
    ("wren\n\nQ: next", ("\n\n",), "wren"),
    ("wren\n\nQ: next", ("Q:", "\n"), "wren"),
    ("wren", ("x", ""), "wren"),
    ("wren", (), "wren"),
    ("wren", ("wren",), ""),
    ("", ("a",), ""),
])  # fmt: skip
def test_a_text_is_cut_before_the_first_stop_string(
    text: str, stops: tuple[str, ...], left: str
) -> None:
    assert cut(text, stops) == left


def asked(settings: AnswerSettings, said: str, **model: Any) -> tuple[Answer, list[dict[str, Any]]]:
    """The answer and the bodies that came, from a server that says just this."""
    found: dict[str, Answer] = {}

    async def work(server: CountingServer, name: str) -> list[dict[str, Any]]:
        server.keeps_bodies = True
        request = Request("a", (user("Which bird?"),), settings)
        chosen = dataclasses.replace(chat_model(name), **model)
        await ask_all([request], chosen, FAST, on_answer=collect(found))
        return server.bodies

    bodies = with_server(MockScript(), work, answers={"Which bird?": said})
    return found["a"], bodies


def test_defect_lmms_eval_stop_top_p_and_seed_are_sent() -> None:
    settings = AnswerSettings(temperature=0.7, top_p=0.9, seed=11, stop=("\n\n", "Q:"))
    answer, (body,) = asked(settings, "wren\n\nIt sings.")
    assert (body["top_p"], body["seed"], body["stop"]) == (0.9, 11, ["\n\n", "Q:"])
    assert body["temperature"] == 0.7
    assert (answer.text, answer.outcome, answer.finish_reason) == ("wren", "ok", "stop")


def test_more_stop_strings_than_an_endpoint_takes_are_all_kept() -> None:
    settings = AnswerSettings(stop=("1", "2", "", "1", "3", "4", "5", "\n"))
    answer, (body,) = asked(settings, "wren\nrobin 5 dunnock")
    assert body["stop"] == ["1", "2", "3", "4"], "the mock refuses more, as OpenAI does"
    assert (answer.text, answer.outcome) == ("wren", "ok")


def test_the_mock_refuses_five_stop_strings() -> None:
    settings = AnswerSettings(extra={"stop": list("12345")})
    with pytest.raises(ModelError, match="at most 4"):
        asked(settings, "wren")


def test_an_endpoint_that_takes_no_stop_strings_is_cut_here() -> None:
    plain = chat_model("chat/mock/wren")
    deaf = plain.provider.model_copy(update={"lacks": ("stop",)})
    answer, (body,) = asked(AnswerSettings(stop=("\n",)), "wren\nrobin", provider=deaf)
    assert "stop" not in body
    assert answer.text == "wren"


def test_an_answer_that_ran_on_after_its_stop_string_is_whole() -> None:
    """The fifth string stands in time; what filled the room after it does not matter."""
    settings = AnswerSettings(stop=(*"1234", "END"), max_output_tokens=4)
    answer, _ = asked(settings, "wren END and so on and on")
    assert (answer.text, answer.outcome, answer.finish_reason) == ("wren ", "ok", "stop")
    answer, _ = asked(settings, "wren and so on and END")
    assert (answer.text, answer.outcome) == ("wren and so on", "length")


def test_a_refusal_is_not_cut() -> None:
    found: dict[str, Answer] = {}

    async def work(_: CountingServer, name: str) -> None:
        request = Request("a", (user("Which?"),), AnswerSettings(stop=("'",)))
        await ask_all([request], chat_model(name), FAST, on_answer=collect(found))

    with_server(MockScript(p_refuse=1.0), work)
    assert found["a"].outcome == "refused" and "can't help" in found["a"].text
