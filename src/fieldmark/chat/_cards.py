"""What is known of a chat model before it is asked: limits, prices, image tokens?

`models.toml` and `providers.toml` are the package's tables. Users add rows of the same form under
`[[chat_models]]` and `[[chat_providers]]` in the project's `fieldmark.toml` or a file of their own;
theirs win. A price that is not known is None, and no cost is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fieldmark.chat._image_tokens import check_rule, image_tokens
from fieldmark.chat._messages import Usage
from fieldmark.errors import UsageError
from fieldmark.source_lines import Located, read_toml, validate

Lack = Literal["temperature", "top_p", "seed", "stop", "schema", "logprobs", "reasoning_effort"]
Positive = Field(default=None, gt=0)
Price = Field(default=None, ge=0)


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provider(_Row):
    """An OpenAI-compatible endpoint."""

    name: str
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
    source: str = ""


class Card(_Row):
    """A model of a provider. None is "not known"."""

    provider: str
    id: str
    """exactly as the provider spells it"""
    title: str = ""
    sees: bool = True
    """takes images"""
    context: int | None = Positive
    """tokens of prompt and answer together"""
    max_output: int | None = Positive
    max_images: int | None = Positive
    max_image_px: int | None = Positive
    max_image_bytes: int | None = Positive
    max_request_bytes: int | None = Positive
    image_tokens: Mapping[str, str | int | float] | None = None
    """a rule of `_image_tokens` and its numbers"""
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
    def is_priced(self) -> bool:
        return self.usd_in is not None and self.usd_out is not None

    def usd(self, usage: Usage) -> float | None:
        """What so many tokens cost; None where a price is unknown."""
        if self.usd_in is None or self.usd_out is None:
            return None
        cached_price = self.usd_in if self.usd_cached is None else self.usd_cached
        fresh = usage.tokens_in - usage.cached
        millions = fresh * self.usd_in + usage.cached * cached_price
        return (millions + usage.tokens_out * self.usd_out) / 1e6

    def tokens_of_image(self, width: int, height: int) -> int | None:
        if self.image_tokens is None:
            return None
        return image_tokens(self.image_tokens, width, height)


class _File(_Row):
    chat_models: tuple[Card, ...] = ()
    chat_providers: tuple[Provider, ...] = ()


class Tables:
    """Cards and providers by name; later rows win."""

    def __init__(self, files: Iterable[_File]) -> None:
        every = list(files)
        self.providers = {row.name: row for file in every for row in file.chat_providers}
        self.cards = {(row.provider, row.id): row for file in every for row in file.chat_models}


def load_tables(files: Iterable[Path] = ()) -> Tables:
    """The package's tables and, after them, those of the user's files."""
    return Tables([_package_file(), *(read_user_file(path) for path in files)])


def read_user_file(path: Path) -> _File:
    """`[[chat_models]]` and `[[chat_providers]]` of a TOML file; its other keys are not ours."""
    located = read_toml(path)
    ours = {key: located.data[key] for key in _File.model_fields if key in located.data}
    return validate(_File, Located(path, ours, located.lines))


@lru_cache(maxsize=1)
def _package_file() -> _File:
    folder = Path(__file__).parent
    merged: dict[str, Any] = {}
    for name in ("providers.toml", "models.toml"):
        merged |= read_toml(folder / name).data
    return _File.model_validate(merged)
