"""Dual encoders (CLIP, SigLIP): how do features of images and texts become scores?"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldmark.abilities import EMBEDS_IMAGES, EMBEDS_TEXTS
from fieldmark.errors import ModelError

DUAL = frozenset({EMBEDS_IMAGES, EMBEDS_TEXTS})
"""abilities of a dual encoder"""


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
    known = getattr(model, "projectors", ())
    if not projector or not known:
        return model
    if projector not in known:
        raise ModelError(
            f"model {model.name!r} has no projector {projector!r}: expected one of "
            f"{', '.join(known)}."
        )
    return model.projected(projector)
