"""Token counts (estimates): how many tokens does a model take an image or a text for?

Image tokens are one pure function per family of models, from the vendors' guides as of the dates in
`models.toml`. Vendors change them without notice and their own calculators have disagreed with
their bills, so these serve for planning only: costs always come from returned usage.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from fieldmark.errors import UnknownName, UsageError, closest


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
    width: int, height: int, px: int = 28, least: int = 4, most: int = 16384, ends: int = 2
) -> int:
    """One token per px × px square, the sides rounded to whole squares; two around it (Qwen-VL).

    >>> squares(500, 375), squares(1024, 768), squares(2048, 1536)
    (236, 1001, 4017)
    >>> squares(160, 120, px=32, least=64)  # Qwen3-VL makes small images larger
    72
    """
    across, down = round(width / px), round(height / px)
    if across * down > most:
        scale = math.sqrt(width * height / (most * px * px))
        across, down = (math.floor(side / scale / px) for side in (width, height))
    elif across * down < least:
        scale = math.sqrt(least * px * px / (width * height))
        across, down = (math.ceil(side * scale / px) for side in (width, height))
    return max(1, across) * max(1, down) + ends


def unknown_squares(width: int, height: int) -> int:
    """Tokens of an image for a model of which no rule is known: high rather than low.

    >>> unknown_squares(560, 560), unknown_squares(224, 224)
    (1602, 578)
    """
    return max(squares(width, height, px=14, most=10**6), 578)


def pixtral(width: int, height: int, px: int = 16, long_px: int = 1024) -> int:
    """One token per px × px square begun, and one at the end of each row; at most 1024 px a side.

    >>> pixtral(500, 375), pixtral(1024, 768), pixtral(2048, 1536)
    (792, 3120, 3120)
    """
    ratio = max(1.0, max(width, height) / long_px)
    across, down = (_parts(math.floor(side / ratio), px) for side in (width, height))
    return (across + 1) * down


def best_grid(
    width: int, height: int, px: int = 448, tile: int = 256, most: int = 12, ends: int = 2
) -> int:
    """The grid of tiles nearest in shape, a thumbnail beside several, two around (InternVL).

    >>> best_grid(500, 375), best_grid(448, 448)
    (3330, 258)
    """
    across, down = _nearest_grid(width, height, px, most)
    tiles = across * down
    return tile * (tiles + (1 if tiles > 1 else 0)) + ends


def llama_tiles(width: int, height: int, px: int = 560, tile: int = 1601, most: int = 4) -> int:
    """The canvas of tiles that the image fits into with least enlarging, else least shrinking;
    of equal ones the smallest (Llama 3.2 Vision).

    >>> llama_tiles(500, 375), llama_tiles(640, 480), llama_tiles(800, 600)
    (1601, 3202, 6404)
    """
    canvases = [(a, d) for a in range(1, most + 1) for d in range(1, most + 1) if a * d <= most]
    scales = [(min(a * px / width, d * px / height), a * d) for a, d in canvases]
    larger = [(scale, tiles) for scale, tiles in scales if scale >= 1]
    if larger:
        return tile * min(larger)[1]
    best = max(scale for scale, _ in scales)
    return tile * min(tiles for scale, tiles in scales if scale == best)


def fixed(width: int, height: int, tokens: int = 256) -> int:  # noqa: ARG001 - one form for all
    """The same for every image: models that resize all to one square."""
    return tokens


RULES: dict[str, Callable[..., int]] = {
    "openai-tiles": openai_tiles,
    "openai-patches": openai_patches,
    "claude": claude,
    "gemini-tiles": gemini_tiles,
    "squares": squares,
    "pixtral": pixtral,
    "best-grid": best_grid,
    "llama-tiles": llama_tiles,
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
    parameters = list(inspect.signature(function).parameters)[2:]
    for key, value in options.items():
        if key not in parameters:
            near = closest(key, parameters, most=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" It takes {', '.join(parameters)}."
            raise UsageError(f"image-token rule {rule['rule']!r} has no {key!r}.{hint}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise UsageError(f"image-token rule {rule['rule']!r}: {key} = {value!r}, not a number.")


_WORD, _NUMBER = re.compile(r"[A-Za-z]+"), re.compile(r"[0-9]+")
_NAME = re.compile(r"[A-Z]..|..+(?:[aix]|us|um|is|ae|os|ns|ys)$")
"""capital letters and the endings of Latin names: words that vocabularies cut small"""
_LETTERS, _LETTERS_OF_NAMES = 2.9, 2.4
"""per token"""


def text_tokens(text: str) -> int:
    """A high guess without the model's own tokeniser, by kind of character.

    Compared with eight vocabularies (GPT-4 and GPT-4o, Llama 3 and 4, Qwen, Mistral's two, Claude
    2; 2026-11) it is 1.3 to 1.55 times the count of plain English, 1.03 to 1.3 times that of
    questions with 8 to 26 Latin names, 1.1 to 1.7 times that of Chinese ones.

    >>> text_tokens("Which species is this? Answer with one name.")
    16
    >>> text_tokens("Lamium galeobdolon")
    7
    """
    rest = _WORD.sub(" ", text)
    ascii_rest = rest.encode("ascii", "ignore")
    n_others = len(rest) - len(ascii_rest)
    others = len(rest.encode("utf-8", "surrogatepass")) - len(ascii_rest) - n_others
    marks = len(ascii_rest) - ascii_rest.count(b" ")
    numbers = len(_NUMBER.findall(rest))  # the blank before one may be a token of its own
    return math.ceil(sum(map(_word_tokens, _WORD.findall(text))) + numbers + others + marks)


@lru_cache(maxsize=65536)
def _word_tokens(word: str) -> float:
    letters = _LETTERS_OF_NAMES if _NAME.match(word) else _LETTERS
    return max(1.0, len(word) / letters)


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
