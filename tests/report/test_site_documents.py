"""The site in a real browser, about documents: judged by their values, not by their texts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fieldmark.report import compare_models
from fieldmark.report.site import build_site
from fieldmark.settings import Settings
from fieldmark.store import Score, Store
from kit import document_results as kit
from kit.document_results import GOOD, POOR, TASKS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("site-documents")
    kit.make_document_results(folder / "results" / "fieldmark.db")
    return Settings(results=folder / "results", data_root=folder / "data")


@pytest.fixture(scope="module")
def names(settings: Settings) -> dict[str, str]:
    """Task → the word for its column in addresses."""
    from fieldmark.report import read_table
    from fieldmark.report.site.summary import columns_of

    with Store.open(settings.store, read_only=True) as store:
        columns = columns_of(read_table(store, compare=False))
    return {rows[0].run.spec.task: name for name, rows in columns.items()}


@pytest.fixture
def page(settings: Settings, tmp_path: Path) -> Iterator[Any]:
    with opened(settings, tmp_path) as page:
        yield page


@contextmanager
def opened(settings: Settings, folder: Path) -> Iterator[Any]:
    with Store.open(settings.store, read_only=True) as store:
        address = build_site(store, folder / "site", settings).as_uri()
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page, faults = browser.new_page(), []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        yield page
        browser.close()
    assert faults == []


def text_of(page: Any, view: str) -> str:
    page.evaluate("hash => { location.hash = hash }", view)
    page.wait_for_function("!document.querySelector('main').textContent.includes('Loading …')")
    page.wait_for_timeout(200)
    return str(page.inner_text("main"))


def test_documents_are_judged_by_their_values(page: Any, names: dict[str, str]) -> None:
    right = int(kit.worth(GOOD, TASKS["birds-choice"], "none").sum())
    said = text_of(page, f"#/predictions/{names['birds-choice']}")
    assert f"120 of 120 predictions · {GOOD} is right on {right} of those shown" in said
    wrong = text_of(page, f"#/predictions/{names['birds-choice']}?show=wrong")
    assert wrong.count("✗") == 120 - right or f"{120 - right} of 120 predictions" in wrong
    for task in ("birds-count", "birds-f1"):
        shown = text_of(page, f"#/predictions/{names[task]}")
        assert "is right on" not in shown and "✓" not in shown and "It is B1." in shown
        assert "\nright\n" not in shown
    assert "texts, not labels" in text_of(page, f"#/confusions/{names['birds-f1']}")


def test_truth_is_chosen_among_targets(page: Any, names: dict[str, str]) -> None:
    """Defect: the models' replies were offered too."""
    said = text_of(page, f"#/predictions/{names['birds-choice']}")
    assert "This page does not show the pictures of lmms-eval tasks." in said
    fields = page.eval_on_selector_all(
        "label.field", "all => all.map(one => one.querySelector('span').textContent)"
    )
    offered = {
        name: set(
            page.locator("label.field")
            .nth(fields.index(name))
            .locator("option")
            .evaluate_all("all => all.map(one => one.value).filter(Boolean)")
        )
        for name in ("Truth", "Answer")
    }
    assert offered["Truth"] and offered["Answer"] and not offered["Truth"] & offered["Answer"]


@pytest.mark.slow
def test_two_models_are_compared_as_on_the_command_line(page: Any, settings: Settings) -> None:
    with Store.open(settings.store, read_only=True) as store:
        found = {each.a.run.spec.task: each for each in compare_models(store, GOOD, POOR).tasks}
    shown = text_of(page, "#/compare")
    for task in ("birds-choice", "birds-filters"):
        assert f"+{100 * found[task].comparison.difference:.1f}" in shown
    assert "birds-f1" not in shown


@pytest.mark.slow
def test_large_numbers_are_short(tmp_path: Path) -> None:
    """A perplexity may be anything; nine digits would run over the next column."""
    settings = Settings(results=tmp_path / "results", data_root=tmp_path / "data")
    with Store.open(settings.store) as store:
        run = kit.write_run(store, GOOD, TASKS["birds-count"])
        told = Score("perplexity", 478_123_456.0, low=1234.5, high=9e9, n=80, is_fraction=False)
        store.rescore_run(run, [replace(told, is_primary=True)])
    with opened(settings, tmp_path) as page:
        assert "4.78e+8" in page.inner_text("main") and "478000000" not in page.inner_text("main")
