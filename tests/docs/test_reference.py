"""The reference pages say what the code does, and leave nothing out."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from fieldmark.metrics import known_metrics
from fieldmark.probes import PROBES, load_probe
from fieldmark.protocols import field_docs, protocols, settings_of

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_is_fresh(maker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")
    pages = maker.pages()
    assert sorted(pages) == sorted(path.name for path in (DOCS / "reference").iterdir())
    for name, text in pages.items():
        kept = (DOCS / "reference" / name).read_text(encoding="utf-8")
        assert kept == text, f"{name} is stale: run `python docs/make_reference.py`"


@pytest.mark.parametrize("name", PROBES.names())
def test_every_parameter_of_a_probe_is_explained(maker: ModuleType, name: str) -> None:
    cls = type(load_probe(name))
    assert list(maker.parameter_docs(cls)) == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("name", list(protocols()))
def test_every_key_and_setting_of_a_protocol_is_explained(name: str) -> None:
    protocol = protocols()[name]
    block = protocol.Block
    assert block is None or set(block.model_fields) <= set(field_docs(block))
    assert all(setting.doc for setting in settings_of(protocol.Settings))


def test_pages_name_every_probe_metric_and_protocol() -> None:
    for page, names in {
        "probes.md": PROBES.names(),
        "metrics.md": known_metrics(),
        "protocols.md": list(protocols()),
    }.items():
        text = (DOCS / "reference" / page).read_text(encoding="utf-8")
        assert all(f"\n## {name}\n" in text for name in names), page
