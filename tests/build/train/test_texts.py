"""Texts of samples: drawn by hash with the recipe's weights; only what was drawn is tokenised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from fieldmark.build.train.feed.texts import TextPlan, TextTokens, full_words, text_ids, text_plan
from fieldmark.build.train.recipe import TrainRecipe, load_recipe
from fieldmark.errors import DataError

SIX = {"sci": 1, "com": 1, "taxon": 1, "sci_com": 1, "taxon_com": 1, "caption": 1}
TEXTS = {name: f"text of {name}" for name in SIX}


def plan(types: Mapping[str, float], draw: str = "sample", seed: int = 0) -> TextPlan:
    projectors = ["taxonomic", *(["caption"] if "caption" in types else [])]
    return text_plan(
        TrainRecipe.model_validate(
            {
                "model": {"projectors": projectors},
                "texts": {"types": dict(types), "draw": draw},
                "train": {"seed": seed},
            }
        )
    )


def chi_square(counts: Counter[str], weights: Mapping[str, float]) -> float:
    n, total = counts.total(), sum(weights.values())
    return sum(
        (counts[name] - n * weight / total) ** 2 / (n * weight / total)
        for name, weight in weights.items()
    )


# --- draws ---


def test_weights_are_met_sample_by_sample() -> None:
    weights = {"sci": 1.0, "com": 2.0, "taxon": 0.5, "caption": 4.0}
    drawn = plan(weights)
    counts = Counter(
        drawn.names[drawn.draw_text(step, sample, TEXTS).type_id]
        for step in range(40)
        for sample in range(100)
    )
    assert chi_square(counts, weights) < 16.3  # 99.9 % of chi-square with 3 degrees of freedom


def test_a_sample_draws_anew_in_every_step_and_seed() -> None:
    by_step = [plan(SIX).draw_text(step, 7, TEXTS).type_id for step in range(60)]
    by_seed = [plan(SIX, seed=seed).draw_text(3, 7, TEXTS).type_id for seed in range(60)]
    assert len(set(by_step)) == len(set(by_seed)) == 6


def test_a_draw_depends_on_nothing_else() -> None:
    """Neither on who asks, nor on what was asked before: resumed and shared runs agree."""
    asked = [(step, sample) for step in range(5) for sample in range(20)]
    forward = {who: plan(SIX).draw_text(*who, TEXTS) for who in asked}
    one = plan(SIX)
    backward = {who: one.draw_text(*who, TEXTS) for who in reversed(asked)}
    assert forward == backward


def test_one_type_per_step_as_published() -> None:
    """BioCAP's `random` type: all ranks draw the same one, and captions have a sixth of the steps,
    not twice that, as a comment in the released code has it (facts/building-models.md, 1.6).
    """
    drawn = plan(SIX, draw="step")
    counts = Counter[str]()
    for step in range(1_200):
        types = {drawn.draw_text(step, sample, TEXTS).type_id for sample in (0, 17, 10**9)}
        assert len(types) == 1
        counts[drawn.names[types.pop()]] += 1
    assert chi_square(counts, SIX) < 20.5  # 99.9 %, 5 degrees of freedom
    assert abs(counts["caption"] / 1_200 - 1 / 6) < 0.04


def test_captions_twice_as_often_is_a_weight() -> None:
    weights = SIX | {"caption": 2}
    drawn = plan(weights, draw="step")
    steps = range(1_400)
    counts = Counter(drawn.names[drawn.draw_text(step, 0, TEXTS).type_id] for step in steps)
    assert chi_square(counts, weights) < 20.5


@pytest.mark.parametrize("draw", ["sample", "step"])
def test_a_sample_that_lacks_a_type_gets_one_it_has(draw: str) -> None:
    drawn = plan({"sci": 1, "com": 3, "caption": 4}, draw=draw)
    texts = {"sci": "Corvus corax", "com": "raven"}
    counts = Counter(drawn.draw_text(step, 5, texts).text for step in range(2_000))
    assert chi_square(counts, {"Corvus corax": 1, "raven": 3}) < 10.8
    whole = [drawn.draw_text(step, 5, texts | {"caption": "x"}) for step in range(200)]
    part = [drawn.draw_text(step, 5, texts) for step in range(200)]
    pairs = zip(whole, part, strict=True)
    assert all(one == other for one, other in pairs if one.text != "x"), "the others keep theirs"


def test_a_sample_without_a_wanted_text_is_named() -> None:
    with pytest.raises(DataError, match="sample 5 has no text of sci, com"):
        plan({"sci": 1, "com": 1}).draw_text(0, 5, {"taxon": "Aves"})


# --- recipes ---


def test_projectors_of_types() -> None:
    drawn = plan(SIX)
    assert dict(zip(drawn.names, drawn.projectors, strict=True)) == {
        name: int(name == "caption") for name in SIX
    }


def test_replay_is_the_last_type_and_is_never_drawn() -> None:
    recipe = load_recipe("bioclip2")
    drawn = text_plan(recipe)
    assert drawn.names == (*recipe.texts.types, "replay")
    assert drawn.wanted == tuple(recipe.texts.types)
    assert recipe.model.projectors[drawn.projectors[-1]] == "replay"
    replay = drawn.draw_text(0, 0, {"replay": "a cat"})
    assert (replay.text, replay.type_id) == ("a cat", len(drawn.names) - 1)
    steps = range(300)
    assert len(drawn.names) - 1 not in {
        drawn.draw_text(step, 0, dict.fromkeys(drawn.wanted, "x")).type_id for step in steps
    }


def test_replay_without_a_projector_is_taxonomic() -> None:
    recipe = TrainRecipe.model_validate(
        {"data": {"replay_share": 0.1}, "texts": {"types": {"taxon": 1}}}
    )
    assert text_plan(recipe).projectors == (0, 0)


# --- tokens ---


END = 127


class CountingTokeniser:
    """A token per letter and END, 20 at most; notes what it is given."""

    def __init__(self, padding: int = 0) -> None:
        self.given: list[str] = []
        self.padding = padding

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.given += texts
        rows = np.full((len(texts), 20), self.padding)
        for row, text in zip(rows, texts, strict=True):
            letters = [ord(letter) for letter in text[:19]]
            row[: len(letters) + 1] = [*letters, END]
        return rows


def test_only_drawn_texts_are_tokenised_and_equal_ones_once() -> None:
    """The released code tokenises all six texts of every sample (facts/building-models.md, 1.6)."""
    drawn, tokenise = plan(SIX), CountingTokeniser()
    tokens = TextTokens(tokenise)
    tokenise.given.clear()
    texts = [drawn.draw_text(0, sample, TEXTS).text for sample in range(50)]
    assert len(tokens(texts)) == 50
    assert sorted(tokenise.given) == sorted(set(texts))


@pytest.mark.parametrize("end", [None, END])
@pytest.mark.parametrize("padding", [0, 1, ord("c"), END])
def test_rows_stand_for_their_texts(padding: int, end: int | None) -> None:
    """Whatever the padding is: a letter of the text, or the end itself."""
    tokens = TextTokens(CountingTokeniser(padding), can_trim=True, end=end)
    rows = tokens(["abc", "de", "abc"])
    assert (rows.dtype, rows.shape) == (np.int64, (3, 16))
    assert rows[0, :5].tolist() == [97, 98, 99, END, padding]
    cut = tokens(["abcdefgabcdefgac"])
    assert cut[0, -4:].tolist() == [END, *[padding] * 3], "not cut before its end"
    assert np.array_equal(rows[0], rows[2])
    assert tokens(["abcdefghi" * 2, "a"]).shape == (2, 20), "a multiple of 16, at most the context"
    assert tokens([""]).shape == (1, 16)
    assert TextTokens(CountingTokeniser())(["a"]).shape == (1, 20)


def test_texts_that_fill_the_context_are_counted_at_first() -> None:
    tokens = TextTokens(CountingTokeniser(), n_counted=3)
    tokens(["a" * 20, "b" * 99, "c"])
    tokens(["d" * 99])
    assert (tokens.n_full, tokens.n_seen, tokens.context) == (2, 3, 20)
    assert full_words(0, 3, 12) == ""
    assert full_words(2, 3, 12).startswith("2 of the first 3 texts reach the 12 tokens")


def test_tokens_of_open_clip() -> None:
    open_clip = pytest.importorskip("open_clip")
    theirs = open_clip.tokenizer.SimpleTokenizer()
    texts = ["a photo of Corvus corax.", "raven", "word " * 100]
    tokens = TextTokens(theirs, can_trim=True)
    assert np.array_equal(tokens(texts), theirs(texts).numpy())
    assert np.array_equal(tokens(texts[:2]), theirs(texts[:2]).numpy()[:, :16])
    assert (tokens.n_full, tokens.context) == (1, 77)


def test_text_ids_are_equal_where_texts_are() -> None:
    texts = [f"text {number % 500}" for number in range(2_000)] + ["é", "e\u0301", "\ud800"]
    ids = text_ids(texts)
    assert (ids.dtype, ids.min() >= 0) == (np.int64, True)
    assert len(set(ids.tolist())) == len(set(texts))
    by_text = dict(zip(texts, ids.tolist(), strict=True))
    assert [by_text[text] for text in texts] == ids.tolist()
    assert text_ids(["Corvus corax"]).tolist() == text_ids(["Corvus corax"]).tolist()
    assert text_ids([]).shape == (0,)
