"""Text embeddings: how do texts become features, once, and never again?

As images do: kept under what they are and under the model's text tower and tokeniser, each batch as
soon as it is ready. A text that two classes, tasks or prompts share is embedded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmark import draws
from fieldmark.embed.cache import write_about
from fieldmark.embed.engine import EmbedOptions, usable_cache
from fieldmark.embed.rows import FeatureRows
from fieldmark.embed.shards import LEASES
from fieldmark.errors import ModelError, naming_model
from fieldmark.leases import LeaseFolder
from fieldmark.progress import Progress, Silent

if TYPE_CHECKING:
    from fieldmark.models import DualEncoder

VERSION = 1
BATCH = 256


def embed_texts(
    model: DualEncoder,
    texts: Sequence[str],
    options: EmbedOptions,
    progress: Progress | None = None,
) -> np.ndarray:
    """float32, n × dim, in the order of the texts: from the cache where it has them, computed and
    kept otherwise.
    """
    with usable_cache(options.cache):
        return _gathered(model, texts, options, progress or Silent())


def _gathered(
    model: DualEncoder, texts: Sequence[str], options: EmbedOptions, progress: Progress
) -> np.ndarray:
    def waiting(who: str) -> None:
        progress.status(f"waiting for {who}")

    # Texts and images of a model are never kept together: their keys are of different things.
    of_texts = getattr(model, "text_fingerprint", "") or model.fingerprint
    folder = options.cache / "features" / draws.digest("texts", VERSION, of_texts).hex()
    keys = [draws.digest("text", text) for text in texts]
    by_key = dict(zip(keys, texts, strict=True))
    rows = FeatureRows(folder, model.dim, is_shared=options.leases)
    try:
        if not options.leases:
            _compute(model, by_key, rows, progress)
        elif rows.missing(list(by_key)).any():
            with LeaseFolder(folder / LEASES) as leases, leases.turn("texts", waiting):
                rows.refresh()
                _compute(model, by_key, rows, progress)
                rows.sync()
        return rows.gather(keys)
    finally:
        rows.close()


def _compute(
    model: DualEncoder, by_key: Mapping[bytes, str], rows: FeatureRows, progress: Progress
) -> None:
    """Embeds and keeps the texts that have no row."""
    todo = list(compress(by_key, rows.missing(list(by_key))))
    if todo:
        write_about(rows.folder, {"model": f"{model.name} texts", "dim": model.dim})
        progress.start(f"embedding texts with {model.name}", len(todo))
    for start in range(0, len(todo), BATCH):
        batch = todo[start : start + BATCH]
        rows.append(batch, _embedded(model, [by_key[key] for key in batch]))
        progress.advance(len(batch))


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


@dataclass(frozen=True, slots=True)
class CutTexts:
    """How many distinct texts are longer than a model reads."""

    n_cut: int
    """0 where the model does not say"""
    n_texts: int
    limit: int | None
    """tokens that the model reads"""

    def words(self, what: str) -> list[str]:
        """A note, where some are cut off."""
        if not self.n_cut:
            return []
        return [
            f"{what} longer than the {self.limit} tokens the model reads: {self.n_cut:,} of "
            f"{self.n_texts:,}; their ends are cut off"
        ]


def count_cut(model: Any, texts: Sequence[str]) -> CutTexts:
    """By the model's own tokeniser."""
    distinct = list(dict.fromkeys(texts))
    limit, count = getattr(model, "text_limit", None), getattr(model, "count_tokens", None)
    counts = count(distinct) if limit is not None and callable(count) and distinct else None
    n_cut = sum(n > limit for n in counts) if counts is not None and limit is not None else 0
    return CutTexts(n_cut, len(distinct), limit)
