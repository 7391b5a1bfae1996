"""How fast is the page? 100 models × 30 tasks open and sort, 200,000 predictions browse.

    python benchmarks/site.py

The bars are 1 s to open the leaderboard, 400 ms to draw and to sort it, in Chromium, from a disk,
and 50 ms for a step of scrolling; each figure is the median of five. Building the site compares all
4,950 pairs of rows on all tasks. The rival for the leaderboard is the same
table as plain HTML text set at once, which draws no bars, sorts nothing and links to nothing.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from _big_store import Size, write_store
from fieldmark.report.site import SiteOptions, build_site
from fieldmark.settings import Settings
from fieldmark.store import Store

REPEATS = 5
DRAW = """() => {
  const field = document.querySelector("input[type=search]"), took = [];
  const show = text => { field.value = text; field.dispatchEvent(new Event("input")); };
  for (let k = 0; k < %d; k++) {
    show("no such model");
    const began = performance.now();
    show("");
    document.body.offsetHeight;
    took.push(performance.now() - began);
  }
  return took;
}"""
SORT = """() => [...document.querySelectorAll("th button")].slice(2, 2 + %d).map(button => {
  const began = performance.now();
  button.click();
  document.body.offsetHeight;
  return performance.now() - began;
})"""
PLAIN = """() => {
  const text = document.querySelector(".board").innerText.split("\\n").map(
    line => "<tr>" + line.split("\\t").map(cell => `<td>${cell}</td>`).join("")).join("");
  const place = document.body.appendChild(document.createElement("div")), took = [];
  for (let k = 0; k < %d; k++) {
    place.textContent = "";
    document.body.offsetHeight;
    const began = performance.now();
    place.innerHTML = `<table>${text}</table>`;
    document.body.offsetHeight;
    took.push(performance.now() - began);
  }
  place.remove();
  return took;
}"""
SCROLL = """async () => {
  const grid = document.querySelector(".window"), took = [];
  for (let k = 0; k < 30; k++) {
    const began = performance.now();
    grid.scrollTop += 3000;
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    took.push(performance.now() - began);
  }
  return took;
}"""


def make_site(folder: Path, name: str, size: Size) -> str:
    settings = Settings(results=folder / name)
    write_store(settings.store, size)
    began = time.monotonic()
    with Store.open(settings.store, read_only=True) as store:
        page = build_site(store, folder / f"{name}-site", settings, SiteOptions(max_images=0))
    print(f"{name}: built in {time.monotonic() - began:.1f} s")
    return page.as_uri()


def median(page: Any, script: str) -> float:
    return statistics.median(page.evaluate(script))


def open_s(page: Any, address: str) -> float:
    page.goto("about:blank")
    began = time.monotonic()
    page.goto(address)
    page.wait_for_selector(".board tbody tr")
    return time.monotonic() - began


def main() -> None:
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        board = make_site(Path(folder), "board", Size(100, 30, 200, 10))
        many = make_site(Path(folder), "many", Size(2, 1, 200_000, 100))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        took = [open_s(page, board) for _ in range(REPEATS)]
        print(f"leaderboard of 100 × 30: open in {statistics.median(took):.2f} s (bar 1)")
        plain, draw, sort = (median(page, script % REPEATS) for script in (PLAIN, DRAW, SORT))
        print(f"drawn in {draw:.0f} ms, sorted in {sort:.0f} ms (bar 400)")
        print(f"the same as plain text: {plain:.0f} ms, ratio {draw / plain:.1f}")
        page.goto(f"{many}#/predictions")
        page.wait_for_selector(".photo")
        print(f"200,000 predictions: {median(page, SCROLL):.0f} ms a step of scrolling (bar 50)")
        browser.close()


if __name__ == "__main__":
    main()
