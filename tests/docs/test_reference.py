"""The reference pages say what the code does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_reference_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setenv("COLUMNS", "96")
    spec.loader.exec_module(module)
    for name, text in module.pages().items():
        kept = (DOCS / "reference" / name).read_text(encoding="utf-8")
        assert kept == text, f"{name} is stale: run `python docs/make_reference.py`"
