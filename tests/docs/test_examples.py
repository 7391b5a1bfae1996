"""Do the files under `examples/` stand in the docs as they are, and are they read?"""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.experiments import read_grid

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_a_grid_and_stands_in_the_docs(path: Path) -> None:
    """Its commands are run with the page it stands on."""
    assert read_grid(path).jobs
    block = f'title="{path.name}"\n{path.read_text()}```'
    pages = [page for page in (ROOT / "docs").glob("*.md") if block in page.read_text()]
    assert len(pages) == 1


def test_the_small_data_example_starts_probes_at_one_and_chat_models_at_none() -> None:
    jobs = read_grid(ROOT / "examples" / "small-data.toml").jobs
    shots = {job.protocol: set[int]() for job in jobs}
    for job in jobs:
        shots[job.protocol].add(job.draw.n_train)
    assert shots == {"ask": {0, 1, 3, 10, 30, 100}, "probe": {1, 3, 10, 30, 100}}
