"""Takes docs/site-*.png from the demo: `python docs/make_screenshots.py [DEMO_FOLDER]`.

Without a folder it runs `fieldmark demo` first. Wants playwright and chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
SIZE = {"width": 1280, "height": 800}
MOST_BYTES = 200_000
COLOURS = 255


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(sys.argv[1]) if sys.argv[1:] else Path(folder) / "demo"
        if not sys.argv[1:]:
            subprocess.run([sys.executable, "-m", "fieldmark", "demo", "--out", demo], check=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            take(page, (demo / "site" / "index.html").resolve().as_uri())
            browser.close()


def take(page: Any, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(".board")
    save(page, "leaderboard")
    page.goto(f"{address}#/task/world-species%20(synthetic)")
    page.wait_for_selector(".samples img")
    save(page, "task")
    page.get_by_role("link", name="Browse predictions").last.click()
    page.wait_for_selector(".photo img")
    page.get_by_label("Beside").select_option("classical/texture")
    page.get_by_label("Show").select_option("differ")
    page.mouse.move(0, 0)
    save(page, "predictions")


def save(page: Any, name: str) -> None:
    """With few colours: a third of the bytes, and nobody sees it."""
    page.wait_for_function("[...document.images].slice(0, 12).every(image => image.complete)")
    page.wait_for_timeout(300)
    path = DOCS / f"site-{name}.png"
    page.screenshot(path=path)
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(COLOURS, kmeans=3, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{path} has {size:,} bytes: expected at most {MOST_BYTES:,}.")


if __name__ == "__main__":
    main()
