"""Multimodal language models behind an HTTP endpoint: `chat/PROVIDER/MODEL`.

    chat/openrouter/openai/gpt-4o-mini      any OpenAI-compatible endpoint; keys from environment
    chat/vllm/Qwen/Qwen2.5-VL-7B-Instruct?base_url=http://gpu7:8000/v1
    chat/mock/wren?skill=0.8                answers from this process, without network or key

What is known of them stands in `chat/models.toml`; `[[chat_models]]` in `fieldmark.toml` adds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.errors import UnknownName, UsageError
from fieldmark.models._backbone import Checkpoint
from fieldmark.registry import ANSWERS, MOCK

if TYPE_CHECKING:
    from fieldmark.chat import ChatModel
    from fieldmark.models._name import ModelName, ModelRequest

ABILITIES = (ANSWERS,)
SUMMARY = "multimodal language models over HTTP"


def _checkpoints() -> tuple[Checkpoint, ...]:
    """The rows of the table, without checking them: lists must be quick."""
    path = Path(__file__).parents[1] / "chat" / "models.toml"
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["chat_models"]
    return (
        *(
            Checkpoint(
                f"{row['provider']}/{row['id']}",
                title=row.get("title", ""),
                source=row["source"],
                price=_price(row),
                **_limits(row),
            )
            for row in rows
        ),
        Checkpoint("mock/wren", title="a mock that knows what it sees", licence="MIT"),
    )


def _price(row: Mapping[str, Any]) -> str:
    is_priced = "usd_in" in row and "usd_out" in row
    return f"{row['usd_in']:g} / {row['usd_out']:g}" if is_priced else ""


def _limits(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in ("context", "max_output", "max_images")}


CHECKPOINTS = _checkpoints()


def stand_in(name: ModelName) -> str:
    """`chat/mock/…` answers from this process; with a `base_url` it is whatever answers there."""
    from fieldmark.chat import chat_model, user_tables

    return MOCK if chat_model(name.text, user_tables(Path.cwd())).is_mock else ""


def relative_of(name: str) -> Checkpoint | None:
    """The row of a model that has none, from its family; None where there is none either."""
    from fieldmark.chat import chat_model, user_tables

    card = chat_model(name, user_tables(Path.cwd())).card
    if not card.priced_as:
        return None
    facts = card.model_dump(exclude_none=True)
    source = f"priced as {card.priced_as}: {card.source}"
    return Checkpoint(name, title=card.title, source=source, price=_price(facts), **_limits(facts))


def own_rows(name: str) -> str:
    """What rows of the user's change about the requests to a model, as a hash; "" = nothing."""
    from fieldmark.chat import chat_model, user_tables

    request_facts = chat_model(name, user_tables(Path.cwd())).request_facts
    with suppress(UsageError):  # a provider of the user's own
        if request_facts == chat_model(name).request_facts:
            return ""
    return draws.digest(request_facts).hex()[:16]


def check_name(name: str) -> None:
    """Refuses a provider or an option nobody knows; needs no key and no network."""
    from fieldmark.chat import chat_model, user_tables

    chat_model(name, user_tables(Path.cwd()))


def full_name(name: str) -> str:
    """The name without another word for its provider: `chat/gemini/…` is `chat/google/…`."""
    from fieldmark.chat import user_tables

    word = name.partition("/")[2].partition("/")[0]
    with suppress(UnknownName):
        provider = user_tables(Path.cwd()).provider(word)
        return name.replace(f"/{word}/", f"/{provider.name}/", 1)
    return name


def check_key(name: str, where: str, send_key: Sequence[str]) -> None:
    """Refuses a name whose key would go where only a file says; it stands at `where`."""
    from fieldmark.chat import chat_model, user_tables

    model = chat_model(name, user_tables(Path.cwd()), where)
    model.confirmed(send_key).refuse_stray_key()


def load(request: ModelRequest) -> ChatModel:
    from fieldmark.chat import chat_model, user_tables

    model = chat_model(request.name.text, user_tables(Path.cwd())).confirmed(request.send_key)
    if not model.card.sees:
        raise UsageError(f"model {model.name!r} cannot see images: choose one that can.")
    return model
