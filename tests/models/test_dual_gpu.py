"""Dual encoders on a GPU give what they give on the processor; skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fieldmark.models import load_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

TEXTS = [f"a photo of a {name}." for name in ("lion", "marsh tit", "Quercus × rosacea", "")] * 80


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_texts_are_the_same_on_both(hf_duals: dict[str, Path], kind: str) -> None:
    here = load_model(f"hf/{hf_duals[kind]}", device="cpu", precision="float32")
    there = load_model(f"hf/{hf_duals[kind]}", device="cuda", precision="float32")
    expected, features = here.embed_texts(TEXTS), there.embed_texts(TEXTS)  # type: ignore[attr-defined]
    assert np.allclose(expected, features, atol=1e-4 * np.abs(expected).max())
    assert here.logit_scale == pytest.approx(there.logit_scale)  # type: ignore[attr-defined]
    alone = there.embed_texts(TEXTS[1:2])  # type: ignore[attr-defined]
    assert np.allclose(alone[0], features[1], atol=1e-5 * np.abs(features).max())


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_half_precision_stays_near(hf_duals: dict[str, Path], kind: str) -> None:
    exact = load_model(f"hf/{hf_duals[kind]}", device="cuda", precision="float32")
    half = load_model(f"hf/{hf_duals[kind]}", device="cuda", precision="bf16")
    one, other = (model.embed_texts(TEXTS) for model in (exact, half))  # type: ignore[attr-defined]
    cosine = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    assert cosine.min() > 0.99
    assert exact.text_fingerprint != half.text_fingerprint  # type: ignore[attr-defined]
