"""Which row of the table does an id mean, and what of it goes into a request?"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import AnswerSettings, MockServer, Usage, chat_model, user_tables
from fieldmark.chat.prices import load_tables
from fieldmark.errors import UsageError
from fieldmark.experiments import Axes, make_jobs
from fieldmark.settings import user_config
from kit.chat import FAST, ask_about, ask_all

SMALL_DATA = {
    "meta-llama/llama-3.2-3b-instruct": (0.015, 0.025, ("fp32", "bf16")),
    "meta-llama/llama-3.2-11b-vision-instruct": (0.055, 0.055, ("fp32", "bf16")),
    "qwen/qwen-2-vl-7b-instruct": (0.1, 0.1, ("fp32", "bf16")),
    "qwen/qwen2.5-vl-72b-instruct": (0.7, 0.7, ("fp16",)),
    "google/gemini-flash-1.5-8b": (0.0375, 0.15, ()),
    "google/gemini-2.0-flash-lite-001": (0.075, 0.3, ()),
    "google/gemini-2.0-flash-001": (0.1, 0.4, ()),
    "openai/gpt-4o-mini-2024-07-18": (0.15, 0.6, ()),
    "openai/gpt-4o-2024-11-20": (2.5, 10.0, ()),
}


@pytest.mark.parametrize("name", SMALL_DATA)
def test_the_nine_of_small_data_metrics_have_rows(name: str) -> None:
    card = load_tables().card("openrouter", name)
    assert (card.usd_in, card.usd_out, card.quantizations) == SMALL_DATA[name]
    assert not card.priced_as


@pytest.mark.parametrize(
    ("provider", "name", "row"),
    [
        ("openai", "gpt-4o-2024-11-20", "gpt-4o"),
        ("openai", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai", "gpt-4.1-nano-2025-04-14", "gpt-4.1-nano"),
        ("openai", "o4-mini-2025-04-16", "o4-mini"),
        ("openai", "gpt-5-2025-08-07", "gpt-5"),
        ("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic", "claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("anthropic", "claude-3-7-sonnet-latest", "claude-3-7-sonnet-20250219"),
        ("anthropic", "claude-3-5-haiku", "claude-3-5-haiku-20241022"),
        ("google", "gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"),
        ("google", "gemini-2.5-flash-lite-preview-06-17", "gemini-2.5-flash-lite"),
        ("google", "gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("openrouter", "openai/gpt-4o-2024-08-06", "openai/gpt-4o"),
        ("openrouter", "qwen/qwen2.5-vl-72b-instruct:free", "qwen/qwen2.5-vl-72b-instruct"),
        ("openrouter", "openai/gpt-4o-2024-08-06:nitro", "openai/gpt-4o"),
        ("openrouter", "google/gemini-2.0-flash-lite", "google/gemini-2.0-flash-lite-001"),
        ("openrouter", "mistralai/pixtral-12b-2409", "mistralai/pixtral-12b"),
    ],
)
def test_a_dated_id_is_known_by_its_family(provider: str, name: str, row: str) -> None:
    tables = load_tables()
    card, relative = tables.card(provider, name), tables.cards[provider, row]
    assert (card.id, card.priced_as) == (name, row)
    assert card.tokens_of_image(800, 600) == relative.tokens_of_image(800, 600)
    usage = Usage(1000, 10, cached=100)
    assert card.usd(usage) == (0.0 if name.endswith(":free") else relative.usd(usage))


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "gpt-4o-audio-preview-2024-12-17"),
        ("openai", "gpt-4o-search-preview"),
        ("openai", "gpt-4o-realtime-preview"),
        ("openai", "gpt-4o-transcribe"),
        ("openai", "chatgpt-4o-latest"),
        ("openai", "gpt-4"),
        ("openai", "gpt-5-nano-2025-08-07"),
        ("anthropic", "claude-opus-4-20250514"),
        ("anthropic", "claude-3-7-sonnet-20260101"),
        ("google", "gemini-2.5-flash-image-preview"),
        ("google", "gemini-2.5-flash-preview-tts"),
        ("openrouter", "qwen/qwen2.5-vl-7b-instruct"),
        ("openrouter", "openai/gpt-4o:online"),
        ("openrouter", "openai/gpt-4o:extended"),
        ("vllm", "Qwen/Qwen2.5-VL-7B-Instruct-AWQ"),
        ("ollama", "qwen2.5vl:72b"),
    ],
)
def test_another_size_or_product_is_not_the_family(provider: str, name: str) -> None:
    card = load_tables().card(provider, name)
    assert (card.priced_as, card.is_priced, card.image_tokens) == ("", False, None)


def test_a_dated_row_of_its_own_wins() -> None:
    assert load_tables().card("openai", "gpt-4o-2024-05-13").usd_in == 5.0


class Listening(MockServer):
    """Keeps the bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []

    async def _answer(self, request: Any, data: bytes) -> Any:
        self.bodies.append(json.loads(data))
        return await super()._answer(request, data)


def sent_to(name: str, start: Path, **extra: Any) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        server = Listening()
        model = chat_model(name, user_tables(start))
        try:
            here = dataclasses.replace(model, base_url=await server.start())
            asked = dataclasses.replace(ask_about(1), settings=AnswerSettings(extra=extra))
            await ask_all([asked], here, FAST)
        finally:
            await server.stop()
        return server.bodies[0]

    return asyncio.run(work())


def test_quantizations_are_sent_and_tell_answers_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")
    name = "chat/openrouter/qwen/qwen2.5-vl-72b-instruct"
    body = sent_to(name, tmp_path)
    assert body["provider"] == {"quantizations": ["fp16"]}
    assert body["usage"] == {"include": True}
    both = sent_to(name, tmp_path, provider={"data_collection": "deny"})["provider"]
    assert both == {"quantizations": ["fp16"], "data_collection": "deny"}
    own = sent_to(name, tmp_path, provider={"quantizations": ["int8"]})["provider"]
    assert own == {"quantizations": ["int8"]}
    assert "provider" not in sent_to("chat/openrouter/openai/gpt-4o", tmp_path)
    usual = chat_model(name, user_tables(tmp_path))
    (tmp_path / "fieldmark.toml").write_text(
        '[[chat_models]]\nprovider = "openrouter"\nid = "qwen/qwen2.5-vl-72b-instruct"\n'
        'quantizations = ["fp8"]\n'
    )
    mine = chat_model(name, user_tables(tmp_path))
    assert mine.body["provider"] == {"quantizations": ["fp8"]}
    assert mine.address != usual.address and mine.fingerprint != usual.fingerprint


def test_gemini_is_another_word_for_google() -> None:
    """Results and paid answers must not stand under two names."""
    options = "gemini-2.5-flash?max_tokens=90"
    one, other = (chat_model(f"chat/{word}/{options}") for word in ("google", "gemini"))
    assert one == other and other.name == f"chat/google/{options}"
    names = ("chat/gemini/gemini-2.5-pro", "chat/google/gemini-2.5-pro", "classical/colour")
    jobs = make_jobs([(name, "") for name in names], [("newt", "")], Axes())
    assert list(dict.fromkeys(job.model for job in jobs)) == [*names[1:]]


def test_a_provider_of_the_user_wins_over_another_word(tmp_path: Path) -> None:
    """One of a folder does not: it would send questions and keys elsewhere."""
    row = '[[chat_providers]]\nname = "gemini"\nbase_url = "http://127.0.0.1:9/v1"\n'
    (tmp_path / "fieldmark.toml").write_text(row)
    with pytest.raises(UsageError, match="gives the known provider 'gemini' another address"):
        chat_model("chat/gemini/mine", user_tables(tmp_path))
    (tmp_path / "fieldmark.toml").unlink()
    user_config().parent.mkdir(parents=True)
    user_config().write_text(row)
    model = chat_model("chat/gemini/mine", user_tables(tmp_path))
    assert (model.name, model.base_url) == ("chat/gemini/mine", "http://127.0.0.1:9/v1")
