"""How fast is the page? 100 models × 30 tasks open and sort, 200,000 predictions browse.

    python benchmarks/site.py [--quick]

The bars are 1 s to open the leaderboard, 400 ms to draw and to sort it, in Chromium, from a disk,
and 50 ms for a step of scrolling; each figure is the median of five. Building the site compares all
4,950 pairs of rows on all tasks. The rival for the leaderboard is the same
table as plain HTML text set at once, which draws no bars, sorts nothing and links to nothing.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from _big_store import Size, write_store
from _quick import Flags, finish, skip
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


def main() -> int:
    given = Flags(__doc__).parse()
    if not shutil.which("chromium"):
        return skip("needs chromium")
    board_size, many_size = (
        (Size(3, 2, 40, 4), Size(2, 1, 400, 4))
        if given.quick
        else (Size(100, 30, 200, 10), Size(2, 1, 200_000, 100))
    )
    n_rounds = 1 if given.quick else REPEATS
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        board = make_site(Path(folder), "board", board_size)
        many = make_site(Path(folder), "many", many_size)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        took_s = statistics.median(open_s(page, board) for _ in range(n_rounds))
        plain, draw, sort = (median(page, script % n_rounds) for script in (PLAIN, DRAW, SORT))
        print(f"the same as plain text: {plain:.1f} ms, ratio {draw / plain:.1f}")
        page.goto(f"{many}#/predictions")
        page.wait_for_selector(".photo")
        scroll = median(page, SCROLL)
        browser.close()
    figure = (
        f"site: {board_size.models} × {board_size.tasks} open in {took_s:.2f} s, drawn in "
        f"{draw:.0f} ms, sorted in {sort:.0f} ms; {many_size.items:,} predictions: "
        f"{scroll:.0f} ms a step of scrolling"
    )
    bars = {
        "open ≤ 1 s": took_s <= 1,
        "draw ≤ 400 ms": draw <= 400,
        "sort ≤ 400 ms": sort <= 400,
        "scroll ≤ 50 ms": scroll <= 50,
    }
    return finish(figure, bars, given.quick)


if __name__ == "__main__":
    sys.exit(main())
