"""Prices and limits: what is known of a chat model before it is asked?

`models.toml` and `providers.toml` are the package's tables. Users add rows of the same form under
`[[chat_models]]` and `[[chat_providers]]` in the project's `fieldmark.toml` or a file of their own;
theirs win. A price that is not known is None, and no cost is computed from it.

Image tokens are one pure function per family of models, from the vendors' guides as of the dates in
`models.toml`. Vendors change them without notice and their own calculators have disagreed with
their bills, so these serve for planning only: costs always come from returned usage.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fieldmark.chat.messages import Usage
from fieldmark.errors import UnknownName, UsageError, closest
from fieldmark.source_lines import Located, read_toml, validate


def openai_tiles(width: int, height: int, base: int = 85, tile: int = 170) -> int:
    """Fit into 2048 px, shrink the short side to 768 px, then so much per 512 px tile.

    >>> openai_tiles(500, 375), openai_tiles(1024, 768), openai_tiles(2048, 1536)
    (255, 765, 765)
    """
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    across, down = (_parts(side * scale, 512) for side in (width, height))
    return base + tile * across * down


def openai_patches(width: int, height: int, factor: float = 1.0, most: int = 1536) -> int:
    """One token per 32 px patch, shrunk to at most so many patches, times the model's factor.

    >>> openai_patches(500, 375, 1.62), openai_patches(1024, 768, 1.62)
    (311, 1244)
    >>> openai_patches(1800, 2400)  # the vendor guide's own example
    1452
    """
    patches = _parts(width, 32) * _parts(height, 32)
    if patches > most:
        scale = math.sqrt(most * 32 * 32 / (width * height))
        across, down = width * scale / 32, height * scale / 32
        scale *= min(math.floor(across) / across, math.floor(down) / down)
        patches = min(most, _parts(width * scale, 32) * _parts(height * scale, 32))
    return round(patches * factor)


def claude(width: int, height: int, long_px: int = 1568, most: int = 1600) -> int:
    """Pixels / 750 after shrinking the long side to 1568 px and the whole to about 1,600 tokens.

    >>> claude(500, 375), claude(1024, 768), claude(2048, 1536)
    (250, 1049, 1600)
    """
    scale = min(1.0, long_px / max(width, height))
    return min(most, math.ceil(width * scale * height * scale / 750))


def gemini_tiles(width: int, height: int, tile: int = 258, small_px: int = 384) -> int:
    """One tile when both sides are at most 384 px, else one per 768 px square.

    >>> gemini_tiles(500, 375), gemini_tiles(1024, 768), gemini_tiles(2048, 1536)
    (258, 516, 1548)
    """
    if max(width, height) <= small_px:
        return tile
    return tile * _parts(width, 768) * _parts(height, 768)


def squares(
    width: int, height: int, px: int = 28, least: int = 4, most: int = 16384, row: int = 0
) -> int:
    """One token per px × px square, the sides rounded to whole squares (Qwen-VL, Pixtral).

    `row` more per row of squares: Pixtral ends each with a break token.

    >>> squares(500, 375), squares(1024, 768), squares(2048, 1536)
    (234, 999, 4015)
    """
    across, down = max(1, round(width / px)), max(1, round(height / px))
    if across * down > most:
        scale = math.sqrt(width * height / (most * px * px))
        across, down = (max(1, math.floor(side / scale / px)) for side in (width, height))
    elif across * down < least:
        scale = math.sqrt(least * px * px / (width * height))
        across, down = (math.ceil(side * scale / px) for side in (width, height))
    return across * down + row * down


def best_grid(
    width: int, height: int, px: int = 448, tile: int = 256, most: int = 12, thumbnail: int = 1
) -> int:
    """The grid of tiles (at most so many) nearest in shape, and a thumbnail beside them.

    InternVL: 448 px tiles of 256 tokens, at most 12; Llama Vision: 560 px tiles, at most 4.

    >>> best_grid(500, 375), best_grid(448, 448)
    (3328, 256)
    """
    across, down = _nearest_grid(width, height, px, most)
    tiles = across * down
    return tile * (tiles + (thumbnail if tiles > 1 else 0))


def fixed(width: int, height: int, tokens: int = 256) -> int:  # noqa: ARG001 - one form for all
    """The same for every image: models that resize all to one square."""
    return tokens


RULES: dict[str, Callable[..., int]] = {
    "openai-tiles": openai_tiles,
    "openai-patches": openai_patches,
    "claude": claude,
    "gemini-tiles": gemini_tiles,
    "squares": squares,
    "best-grid": best_grid,
    "fixed": fixed,
}


def image_tokens(rule: Mapping[str, Any], width: int, height: int) -> int:
    """Tokens by a rule of `models.toml`: {rule = "openai-tiles", base = 85, tile = 170}."""
    function, options = _find_rule(rule)
    return function(width, height, **options)


def _find_rule(rule: Mapping[str, Any]) -> tuple[Callable[..., int], dict[str, Any]]:
    options = dict(rule)
    name = str(options.pop("rule", ""))
    if name not in RULES:
        raise UnknownName("image-token rule", name, RULES)
    return RULES[name], options


def check_rule(rule: Mapping[str, Any]) -> None:
    """Refuses a rule that cannot be computed, before anything is asked."""
    function, options = _find_rule(rule)
    known = list(inspect.signature(function).parameters)[2:]
    for key, value in options.items():
        if key not in known:
            near = closest(key, known, most=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" It takes {', '.join(known)}."
            raise UsageError(f"image-token rule {rule['rule']!r} has no {key!r}.{hint}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise UsageError(f"image-token rule {rule['rule']!r}: {key} = {value!r}, not a number.")


def text_tokens(text: str) -> int:
    """A high guess without the model's own tokeniser: one per 3.5 UTF-8 bytes, or per word.

    >>> text_tokens("Which species is this? Answer with one name.")
    13
    """
    return max(math.ceil(len(text.encode("utf-8", "surrogatepass")) / 3.5), len(text.split()))


def _parts(length: float, px: int) -> int:
    return max(1, math.ceil(round(length, 6) / px))


def _nearest_grid(width: int, height: int, px: int, most: int) -> tuple[int, int]:
    """The grid whose shape is nearest; of equal ones the larger, if the image fills half of it."""
    shape = width / height
    grids = [(a, d) for a in range(1, most + 1) for d in range(1, most + 1) if a * d <= most]
    best, gap = (1, 1), math.inf
    for across, down in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        away = abs(shape - across / down)
        fills = width * height > 0.5 * px * px * across * down
        if away < gap or (away == gap and fills):
            best, gap = (across, down), away
    return best


Lack = Literal["temperature", "top_p", "seed", "stop", "schema", "logprobs", "reasoning_effort"]
Positive = Field(default=None, gt=0)
Price = Field(default=None, ge=0)


class _TableRow(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provider(_TableRow):
    """An endpoint."""

    name: str
    api: str = "openai"
    """its wire form: one of `send.api.APIS`"""
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
        """Does a table have a row for it?"""
        return bool(self.source or self.title or self.context or self.is_priced)

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
