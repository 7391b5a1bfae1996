"""The site in a real browser, opened from a disk: no error, no request, every view usable."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from fieldmark.errors import DataError
from fieldmark.report import ComparedTask, compare_models, read_table, verdict
from fieldmark.report.site import SiteOptions, build_site
from fieldmark.report.site.pages import without_folders
from fieldmark.report.site.summary import column_name, public_table
from fieldmark.report.table.ranking import rank_rows
from fieldmark.settings import Settings
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store
from kit.site_results import OWN_MODEL, make_results

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.xdist_group("browser"),
]

MINE = without_folders(OWN_MODEL)
VIEWS = (
    "#/", "#/tasks", "#/task/foxes", "#/task/questions", f"#/model/{quote(MINE)}",
    "#/model/timm%2Fresnet50.a1_in1k",
    "#/compare", "#/predictions", "#/confusions", "#/curves", "#/charts/forest", "#/methods",
    "#/task/none", "#/nonsense", "#/predictions/gone?a=nobody&truth=x",
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("browser"), 300)


@pytest.fixture(scope="module")
def address(made: Path) -> str:
    settings = Settings(results=made / "results", data_root=made / "data")
    with Store.open(settings.store, read_only=True) as store:
        return build_site(store, made / "site", settings, SiteOptions(max_images=60)).as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test on any error, and on any request that leaves the disk."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda asked: _check_local(asked.url, faults))
    page.on("dialog", lambda dialog: faults.append(f"dialog {dialog.message}"))
    yield page
    context.close()
    assert faults == []


def _check_local(url: str, faults: list[str]) -> None:
    if not url.startswith(("file://", "data:", "blob:")):
        faults.append(f"request {url}")


def test_every_view_opens_without_error_or_request(page: Any, address: str) -> None:
    page.goto(address)
    for view in VIEWS:
        page.evaluate("hash => { location.hash = hash }", view)
        page.wait_for_function("document.querySelector('main h1')")
        page.wait_for_function("!document.querySelector('main').textContent.includes('Loading …')")
        assert page.evaluate("document.querySelectorAll('main h1').length") == 1, view
        assert page.locator("main img[onerror]").count() == 0


def models_shown(page: Any) -> list[str]:
    return page.locator(".board tbody th a").all_inner_texts()


def test_table_sorts_by_click_and_says_so(page: Any, address: str) -> None:
    page.goto(address)
    heading = page.locator("th[data-key=model]")
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    in_order = "names => [...names].sort((a, b) => a.localeCompare(b))"
    assert models_shown(page) == page.evaluate(in_order, models_shown(page))
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert models_shown(page)[0].startswith("timm/")
    assert page.locator("[aria-sort]").count() == 1


BROKEN_WORDS = """() => [...document.querySelectorAll(".board .sort span")]
  .flatMap((each) => [...each.childNodes])
  .filter((each) => each.nodeType === Node.TEXT_NODE && each.data)
  .filter((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
  })
  .map((each) => each.data)"""


@pytest.mark.slow
def test_headings_break_after_signs_and_never_inside_a_word(page: Any, tmp_path: Path) -> None:
    tasks = ("newt@simpleshot", "world-individuals", "world-behaviour", "fungiclef_open_set")
    with Store.open(tmp_path / "long.db") as store:
        for name in tasks:
            task, _, variant = name.partition("@")
            run = store.begin_run(RunSpec("m/one", task, "probe/x", task_variant=variant))
            store.write_part(run, PartResult(Predictions(["a.jpg"], ["fox"], ["fox"])))
            store.finish_run(run, [Score("accuracy", 1.0, n=1, is_primary=True)])
        settings = Settings(results=tmp_path, data_root=tmp_path)
        options = SiteOptions(max_images=0)
        page.goto(build_site(store, tmp_path / "site", settings, options).as_uri())
    page.wait_for_selector(".board")
    assert page.locator(".board .sort").count() == len(tasks) + 2
    assert page.evaluate(BROKEN_WORDS) == []


def test_charts_fit_their_panel(page: Any, address: str) -> None:
    page.goto(f"{address}#/charts/confusion")
    page.wait_for_selector(".chart svg")
    chart = page.locator(".chart").first
    assert chart.evaluate("each => each.scrollWidth - each.clientWidth") <= 1


def test_a_phone_shows_charts_in_letters_of_their_size_and_confusions_whole(
    page: Any, address: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}#/charts/forest")
    svg = page.locator(".chart svg")
    svg.wait_for()
    assert svg.evaluate("each => each.clientWidth / each.viewBox.baseVal.width") > 0.85
    page.goto(f"{address}#/confusions")
    page.wait_for_selector(".confused")
    box = page.locator(".scroll:has(.confused)")
    assert box.evaluate("each => each.scrollWidth - each.clientWidth") <= 1


def test_no_letters_on_dark_charts_are_hidden_by_their_own_halo(page: Any, address: str) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}#/charts/size")
    page.wait_for_selector(".chart svg")
    assert (
        page.locator(".chart svg text[stroke='white'], .chart svg text[fill='white']").count() == 0
    )


def test_models_with_gaps_come_last_whichever_way(page: Any, address: str) -> None:
    page.goto(address)
    assert models_shown(page)[0].endswith(" (probe)")
    gaps = models_shown(page)[4:]
    assert "classical/colour (probe)" in gaps
    assert sum("n_train=10" in name for name in gaps) == 5
    page.locator("th[data-key=mean] button").click()
    assert models_shown(page)[4:] == gaps


def test_search_and_filters_narrow_the_table(page: Any, address: str) -> None:
    page.goto(address)
    assert len(models_shown(page)) == 10
    resnet = [f"timm/resnet50.a1_in1k (probe{size})" for size in ("", ", n_train=10")]
    page.get_by_label("Find a model").fill("RESNET")
    assert models_shown(page) == resnet
    page.get_by_label("Find a model").fill("")
    page.get_by_label("Family").select_option("own")
    assert models_shown(page)[0] == f"{MINE} (probe)"
    page.get_by_label("Family").select_option("")
    page.get_by_label("Parameters").select_option("small")
    assert models_shown(page) == resnet
    page.get_by_label("Parameters").select_option("")
    page.get_by_label("Setup").select_option("probe, n_train=10")
    assert len(models_shown(page)) == 5


def test_ticks_hide_columns_and_change_no_mean(page: Any, address: str) -> None:
    page.goto(address)
    means = page.locator(".board td.mean").all_inner_texts()
    assert len(means) == 4 * 10 and "±" in means[0]
    page.locator(".chooser summary").click()
    page.get_by_role("button", name="None", exact=True).click()
    assert "tick one above" in page.locator("main").inner_text()
    page.get_by_role("checkbox", name="questions").check()
    page.get_by_role("checkbox", name="stages").check()
    assert page.locator(".board thead th[data-key]").count() == 4
    shown = page.locator(".board td.mean").all_inner_texts()
    assert shown[: 4 * 4] == means[: 4 * 4]


def test_address_brings_a_view_back(page: Any, browser: Any, address: str) -> None:
    page.goto(address)
    page.get_by_label("Find a model").fill("classical")
    page.locator("th[data-key=model] button").click()
    page.locator(".chooser summary").click()
    page.get_by_role("checkbox", name="questions").uncheck()
    mailed = page.url
    shown, heads = models_shown(page), page.locator(".board thead th").count()
    page.goto("about:blank")
    page.goto(mailed)
    assert models_shown(page) == shown and all("classical/" in name for name in shown)
    assert page.locator(".board thead th").count() == heads
    assert page.get_by_label("Find a model").input_value() == "classical"


def open_predictions(page: Any, address: str, task: str, options: str = "") -> None:
    page.goto(address)
    column = page.evaluate(
        "t => [...document.querySelectorAll('th[data-key]')].map(e => e.dataset.key)"
        ".find(key => key.startsWith(t))",
        task,
    )
    page.goto(f"{address}#/predictions/{column}{options}")
    page.wait_for_selector(".photo, .empty:not(:has-text('Loading'))")


def test_prediction_browser_filters_right_and_wrong(page: Any, address: str) -> None:
    open_predictions(page, address, "stages", "?a=classical/colour&show=wrong")
    assert page.locator(".answer.right").count() == 0
    assert page.locator(".answer.wrong").count() > 5
    told = page.locator("main .facts").inner_text()
    n_wrong = int(told.split(" of ")[0])
    page.get_by_label("Show").select_option("right")
    page.wait_for_selector(".answer.right")
    n_right = int(page.locator("main .facts").inner_text().split(" of ")[0])
    n_shown = int(page.locator("main .facts").inner_text().split(" of ")[1].split()[0])
    assert n_wrong + n_right == n_shown == 300
    assert "show=right" in page.url


def test_field_in_use_keeps_the_focus(page: Any, address: str) -> None:
    open_predictions(page, address, "stages")
    page.get_by_label("Show").focus()
    page.keyboard.press("w")
    page.wait_for_selector(".answer.wrong")
    page.wait_for_function("!document.querySelector('.answer.right')")
    assert page.evaluate("document.activeElement.closest('label').innerText").startswith("Show")


def test_prediction_browser_shows_photos_lazily(page: Any, address: str) -> None:
    open_predictions(page, address, "stages", "?photos=1")
    page.wait_for_function("document.querySelector('.photo img')?.naturalWidth > 0")
    assert page.locator(".photo").count() < 120
    assert page.locator("main .facts").inner_text().startswith("60 of 300")
    first = page.locator(".photo").first.get_attribute("title")
    page.locator(".window").focus()
    page.keyboard.press("End")
    page.wait_for_function(f"document.querySelector('.photo').title !== {first!r}")


def test_two_models_side_by_side(page: Any, address: str) -> None:
    open_predictions(page, address, "stages", "?a=classical/colour&b=classical/chance&show=first")
    cards = page.locator(".photo")
    assert cards.count() > 3
    assert page.locator(".answer.right").count() == page.locator(".answer.wrong").count()
    cards.first.click()
    assert page.locator("dialog[open] tbody tr").count() == 5
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")


def test_arrow_keys_go_from_one_prediction_to_the_next(page: Any, address: str) -> None:
    open_predictions(page, address, "stages", "?photos=1")
    page.locator(".photo").first.click()
    shown = page.locator("dialog[open] code")
    first = shown.inner_text()
    page.keyboard.press("ArrowRight")
    assert shown.inner_text() != first
    assert page.locator("dialog[open] .steps").inner_text().split("\n")[1].strip() == "2 of 60"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")  # there is none before the first
    assert shown.inner_text() == first


def test_the_first_view_has_photos_right_and_wrong(page: Any, address: str) -> None:
    page.goto(address)
    photos = page.locator(".photo-small")
    assert photos.count() == 12
    assert 0 < page.locator(".photo-small .right").count() < 12
    wrong = page.locator(".photo-small:has(.wrong)").first
    label = wrong.locator(".truth").inner_text()
    wrong.click()
    page.wait_for_selector(".photo")
    assert set(page.locator(".photo .truth").all_inner_texts()) == {label}
    assert page.locator(".photo .right").count() == 0


def test_confused_pair_leads_to_its_photos(page: Any, address: str) -> None:
    page.goto(f"{address}#/confusions")
    row = page.locator("main tbody tr").first
    times = row.locator("b").inner_text()
    row.locator("a").click()
    page.wait_for_selector(".photo")
    assert page.locator("main .facts").inner_text().startswith(f"{times} of")


def shown_tasks(page: Any) -> dict[str, list[str]]:
    page.wait_for_selector("table.compared, main .empty:not(:has-text('Loading'))")
    return {
        row.get_attribute("data-column"): row.locator("td").all_inner_texts()
        for row in page.locator("table.compared tbody tr").all()
    }


def expected_task(task: ComparedTask) -> dict[str, str]:
    """As the command line writes it, in the page's words."""
    one = task.comparison

    def signed(value: float) -> str:
        text = f"{round(100 * abs(value), 6):.1f}"
        return text if float(text) == 0 else f"{'−' if value < 0 else '+'}{text}"

    sides = {"a": "first is better", "b": "second is better", "tie": "too close to call"}
    return {
        "difference": signed(one.difference),
        "interval": f"{signed(one.low)} to {signed(one.high)}",
        "verdict": sides[task.verdict],
        "items": f"{one.n:,}",
        "units": f"{one.n_units:,}",
    }


def check_all_pairs(page: Any, store: Store, address: str) -> int:
    """Of all pairs of rows and all tasks: the page shows what `compare` says."""
    table = public_table(read_table(store))
    names = list(dict.fromkeys(row.name for row in table.rows))
    own = {
        row.name: mine.name for row, mine in zip(table.rows, read_table(store).rows, strict=True)
    }
    keys = {row.column_key: column_name(row) for row in table.rows}
    page.goto(address)
    n_tasks = 0
    for a, b in itertools.permutations(names, 2):
        page.evaluate("hash => { location.hash = hash }", f"#/compare?a={quote(a)}&b={quote(b)}")
        page.wait_for_function(
            "want => want.every((name, at) => document.querySelectorAll('.filters select')[at]"
            "?.value === name)",
            arg=[a, b],
        )
        page.wait_for_function("!document.querySelector('main').textContent.includes('Loading …')")
        shown = shown_tasks(page)
        try:
            compared = compare_models(store, own[a], own[b])
        except DataError:
            assert not shown
            continue
        assert set(shown) == {keys[task.a.column_key] for task in compared.tasks}
        for task in compared.tasks:
            _, _, difference, interval, verdict, *_ = shown[keys[task.a.column_key]]
            expected = expected_task(task)
            assert (difference, interval) == (expected["difference"], expected["interval"]), (a, b)
            assert expected["verdict"] in verdict, (a, b, task.a.heading)
            n_tasks += 1
        sentence = page.locator("main .verdict").inner_text()
        assert f"{compared.overall.comparison.p:.3f}" in sentence or "p < 0.001" in sentence
        if a < b:
            first = expected_task(
                replace(compared.tasks[0], comparison=compared.overall.comparison)
            )
            assert first["difference"].lstrip("+−") in sentence
            assert ("Too close to call" in sentence) == (compared.overall.verdict == "tie")
    return n_tasks


@pytest.mark.slow
def test_page_says_of_all_pairs_what_compare_says(page: Any, made: Path, address: str) -> None:
    with Store.open(made / "results" / "fieldmark.db", read_only=True) as store:
        assert check_all_pairs(page, store, address) > 100


@pytest.mark.slow
def test_one_photo_of_one_whale_calls_no_model_better(page: Any, tmp_path: Path) -> None:
    """114 photos of 17 whales; two models differ on one photo, a third is much worse."""
    settings = Settings(results=tmp_path / "results", data_root=tmp_path / "data")
    random = np.random.default_rng(3)
    base = random.random(114) < 0.8
    other = base.copy()
    other[5] = ~other[5]
    answers = {"m/texture": base, "m/pixels": other, "m/chance": random.random(114) < 0.1}
    whale = np.sort(random.integers(0, 17, 114))
    with Store.open(settings.store) as store:
        for task in ("beluga", "leopard"):
            for model, right in answers.items():
                run = store.begin_run(RunSpec(model, task, "probe/ridge", data="1"))
                labels = [f"whale {number}" for number in whale]
                said = [name if ok else "whale x" for name, ok in zip(labels, right, strict=True)]
                ids, units = [f"{number:03d}.jpg" for number in range(114)], labels
                store.write_part(run, PartResult(Predictions(ids, labels, said, units=units)))
                store.finish_run(run, [Score("accuracy", right.mean(), n=114, is_primary=True)])
        site = build_site(store, tmp_path / "site", settings, SiteOptions(max_images=0)).as_uri()
        assert check_all_pairs(page, store, site) == 2 * 6
        (first, _) = compare_models(store, "m/texture", "m/pixels").tasks
    assert first.comparison.n_discordant == 1 and first.verdict == "tie"
    page.goto(f"{site}#/compare?a=m/texture&b=m/pixels")
    page.wait_for_selector("table.compared")
    assert page.locator("tr.apart").count() == 0
    assert "too close to call" in page.locator("main .verdict").inner_text().lower()


def test_board_shows_the_tables_letters_and_means(page: Any, made: Path, address: str) -> None:
    with Store.open(made / "results" / "fieldmark.db", read_only=True) as store:
        table = public_table(read_table(store))
    page.goto(address)
    assert page.locator("main .verdict").inner_text() == verdict(table)
    ranking = rank_rows(table)
    assert models_shown(page) == ranking.names
    texts = page.locator(".board tbody tr").all()
    for number, row in enumerate(texts):
        means = [text.replace("±", " ± ") for text in row.locator("td.mean").all_inner_texts()]
        assert means == [column[number] for column in ranking.summary.values()]
    for row in table.rows:
        line = page.locator(".board tbody tr").nth(ranking.names.index(row.name))
        head = page.locator(".board thead th").all()
        at = [each.get_attribute("data-key") for each in head].index(column_name(row))
        kind = line.locator("th, td").nth(at).get_attribute("class") or ""
        assert kind == {"A": "tied", "B": "second"}.get(row.tier, ""), row.name


def test_planted_better_model_is_called_better(page: Any, address: str) -> None:
    page.goto(f"{address}#/compare?a=timm/resnet50.a1_in1k&b=classical/chance")
    page.wait_for_selector("main tbody tr")
    assert page.locator("tr.apart", has_text="first is better").count() == 3
    page.goto(f"{address}#/task/stages")
    tiers = dict(
        zip(
            page.locator("main tbody th").all_inner_texts(),
            page.locator("main td.tier").all_inner_texts(),
            strict=True,
        )
    )
    assert tiers["timm/resnet50.a1_in1k (probe)"] == "A · could be best"
    assert not tiers["classical/chance (probe)"].startswith("A")


def test_charts_are_drawn(page: Any, address: str) -> None:
    page.goto(f"{address}#/charts")
    page.wait_for_selector(".chart svg")
    names = page.locator(".tabs a").all_inner_texts()
    assert names[0] == "scores" and "learning curves" in names
    page.get_by_role("link", name="learning curves", exact=True).click()
    page.wait_for_selector(".chart svg")


def test_a_phone_shows_comparisons_whole(page: Any, address: str) -> None:
    """Defect: the link to the photos was cut off at 390 pixels."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}#/compare")
    page.wait_for_selector("table.compared")
    box = "document.querySelector('table.compared').closest('.scroll')"
    assert page.evaluate(f"{box}.scrollWidth - {box}.clientWidth") <= 1
    rows = page.locator("table.compared tbody tr")
    assert rows.get_by_text("photos", exact=True).count() == rows.count() > 0


def test_parts_unfold(page: Any, address: str) -> None:
    page.goto(f"{address}#/task/questions")
    page.get_by_text("Scores of the parts").click()
    page.wait_for_selector(".parts tbody tr")
    assert page.locator(".parts tbody tr").count() == 3
    page.goto(f"{address}#/task/stages")
    page.wait_for_selector("main .panel")
    assert page.get_by_text("Scores of the parts").count() == 0, "a task without parts"


def test_keyboard_reaches_and_sorts_the_table(page: Any, address: str) -> None:
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('th')?.dataset.key") == "model":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.locator("th[data-key=model]").get_attribute("aria-sort") == "ascending"


def test_theme_is_kept(page: Any, address: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(address)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_without_scripts_there_is_a_table(browser: Any, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("table tr").count() == 11
    assert "timm/resnet50.a1_in1k" in page.locator("body").inner_text()
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_sticks_out(page: Any, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(address)
    for view in VIEWS:
        page.evaluate("hash => { location.hash = hash }", view)
        page.wait_for_function("!document.querySelector('main').textContent.includes('Loading …')")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view


LEVELS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_against_wcag_aa(
    page: Any, address: str, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {"preload": False, "runOnly": {"type": "tag", "values": LEVELS}}
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(address)
    for view in (*VIEWS, "#/charts/ranks", "dialog"):
        if view == "dialog":
            page.evaluate("hash => { location.hash = hash }", "#/predictions")
            page.locator(".photo").first.click()
        else:
            page.evaluate("hash => { location.hash = hash }", view)
        page.wait_for_function("!document.querySelector('main').textContent.includes('Loading …')")
        page.wait_for_timeout(200)
        found = axe.run(page, options=options).response["violations"]
        bad = [
            (each["id"], each["nodes"][0]["html"], each["nodes"][0].get("failureSummary"))
            for each in found
        ]
        assert not bad, (view, bad)


def test_page_prints_without_its_controls(page: Any, address: str) -> None:
    page.goto(address)
    page.emulate_media(media="print")
    assert not page.locator(".filters").is_visible()
    assert page.locator(".board").is_visible()
