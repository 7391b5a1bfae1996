"""Does a name mean one endpoint, and does its key stay secret?"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fieldmark.chat import (
    AnswerJournal,
    AnswerSettings,
    Budget,
    ChatModel,
    MockScript,
    ask_now,
    chat_model,
    user,
    user_tables,
)
from fieldmark.errors import FieldmarkError, ModelError, UsageError
from fieldmark.settings import load_settings
from kit.chat import FAST, CountingServer, ask_about, ask_all, make_jpeg, running, with_server

SECRET = "sk-live-0123456789abcdefSECRET"


def test_a_name_gives_endpoint_model_and_key() -> None:
    model = chat_model("chat/openrouter/qwen/qwen2.5-vl-72b-instruct")
    assert model.base_url == "https://openrouter.ai/api/v1"
    assert model.id == "qwen/qwen2.5-vl-72b-instruct"
    assert model.key_env == "OPENROUTER_API_KEY"
    assert model.card.context == 131072


def test_options_of_a_name() -> None:
    name = "chat/vllm/Qwen/Qwen2.5-VL-7B?base_url=http://gpu7:8000/v1/&context=4096&max_tokens=9"
    model = chat_model(name)
    assert (model.base_url, model.card.context) == ("http://gpu7:8000/v1", 4096)
    assert model.settings(AnswerSettings()).max_output_tokens == 9


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chat/openruter/x/y", "Did you mean 'openrouter'"),
        ("chat/openai", "expected chat/PROVIDER/MODEL"),
        ("chat/openai/", "expected chat/PROVIDER/MODEL"),
        ("chat/openai/gpt-4o?", "cannot be read: expected family"),
        ("chat/openai/gpt-4o?base_ur=http://x", "Did you mean 'base_url'"),
        ("chat/openai/gpt-4o?context=big", "context=big, expected a whole number"),
        ("chat/openai/gpt-4o?context=1&context=2", "is given twice"),
        ("chat/custom/m", "no base_url, expected"),
        ("chat/custom/m?base_url=ftp://x", "expected \\?base_url=https"),
        ("chat/mock/wren?skil=0.5", "Did you mean 'skill'"),
        ("chat/mock/wren?skill=2", "from 0 to 1"),
        ("chat/mock/wren?style=loud", "expected asked, name, sentence, letter"),
    ],
)
def test_a_wrong_name_is_told_in_one_line(name: str, words: str) -> None:
    with pytest.raises(FieldmarkError, match=words) as error:
        ask_now([ask_about(1)], chat_model(name))
    assert "\n" not in str(error.value)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="environment only") as error:
        chat_model(f"chat/custom/m?base_url=https://me:{SECRET}@host/v1")
    assert SECRET not in str(error.value)


class Nowhere(CountingServer):
    """Has nothing at the address that is asked."""

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        return web.json_response({"detail": "Not Found"}, status=404)


def test_the_address_that_was_asked_is_told() -> None:
    with running(Nowhere()) as url:
        base = url.removesuffix("/v1")
        with pytest.raises(ModelError) as error:
            ask_now([ask_about(1)], chat_model(f"chat/custom/m?base_url={base}"))
    told = str(error.value)
    assert f"404 Not Found (asked {base}/chat/completions; most servers want {base}/v1)" in told


def test_an_address_with_the_path_of_a_request_is_refused() -> None:
    with pytest.raises(UsageError, match=r"write \?base_url=http://h:1/v1\.$"):
        chat_model("chat/custom/m?base_url=http://h:1/v1/chat/completions")


def test_a_strange_provider_is_told_which_there_are() -> None:
    with pytest.raises(UsageError, match=r"'gpt' is not known\..*anthropic, .*openai, "):
        chat_model("chat/gpt/4o")


def test_a_key_that_the_name_asks_for_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent without it, not even to this machine."""
    monkeypatch.delenv("MY_LAB_KEY", raising=False)
    name = "chat/custom/m?base_url=http://127.0.0.1:9/v1&key_env=MY_LAB_KEY"
    with pytest.raises(ModelError, match="no MY_LAB_KEY"):
        ask_now([ask_about(1)], chat_model(name))


def test_a_missing_key_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="no OPENAI_API_KEY"):
        ask_now([ask_about(1)], chat_model("chat/openai/gpt-4o"))


def test_a_providers_key_never_goes_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    elsewhere = chat_model("chat/openai/gpt-4o?base_url=http://127.0.0.1:9/v1")
    assert elsewhere.key() == ""
    told = chat_model("chat/openai/gpt-4o?base_url=http://h/v1&key_env=OPENAI_API_KEY")
    assert told.key() == SECRET


class Repeating(CountingServer):
    """Quotes the key back in its errors, as some endpoints do."""

    seen: str = ""

    async def _handle(self, request: Any) -> Any:
        from aiohttp import web

        self.seen = request.headers.get("Authorization", "")
        said = {"error": {"message": f"Incorrect API key: {self.seen}", "code": 401}}
        return web.json_response(said, status=401)


def test_a_key_is_sent_but_stands_in_no_error_log_journal_or_repr(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CHAT_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)

    async def work() -> tuple[str, str, ChatModel]:
        server = Repeating()
        model = chat_model(f"chat/custom/m?base_url={await server.start()}")
        try:
            with AnswerJournal(tmp_path) as journal, pytest.raises(ModelError) as error:
                await ask_all([ask_about(1)], model, FAST, journal)
        finally:
            await server.stop()
        return server.seen, str(error.value), model

    seen, told, model = asyncio.run(work())
    assert seen == f"Bearer {SECRET}"
    assert "401" in told and "Incorrect API key" in told
    assert told.endswith(
        ". The key in CHAT_API_KEY was sent: check that it is right. No answer was stored."
    )
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    for text in (told, caplog.text, repr(model), written, str(model.address)):
        assert SECRET not in text and "0123456789abcdef" not in text


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("custom", "Put it into the environment variable CHAT_API_KEY."),
        (
            "openai",
            "Put it into an environment variable, such as LAB_KEY, and add "
            "&key_env=LAB_KEY to the model's name.",
        ),
    ],
)
def test_a_key_that_was_not_sent_is_asked_for_by_its_variable(
    name: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider's own key never goes to another address: its variable would not help there."""
    monkeypatch.delenv("CHAT_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    async def work() -> str:
        server = Repeating()
        model = chat_model(f"chat/{name}/m?base_url={await server.start()}")
        try:
            with pytest.raises(ModelError) as error:
                await ask_all([ask_about(1)], model, FAST)
        finally:
            await server.stop()
        assert not server.seen
        return str(error.value)

    assert asyncio.run(work()).endswith(f". No key was sent. {advice} No answer was stored.")


def test_defect_mllms_text_only_model_is_not_shown_images() -> None:
    model = chat_model("chat/openrouter/meta-llama/llama-3.2-3b-instruct")
    assert not model.card.sees

    async def work(server: CountingServer, name: str) -> None:
        import dataclasses

        here = dataclasses.replace(model, base_url=name.partition("base_url=")[2])
        with pytest.raises(UsageError, match="cannot see images"):
            await ask_all([ask_about(1, make_jpeg(1))], here, FAST)
        assert server.counts.n_requests == 0

    with_server(MockScript(), work)


def test_users_add_models_in_the_projects_file(tmp_path: Path) -> None:
    (tmp_path / "fieldmark.toml").write_text(
        'results = "out"\n'
        '[[chat_providers]]\nname = "lab"\nbase_url = "http://gpu1:8000/v1"\n'
        '[[chat_models]]\nprovider = "lab"\nid = "ours"\ncontext = 9000\n'
        'image_tokens = {rule = "squares", px = 14}\nusd_in = 0.5\nusd_out = 1.0\n'
    )
    model = chat_model("chat/lab/ours", user_tables(tmp_path))
    assert model.base_url == "http://gpu1:8000/v1" and model.card.context == 9000
    assert model.card.tokens_of_image(140, 140) == 102
    assert load_settings(start=tmp_path).results == tmp_path / "out"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("contxt = 3", ":4  key 'contxt' is not known. Did you mean 'context'"),
        ('context = "big"', ":4 .*expected a whole number"),
        ('image_tokens = {rule = "sqares"}', ":4 .*Did you mean 'squares'"),
        ("usd_in = -1", ":4 .*expected 0.* or more"),
    ],
)
def test_a_mistake_in_a_users_table_is_told_by_line(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "fieldmark.toml"
    path.write_text(f'[[chat_models]]\nprovider = "vllm"\nid = "x"\n{line}\n')
    with pytest.raises(UsageError, match=words):
        user_tables(tmp_path)


def test_a_cap_in_money_needs_a_price() -> None:
    with pytest.raises(UsageError, match="price of chat/mock/wren is unknown"):
        ask_now([ask_about(1)], chat_model("chat/mock/wren"), budget=Budget(max_usd=1.0))


def test_a_model_answers_one_question() -> None:
    answer = chat_model("chat/mock/wren").answer([user("Is this a bird?")])
    assert answer.outcome == "ok" and answer.usage is not None
