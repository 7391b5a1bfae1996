from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.store import PartResult, Predictions, RunSpec, Store


@pytest.fixture
def spec() -> RunSpec:
    return RunSpec("classical/colour", "beluga", "probe/neighbours", {"k": 1}, n_train=10)


@pytest.fixture
def result() -> PartResult:
    return PartResult(
        Predictions(
            ids=["a.jpg", "b.jpg", "c.jpg"],
            targets=["fox", "hare", "fox"],
            predictions=["fox", "fox", None],
            scores=[0.9, 0.4, None],
            units=["burst-1", "burst-1", None],
            outcomes=["ok", "ok", "unparsed"],
            infos=[None, '{"usd":0.01}', None],
        ),
        n_train=8,
        seconds=1.5,
        info={"alpha": 0.5},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results" / "fieldmark.db"


@pytest.fixture
def store(path: Path):
    with Store.open(path) as opened:
        yield opened
