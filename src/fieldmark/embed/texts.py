"""Text embeddings: how do texts become features, once, and never again?

As images do: kept under what they are and under the model's text tower and tokeniser, each batch as
soon as it is ready. A text that two classes, tasks or prompts share is embedded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmark import draws
from fieldmark.embed.cache import FeatureRows, write_about
from fieldmark.embed.engine import EmbedOptions, usable_cache
from fieldmark.errors import ModelError, naming_model
from fieldmark.progress import Progress, Silent

if TYPE_CHECKING:
    from fieldmark.models import DualEncoder

VERSION = 1
BATCH = 256


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """Features of texts, in their order."""

    features: np.ndarray
    """float32, n × dim"""
    n_cut: int
    """distinct texts that are longer than the model reads; 0 where it does not say"""
    limit: int | None
    """tokens that the model reads"""


def embed_texts(
    model: DualEncoder,
    texts: Sequence[str],
    options: EmbedOptions,
    progress: Progress | None = None,
) -> EmbeddedTexts:
    """Features of the texts: from the cache where it has them, computed and kept otherwise."""
    with usable_cache(options.cache):
        features = _gathered(model, texts, options, progress or Silent())
    return EmbeddedTexts(features, *_cut(model, list(dict.fromkeys(texts))))


def _gathered(
    model: DualEncoder, texts: Sequence[str], options: EmbedOptions, progress: Progress
) -> np.ndarray:
    folder = options.cache / "features" / _fingerprint(model)
    keys = [draws.digest("text", text) for text in texts]
    by_key = dict(zip(keys, texts, strict=True))
    rows = FeatureRows(folder, model.dim)
    try:
        todo = [key for key in by_key if key not in rows]
        if todo:
            write_about(folder, {"model": f"{model.name} texts", "dim": model.dim})
            progress.start(f"embedding texts with {model.name}", len(todo))
        for start in range(0, len(todo), BATCH):
            batch = todo[start : start + BATCH]
            rows.append(batch, _embedded(model, [by_key[key] for key in batch]))
            progress.advance(len(batch))
        return rows.gather(keys)
    finally:
        rows.close()


def _fingerprint(model: Any) -> str:
    """Texts and images of a model are never kept together: their keys are of different things."""
    own = getattr(model, "text_fingerprint", "") or model.fingerprint
    return draws.digest("texts", VERSION, own).hex()


def _embedded(model: DualEncoder, texts: list[str]) -> np.ndarray:
    with naming_model(model.name, "embed_texts"):
        features = np.asarray(model.embed_texts(texts), np.float32)
    if features.shape != (len(texts), model.dim):
        raise ModelError(
            f"model {model.name!r}: embed_texts gave the shape {features.shape} for {len(texts)} "
            f"texts, expected {(len(texts), model.dim)}, as long as its image features."
        )
    is_bad = ~np.isfinite(features).all(axis=1)
    if is_bad.any():
        raise ModelError(
            f"model {model.name!r} gave NaN or infinity for {int(is_bad.sum())} of {len(texts)} "
            f"texts (first: {texts[int(is_bad.argmax())]!r}): check its weights, or try "
            "--precision float32."
        )
    return features


def _cut(model: Any, texts: list[str]) -> tuple[int, int | None]:
    """How many texts are longer than what the model reads, and that length."""
    limit, count = getattr(model, "text_limit", None), getattr(model, "count_tokens", None)
    if limit is None or not callable(count) or not texts:
        return 0, limit
    counts = count(texts)
    return (0, limit) if counts is None else (sum(n > limit for n in counts), limit)
