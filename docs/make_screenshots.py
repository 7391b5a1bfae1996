"""Takes the pictures of the docs. Wants playwright and chromium.

`python docs/make_screenshots.py [DEMO_FOLDER]`: six views of the page into docs/pictures, each on a
screen and on a phone, in light and in dark colours. Without a folder it runs `fieldmark demo`.

`python docs/make_screenshots.py PAGE PICTURE [HEADING …]`: the answer on a page of `fieldmark try`,
and the sections with these headings. docs/try-page.png is of the first two commands in
docs/your-photos.md, with "Your photos"; docs/pictures/try-leaves.png of 288 photos of PlantDoc and
tests/kit/my_lite.py, with "Models" and a pair that is mixed up.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parent / "pictures"
WIDTHS = {1400: 900, 390: 844}
"""of a screen and of a phone, with their heights"""
TASK = "world-species%20(synthetic)"
VIEWS = {
    "leaderboard": "#/",
    "task": f"#/task/{TASK}",
    "predictions": "#/predictions/{column}?b=classical%2Ftexture&show=differ",
    "confusions": "#/confusions/{column}",
    "compare": "#/compare",
    "charts": "#/charts",
}
READY = "!document.querySelector('main').textContent.includes('Loading …')"
LOADED = """[...document.images].every(
  image => image.complete || image.getBoundingClientRect().top > innerHeight
    || image.getBoundingClientRect().left > innerWidth)"""
MOST_BYTES = 250_000
COLOURS = 128


SECTIONS = """headings => {
  let level = 9, shown = false
  for (const part of [...document.body.children]) {
    if (part.matches("h2, h3") && (Number(part.tagName[1]) <= level || !shown)) {
      shown = headings.some(words => part.textContent.includes(words))
      level = Number(part.tagName[1])
    }
    if (!part.matches("h1, .box, style") && !shown) part.remove()
  }
}"""
"""leaves the answer and the sections whose headings hold these words"""


def take_answer(address: Path, picture: Path, headings: list[str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1000, "height": 600}, color_scheme="light")
        page.goto(address.resolve().as_uri())
        page.evaluate(SECTIONS, headings)
        box = page.locator("body").bounding_box()
        page.set_viewport_size({"width": 1000, "height": round(box["height"])})
        save(page, picture)
        browser.close()


def main() -> None:
    if len(sys.argv) > 2:
        take_answer(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
        return
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(sys.argv[1]) if sys.argv[1:] else Path(folder) / "demo"
        if not sys.argv[1:]:
            subprocess.run([sys.executable, "-m", "fieldmark", "demo", "--out", demo], check=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for width, scheme in itertools.product(WIDTHS, ("light", "dark")):
                size = {"width": width, "height": WIDTHS[width]}
                page = browser.new_page(viewport=size, color_scheme=scheme)
                take(page, (demo / "site" / "index.html").resolve().as_uri(), f"{width}-{scheme}")
                page.close()
            browser.close()


def take(page: Any, address: str, suffix: str) -> None:
    page.goto(f"{address}#/task/{TASK}")
    page.wait_for_selector(".samples img")
    link = page.get_by_role("link", name="Browse predictions").first.get_attribute("href")
    column = link.rpartition("/")[2]
    for name, view in VIEWS.items():
        page.evaluate("hash => { location.hash = hash }", view.format(column=column))
        page.wait_for_selector("main h1")
        page.wait_for_function(READY)
        page.mouse.move(0, 0)
        save(page, PICTURES / f"{name}-{suffix}.png")


def save(page: Any, path: Path) -> None:
    """With few colours: a third of the bytes, and nobody sees it."""
    page.wait_for_function(LOADED)
    page.wait_for_timeout(500)
    page.screenshot(path=path)
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(COLOURS, kmeans=3, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{path} has {size:,} bytes: expected at most {MOST_BYTES:,}.")


if __name__ == "__main__":
    main()
