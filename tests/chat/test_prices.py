"""Do the rules give the numbers the vendors' guides give?"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.chat import Usage
from fieldmark.chat.prices import Card, load_tables
from fieldmark.chat.tokens import RULES, check_rule, claude, image_tokens, openai_tiles, text_tokens
from fieldmark.errors import FieldmarkError

SIZES = ((500, 375), (1024, 768), (2048, 1536))
MINI = {"base": 2833, "tile": 5667}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"rule": "openai-tiles"}, (255, 765, 765)),
        ({"rule": "openai-tiles", **MINI}, (8500, 25501, 25501)),
        ({"rule": "openai-patches", "factor": 1.62}, (311, 1244, 2352)),
        ({"rule": "claude"}, (250, 1049, 1600)),
        ({"rule": "gemini-tiles"}, (258, 516, 1548)),
        ({"rule": "squares"}, (236, 1001, 4017)),
        ({"rule": "fixed", "tokens": 258}, (258, 258, 258)),
    ],
)
def test_published_examples(rule: dict[str, float], expected: tuple[int, ...]) -> None:
    assert tuple(image_tokens(rule, *size) for size in SIZES) == expected


@given(st.integers(1, 9000), st.integers(1, 9000), st.sampled_from(sorted(RULES)))
def test_every_rule_gives_a_whole_number_however_the_image_is_turned(
    width: int, height: int, rule: str
) -> None:
    tokens = image_tokens({"rule": rule}, width, height)
    assert isinstance(tokens, int) and 1 <= tokens < 100_000
    # The nearest grid is found by the difference of w/h, which is not the same for h/w.
    # Pixtral's rows end with a token of their own.
    assert rule in ("best-grid", "pixtral") or tokens == image_tokens({"rule": rule}, height, width)


@given(st.integers(1, 9000), st.integers(1, 9000))
def test_bounds_hold(width: int, height: int) -> None:
    assert claude(width, height) <= 1600
    assert openai_tiles(width, height) <= 85 + 170 * 8
    assert image_tokens({"rule": "openai-patches"}, width, height) <= 1536
    assert 6 <= image_tokens({"rule": "squares"}, width, height) <= 16386
    assert image_tokens({"rule": "best-grid"}, width, height) <= 13 * 256 + 2
    assert image_tokens({"rule": "llama-tiles"}, width, height) <= 4 * 1601
    assert image_tokens({"rule": "pixtral"}, width, height) <= 65 * 64


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"rule": "openai-tile"}, "openai-tiles"),
        ({"rule": "claude", "mots": 3}, "Did you mean 'most'"),
        ({"rule": "claude", "most": "many"}, "not a number"),
        ({}, "not known"),
    ],
)
def test_a_wrong_rule_is_told(rule: dict[str, object], words: str) -> None:
    with pytest.raises(FieldmarkError, match=words):
        check_rule(rule)


def test_every_known_model_can_be_counted_and_says_where_it_is_from() -> None:
    tables = load_tables()
    for card in tables.cards.values():
        assert card.source and card.provider in tables.providers, card.id
        assert (card.usd_in is None) == (card.usd_out is None), card.id
        assert not card.is_priced or card.priced_on, card.id
        assert not card.sees or card.tokens_of_image(640, 480) != 0, card.id


def test_an_unknown_price_is_unknown_never_0() -> None:
    usage = Usage(1000, 100)
    assert Card(provider="x", id="y").usd(usage) is None
    assert Card(provider="x", id="y", usd_in=1.0).usd(usage) is None
    assert Card(provider="x", id="y", usd_in=0.0, usd_out=0.0).usd(usage) == 0.0


def test_cached_tokens_have_their_own_price() -> None:
    priced = partial(Card, provider="x", id="y", usd_in=2.0, usd_out=10.0)
    usage = Usage(1_000_000, 100_000, cached=400_000)
    assert priced(usd_cached=0.5).usd(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 1)
    assert priced().usd(usage) == pytest.approx(2 + 1)
    odd = Usage(1_000_000, 0, cached=10**12)
    assert priced(usd_cached=0.5).usd(odd) == 0.5, "never below zero, which would lift a cap"


COUNTS = [
    json.loads(line)
    for line in Path(__file__).with_name("token_counts.jsonl").read_text().splitlines()
]
"""prompts of ours, and how many tokens eight vocabularies make of them (measured 2026-11)"""


@pytest.mark.parametrize("row", COUNTS, ids=lambda row: row["name"])
def test_our_own_prompts_are_never_guessed_low(row: dict[str, Any]) -> None:
    guess, counts = text_tokens(row["text"]), row["tokens"]
    assert guess >= max(counts.values())
    if row["name"] == "plain english":
        assert guess <= 1.6 * min(counts.values())


def test_text_is_counted_high() -> None:
    assert text_tokens("") == 0
    assert text_tokens("Which of these birds is a wren?") >= 8
    assert text_tokens("蛾の幼虫") >= 4
