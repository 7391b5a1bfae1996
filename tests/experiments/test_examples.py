"""Every experiment file in `examples/` holds runs of models and tasks that are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.experiments import read_grid

FILES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_an_example_is_a_grid_of_runs(path: Path) -> None:
    assert "fieldmark run" in path.read_text().partition("\n\n")[0]
    assert read_grid(path).jobs
