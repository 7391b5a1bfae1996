"""Does every figure of the methods page still hold? The simulations are those that print it."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fieldmark.stats import estimate
from kit.rings import mostly_slow

ROOT = Path(__file__).parents[2]
AGAIN = (
    "accuracy, 0.90, 30 photos",
    "accuracy, 0.80, 20 uneven units, icc 0.6",
    "accuracy, 0.95, 50 uneven units, icc 0.6",
    "macro_accuracy, 60 uneven bursts of 10 species, icc 0.6",
    "accuracy, re-identification, 50 equal individuals, icc 0.6",
    "accuracy, 9 traits of 100 fish, correlation 0.3",
    "accuracy, 5 classes, 1 shots, 5 trainings, 200 photos",
    "macro_accuracy, 10 perfect classes of 50, 3 of 1 at 0.70",
    "accuracy, 17 units, models differ on 2 % of photos",
    "10 equal models, accuracy, 0.70, 300 photos",
    "8 tasks of 100 photos, 0 points apart",
)
"""beginnings of the cells that are simulated anew"""
METRICS = ("macro_accuracy", "average_precision")


def load(name: str) -> ModuleType:
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


intervals: Any = load("intervals")
CELLS = list(intervals.cells())


def on_page() -> dict[tuple[str, str], tuple[str, float, int]]:
    """Claim, figure (NaN where hardly any is printed) and how many were, of every row."""
    text = (ROOT / "docs" / "methods.md").read_text()
    text = text.split(intervals.BEGIN)[1].split(intervals.END)[0]
    abreast, apart = (
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines()]
        for block in text.strip().split("\n\n")[1:]
    )
    rows = {}
    heads = [head.split(": ") for head in abreast[0][1:-1]]
    for case, *figures, n in abreast[2:]:
        for (question, claim), figure in zip(heads, figures, strict=True):
            if figure:
                own = figure.split("(")[1].rstrip(")") if "(" in figure else claim
                printed = float(figure.split(" of ")[1].split()[0]) / 100 if " of " in figure else 1
                rows[question, case] = own, _number(figure), int(printed * int(n.replace(",", "")))
    for question, case, claim, figure, n in apart[2:]:
        rows[question, case] = claim, _number(figure), int(n.replace(",", ""))
    return rows


def _number(figure: str) -> float:
    if figure.startswith(("none", "hardly")):
        return math.nan
    value = float(figure.split()[0])
    return value / 100 if "%" in figure else value


def claims() -> dict[tuple[str, str], Any]:
    return {key: claim for cell in CELLS for key, claim in cell.claims.items()}


def test_the_page_shows_every_simulation_and_no_other() -> None:
    assert set(on_page()) == set(claims())


def test_the_page_holds_what_it_claims() -> None:
    expected, wrong = claims(), []
    for key, (claim, figure, n) in on_page().items():
        assert claim == expected[key].words, key
        assert n >= 1000 or not key[0].startswith("two"), key
        if not expected[key].holds(figure, n):
            wrong.append((key, figure))
    assert wrong == []


def test_the_close_look_is_whole_and_tells_no_equal_models_apart_too_often() -> None:
    text = (ROOT / "docs" / "methods.md").read_text().split("<!-- close look: begin -->")[1]
    lines = [line.split(" | ") for line in text.split("<!-- close look: end -->")[0].splitlines()]
    rows = {line[0].removeprefix("| "): line[1:] for line in lines if len(line) > 3}
    del rows["case"]
    cells = {case for cell in intervals.close_cells() for ask, case in cell.claims}
    assert set(rows) == {case for case in cells if case not in ("accuracy", *METRICS)}
    for case, (score, difference, alarm, lost, *_) in rows.items():
        shares = [
            float(each.split()[0]) for each in (alarm + " / " + lost).split(" / ") if "%" in each
        ]
        assert max(shares, default=0) <= 6, case
        if "cluster-robust" not in case:
            held = (score + " / " + difference).split(" / ")
            assert all(float(each.split()[0]) >= 92 for each in held if "%" in each), case


@pytest.mark.parametrize("begins", mostly_slow(list(AGAIN), *list(AGAIN)[:3]))
def test_measured_again(begins: str) -> None:
    """Fewer repeats with other luck: within what chance allows of the page's figures."""
    [cell] = [cell for cell in CELLS if cell.name.startswith(begins)]
    page = on_page()
    for key, measured in cell.measure(150, seed=1).items():
        _, expected, n_page = page[key]
        if expected != expected or not cell.claims[key].is_share:
            assert (expected != expected) == (measured.value != measured.value), key
            continue
        rate = min(max(expected, 0.02), 0.98)
        chance = math.sqrt(rate * (1 - rate) * (1 / measured.n + 1 / n_page))
        assert measured.value == pytest.approx(expected, abs=3.5 * chance + 0.002), key


# --- the worlds themselves ---


worlds: Any = load("_worlds")
LARGE = [
    worlds.Shares(200_000, 0.9),
    worlds.LongTail(200_000, 30, "hard tail", "to the head"),
    worlds.LongTail(200_000, burst=10),
    worlds.Parts(20, 10_000),
    worlds.Clusters(20_000, 0.95, 0.6, False),
    worlds.Bursts(20_000, 10, 0.3, False),
    worlds.Individuals(20_000, 0.3),
    worlds.Cameras(0.1, 5_000),
    worlds.Traits(4, 40_000, 0.3),
    worlds.FewSplits(20_000, 0.02),
    worlds.FewShots(5, 5, 200, 1_000),
    worlds.Certainties(200_000, 0.5, 1.0),
    worlds.Mushrooms(200_000, 0.1),
    worlds.Field((0.8, 0.7), 200_000, ""),
]


@pytest.mark.parametrize("world", mostly_slow(LARGE, *LARGE[:3]), ids=lambda world: world.words)
def test_the_truth_of_a_world_is_what_a_large_test_set_scores(world: Any) -> None:
    draw = world.draw(np.random.default_rng(4))
    for name, truth_m in draw.truth.items():
        items, metric = intervals.items_of(draw), intervals.metric_of(name)
        value_m = [estimate(items, answer_n, metric) for answer_n in draw.answers_mn]
        assert value_m == pytest.approx(truth_m, abs=0.012), name


def test_units_and_traits_are_as_alike_as_they_say() -> None:
    random = np.random.default_rng(5)
    right_uk = worlds.Clusters(20_000, 0.8, 0.6, True).draw(random).answers_mn[0].reshape(-1, 10)
    assert np.corrcoef(right_uk[:, 0], right_uk[:, 1])[0, 1] == pytest.approx(0.6, abs=0.02)
    draw = worlds.Traits(4, 20_000, 0.3).draw(random)
    right_tu = (draw.answers_mn[0] == draw.target).reshape(4, -1)
    assert np.corrcoef(right_tu)[1, 2] == pytest.approx(0.3, abs=0.03)


def test_expected_f1_is_the_metric_on_weighted_cells() -> None:
    random = np.random.default_rng(6)
    size_c, to_c = random.integers(0, 9, 7), random.random(7)
    skill_mc = random.random((2, 7))
    target, said = np.indices((7, 7)).reshape(2, -1)
    chance_mcc = np.where(
        np.eye(7, dtype=bool),
        skill_mc[..., None],
        (1 - skill_mc)[..., None] * to_c / (to_c.sum() - to_c)[:, None],
    )
    weight_mn = (size_c[:, None] * chance_mcc).reshape(2, -1)
    expected = intervals.metric_of("macro_f1")(target, said, weight_mn)
    assert worlds.f1_truth(size_c, skill_mc, to_c) == pytest.approx(expected)
