"""The page that `fieldmark try` writes, as a person sees it on a screen and on a phone."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from fieldmark.cli import main
from kit.planted import Plan, make_photos

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos with copies, a photo under two labels, and a long name of a label."""
    here = tmp_path_factory.mktemp("page")
    root = make_photos(here / "photos", Plan(n_photos=8, n_copies=3, difficulty=0.9))
    first = min((root / "species bbb").iterdir())
    shutil.copy(first, root / "species ccc" / "stranger.jpg")
    (root / "species ddd").rename(root / "Species of the Dolomites, late summer form")
    for number in range(4):
        (root / f"empty {number}").mkdir()
    words = ["--models", "classical", "--quiet", "--cache", str(here / "cache")]
    assert main(["try", str(root), "--out", str(here / "try"), *words]) == 0
    return here / "try" / "index.html"


def test_what_the_page_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "`" not in text and "<b>ridge</b>: " in text
    headings = re.findall("<h3>(.*)</h3>", text)
    assert headings.count("Copies") == headings.count("One photo, two labels") == 1
    matrix = text.partition('class="matrix"')[2].partition("</table>")[0]
    shares = [float(share) for share in re.findall(r'--share:([\d.]+)"', matrix)]
    assert len(shares) == 16 and matrix.count('class="right"') == 4
    for label in range(4):
        assert sum(shares[4 * label : 4 * label + 4]) == pytest.approx(100, abs=0.3)


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_cut_off(page: Path, width: int) -> None:
    """The models and the labels fit; what does not fit scrolls in its own frame."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    wide = "[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)"
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        shown = browser.new_page(viewport={"width": width, "height": 900})
        shown.goto(page.as_uri())
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        models, labels, _ = shown.evaluate(wide)
        browser.close()
    assert models <= 0 and labels <= 0
