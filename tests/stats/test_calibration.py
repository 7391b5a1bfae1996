"""Does every figure of the methods page still hold? The simulations are those that print it."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
REPEATS = 240


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


coverage = load(ROOT / "benchmarks" / "intervals.py")
ROWS = list(coverage.rows())
LINE = re.compile(r"\| (.+?) \| (.+?) \| (\d+) to (\d+) % \| ([\d.]+) % \| ([\d,]+) \|")


def on_page() -> dict[tuple[str, str], tuple[tuple[float, float], float, int]]:
    text = (ROOT / "docs" / "methods.md").read_text()
    found = {}
    for question, case, least, most, share, n in LINE.findall(text):
        claim = (int(least) / 100, int(most) / 100)
        found[question, case] = claim, float(share) / 100, int(n.replace(",", ""))
    return found


def test_the_page_shows_every_simulation_and_no_other() -> None:
    assert list(on_page()) == [(row.question, row.case) for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.question}: {row.case}")
def test_the_page_holds_what_it_claims(row: object) -> None:
    claim, share, n = on_page()[row.question, row.case]  # type: ignore[attr-defined]
    assert claim == row.claim  # type: ignore[attr-defined]
    assert claim[0] <= share <= claim[1]
    assert n >= 300


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.question}: {row.case}")
def test_measured_again(row: object) -> None:
    """Fewer repeats with other luck: within what chance allows of the page's figure."""
    _, expected, n_page = on_page()[row.question, row.case]  # type: ignore[attr-defined]
    share, n = row.measure(int(REPEATS * min(row.cost, 1)), seed=1)  # type: ignore[attr-defined]
    rate = min(max(expected, 0.02), 0.98)
    chance = math.sqrt(rate * (1 - rate) * (1 / n + 1 / n_page))
    assert share == pytest.approx(expected, abs=3.3 * chance + 0.002)
