"""Dual encoders (CLIP, SigLIP): how do features of images and texts become scores, and how much of
a text is read?
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from fieldmark.errors import ModelError


def unit_rows(x_nd: np.ndarray) -> np.ndarray:
    """Rows of length one; a row of zeros stays so."""
    length_n1 = np.linalg.norm(x_nd, axis=1, keepdims=True)
    return np.asarray(x_nd / np.where(length_n1 > 0, length_n1, 1.0), x_nd.dtype)


def logits(model: Any, image_nd: np.ndarray, text_cd: np.ndarray) -> np.ndarray:
    """Cosines of unit rows times the model's scale, plus its bias where it has one."""
    bias = getattr(model, "logit_bias", None) or 0.0
    return np.asarray(model.logit_scale * (image_nd @ text_cd.T) + bias, np.float32)


def projected(model: Any, projector: str) -> Any:
    """The model with the projection that a task asks for; one that has a single one as it is."""
    if not callable(getattr(model, "embed_texts", None)):
        raise ModelError(
            f"model {model.name!r} embeds no texts: expected a dual encoder, such as "
            "open-clip/ViT-B-16/openai (`fieldmark models clip` lists some)."
        )
    projectors = getattr(model, "projectors", ())
    if not projector or not projectors:
        return model
    if projector not in projectors:
        raise ModelError(
            f"model {model.name!r} has no projector {projector!r}: expected one of "
            f"{', '.join(projectors)}."
        )
    return model.projected(projector)


CLIP_LIMIT = 77
"""tokens that CLIP's text tower reads, those for start and end included"""


def too_long_for_clip(texts: Sequence[str]) -> dict[str, int]:
    """Text → its tokens, of those that CLIP's tokeniser finds longer than its text tower reads.

    Other models have limits of their own, which show when they are asked. Without open_clip, whose
    tokeniser counts, nothing is known.
    """
    # A token has one byte at least: only longer texts can be too long, and loading is slow.
    doubtful = [text for text in dict.fromkeys(texts) if len(text.encode()) > CLIP_LIMIT - 2]
    if not doubtful or find_spec("open_clip") is None:
        return {}
    from open_clip.tokenizer import SimpleTokenizer

    tokeniser = SimpleTokenizer()
    counts = {text: len(tokeniser.encode(text)) + 2 for text in doubtful}
    return {text: n for text, n in counts.items() if n > CLIP_LIMIT}


def long_words(long: dict[str, int], n: int, what: str) -> str:
    """That some of n texts are cut off, with the longest."""
    text = max(long, key=lambda text: (long[text], text))
    shown = text if len(text) <= 60 else f"{text[:59]}…"
    return (
        f"{what} longer than the {CLIP_LIMIT} tokens that CLIP reads: {len(long):,} of {n:,} "
        f"(up to {long[text]}: {shown!r}). Their ends are cut off."
    )
