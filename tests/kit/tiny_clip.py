"""Tiny networks of open_clip for tests of training: a JSON file of their configuration."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

TINY: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {
        "image_size": 16,
        "layers": 2,
        "width": 32,
        "head_width": 16,
        "patch_size": 8,
    },
    "text_cfg": {
        "context_length": 16,
        "vocab_size": 49408,
        "width": 16,
        "heads": 2,
        "layers": 2,
    },
}


def tiny_clip(
    folder: Path,
    name: str = "test-tiny-clip",
    vision: dict[str, Any] | None = None,
    text: dict[str, Any] | None = None,
    **top: Any,
) -> str:
    """Writes a configuration; what is given stands in for the tiny one's."""
    config = {
        **TINY,
        "vision_cfg": {**TINY["vision_cfg"], **(vision or {})},
        "text_cfg": {**TINY["text_cfg"], **(text or {})},
        **top,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.fixture(autouse=True)
def own_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks that a test makes known to open_clip are forgotten after it."""
    factory = sys.modules.get("open_clip.factory")
    if factory is None:
        return
    monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    monkeypatch.setattr(factory, "_MODEL_CONFIG_PATHS", list(factory._MODEL_CONFIG_PATHS))
