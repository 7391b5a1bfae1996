"""Text embeddings: kept once, in order, and refused where they are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fieldmark.embed import EmbedOptions, embed_texts
from fieldmark.errors import ModelError
from kit.duals import HashDual


def test_texts_come_in_order_and_are_embedded_once(tmp_path: Path) -> None:
    model, options = HashDual(), EmbedOptions(tmp_path)
    texts = [f"text {n % 300}" for n in range(700)] + ["", "é × 雪豹"]
    first = embed_texts(model, texts, options)
    assert np.array_equal(first, HashDual().embed_texts(texts))
    assert sorted(model.said) == sorted(set(texts))
    again = embed_texts(model, texts[::-1], options)
    assert np.array_equal(again, first[::-1])
    assert len(model.said) == 302
    assert embed_texts(model, [], options).shape == (0, model.dim)


def test_another_text_tower_meets_no_stale_text(tmp_path: Path) -> None:
    options = EmbedOptions(tmp_path)
    for sign in (1.0, -1.0):
        model = HashDual(sign=sign, tag="one name")
        own = embed_texts(model, ["a"], options)
        assert np.array_equal(own, model.embed_texts(["a"]))


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        (lambda x: x[:, :5], "embed_texts gave the shape (2, 5) for 2 texts, expected (2, 12)"),
        (lambda x: x * np.nan, "gave NaN or infinity for 2 of 2 texts (first: 'a')"),
    ],
)
def test_odd_features_are_refused_and_not_kept(tmp_path: Path, bad, line: str) -> None:  # type: ignore[no-untyped-def]
    class Odd(HashDual):
        def embed_texts(self, texts):  # type: ignore[no-untyped-def]
            return bad(super().embed_texts(texts))

    with pytest.raises(ModelError) as caught:
        embed_texts(Odd(tag="same"), ["a", "b"], EmbedOptions(tmp_path))
    assert line in str(caught.value)
    good = HashDual(tag="same")
    own = embed_texts(good, ["a", "b"], EmbedOptions(tmp_path))
    assert np.array_equal(own, good.embed_texts(["a", "b"]))
