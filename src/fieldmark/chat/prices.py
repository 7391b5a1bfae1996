"""Prices and limits: what is known of a chat model before it is asked?

`models.toml` and `providers.toml` are the package's tables. Users add rows of the same form under
`[[chat_models]]` and `[[chat_providers]]` in the project's `fieldmark.toml` or a file of their own;
theirs win. A price that is not known is None, and no cost is computed from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fieldmark.chat.messages import Usage
from fieldmark.chat.tokens import check_rule, image_tokens
from fieldmark.errors import UnknownName, UsageError
from fieldmark.source_lines import Located, read_toml, validate

Lack = Literal["temperature", "top_p", "seed", "stop", "schema", "logprobs", "reasoning_effort"]
WireForm = Literal["openai", "anthropic", "gemini"]
"""each is a module of `send` with an `API`"""
Positive = Field(default=None, gt=0)
_CACHE_WRITE = 1.25
"""times usd_in, where writing is charged: Anthropic's price of what it keeps for 5 minutes"""
Price = Field(default=None, ge=0)
_PRICES = ("usd_in", "usd_out", "usd_cached")


class _TableRow(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provider(_TableRow):
    """An endpoint."""

    name: str
    aliases: tuple[str, ...] = ()
    """what else people call it; results stand under its name"""
    api: WireForm = "openai"
    base_url: str = ""
    """"" = the user says which: `?base_url=`"""
    key_env: str = ""
    """the environment variable of the key; "" = none is needed"""
    output_key: str = "max_tokens"
    """what the body calls the room for the answer"""
    lacks: tuple[Lack, ...] = ()
    """settings the endpoint does not take: they are not sent"""
    body: Mapping[str, Any] = {}
    """further keys of every request that change no answer"""
    max_image_px: int | None = Positive
    max_image_bytes: int | None = Positive
    max_request_bytes: int | None = Positive
    max_images: int | None = Positive
    batch_price: float | None = Price
    """of its batch API, as a share of the usual price; None = it has none that is known"""
    source: str = ""


class Card(_TableRow):
    """A model of a provider. None is "not known"."""

    provider: str
    id: str
    """exactly as the provider spells it"""
    title: str = ""
    sees: bool = True
    """takes images"""
    thinks: bool = False
    """thinks before it answers, unless told not to: its answers need room for that"""
    context: int | None = Positive
    """tokens of prompt and answer together"""
    max_output: int | None = Positive
    max_images: int | None = Positive
    max_image_px: int | None = Positive
    max_image_bytes: int | None = Positive
    max_request_bytes: int | None = Positive
    image_tokens: Mapping[str, str | int | float] | None = None
    """the name of one of `RULES` and its numbers"""
    usd_in: float | None = Price
    """USD per million tokens"""
    usd_out: float | None = Price
    usd_cached: float | None = Price
    """per million prompt tokens read from the provider's cache; None = as usd_in"""
    priced_on: str = ""
    output_key: str = ""
    lacks: tuple[Lack, ...] = ()
    source: str = ""
    """where limits and prices are from"""
    verified: bool = False
    """seen on the vendor's own page; else from a third party or from memory"""
    quantizations: tuple[str, ...] = ()
    """OpenRouter: only hosts that run the weights in one of these (bf16, fp16, fp8, …)"""
    priced_as: str = ""
    """the id of the row whose facts these are, where the model has none of its own"""

    @field_validator("image_tokens")
    @classmethod
    def _known_rule(cls, rule: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if rule is not None:
            try:
                check_rule(rule)
            except UsageError as error:
                raise ValueError(str(error).rstrip(".")) from None
        return rule

    @property
    def is_known(self) -> bool:
        """Does a table say more of it than its price, which tells nothing of its answers?"""
        return bool(self.source or self.title or self.context)

    @property
    def is_priced(self) -> bool:
        return self.usd_in is not None and self.usd_out is not None

    @property
    def _prices(self) -> tuple[float, float, float]:
        """In the order of `_PRICES`; unknown ones are 0."""
        usd_in = self.usd_in or 0.0
        return usd_in, self.usd_out or 0.0, usd_in if self.usd_cached is None else self.usd_cached

    def usd(self, usage: Usage) -> float | None:
        """What so many tokens cost; None where a price is unknown."""
        if not self.is_priced:
            return None
        usd_in, usd_out, usd_cached = self._prices
        cached = min(usage.cached, usage.tokens_in)  # more would be a price below zero
        fresh = usage.tokens_in - cached + (_CACHE_WRITE - 1) * usage.to_cache
        return (fresh * usd_in + cached * usd_cached + usage.tokens_out * usd_out) / 1e6

    def tokens_of_image(self, width: int, height: int) -> int | None:
        rule = self.image_tokens
        return None if rule is None else image_tokens(rule, width, height)


class _TableFile(_TableRow):
    chat_models: tuple[Card, ...] = ()
    chat_providers: tuple[Provider, ...] = ()


class ModelTables:
    """Cards and providers by name; later rows win."""

    def __init__(self, files: Iterable[_TableFile]) -> None:
        tables = list(files)
        self.providers = {row.name: row for table in tables for row in table.chat_providers}
        self.cards = {(row.provider, row.id): row for table in tables for row in table.chat_models}
        rows = [row for table in tables for row in table.chat_providers]
        self.own_keys = {(row.key_env, row.base_url.rstrip("/")) for row in rows}
        """variables and addresses whose word counts: see `send.keys`"""
        self.strangers: dict[str, str] = {}
        """providers of files that came with a folder → that file"""
        self.redirects: dict[str, str] = {}
        """those among them that give a known provider's name to another address"""

    def provider(self, word: str) -> Provider:
        """The provider of that name, else the one that is also called so."""
        also = {alias: row for row in self.providers.values() for alias in row.aliases}
        providers = also | self.providers
        if word not in providers:
            error = UnknownName("chat provider", word, providers)
            if not error.closest:
                known = f"Use one of {', '.join(sorted(self.providers))}."
                error.args = (f"{error} {known} An address is chat/custom/MODEL?base_url=ADDRESS.",)
            raise error
        return providers[word]

    def raise_prices(self, path: Path, trusted: ModelTables) -> None:
        """A file that came with a folder lowers no price that is known: caps would not hold."""
        own = _read_user_file(path)
        for row in own.chat_models:
            known = trusted.card(row.provider, row.id)
            if known.is_priced:
                pairs = zip(row._prices, known._prices, strict=True)
                prices = dict(zip(_PRICES, (max(pair) for pair in pairs), strict=True))
                self.cards[row.provider, row.id] = row.model_copy(update=prices)
        for provider in own.chat_providers:
            known_row = trusted.providers.get(provider.name)
            if known_row is not None and provider.batch_price is not None:
                share = max(provider.batch_price, known_row.batch_price or 0.0)
                self.providers[provider.name] = provider.model_copy(update={"batch_price": share})

    def card(self, provider: str, model_id: str) -> Card:
        """What is known of a model: by its id, else by that of its family, else nothing.

        A dated id is the undated one (gpt-4o-2024-11-20: gpt-4o), an undated or `-latest` one the
        only dated one there is. Sizes and products are never mixed up: gpt-4o-mini is not gpt-4o.
        """
        card = self.cards.get((provider, model_id))
        if card is not None:
            return card
        match = _VARIANT.fullmatch(model_id) if provider == "openrouter" else None
        plain, variant = match.groups() if match else (model_id, "")
        row = self.cards.get((provider, plain)) or self._relative(provider, plain)
        if row is None:
            return Card(provider=provider, id=model_id)
        overrides: dict[str, Any] = {"id": model_id, "priced_as": row.id}
        if variant == "free":
            overrides |= {"usd_in": 0.0, "usd_out": 0.0, "usd_cached": None}
        return row.model_copy(update=overrides)

    def _relative(self, provider: str, model_id: str) -> Card | None:
        family = _undated(model_id)
        if (provider, family) in self.cards:
            return self.cards[provider, family]
        if model_id.removesuffix("-latest") != family:
            return None  # another date is another version: which one is alike is not known
        dated = [
            row
            for (owner, name), row in self.cards.items()
            if owner == provider and _undated(name) == family
        ]
        return dated[0] if len(dated) == 1 else None


_VARIANT = re.compile(r"(.+):(free|nitro|floor|exacto|beta|thinking)")
"""OpenRouter's endings that leave model and price as they are; :free costs nothing"""
_DATE = re.compile(
    r"(?:-preview|-latest"
    r"|[-@]20[2-4][0-9]-?(?:0[1-9]|1[0-2])-?(?:[0-2][0-9]|3[01])"  # 2024-11-20, 20241120
    r"|-preview-(?:0[1-9]|1[0-2])-(?:20[2-4][0-9]|[0-3][0-9])"  # Gemini: 09-2025, 05-20
    r"|-2[3-9](?:0[1-9]|1[0-2])"  # Mistral: 2411
    r"|-00[1-9])$"  # Gemini
)


def _undated(model_id: str) -> str:
    """
    >>> _undated("gemini-2.5-flash-preview-09-2025"), _undated("gpt-4o-mini-2024-07-18")
    ('gemini-2.5-flash', 'gpt-4o-mini')
    >>> _undated("gpt-4o-audio-preview-2024-12-17"), _undated("qwen-2-vl-72b-instruct")
    ('gpt-4o-audio', 'qwen-2-vl-72b-instruct')
    """
    while (shorter := _DATE.sub("", model_id)) != model_id:
        model_id = shorter
    return model_id


def load_tables(files: Iterable[Path] = ()) -> ModelTables:
    """The package's tables and, after them, those of the user's files."""
    return ModelTables([_package_file(), *(_read_user_file(path) for path in files)])


def _read_user_file(path: Path) -> _TableFile:
    """`[[chat_models]]` and `[[chat_providers]]` of a TOML file; its other keys are not ours."""
    located = read_toml(path)
    ours = {key: located.data[key] for key in _TableFile.model_fields if key in located.data}
    return validate(_TableFile, Located(path, ours, located.lines))


@lru_cache(maxsize=1)
def _package_file() -> _TableFile:
    folder = Path(__file__).parent
    merged: dict[str, Any] = {}
    for name in ("providers.toml", "models.toml"):
        merged |= read_toml(folder / name).data
    return _TableFile.model_validate(merged)
