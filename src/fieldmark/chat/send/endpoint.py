"""Endpoint of a chat model: which address, model and key does a name mean?

    chat/openrouter/qwen/qwen2.5-vl-72b-instruct
    chat/vllm/Qwen/Qwen2.5-VL-7B-Instruct?base_url=http://gpu7:8000/v1&context=32768
    chat/mock/wren?skill=0.8

Everything that makes one model differ from another is in the name; keys are not: they come from
the environment when a request is sent, and are kept nowhere. Where they may go: `keys`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args
from urllib.parse import urlsplit

from fieldmark import draws
from fieldmark.chat.messages import DEFAULT_SETTINGS, Answer, AnswerSettings, Message
from fieldmark.chat.mock.answers import read_script
from fieldmark.chat.prices import Card, ModelTables, Provider, WireForm, load_tables
from fieldmark.chat.send.keys import (
    host_of,
    is_redirect,
    key_home,
    note_secret,
    read_key,
    redirect_refusal,
    refusal,
    who_sends,
)
from fieldmark.chat.send.options import check_options, is_loopback, whole_number
from fieldmark.chat.send.pictures import PictureLimits
from fieldmark.errors import ModelError, UnknownName, UsageError
from fieldmark.files import canonical_json
from fieldmark.registry import split_options

if TYPE_CHECKING:
    from fieldmark.chat.budget import Budget
    from fieldmark.chat.journal import AnswerJournal
    from fieldmark.chat.send.connection import ModelConnection
    from fieldmark.chat.send.options import Options

FAMILY = "chat"
OPTIONS = ("api", "base_url", "context", "key_env", "max_tokens")
_FORM = "expected chat/PROVIDER/MODEL, for example chat/openrouter/openai/gpt-4o-mini"


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model behind an HTTP endpoint."""

    name: str
    """as the user wrote it, its provider by that one's own name"""
    provider: Provider
    card: Card
    base_url: str
    key_env: str
    must_have_key: bool = False
    """the user says which variable holds it"""
    key_place: str = ""
    """the file that alone says that the key goes to this address: then it does not"""
    api: WireForm = "openai"
    max_tokens: int | None = None
    """room for the answer that the name asks for"""
    mock: Mapping[str, str] = field(default_factory=dict)
    """options of `chat/mock/…`: how the server behaves"""

    @property
    def id(self) -> str:
        return self.card.id

    @property
    def is_mock(self) -> bool:
        return self.base_url == "mock"

    @property
    def address(self) -> dict[str, str]:
        """What the journal's key knows the model by."""
        fields = {"provider": self.provider.name, "base_url": self.base_url, "model": self.id}
        if self.card.quantizations:
            fields["quantizations"] = ",".join(self.card.quantizations)
        fields |= {"api": self.api} if self.api != "openai" else {}
        return {**fields, "mock": canonical_json(dict(self.mock))} if self.mock else fields

    @property
    def body(self) -> Mapping[str, Any]:
        """Keys of every request besides those of its settings."""
        if not self.card.quantizations:
            return self.provider.body
        return {**self.provider.body, "provider": {"quantizations": [*self.card.quantizations]}}

    @property
    def request_facts(self) -> str:
        """All that tables say of the model and that may change what it is sent: not its price."""
        card, names = self.card, ("max_images", "max_image_px", "max_image_bytes")
        fields = {
            **self.address,
            "lacks": sorted(self.lacks),
            "limits": [self.limit(name) for name in (*names, "max_request_bytes")],
            "room": [card.context, card.max_output, card.thinks, card.is_known],
            "image_tokens": dict(card.image_tokens or {}),
            "body": dict(self.body),
        }
        return canonical_json(fields)

    @property
    def fingerprint(self) -> str:
        """Stands for the model in a store."""
        return draws.digest(canonical_json(self.address)).hex()

    @property
    def picture_limits(self) -> PictureLimits:
        return PictureLimits(self.limit("max_image_px"), self.limit("max_image_bytes"))

    @property
    def lacks(self) -> tuple[str, ...]:
        return (*self.provider.lacks, *self.card.lacks)

    @property
    def output_key(self) -> str:
        return self.card.output_key or self.provider.output_key

    def limit(self, name: str) -> int | None:
        """A limit of the model, else of its provider: max_images, max_request_bytes, …"""
        of_card: int | None = getattr(self.card, name)
        return of_card if of_card is not None else getattr(self.provider, name)

    def settings(self, settings: AnswerSettings) -> AnswerSettings:
        """The settings with the room for the answer that the name asks for."""
        return settings.with_room(self.max_tokens)

    def key(self) -> str:
        """The secret, from the environment; the error for a missing one names its variable."""
        self.refuse_stray_key()
        key = read_key(self.key_env) if self.key_env else ""
        may_lack = self.is_mock or not self.provider.base_url or is_loopback(self.base_url)
        if self.key_env and not key and (self.must_have_key or not may_lack):
            error = ModelError(
                f"model {self.name!r} needs a key: the environment has no {self.key_env}. "
                f"Set it, for example `export {self.key_env}=…`."
            )
            error.is_recorded = False
            raise error
        return key

    def key_note(self) -> str:
        """What was sent as the key, for an endpoint that says it is wrong."""
        if self.key_env and read_key(self.key_env):
            return f"The key in {self.key_env} was sent: check that it is right."
        if self.key_env:
            return f"No key was sent. Put it into the environment variable {self.key_env}."
        more = "&" if "?" in self.name else "?"
        return (
            "No key was sent. Put it into an environment variable, such as LAB_KEY, and add "
            f"{more}key_env=LAB_KEY to the model's name."
        )

    def refuse_stray_key(self) -> None:
        """Raises where there is a key that only a file would send to this address."""
        if self.key_place and read_key(self.key_env):
            raise refusal((self.key_env, self.base_url), self.key_place)

    def confirmed(self, send_key: Iterable[str]) -> ChatModel:
        """The model, its key free to go if the user says so: `VARIABLE=HOST`, with the port where
        the address has one.
        """
        is_free = self.key_place and f"{self.key_env}={host_of(self.base_url)}" in send_key
        return replace(self, key_place="") if is_free else self

    def priced(self, price: str | None) -> ChatModel:
        """The model with this price ("0.5/1.5" dollars a million tokens), if its own is unknown."""
        if price is None or self.card.is_priced:
            return self
        usd_in, usd_out = map(float, price.split("/"))
        card = self.card.model_copy(update={"usd_in": usd_in, "usd_out": usd_out})
        return replace(self, card=card)

    def line(
        self, options: Options, journal: AnswerJournal | None, budget: Budget
    ) -> ModelConnection:
        """What a session asks the model through."""
        from fieldmark.chat.send.connection import ModelConnection

        return ModelConnection(self, options, journal, budget)

    def answer(
        self, messages: Iterable[Message], settings: AnswerSettings = DEFAULT_SETTINGS
    ) -> Answer:
        """Asks one question now; for many, `ask_now` is faster and keeps a journal."""
        from fieldmark.chat.session import answer_now

        return answer_now(self, messages, settings)


def chat_model(name: str, tables: ModelTables | None = None, where: str = "") -> ChatModel:
    """The model a name means. Reads tables only: no key, no network.

    `where`: where a name stands that the user has not typed, but a file says.
    """
    base, options = split_options(name)
    family, provider_name, model_id, *_ = [*base.split("/", 2), "", ""]
    if family != FAMILY or not provider_name or not model_id:
        raise UsageError(f"model {name!r} cannot be read: {_FORM}.")
    tables = tables or load_tables()
    provider = tables.provider(provider_name)
    name = name.replace(f"/{provider_name}/", f"/{provider.name}/", 1)
    is_mock = provider.base_url == "mock" and "base_url" not in options
    if provider.name in tables.redirects and "base_url" not in options:
        raise redirect_refusal(provider, tables.redirects[provider.name])
    mock_options = {key: value for key, value in options.items() if key not in OPTIONS}
    if is_mock:
        read_script(name, mock_options)
    else:
        check_options(name, options, OPTIONS)
    card = tables.card(provider.name, model_id)
    if "context" in options:
        card = card.model_copy(update={"context": whole_number(name, "context", options)})
    base_url, key_env = _base_url(name, provider, options), _key_env(provider, options)
    note_secret(key_env)
    return ChatModel(
        name=name,
        provider=provider,
        card=card,
        base_url=base_url,
        key_env=key_env,
        must_have_key=bool(options.get("key_env")),
        key_place=who_sends(tables, provider, options, (key_env, base_url), where),
        api=_api(provider, options),
        max_tokens=whole_number(name, "max_tokens", options),
        mock=mock_options,
    )


def _api(provider: Provider, options: Mapping[str, str]) -> WireForm:
    name, forms = options.get("api", provider.api), get_args(WireForm)
    if name not in forms:
        raise UnknownName("api (wire form)", name, forms)
    return cast(WireForm, name)


def user_tables(start: Path, files: Iterable[Path] = ()) -> ModelTables:
    """The package's rows, then the user's, the project's (`fieldmark.toml`), those of `files`."""
    from fieldmark.settings import project_config, user_config

    own_files = [user_config()] if user_config().is_file() else []
    project = project_config(start)
    others = [*([project] if project else []), *files]
    tables = load_tables([*own_files, *others])
    trusted = load_tables(own_files)
    tables.own_keys = trusted.own_keys
    for path in others:
        tables.raise_prices(path, trusted)
        for provider in load_tables([path]).providers.values():
            if key_home(provider) not in tables.own_keys:
                tables.strangers[provider.name] = str(path)
            if is_redirect(trusted, provider):
                tables.redirects[provider.name] = str(path)
    return tables


def _key_env(provider: Provider, options: Mapping[str, str]) -> str:
    """A provider's key never goes to another address: such a name must say which key it means."""
    if "key_env" in options:
        return options["key_env"]
    is_elsewhere = bool(provider.base_url) and "base_url" in options
    return "" if is_elsewhere else provider.key_env


def _base_url(name: str, provider: Provider, options: Mapping[str, str]) -> str:
    url = options.get("base_url", provider.base_url).rstrip("/")
    if url == "mock":
        return url
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        has_secret = parts.username is not None or parts.password is not None
    except ValueError:
        is_address = has_secret = False
    if has_secret:
        raise UsageError(
            f"chat model {name.partition('?')[0]!r}: base_url contains a user name or password; "
            "keys come from the environment only (?key_env=VARIABLE)."
        )
    if is_address and url.endswith("/chat/completions"):
        base = url.removesuffix("/chat/completions")
        raise UsageError(
            f"model {name!r}: fieldmark adds /chat/completions itself: write ?base_url={base}."
        )
    if not is_address:
        given = f"base_url={url}" if url else "no base_url"
        raise UsageError(f"model {name!r}: {given}, expected ?base_url=https://host/v1.")
    return url
