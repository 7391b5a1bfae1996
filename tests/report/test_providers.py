"""Reports name no protocol: what is special about a run comes from registries."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import fieldmark
from fieldmark.errors import UsageError
from fieldmark.report import is_valued, providers, register_report_provider
from fieldmark.report.export import EXPORTS, choose, export, register_export, what_it_is
from fieldmark.report.export.model_index import hub_task
from fieldmark.store import RunFilter, Store

PROTOCOLS = {"probe", "ask", "zero_shot", "zero-shot", "retrieve", "rerank"}


@pytest.fixture
def registries() -> Iterator[None]:
    added = providers.PROVIDERS.added, EXPORTS.added
    before = [dict(entries) for entries in added]
    yield
    for entries, kept in zip(added, before, strict=True):
        entries.clear()
        entries.update(kept)


@pytest.mark.parametrize("package", ["report", "store"])
def test_no_protocol_is_known_by_name(package: str) -> None:
    named = [
        f"{path.name}:{node.lineno}"
        for path in (Path(fieldmark.__file__).parent / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in PROTOCOLS
    ]
    assert named == []


def test_a_model_card_names_the_kind_of_task_by_what_a_protocol_needs() -> None:
    assert hub_task("probe/ridge") == "image-classification"
    assert hub_task("zero_shot") == "zero-shot-image-classification"
    assert hub_task("ask") == "image-text-to-text"
    assert hub_task("of a newer fieldmark") == "image-classification"


def test_a_provider_is_found_by_its_setting(registries: None, store: Store) -> None:
    run = store.runs()[0]
    heard = replace(run, spec=replace(run.spec, settings={"sounds": {}}))
    assert providers.provider_of(heard) is None
    assert not is_valued(heard)
    provider = SimpleNamespace(value_metric=lambda run: "loudness")
    register_report_provider("sounds", provider)
    assert is_valued(heard)
    assert providers.value_metric(heard) == "loudness"
    assert providers.provider_of(run) is None
    with pytest.raises(UsageError, match="already exists"):
        register_report_provider("sounds", provider)


def test_an_export_is_registered(registries: None, store: Store) -> None:
    form = SimpleNamespace(
        __doc__="Names of models.\n\nNo more.",
        export=lambda chosen: [("models.txt", [b"%d" % len(chosen.models())])],
    )
    register_export("names", form)
    assert what_it_is("names") == "Names of models."
    (file,) = export("names", choose(store, RunFilter()))
    assert file.name == "models.txt"
    assert b"".join(file.chunks) == b"%d" % len({run.spec.model for run in store.runs()})
    with pytest.raises(UsageError, match="already exists"):
        register_export("lmms-eval", form)
